// SPDX-License-Identifier: Apache-2.0
// The ports that a check of the fabric looks at.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "check/finding.h"

namespace nccltune::check {

struct Port {
  const RdmaDevice& device;
  const RdmaPort& port;

  std::string label() const { return fmt::format("{}:{}", device.name, port.number); }
  std::string path() const { return fmt::format("/sys/class/infiniband/{}/ports/{}", device.name, port.number); }
  bool ethernet() const { return port.link_layer == "Ethernet"; }
};

// Those that the plan puts into NCCL_IB_HCA.
std::vector<Port> used_ports_of(const Subject& subject);

}  // namespace nccltune::check
