// SPDX-License-Identifier: Apache-2.0
// What is asked of one node: a job step's tasks, as Slurm (or the command line of the tool) describes them.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/cpuset.h"

namespace nccltune {

using Environment = std::map<std::string, std::string>;

// "" when it is not set.
inline std::string value_of(const Environment& env, const char* name) {
  const auto found = env.find(name);
  return found == env.end() ? std::string() : found->second;
}

enum class GpuOrder { pci, minor };  // what a gres index counts: PCI order (NVML), or /dev/nvidiaN

// One task, as seen where it is about to start. reference: "which GPU does a task own".
struct Task {
  int local_id = 0;
  std::optional<CpuSet>
      mask;         // sched_getaffinity as Slurm left it; absent when not known (the tool without --task-cpus)
  Environment env;  // the task's environment: CUDA_VISIBLE_DEVICES, SLURM_STEP_GPUS, SLURMD_TRES_BIND, ...
  std::optional<std::set<int>> openable_minors;  // /dev/nvidiaN that access(R_OK|W_OK) grants; absent when not asked
};

struct Step {
  std::string node_name;     // the name that Slurm knows the node by; "" outside Slurm
  std::string node_address;  // NodeAddr, or what node_name resolves to, as text; "" when unknown
  Environment env;           // what every task of the step has (from user_init): the user's and the site's own values
  std::string step_gpus;     // SLURM_STEP_GPUS of the whole step, saved in user_init
  int local_tasks = 1;       // on this node
  GpuOrder gpu_order = GpuOrder::pci;
  bool container = false;        // the tasks will run in a container image (pyxis): its /etc/nccl.conf hides the host's
  bool private_network = false;  // the tasks get a network namespace of their own: leave the network alone
  bool sharp = false;            // opt-in keywords
  bool torch = false;
  std::string profile;  // forced by name; "" for the first that matches
  bool bind = true;
  bool outside_slurm = false;  // no gres: task i of N takes the i-th GPU in PCI order, one task takes all
  std::vector<Task> tasks;
};

}  // namespace nccltune
