// SPDX-License-Identifier: Apache-2.0
// What a person is told. The lines are made here, whole and without "nccl-tune: "; Log sends them.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "plugin/apply.h"
#include "plugin/options.h"
#include "policy/plan.h"

namespace nccltune {

using Lines = std::vector<std::string>;

// "n1: profile azure-ndv4: 8 GPUs, 8 of 9 HCA ports, 4 tasks; NCCL_IB_HCA='=mlx5_0:1,...', ..."
std::string summary_line(const Plan& plan, const Node& node, const Step& step);

// Why: each setting, each port that was left out, what was kept, the notes.
Lines reason_lines(const Plan& plan);

// One task's: its GPUs, pin and own settings.
Lines task_lines(const TaskPlan& task);

// What the user's own values in the environment are in the way of, and what is wrong with them: lines that a user who
// asked for tuning wants to see unasked.
Lines kept_lines(const Plan& plan, const Step& step);

// One line of `note`.
std::string note_line(const Note& note);

// Each message on one line, whatever a variable or a device is called: control characters become '?', 4096 bytes at
// most.
std::string one_line(std::string text);

// Slurm's log, by who should read it.
void tell_user(const std::string& line);    // the task's stderr, as it stands (slurm_spank_log)
void tell_error(const std::string& line);   // the task's stderr, or the terminal of srun, as an error
void tell_admin(const std::string& line);   // slurmd's log alone (info)
void tell_detail(const std::string& line);  // slurmd's log at SlurmdDebug=verbose

}  // namespace nccltune
