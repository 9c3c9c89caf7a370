// SPDX-License-Identifier: Apache-2.0
// What one process is to get of the plan: for env, which prints it, and exec, which applies it.
#pragma once

#include <string>
#include <vector>

#include "cli/facts.h"
#include "policy/plan.h"

namespace nccltune::cli {

inline constexpr const char* kMark = "NCCLTUNE_SET";

// The facts with a step of one task: this process, by its local rank (see local_rank). A process that no launcher
// started is the only task of the node, but for --tasks.
Result<Facts> gather_task(FactsOptions options);

// The settings of a plan of one task: the node's and the task's own, without those whose name no shell could set.
std::vector<EnvSetting> settings_of_task(const Plan& plan);

// The value of kMark: the names, sorted, with commas between.
std::string mark_of(const std::vector<EnvSetting>& settings);

}  // namespace nccltune::cli
