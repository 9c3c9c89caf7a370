// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/world.h"

namespace nccltune::bench {

// Brings one text of each task to rank 0. Collective, by a fence: a key asked for later may be that of a node whose
// tasks have ended, which answers nobody. On rank 0: by task, absent but for its own where not all came within
// `seconds` or before `over` broke it off; elsewhere: empty.
std::vector<std::optional<std::string>> gather_at_rank_0(
    World& world, const std::string& key, const std::string& own, double seconds,
    const std::function<bool()>& over = [] { return false; });

// A key of one task, asked for until it is there, once at least. Absent: not within `seconds`, or `over` said so, which
// is asked every second.
Result<std::optional<std::string>> hear(World& world, int task, const std::string& key, double seconds,
                                        const std::function<bool()>& over);

// Rank 0's text for all others, which hear_rank_0() there. They ask for it; only where one server would have to answer
// them all it is a fence, and collective.
std::optional<Error> tell_others(World& world, const std::string& key, const std::string& text, double seconds);
Result<std::optional<std::string>> hear_rank_0(World& world, const std::string& key, double seconds,
                                               const std::function<bool()>& over);

// What rank 0 has to say, told to all. Collective, by a fence: nobody goes on before all are there. `text` counts on
// rank 0.
Result<std::string> word_of_rank_0(World& world, const std::string& key, const std::string& text, double seconds);

}  // namespace nccltune::bench
