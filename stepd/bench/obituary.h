// SPDX-License-Identifier: Apache-2.0
// The report of a supervisor that can give none: told by its keeper, to the other tasks and in the files.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/environment.h"
#include "bench/slate.h"

namespace nccltune::bench {

// `trouble`: "was killed by SIGSEGV". Joins the step as a second client of the same task, raises the alarm, leaves the
// task's state for rank 0, or, in rank 0's place, gathers all states and ends the report. Where the slate says what the
// task owes, the others are told with that, and go on: then it stays as long as they need the step. `timeout`: seconds
// for PMIx to come up. Gives the exit status.
int tell_in_its_place(const Variables& environment, const Slate& slate, const std::string& trouble, double timeout);

// The state of a task whose supervisor is gone, for summarise_states; `state`: the slate's page, `cause`: one line.
// Pure.
std::string state_of_lost_task(const std::string& state, const std::string& cause);

// Cuts a table's last line if it is not whole, and appends the error. False: it cannot be written.
bool end_table(const std::string& path, const std::vector<std::string>& lines);

// The same for a file of JSON lines: a last one of kind "end" that is not complete.
bool end_journal(const std::string& path, const std::string& trouble);

// Seconds between two questions of a keeper that waits for rank 0 to need nobody any more.
inline constexpr double kKeeperPause = 0.5;

// Why a task is gone, where its keeper has put `text` in the place of what the task owed; nullopt: it is the task's
// own.
std::optional<std::string> cause_of_loss(const std::string& text);

}  // namespace nccltune::bench
