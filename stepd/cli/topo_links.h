// SPDX-License-Identifier: Apache-2.0
// NVLinks between the GPUs of this machine. Only the driver tells them, so a recorded machine has none to show.
#pragma once

#include <map>
#include <string>

#include "check/driver_facts.h"
#include "cli/table.h"
#include "node/node.h"

namespace nccltune::cli {

// By BDF of a GPU and of its peer: how many NVLinks join the two, directly or through switches. Both ways round.
using GpuLinks = std::map<std::string, std::map<std::string, int>>;
GpuLinks links_of(const check::DriverFacts& driver);

// A matrix of the GPUs: NV18, or the distance over PCIe; "" where no two of them are joined by NVLink.
std::string links_text(const Node& node, const GpuLinks& links, const Style& style);

}  // namespace nccltune::cli
