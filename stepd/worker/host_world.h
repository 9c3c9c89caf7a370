// SPDX-License-Identifier: Apache-2.0
// The ranks of a communicator, joined over Gloo's TCP transport.
#pragma once

#include <gloo/context.h>

#include <memory>

#include "worker/common_seat.h"
#include "worker/protocol.h"

namespace nccltune::worker {

struct HostWorld {
  std::shared_ptr<gloo::Context> all;    // every rank
  std::shared_ptr<gloo::Context> group;  // those that are measured together; the same as `all` without a split
};

// Throws Failed when ranks cannot find or reach each other.
HostWorld join_world(const protocol::Connect& connect, const Seat& seat);

}  // namespace nccltune::worker
