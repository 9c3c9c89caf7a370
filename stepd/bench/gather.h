// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/world.h"

namespace nccltune::bench {

// Brings one text of each task to rank 0, by a put and a get each, so that the cost on every other node does not grow
// with the number of tasks. Collective; the tasks leave together, for a node whose tasks have ended answers nobody. On
// rank 0: by task, absent where none came within `seconds`; elsewhere: empty.
std::vector<std::optional<std::string>> gather_at_rank_0(World& world, const std::string& key, const std::string& own,
                                                         double seconds);

}  // namespace nccltune::bench
