// SPDX-License-Identifier: Apache-2.0
// From the plan to the task that is about to start. Runs in task_init, in the task's own process.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "node/node.h"
#include "plugin/spank_api.h"
#include "policy/plan.h"

namespace nccltune {

struct Applied {
  std::set<std::string> set;   // names that now have our value
  std::vector<Note> notes;     // what was left alone, and why
  std::optional<Error> error;  // the first thing that should have worked
};

// Exports the node's settings and the task's (which win), and NCCLTUNE_SET. A variable that stands there without our
// mark is left alone, even when the plan knew nothing of it: a plugin before us may have set it after user_init. One
// with our mark (`marked`: of the step that started this one) is replaced, or taken away when the plan has no value for
// it.
void export_env(spank_t spank, const Plan& plan, const TaskPlan& task, const std::set<std::string>& marked,
                Applied& applied);

// Takes away what another step's plan left in the environment, and the mark itself.
void unset_marked(spank_t spank, const std::set<std::string>& marked);

// The CPU mask and the preferred memory node. After task_init nothing in Slurm touches either.
void pin(const TaskPlan& task, const std::optional<CpuSet>& mask, Applied& applied);

}  // namespace nccltune
