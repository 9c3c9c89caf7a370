// SPDX-License-Identifier: Apache-2.0
// The ranks of a communicator, joined over Gloo's TCP transport.
#pragma once

#include <gloo/context.h>

#include <memory>

#include "worker/protocol.h"

namespace nccltune::worker {

// Throws Failed when ranks cannot find or reach each other.
std::shared_ptr<gloo::Context> join_world(const protocol::Connect& connect);

}  // namespace nccltune::worker
