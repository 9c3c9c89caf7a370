// SPDX-License-Identifier: Apache-2.0
#include "worker/common_seat.h"

#include <cstring>
#include <string>

#include "worker/common_data.h"
#include "worker/common_io.h"

namespace nccltune::worker {

using protocol::FailureKind;

Membership membership_of(const protocol::Connect& connect, const char* bytes, size_t length) {
  const auto refuse = [](const std::string& text) { throw Failed(FailureKind::internal, "worker: " + text); };
  if (connect.ranks < 1 || connect.rank < 0 || connect.rank >= connect.ranks ||
      connect.ranks > static_cast<int>(kMostRanks)) {
    throw Failed(FailureKind::usage, "worker: rank " + std::to_string(connect.rank) + " of " +
                                         std::to_string(connect.ranks) + " makes no sense");
  }
  const size_t table = connect.groups > 1 ? static_cast<size_t>(connect.ranks) * sizeof(int32_t) : 0;
  if (length < table) refuse("the table of groups is too short");
  Membership membership;
  membership.ids.assign(bytes, bytes + (length - table));
  if (table == 0) return membership;
  std::vector<int32_t> groups(static_cast<size_t>(connect.ranks));
  std::memcpy(groups.data(), bytes + (length - table), table);
  for (const int32_t group : groups) {
    if (group < 0 || group >= connect.groups) refuse("there is no group " + std::to_string(group));
    membership.group_of.push_back(static_cast<uint32_t>(group));
  }
  return membership;
}

Seat seat_of(const protocol::Setup& setup, const protocol::Connect& connect, std::vector<uint32_t> group_of) {
  Seat seat;
  seat.setup = setup;
  seat.rank = seat.world_rank = static_cast<uint32_t>(connect.rank);
  seat.ranks = static_cast<uint32_t>(connect.ranks);
  if (group_of.empty()) return seat;
  seat.group_of = std::move(group_of);
  seat.group = seat.group_of[seat.world_rank];
  seat.groups = static_cast<uint32_t>(connect.groups);
  seat.rank = seat.ranks = 0;
  for (uint32_t rank = 0; rank < seat.group_of.size(); ++rank) {
    if (seat.group_of[rank] != seat.group) continue;
    if (rank < seat.world_rank) ++seat.rank;
    ++seat.ranks;
  }
  return seat;
}

std::vector<int> members_of(const Seat& seat, uint32_t group) {
  std::vector<int> members;
  for (uint32_t rank = 0; rank < seat.all_ranks(); ++rank)
    if (!seat.is_split() || seat.group_of[rank] == group) members.push_back(static_cast<int>(rank));
  return members;
}

}  // namespace nccltune::worker
