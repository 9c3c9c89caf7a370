// SPDX-License-Identifier: Apache-2.0
// What this process itself tells of its task: its environment, its CPUs, its GPUs' device files, its place on the node.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "base/result.h"
#include "node/node.h"
#include "policy/step.h"

namespace nccltune::cli {

Environment environment_of_process();

// Without the variables that an earlier plan of ours exported (NCCLTUNE_SET names them), and without that mark: what is
// left is the user's and the site's.
Environment without_ours(Environment env);

// Where one of several processes of a job stands on its node.
struct LocalRank {
  int rank = 0;
  std::optional<int> size;  // processes on this node, where the launcher tells
  std::string variable;     // that told the rank; "" when none did
};

// By the first of LOCAL_RANK (torchrun), SLURM_LOCALID, OMPI_COMM_WORLD_LOCAL_RANK, MPI_LOCALRANKID (MPICH, Intel MPI),
// MV2_COMM_WORLD_LOCAL_RANK, PALS_LOCAL_RANKID that is set. An Error when its value is no number.
Result<LocalRank> local_rank(const Environment& env);

// True in a task of a Slurm job step (not in a batch script, whose environment also names the job).
bool in_slurm_task(const Environment& env);

// The step as this task sees it: one local task, this one.
Step slurm_step(const Environment& env, const Node& node);

// sched_getaffinity. Absent when the kernel refuses, or knows more CPUs than CpuSet does.
std::optional<CpuSet> own_cpus();

// The minors of the node's GPUs whose /dev/nvidiaN this process may open. Absent when none has a device file: nothing
// was there to ask.
std::optional<std::set<int>> openable_minors(const Node& node);

}  // namespace nccltune::cli
