// SPDX-License-Identifier: Apache-2.0
// The settings of a comparison: from --env, from a file of named variants, and the two that speak of the plan. Pure.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "bench/environment.h"
#include "bench/trial.h"

namespace nccltune::bench {

inline constexpr const char* kPlan = "plan";  // the environment as it is
inline constexpr const char* kNone = "none";  // without what the plan set

struct VariantSpec {
  std::string name;
  Changes environment;        // over the baseline's
  bool without_plan = false;  // each task leaves out what its own node's plan set
};

// "NCCL_PROTO=Simple,LL,": the values that one name takes; an empty one unsets it, and a comma within a value is
// written "\,". `texts`: one for each --env; several make a grid, the first one outermost.
Result<std::vector<VariantSpec>> variants_of_grid(const std::vector<std::string>& texts);

// variants: [{name: simple, env: {NCCL_PROTO: Simple, NCCL_ALGO: null}}], null unsets. Errors name `file`, line and
// column.
Result<std::vector<VariantSpec>> variants_of_file(const std::string& text, const std::string& file);

struct Choice {
  std::string baseline = kPlan;  // plan, none, or the name of a variant
  std::string against;           // "", plan, none: one more variant
};
// The baseline first. An error: nothing to compare, an unknown baseline, or a name that comes twice.
Result<std::vector<VariantSpec>> with_baseline(std::vector<VariantSpec> specs, const Choice& choice);

// What `none` unsets in a task with this environment: the names in NCCLTUNE_SET, and the mark itself.
Changes without_plan(const Variables& environment);

// As this task runs it.
Variant variant_of(const VariantSpec& spec, const Variables& environment);

}  // namespace nccltune::bench
