// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bench/world.h"

namespace nccltune::bench {

// Brings one text of each task to rank 0. Collective, by a fence: a key asked for later may be that of a node whose
// tasks have ended, which answers nobody. On rank 0: by task, absent but for its own where not all came within
// `seconds` or before `over` broke it off; elsewhere: empty.
std::vector<std::optional<std::string>> gather_at_rank_0(
    World& world, const std::string& key, const std::string& own, double seconds,
    const std::function<bool()>& over = [] { return false; });

}  // namespace nccltune::bench
