// SPDX-License-Identifier: Apache-2.0
// The report of a supervisor that can give none: told by its keeper, to the other tasks and in the files.
#pragma once

#include <string>
#include <vector>

#include "bench/environment.h"
#include "bench/slate.h"

namespace nccltune::bench {

// `trouble`: "was killed by SIGSEGV". Joins the step as a second client of the same task, raises the alarm, leaves the
// task's state for rank 0, or, in rank 0's place, gathers all states and ends the report. `timeout`: seconds for PMIx
// to come up. Gives the exit status.
int tell_in_its_place(const Variables& environment, const Slate& slate, const std::string& trouble, double timeout);

// The state of a task whose supervisor is gone, for summarise_states; `state`: the slate's page, `cause`: one line.
// Pure.
std::string state_of_lost_task(const std::string& state, const std::string& cause);

// Cuts a table's last line if it is not whole, and appends the error. False: it cannot be written.
bool end_table(const std::string& path, const std::vector<std::string>& lines);

}  // namespace nccltune::bench
