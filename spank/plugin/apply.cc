// SPDX-License-Identifier: Apache-2.0
#include "plugin/apply.h"

#include "plugin/mark.h"
#include "plugin/pin.h"

namespace nccltune {
namespace {

// Slurm's setenvf drops a longer one without a word (src/common/env.c: MAX_ENV_STRLEN), and exec would refuse it.
constexpr std::size_t kMaxVariable = 128 * 1024 - 2;

void keep_first(std::optional<Error>& first, Error error) {
  if (!first) first = std::move(error);
}

void export_one(spank_t spank, const EnvSetting& setting, bool ours, Applied& applied) {
  // An empty NCCL_IB_HCA or NCCL_IB_GID_INDEX means something else to NCCL than an absent one.
  if (setting.value.empty()) return;
  if (!is_settable_name(setting.name) || setting.name.size() + setting.value.size() > kMaxVariable ||
      setting.value.find('\0') != std::string::npos) {
    keep_first(applied.error, Error{setting.name.substr(0, 64), "cannot be exported (rule " + setting.rule + ")",
                                    "not a variable's name, or a value of 128 KiB and more", ""});
    return;
  }
  const spank_err_t rc = spank_setenv(spank, setting.name.c_str(), setting.value.c_str(), ours ? 1 : 0);
  if (rc == ESPANK_SUCCESS) {
    applied.set.insert(setting.name);
  } else if (rc == ESPANK_ENV_EXISTS) {
    applied.notes.push_back(
        {setting.name, "kept what the task's environment has; the plan has '" + setting.value + "'"});
  } else {
    keep_first(applied.error, Error{setting.name, "cannot be exported", spank_strerror(rc), ""});
  }
}

}  // namespace

void export_env(spank_t spank, const Plan& plan, const TaskPlan& task, const std::set<std::string>& marked,
                Applied& applied) {
  for (const EnvSetting& setting : plan.env) export_one(spank, setting, marked.count(setting.name) > 0, applied);
  for (const EnvSetting& setting : task.env)
    export_one(spank, setting, marked.count(setting.name) > 0 || applied.set.count(setting.name) > 0, applied);
  std::set<std::string> stale;
  for (const std::string& name : marked)
    if (applied.set.count(name) == 0) stale.insert(name);
  unset_marked(spank, stale);
  if (applied.set.empty()) return;
  const spank_err_t rc = spank_setenv(spank, kMark, mark_of(applied.set).c_str(), 1);
  if (rc != ESPANK_SUCCESS) keep_first(applied.error, Error{kMark, "cannot be exported", spank_strerror(rc), ""});
}

void unset_marked(spank_t spank, const std::set<std::string>& marked) {
  for (const std::string& name : marked) spank_unsetenv(spank, name.c_str());
  spank_unsetenv(spank, kMark);
}

void pin(const TaskPlan& task, const std::optional<CpuSet>& mask, Applied& applied) {
  if (task.cpus && !(mask && *mask == *task.cpus)) {
    if (auto error = set_mask(*task.cpus)) keep_first(applied.error, std::move(*error));
  }
  if (!task.mem_node) return;
  const Result<Preference> preference = prefer_memory_of(*task.mem_node);
  if (!preference)
    keep_first(applied.error, preference.error());
  else if (*preference == Preference::already_chosen)
    applied.notes.push_back({"memory policy", "the task has one already (--mem-bind); left alone"});
  else if (*preference == Preference::not_allowed)
    applied.notes.push_back({"memory policy", "NUMA node " + std::to_string(*task.mem_node) +
                                                  " is not among those of the task; left alone"});
  else if (*preference == Preference::unavailable)
    applied.notes.push_back({"memory policy", "this kernel or a filter does not allow one; left alone"});
}

}  // namespace nccltune
