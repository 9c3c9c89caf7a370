// SPDX-License-Identifier: Apache-2.0
#include "cli/settings.h"

#include <algorithm>
#include <cctype>

#include "base/text.h"
#include "cli/live_step.h"

namespace nccltune::cli {

namespace {

// Whether this process is the Slurm task itself, and not one of several that torchrun started inside it. A job script
// may also have set LOCAL_RANK to the task's own number.
bool is_slurm_task_itself(const LocalRank& place, const Step& step) {
  if (place.variable == "SLURM_LOCALID") return true;
  return place.rank == step.tasks.front().local_id && place.size.value_or(step.local_tasks) == step.local_tasks;
}

// The child's share of the task's GPUs, as if Slurm had bound it to that GPU alone. The mask stays the whole task's:
// the plan takes the CPUs beside the GPU out of it.
void take_share_of_task(Facts& facts, const LocalRank& place) {
  Task& task = facts.step.tasks.front();
  const TaskPlan whole = make_plan(facts.node, facts.policy, facts.step).tasks.front();
  if (whole.gpus.empty()) return;
  const size_t gpu = static_cast<size_t>(place.rank) % whole.gpus.size();
  const Gpu* mine = facts.node.find_gpu(whole.gpus[gpu]);
  if (mine && !mine->uuid.empty()) {
    task.env["CUDA_VISIBLE_DEVICES"] = mine->uuid;
    return;
  }
  // No UUID is told where /proc/driver/nvidia is out of sight: the same place in the task's own lists.
  for (const char* name : {"CUDA_VISIBLE_DEVICES", "SLURM_STEP_GPUS"}) {
    const std::string all = task.env.contains(name) ? task.env[name] : "";
    const auto entries = split(all, ',');
    if (entries.size() == whole.gpus.size()) task.env[name] = entries[gpu];
  }
}

}  // namespace

Result<Facts> gather_task(FactsOptions options) {
  auto env = environment_of(options);
  if (!env) return env.error();
  auto place = local_rank(*env);
  if (!place) return place.error();
  const bool live_task =
      options.root.empty() && options.tasks.empty() && options.task_cpus.empty() && in_slurm_task(*env);
  if (options.tasks.empty() && options.task_cpus.empty() && !live_task) {
    if (place->variable.empty())
      options.tasks = "1";
    else if (place->size)
      options.tasks = std::to_string(*place->size);
  }
  auto facts = gather(options);
  if (!facts) return facts;
  Step& step = facts->step;
  if (!step.outside_slurm) {
    if (!is_slurm_task_itself(*place, step)) take_share_of_task(*facts, *place);
    return facts;
  }
  // More processes than tasks that we know of (a launcher that does not tell their number): make room for this one.
  const auto rank = static_cast<size_t>(place->rank);
  Task task = rank < step.tasks.size() ? step.tasks[rank] : Task{.env = step.env};
  task.local_id = place->rank;
  step.local_tasks = std::max(step.local_tasks, place->rank + 1);
  if (facts->root.live()) {
    if (!task.mask) task.mask = own_cpus();
    task.openable_minors = openable_minors(facts->node);
  }
  step.tasks = {std::move(task)};
  return facts;
}

std::vector<EnvSetting> settings_of_task(const Plan& plan) {
  std::vector<EnvSetting> settings = plan.env;
  for (const TaskPlan& task : plan.tasks) settings.insert(settings.end(), task.env.begin(), task.env.end());
  std::erase_if(settings, [](const EnvSetting& setting) { return !is_variable_name(setting.name); });
  return settings;
}

std::string mark_of(const std::vector<EnvSetting>& settings) {
  std::vector<std::string> names;
  names.reserve(settings.size());
  for (const EnvSetting& setting : settings) names.push_back(setting.name);
  std::sort(names.begin(), names.end());
  return join(names, ",");
}

}  // namespace nccltune::cli
