// SPDX-License-Identifier: Apache-2.0
// Reduction functions for Gloo, for every type and op.
#pragma once

#include <cstddef>
#include <cstdint>

#include "worker/common_format.h"

namespace nccltune::worker {

// out[i] = a[i] op b[i]; out may be a or b. Gloo's signature.
using ReduceFunction = void (*)(void* out, const void* a, const void* b, size_t elements);
ReduceFunction reduce_function(DataType type, Op op);

// mulsum: out[i] = in[i] * the rank's scalar, which comes before the reduction.
void multiply_by_scalar(DataType type, uint32_t rank, const void* in, void* out, size_t elements);
// avg: data[i] /= ranks, which comes after it.
void divide_by_ranks(DataType type, uint32_t ranks, void* data, size_t elements);

}  // namespace nccltune::worker
