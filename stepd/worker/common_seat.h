// SPDX-License-Identifier: Apache-2.0
// Where a rank is: in the communicator that is measured, and among all ranks of the run. The two differ where the ranks
// are split into groups (NCCL_TESTS_SPLIT of nccl-tests).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "worker/protocol.h"

namespace nccltune::worker {

struct Seat {
  uint32_t rank = 0, ranks = 1;  // in the communicator that is measured
  protocol::Setup setup;
  uint32_t group = 0, groups = 1;
  uint32_t world_rank = 0;         // with a split only
  std::vector<uint32_t> group_of;  // of each rank of the world; empty: not split

  bool is_split() const { return !group_of.empty(); }
  uint32_t own_rank() const { return is_split() ? world_rank : rank; }
  uint32_t all_ranks() const { return is_split() ? static_cast<uint32_t>(group_of.size()) : ranks; }
};

// The bytes that follow Connect, taken apart. Throws Failed when they do not fit it.
struct Membership {
  std::vector<char> ids;
  std::vector<uint32_t> group_of;  // as in Seat
};
Membership membership_of(const protocol::Connect& connect, const char* bytes, size_t length);

Seat seat_of(const protocol::Setup& setup, const protocol::Connect& connect, std::vector<uint32_t> group_of);

// The world's ranks in the group, ascending: rank i of the group is element i.
std::vector<int> members_of(const Seat& seat, uint32_t group);

}  // namespace nccltune::worker
