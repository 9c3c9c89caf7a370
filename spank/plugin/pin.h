// SPDX-License-Identifier: Apache-2.0
// CPU mask and memory policy of the calling thread, by system call: task_init runs in the task's own process, and what
// is set there survives exec. No libnuma: slurmstepd loads nothing for this.
#pragma once

#include <optional>

#include "base/cpuset.h"
#include "base/result.h"

namespace nccltune {

// sched_getaffinity, for machines of any size. nullopt: the kernel would not tell.
std::optional<CpuSet> current_mask();

// sched_setaffinity; nullopt: done. The kernel cuts `cpus` to the step's cpuset cgroup and refuses when nothing is
// left.
std::optional<Error> set_mask(const CpuSet& cpus);

enum class Preference {
  set,
  already_chosen,  // the task has a memory policy (srun --mem-bind): left alone
  not_allowed,     // the node is offline or not among the cpuset's: Slurm may give a step part of the memory
  unavailable      // the kernel has no NUMA support, or a seccomp filter forbids it
};

// MPOL_PREFERRED on one NUMA node. Never MPOL_BIND: a task bound to a full node is killed where a preferred one spills.
Result<Preference> prefer_memory_of(int numa_node);

}  // namespace nccltune
