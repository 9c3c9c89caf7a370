// SPDX-License-Identifier: Apache-2.0
// NCCLTUNE_SET names the variables that a step's plan put into its tasks' environment. A step started from such a task
// inherits both, maybe on another node: what carries the mark is ours to replace or to take away, the rest is the
// user's.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "policy/step.h"

namespace nccltune {

constexpr const char* kMark = "NCCLTUNE_SET";

// The names in the mark. Words that are no variable's name, names that no plan of ours sets (PATH, HOME, SLURM_*, ...:
// the mark is the user's to write, and taking PATH away would stop the task) and those past the first 1024 are passed
// over.
std::set<std::string> marked_names(const Environment& env);

// `env` without the variables that carry the mark; the mark itself stays.
Environment without_marked(const Environment& env);

// The mark's value for these names, sorted: the same plan gives the same bytes.
std::string mark_of(const std::set<std::string>& names);

// A variable's name of 255 bytes at most.
bool is_settable_name(const std::string& name);

}  // namespace nccltune
