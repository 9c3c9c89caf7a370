// SPDX-License-Identifier: Apache-2.0
// What sysfs does not tell of an HCA: asked of libibverbs, where it is.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "check/driver_facts.h"

namespace nccltune::check {

struct VerbsDevice {
  std::string error;              // why it could not be asked; "" when it was
  std::map<int, int> active_mtu;  // port -> bytes
  std::optional<bool> dma_buf;    // registers memory that is handed over as a DMA-BUF
};

struct VerbsFacts {
  std::string error;  // why there is none of it; "" when it was read
  std::map<std::string, VerbsDevice> devices;
};

// Opens each of these devices (ports in `wanted`), asks, and closes it. Nothing on the device changes.
VerbsFacts read_verbs(const Symbols& verbs, const std::map<std::string, std::vector<int>>& wanted);
VerbsFacts read_verbs(const std::map<std::string, std::vector<int>>& wanted);

}  // namespace nccltune::check
