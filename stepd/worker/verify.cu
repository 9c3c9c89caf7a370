// SPDX-License-Identifier: Apache-2.0
#include "worker/nccl_calls.h"
#include "worker/verify.h"

namespace nccltune::worker {

namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kEach = 8;  // elements a thread has at least, where there are enough

// Enough blocks to fill any GPU several times over: the grid strides, and stragglers even out.
unsigned blocks_for(uint64_t count) {
  constexpr uint64_t kMost = 4096;
  const uint64_t wanted = (count + kThreads * kEach - 1) / (kThreads * kEach);
  return static_cast<unsigned>(wanted < 1 ? 1 : wanted < kMost ? wanted : kMost);
}

template <class F>
__global__ void __launch_bounds__(kThreads) fill(typename F::Bits* to, uint64_t count, const Pattern pattern) {
  const uint64_t stride = uint64_t(gridDim.x) * kThreads;
#pragma unroll 2
  for (uint64_t i = uint64_t(blockIdx.x) * kThreads + threadIdx.x; i < count; i += stride)
    to[i] = input_bits<F>(pattern, i);
}

// Loads first, compares then: several loads are in flight while the formulas run.
template <class F>
__global__ void __launch_bounds__(kThreads) compare(const typename F::Bits* data, uint64_t offset, uint64_t count,
                                                    uint32_t repeat, const Pattern pattern, Tally* tally) {
  using Bits = typename F::Bits;
  constexpr int kAhead = 4;
  const uint64_t stride = uint64_t(gridDim.x) * kThreads;
  unsigned long long wrong = 0, first = ~0ull;
  for (uint32_t piece = blockIdx.y; piece < repeat; piece += gridDim.y) {
    Pattern from = pattern;
    if (!pattern.reduced) from.source += piece;
    const uint64_t start = offset + piece * count;
    for (uint64_t i = uint64_t(blockIdx.x) * kThreads + threadIdx.x; i < count; i += kAhead * stride) {
      Bits found[kAhead];
#pragma unroll
      for (int k = 0; k < kAhead; ++k) found[k] = i + k * stride < count ? data[start + i + k * stride] : Bits(0);
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
        const uint64_t at = i + k * stride;
        if (at >= count || is_right<F>(from, at, found[k])) continue;
        ++wrong;
        if (start + at < first) first = start + at;
      }
    }
  }
  if (wrong == 0) return;  // the common case costs no atomic
  atomicAdd(&tally->wrong, wrong);
  atomicMin(&tally->first, first);
}

template <class Bits>
__global__ void __launch_bounds__(kThreads)
    differ(const Bits* data, const Bits* kept, uint64_t from, uint64_t count, Tally* tally) {
  const uint64_t stride = uint64_t(gridDim.x) * kThreads;
  unsigned long long wrong = 0, first = ~0ull;
#pragma unroll 4
  for (uint64_t i = uint64_t(blockIdx.x) * kThreads + threadIdx.x; i < count; i += stride) {
    if (data[from + i] == kept[from + i]) continue;
    ++wrong;
    if (from + i < first) first = from + i;
  }
  if (wrong == 0) return;
  atomicAdd(&tally->wrong, wrong);
  atomicMin(&tally->first, first);
}

}  // namespace

void enqueue_fill(void* to, uint64_t count, DataType type, const Pattern& pattern, cudaStream_t stream) {
  if (count == 0) return;
  with_format(type, [&](auto format) {
    using F = decltype(format);
    fill<F><<<blocks_for(count), kThreads, 0, stream>>>(static_cast<typename F::Bits*>(to), count, pattern);
  });
  require(cudaGetLastError(), "fill");
}

void enqueue_check(const void* data, const Run& run, DataType type, Tally* tally, cudaStream_t stream) {
  if (run.count == 0 || run.repeat == 0) return;
  const unsigned rows = run.repeat < 65535 ? run.repeat : 65535;  // gridDim.y's limit
  const dim3 grid(blocks_for(run.count), rows);
  with_format(type, [&](auto format) {
    using F = decltype(format);
    compare<F><<<grid, kThreads, 0, stream>>>(static_cast<const typename F::Bits*>(data), run.offset, run.count,
                                              run.repeat, run.pattern, tally);
  });
  require(cudaGetLastError(), "compare");
}

void enqueue_difference(const void* data, const void* kept, const Span& span, DataType type, Tally* tally,
                        cudaStream_t stream) {
  if (span.count == 0) return;
  with_format(type, [&](auto format) {
    using Bits = typename decltype(format)::Bits;
    differ<Bits><<<blocks_for(span.count), kThreads, 0, stream>>>(
        static_cast<const Bits*>(data), static_cast<const Bits*>(kept), span.from, span.count, tally);
  });
  require(cudaGetLastError(), "differ");
}

}  // namespace nccltune::worker
