// SPDX-License-Identifier: Apache-2.0
// Slurm's notation of node names: "node[1-3,07],login". Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nccltune::bench {

// Names as scontrol takes them: those that differ in their last number alone become ranges. In natural order, each name
// once. "" for none.
std::string compress_hosts(const std::vector<std::string>& names);

// The other way, in the order given; several brackets in one name too ("r[1-2]n[1-4]"). What is no such list, or one of
// more than 65,536 names, gives nothing.
std::vector<std::string> expand_hosts(std::string_view list);

}  // namespace nccltune::bench
