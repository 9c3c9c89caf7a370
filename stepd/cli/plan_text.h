// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "cli/table.h"
#include "policy/plan.h"

namespace nccltune::cli {

// The plan for a person, at most kWidth columns wide but for what cannot be broken.
std::string plan_text(const Plan& plan, const Style& style);

// The parts that topo shows as well.
std::string hca_name(const HcaDecision& hca);                                // "mlx5_0:1"
std::string notes_text(const std::vector<Note>& notes, const Style& style);  // "" for none

}  // namespace nccltune::cli
