// SPDX-License-Identifier: Apache-2.0
// The decision: what is exported and where each task is pinned, each with its reason.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/cpuset.h"
#include "node/node.h"
#include "policy/policy.h"
#include "policy/step.h"

namespace nccltune {

struct EnvSetting {
  std::string name, value;
  std::string rule;   // stable id of the rule: "hca.compute", "gid.uniform", "profile.azure-ndv4"
  std::string why;    // one sentence for a person
  std::string where;  // of a profile's value: its file and line; "" for a rule's
};

struct KeptSetting {  // a name that the plan would set, and that the user or the site set already
  std::string name, value;
  std::string source;   // "environment", "/etc/nccl.conf:3"
  std::string planned;  // what the plan has; "" when the same name has no value of ours
};

struct HcaDecision {  // one row for each port
  std::string name;
  int port = 1;
  std::string use;   // compute | management | storage | down | unconfigured | virtual | excluded | other-fabric | ...
  std::string rule;  // of the rule that decided
  std::string why;

  bool used() const { return use == "compute"; }
};

struct TaskPlan {
  int local_id = 0;
  std::vector<std::string> gpus;  // BDF
  std::vector<std::string> hcas;  // used HCAs at the smallest distance from the task's GPUs
  std::optional<CpuSet> cpus;     // the pin; absent: leave the mask as it is
  std::optional<int> mem_node;    // preferred, never bind
  std::vector<EnvSetting> env;    // what differs between tasks
  std::vector<Note> notes;
  std::string why;
};

struct Plan {
  std::string host;
  std::string platform;         // the profile that the facts match; "generic" when none does
  std::string profile;          // the profile in force
  std::string profile_why;      // its reason, with figures where it was measured; "" when it gives none
  std::string profile_where;    // its file and line; "" for "generic"
  std::vector<EnvSetting> env;  // the same for every task of the node
  std::vector<KeptSetting> kept;
  std::vector<HcaDecision> hcas;  // every port of the node
  std::vector<TaskPlan> tasks;
  std::vector<Note> notes;  // also the lint of the user's own values
};

// Everything but the tasks: pure, the same for every task and step of the node with the same environment.
Plan plan_node(const Node& node, const Policy& policy, const Step& step);

// One task of it: its GPUs, HCAs, pin and own environment.
TaskPlan plan_task(const Node& node, const Plan& node_plan, const Policy& policy, const Step& step, const Task& task);

// What tasks of the node will have of this variable: kept or exported. Absent: neither.
std::optional<std::string> value_in_force(const Plan& plan, std::string_view name);

// plan_node, and plan_task for each of step.tasks.
Plan make_plan(const Node& node, const Policy& policy, const Step& step);

}  // namespace nccltune
