// SPDX-License-Identifier: Apache-2.0
// From SPANK's items and the job's environment to the data that the policy works on. Remote context (slurmstepd) only.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "node/node.h"
#include "plugin/options.h"
#include "plugin/spank_api.h"
#include "policy/step.h"

namespace nccltune {

// True for a step that a user's srun started. False for the batch script, salloc's interactive step and the extern step
// (0xfffffffa and above): what we set there would be inherited by every srun inside, on every node, as if the user had
// set it. Also false when Slurm does not tell.
bool is_ordinary_step(spank_t spank);

// The job's environment as the hook sees it. At most 65536 entries; an entry without '=' is passed over.
Environment job_environment(spank_t spank);

// What pyxis was asked for. Only in slurm_spank_init: Slurm takes the options' variables away right after it.
struct ContainerRequest {
  bool image = false;            // the tasks run in an image
  bool private_network = false;  // in a network namespace of their own
};
ContainerRequest container_request(spank_t spank);

// The name Slurm knows this node by; several slurmd can share a host, so the host's name is the last resort.
std::string node_name(const Environment& env);

// The step as user_init sees it. `env` is whole; the step gets it without our own marks. No tasks yet, no address.
Step ask_step(spank_t spank, const Environment& env, const Options& options, const Arguments& arguments,
              const ContainerRequest& container);

// The task that calls, as task_init sees it. `root`: of Arguments.
Task ask_task(spank_t spank, const Environment& env, const Node& node, const std::string& root);

// Which of the node's GPUs this process may open, by access(2) on /dev/nvidiaN: with ConstrainDevices the device cgroup
// answers EPERM there, also to root, while every task sees index 0. A recorded machine may have device nodes too, under
// `root`; the cgroup goes by device number, not by path. nullopt: no GPU has a device node, so there was nothing to
// ask.
std::optional<std::set<int>> openable_minors(const Node& node, const std::string& root);

// The calling task's number on this node, this node's number in the step, and how many tasks the step has on it; 0, 0
// and 1 where Slurm does not tell.
int local_task_id(spank_t spank);
uint32_t node_id(spank_t spank);
int local_task_count(spank_t spank);

}  // namespace nccltune
