// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "cli/table.h"
#include "node/node.h"

namespace nccltune::cli {

// The GPU by HCA matrix as `nvidia-smi topo -m` lays it out, with the CPU and NUMA columns and the legend. HCAs stand
// by name where they fit, else as NIC0, NIC1, ... with a legend, in blocks of columns where even those do not. ""
// without GPUs.
std::string matrix_text(const Node& node, const Style& style);

}  // namespace nccltune::cli
