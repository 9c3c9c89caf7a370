// SPDX-License-Identifier: Apache-2.0
// Test data on the device: filled and compared by formula, at the speed of the memory or near it.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "worker/common_shape.h"

namespace nccltune::worker {

// Device memory; `first` is the least wrong index, all ones where none is.
struct Tally {
  unsigned long long wrong, first;
};

// Enqueues the filling of `count` elements at `to`.
void enqueue_fill(void* to, uint64_t count, DataType type, const Pattern& pattern, cudaStream_t stream);

// Enqueues the comparison of one run; adds to `tally`, which the caller has set to {0, ~0}.
void enqueue_check(const void* data, const Run& run, DataType type, Tally* tally, cudaStream_t stream);

// Enqueues the comparison, bit by bit, of a span of two arrays; adds to `tally` likewise.
void enqueue_difference(const void* data, const void* kept, const Span& span, DataType type, Tally* tally,
                        cudaStream_t stream);

}  // namespace nccltune::worker
