// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "node/node.h"
#include "policy/plan.h"
#include "policy/step.h"

namespace nccltune {

// What is wrong with the values that the user or the site set, against the facts of this node: one note each, its
// object the variable. They are never changed.
void lint_settings(const Node& node, const Step& step, std::vector<Note>& notes);

}  // namespace nccltune
