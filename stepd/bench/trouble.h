// SPDX-License-Identifier: Apache-2.0
// Where the ranks were when something broke, as each task tells it, and the few lines that all of it comes down to.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/launch.h"

namespace nccltune::bench {

// How likely a fault of ours is the cause, and not the effect of another rank's: 0 first.
int cause_order(const Launch& launch, const Fault& fault);

// What this task knows, to be called before its workers are killed. Lines "R rank phase text", where phase groups
// ranks, "C order text" for a cause, "L text" for a log; tabs between. `own`: the fault is of one of our workers, or we
// found that it hangs.
std::string describe_own_state(const Launch& launch, const Fault& fault, bool own);

// The likeliest cause first, then where every rank is: the few that differ by name, the many as a range. `states`: by
// task; absent: that task did not answer. Pure.
std::vector<std::string> summarise_states(const std::vector<std::optional<std::string>>& states, int per_task);

}  // namespace nccltune::bench
