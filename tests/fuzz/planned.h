// SPDX-License-Identifier: Apache-2.0
// A machine, a policy and a step out of one input, for the targets that plan.
#pragma once

#include <memory>
#include <optional>

#include "base/root.h"
#include "fuzz/targets.h"
#include "node/node.h"
#include "policy/plan.h"
#include "policy/policy.h"
#include "policy/step.h"

namespace fuzz {

struct Planned {
  std::unique_ptr<MemoryFile> file;  // what root reads
  nccltune::Root root;
  nccltune::Node node;
  nccltune::Policy policy;
  nccltune::Step step;
  nccltune::Plan plan;
};

// Sections: environment, policy, dump. The first byte of the environment picks the step's shape. Absent where the dump
// is none.
std::optional<Planned> plan_of(std::string_view input);

}  // namespace fuzz
