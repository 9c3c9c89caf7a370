// SPDX-License-Identifier: Apache-2.0
// What each collective is called, what its size means and how a time becomes GB/s: nccl-tests' definitions, so that
// numbers compare (nccl-tests 2.19.6, src/<name>.cu; doc/PERFORMANCE.md there derives the factors).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "worker/protocol.h"

namespace nccltune::bench {

struct CollectiveInfo {
  protocol::Collective id;
  std::string_view name;  // "all_reduce"
  bool has_op;            // the redop column: sendrecv prints one although it reduces nothing
  bool has_root;
  bool per_peer;  // the count is per peer, a multiple of 16 bytes: all_gather, alltoall, ...
  enum class Factor { one, ring, twice_ring } factor;  // 1, (n-1)/n, 2(n-1)/n
  std::string_view what;                               // one line for --list
};

const std::vector<CollectiveInfo>& collectives();

// By our name, with or without "_perf", dashes or no separator at all ("allreduce"). nullptr: unknown.
const CollectiveInfo* find_collective(std::string_view name);
const CollectiveInfo& info_of(protocol::Collective id);

inline constexpr int kTypes = 12;
inline constexpr int kOps = 6;  // without `none`
std::string_view type_name(protocol::DataType type);
std::string_view op_name(protocol::Op op);
uint64_t type_bytes(protocol::DataType type);

// The size and count columns for a size that was asked for, on n ranks (alltoallv: the even split).
struct Shape {
  uint64_t bytes = 0;     // the larger of what a rank sends and receives
  uint64_t elements = 0;  // the count that NCCL is given
};
Shape shape_of(const CollectiveInfo& info, uint64_t bytes, protocol::DataType type, int ranks);

// GB/s (1e9). 0 when seconds is 0. `bytes` is the size column.
double algorithm_gbs(const CollectiveInfo& info, uint64_t bytes, double seconds, int ranks);
double bus_gbs(const CollectiveInfo& info, double algorithm_gbs, int ranks);

}  // namespace nccltune::bench
