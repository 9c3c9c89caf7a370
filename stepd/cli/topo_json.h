// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/plan_json.h"
#include "cli/topo_links.h"
#include "node/node.h"
#include "policy/plan.h"

namespace nccltune::cli {

// The node as a document: every field is always there and keeps its name; what the kernel withholds is null.
Json topo_json(const Node& node, const Plan& plan, const GpuLinks& links);

}  // namespace nccltune::cli
