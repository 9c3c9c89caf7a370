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

// Keys: a task's state, and rank 0's word that the report is written. A launcher ends the others once one task fails,
// so all wait for it.
inline constexpr char kStateKey[] = "state", kDoneKey[] = "done";
inline constexpr double kGatherSeconds = 12;                  // for all states together
inline constexpr double kReportSeconds = kGatherSeconds + 5;  // from an alarm to rank 0's word

// Rank 0: what each task says of itself; absent: it did not answer. `own`: rank 0's.
std::vector<std::optional<std::string>> gather_states(World& world, const std::string& own);

// Rank 0, once its report is written: says so, and returns when all should end, for a launcher that kills the rest of a
// step at the first failure would turn the exit status of who is late into a signal's.
void release_others(World& world);
// The others: waits for that moment. False: rank 0 did not speak.
bool wait_for_release(World& world, const std::string& key);

// The likeliest cause first, then where every rank is: the few that differ by name, the many as a range. `states`: by
// task; absent: that task did not answer. `hosts`: by task, or empty. Pure.
std::vector<std::string> summarise_states(const std::vector<std::optional<std::string>>& states, int per_task,
                                          const std::vector<std::string>& hosts = {});
// By task, as the launcher tells it.
std::vector<std::string> hosts_of(const World& world);
// The tasks that did not get as far as to put `key`, as "task 3 at node7"; asked for at once.
std::vector<std::string> tasks_without(World& world, const std::string& key);

// For a task that rank 0 leaves without a word: when no task before this one answers either, it speaks in rank 0's
// place, and the lines are what it says. `own`: its state.
std::vector<std::string> speak_for_rank_0(World& world, const std::string& own, int per_task);

}  // namespace nccltune::bench
