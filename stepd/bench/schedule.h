// SPDX-License-Identifier: Apache-2.0
// What is measured, in which order: nccl-tests' loops (2.19.6 common.cu:1002 TimeTest, src/<name>.cu RunTest).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/digest.h"
#include "bench/options.h"

namespace nccltune::bench {

// One pass over all sizes.
struct Sweep {
  protocol::DataType type{};
  protocol::Op op{};
  int root = -1;  // -1: the collective has none
};

// Every (type, op, root) in nccl-tests' order, the type outermost. `types` has a bit for each datatype that works.
std::vector<Sweep> sweeps_of(const Options& options, int ranks, uint32_t types);

// The sizes of a sweep, ascending; `max_bytes` can be below the one asked for.
std::vector<uint64_t> sizes_of(const Options& options, uint64_t max_bytes);

// The sizes of the warm-up: from the smallest, doubled (nccl-tests warms up by doubling whatever the step is).
std::vector<uint64_t> warmup_sizes_of(const Options& options, uint64_t max_bytes);

// The largest message that leaves room for `share` ranks on one memory: send and receive buffer, and the expected data
// where it is checked (common.cu:1537). nccl-tests counts from the total, and fails on a shared GPU
// (NVIDIA/nccl-tests#220): the free memory bounds ours as well. `host`: half of what is free, for a machine still
// works.
uint64_t largest_message(uint64_t free_bytes, uint64_t total_bytes, int share, bool check, bool host);

// What these tasks can do of what was asked for.
struct Schedule {
  uint64_t max_bytes = 0;  // in force: memory may allow less than options.max_bytes
  std::vector<Sweep> sweeps;
  std::string refusal;  // why nothing can be measured, one line; "": it can
};
// `sizes`: ranks of each communicator that is measured.
Schedule schedule_of(const Options& options, const Digest& digest, const std::vector<int>& sizes);

}  // namespace nccltune::bench
