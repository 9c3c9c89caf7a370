// SPDX-License-Identifier: Apache-2.0
// Which GPUs a task owns, from what Slurm and the kernel tell.
#pragma once

#include <string>
#include <vector>

#include "node/node.h"
#include "policy/step.h"

namespace nccltune {

struct TaskGpus {
  std::vector<const Gpu*> gpus;     // the task's own, in the order that CUDA counts them; empty when not certain
  std::vector<const Gpu*> visible;  // those that it can see
  std::string why;                  // how that is known, or why it is not
  bool shared = false;              // other tasks of the step may use the same
};

// Never guesses: what Slurm's variables and the device nodes do not tell alike is not certain.
//   * A device that access(2) refuses is not the task's: with ConstrainDevices every task of `--gpus-per-task=1` has
//     index 0, and the indexes count within the accessible set. Else they count all GPUs of the node in step.gpu_order.
//   * CUDA_VISIBLE_DEVICES before SLURM_STEP_GPUS before the list saved from user_init. UUIDs by the driver's own; MIG
//     instances never.
//   * With a GPU binding, or one visible GPU, or one task, the visible ones are the task's. Without, as many tasks as
//     GPUs (or a divisor) share them in order, as every launcher does by LOCAL_RANK.
TaskGpus find_task_gpus(const Node& node, const Step& step, const Task& task);

}  // namespace nccltune
