// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "cli/table.h"
#include "cli/topo_links.h"
#include "node/node.h"
#include "policy/plan.h"

namespace nccltune::cli {

// The node for a person: what it is, the matrix, and each HCA and interface with its use and why.
std::string topo_text(const Node& node, const Plan& plan, const GpuLinks& links, const Style& style);

}  // namespace nccltune::cli
