// SPDX-License-Identifier: Apache-2.0
// Where a task runs: its CPUs, its memory node.
#pragma once

#include <string>
#include <vector>

#include "node/node.h"
#include "policy/plan.h"
#include "policy/policy.h"
#include "policy/step.h"

namespace nccltune {

// Below this many CPUs beside the GPU, NCCL's proxy threads spin against the main thread (NVIDIA/nccl-tests#57,
// nccl#1017).
constexpr int kEnoughCpus = 4;

// Sets plan.cpus, plan.mem_node, plan.why, notes, and NCCL_IGNORE_CPU_AFFINITY in plan.env: the task's mask ∩ the CPUs
// local to its GPUs. plan.gpus must be known. Leaves the mask as it is, with a note, when the intersection is empty or
// the locality unknown, and when the GPUs lie on several NUMA nodes. Source: nccl src/graph/topo.cc
// (ncclTopoGetCpuAffinity).
void plan_binding(const Node& node, const Policy& policy, const Step& step, const Task& task, TaskPlan& plan);

}  // namespace nccltune
