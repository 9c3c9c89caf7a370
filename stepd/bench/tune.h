// SPDX-License-Identifier: Apache-2.0
// A search run as trials of a job step. Rank 0 decides, keeps the journal and shows the progress; the other tasks
// follow its words, which hold all that they need.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bench/trial.h"
#include "bench/tune_search.h"
#include "bench/tune_state.h"

namespace nccltune::bench {

// The entries of an objective, in order: one for each work and size.
size_t count_entries(const std::vector<Work>& works);
// Seconds of each entry: the median of its iterations, else their mean; out of place where that exists. Empty when a
// row is missing.
std::vector<double> entry_times(const std::vector<Work>& works, const TrialResult& result);

// A trial as the search takes it.
Answer answer_of(const std::vector<Work>& works, const TrialResult& result);

struct TuneRun {
  std::string state;  // file; "": none
  Identity identity;
  double budget = 0;
  bool progress = true;
};

struct TuneEnd {
  bool interrupted = false;  // the search is not over; the state file is there to go on from
  bool lost = false;         // and it was not the user's word: a task is gone
  std::string why;
};

// On rank 0, before the search is made: today's settings at the smallest size, to know the library and the device.
TrialResult probe(TrialRunner& runner, const std::vector<Work>& works, double seconds);

// On rank 0. `search` has the journal's answers already.
TuneEnd lead(TrialRunner& runner, const Space& space, const std::vector<Work>& works, Search& search, Journal& journal,
             const TuneRun& run);
// Rank 0's last word: the exit status of all.
void dismiss(TrialRunner& runner, int status);
// On the others: the exit status that rank 0 gave.
int follow(TrialRunner& runner);

// "37 trials, 12 min left, each variable alone; best so far NCCL_MIN_CTAS=32, 1.07 times today's speed".
std::string progress_text(const Space& space, const Search& search, double budget);
std::string minutes(double seconds);  // "45 s", "12 min 30 s"

}  // namespace nccltune::bench
