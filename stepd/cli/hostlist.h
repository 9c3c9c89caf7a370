// SPDX-License-Identifier: Apache-2.0
// Slurm's short forms of the nodes of a job and of numbers by node, written out.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace nccltune::cli {

// "node[01-03,7]-ib,login" -> node01-ib node02-ib node03-ib node7-ib login, in that order. A number keeps the zeros in
// front of its range's first; several brackets in one name are all combinations, the last one fastest. An Error names
// the part that cannot be read; more than 65,536 hosts (Slurm's own bound) are one too.
Result<std::vector<std::string>> expand_hosts(std::string_view list);

// "4(x2),3" -> 4 4 3, as SLURM_TASKS_PER_NODE has it. Empty: cannot be read.
std::vector<int> expand_counts(std::string_view counts);

}  // namespace nccltune::cli
