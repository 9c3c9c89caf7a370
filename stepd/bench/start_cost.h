// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bench/environment.h"
#include "bench/options.h"

namespace nccltune::bench {

// What it costs the tasks of this step to come to know each other, without workers: PMIx, and the exchange of records
// as every run does it, with records of the usual size. Rank 0 prints one line, each time the most of any task.
// Collective; gives the exit status. Run by tests/bench/start_cost.sh as `bench --worker none`.
int measure_start(const Options& options, const Variables& environment);

}  // namespace nccltune::bench
