// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bench/node_view.h"

namespace nccltune::cli {

// This node as the plan sees it, for the benchmark to judge the way that the data took. An unreadable policy leaves the
// built-in rules, as it does in the plugin.
bench::NodeView view_node();

}  // namespace nccltune::cli
