// SPDX-License-Identifier: Apache-2.0
// `nccl-tune check` across the nodes of a job step.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "bench/world.h"
#include "check/finding.h"

namespace nccltune::cli {

// The step that this process is a task of, when it is one of several that PMIx connects; null otherwise, also (after a
// line on stderr) where PMIx cannot be reached: the node is checked all the same.
std::unique_ptr<bench::World> open_step();

// What the nodes of the step differ in (on rank 0), and whom this node cannot reach. One task a node speaks for it.
// Bounded: a digest of each node travels in one fence, whole facts only of one node for each digest.
std::vector<check::Finding> check_step(bench::World& world, const check::Subject& subject);

}  // namespace nccltune::cli
