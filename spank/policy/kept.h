// SPDX-License-Identifier: Apache-2.0
// What the user or the site has set already, and what of it wins over the plan.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "node/node.h"
#include "policy/plan.h"
#include "policy/step.h"

namespace nccltune {

// The names that an outer step's plan set (NCCLTUNE_SET: names separated by commas or blanks): not the user's.
std::set<std::string> names_set_by_us(const Environment& env);

// The names that a plan exports for one task: the value of NCCLTUNE_SET, in order and without doubles.
std::vector<std::string> exported_names(const Plan& plan, const TaskPlan& task);

struct Existing {
  std::string value;
  std::string source;  // "environment", "/etc/nccl.conf:3"
  bool in_file = false;
};

// The value in force before the plan: the environment (even an empty value), then the conf files, first line first
// (nccl src/misc/param.cc: initEnv uses setenv(name, value, 0)). NCCL's own names are matched as they stand.
std::optional<Existing> existing_value(const Node& node, const Environment& env, const std::string& name);

// Takes from `wanted` what is set already and tells it in `kept`. In a container the image's /etc/nccl.conf hides the
// host's: the lines of the host's files are then exported instead, also those that no rule plans.
std::vector<EnvSetting> without_kept(const Node& node, const Step& step, const Environment& env,
                                     std::vector<EnvSetting> wanted, std::vector<KeptSetting>& kept);

// The conf files' lines as settings to export, for a container.
std::vector<EnvSetting> conf_as_settings(const Node& node, const Environment& env);

// Settings of NCCL's that we decide about and that the user gave although the plan has none; only those not in `kept`.
void add_unplanned(const Node& node, const Environment& env, std::vector<KeptSetting>& kept);

}  // namespace nccltune
