// SPDX-License-Identifier: Apache-2.0
// This process as a task of its job step: what every command that measures does before it starts workers.
#pragma once

#include "base/result.h"
#include "bench/choose_worker.h"
#include "bench/environment.h"
#include "bench/options.h"
#include "bench/world.h"

namespace nccltune::bench {

struct Step {
  World& world;  // with a keeper, and never freed: a thread of it may still sit in a PMIx call when the process ends
  ChosenWorker worker;
  int signal_fd;  // of SIGTERM, SIGINT, SIGHUP and keeper_gone_signal(), which are blocked from now on; SIGPIPE is
                  // ignored
};

// Once a process, before it has threads. Forks: returns in the child (see keeper.h). `environment`: its own; `timeout`:
// seconds for PMIx to come up. Rank 0 says on stderr which worker stands in for GPUs. An error: nothing can be measured
// here.
Result<Step> open_step(const Variables& environment, WorkerChoice worker, double timeout);

}  // namespace nccltune::bench
