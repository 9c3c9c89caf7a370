// SPDX-License-Identifier: Apache-2.0
// `nccl-tune check` across the nodes of a job step.
#pragma once

#include <vector>

#include "bench/keeper.h"
#include "bench/world.h"
#include "check/finding.h"

namespace nccltune::cli {

// In a step: forks (see bench/keeper.h), so that a driver's library that crashes or hangs here is told by a process
// that does not, and the other tasks go on. To be called first.
bench::Kept keep_step();

// The step that this process is a task of, when it is one of several that PMIx connects; null otherwise, also (after a
// line on stderr) where PMIx cannot be reached: the node is checked all the same. Never freed: a thread of it may still
// sit in a PMIx call when the process ends.
bench::World* open_step(const bench::Kept& kept);

struct StepFindings {
  std::vector<check::Finding> findings;
  bool complete = true;  // false: some task is gone
};

// What the nodes of the step differ in and which tasks are gone (on rank 0), and whom this node cannot reach. One task
// a node speaks for it. Bounded: a digest of each node travels in one fence, whole facts only of one node for each
// digest.
StepFindings check_step(bench::World& world, const check::Subject& subject);

// The report is written: whoever stayed for it may go, and where a task is gone its keeper is one of them. `complete`:
// as check_step told it.
void close_step(bench::World& world, bool complete);

}  // namespace nccltune::cli
