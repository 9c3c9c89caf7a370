// SPDX-License-Identifier: Apache-2.0
// Ranks that are split into groups: who is where, and whose time counts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "worker/common_io.h"
#include "worker/common_measure.h"
#include "worker/common_seat.h"

namespace nccltune::worker {
namespace {

using testing::ElementsAre;

Membership membership(const protocol::Connect& connect, const std::vector<int32_t>& groups, const std::string& ids) {
  std::string bytes = ids;
  bytes.append(reinterpret_cast<const char*>(groups.data()), groups.size() * sizeof groups.front());
  return membership_of(connect, bytes.data(), bytes.size());
}

protocol::Connect rank_of(int rank, int ranks, int groups) {
  protocol::Connect connect;
  connect.rank = rank;
  connect.ranks = ranks;
  connect.groups = groups;
  return connect;
}

TEST(Seat, UnsplitRankIsTheSameInBothWorlds) {
  const auto connect = rank_of(2, 3, 1);
  const auto told = membership(connect, {}, "id");
  EXPECT_THAT(told.ids, ElementsAre('i', 'd'));
  const Seat seat = seat_of({}, connect, told.group_of);
  EXPECT_FALSE(seat.is_split());
  EXPECT_EQ(seat.rank, 2u);
  EXPECT_EQ(seat.own_rank(), 2u);
  EXPECT_EQ(seat.all_ranks(), 3u);
  EXPECT_THAT(members_of(seat, 0), ElementsAre(0, 1, 2));
}

TEST(Seat, GroupsCountTheirRanksInTheWorldsOrder) {
  const auto connect = rank_of(4, 5, 2);
  const auto told = membership(connect, {0, 1, 0, 1, 0}, "id");
  EXPECT_THAT(told.ids, ElementsAre('i', 'd'));
  const Seat seat = seat_of({}, connect, told.group_of);
  EXPECT_TRUE(seat.is_split());
  EXPECT_EQ(seat.rank, 2u);
  EXPECT_EQ(seat.ranks, 3u);
  EXPECT_EQ(seat.own_rank(), 4u);
  EXPECT_EQ(seat.all_ranks(), 5u);
  EXPECT_THAT(members_of(seat, 0), ElementsAre(0, 2, 4));
  EXPECT_THAT(members_of(seat, 1), ElementsAre(1, 3));
}

TEST(Seat, NonsenseIsRefused) {
  EXPECT_THROW(membership(rank_of(3, 3, 1), {}, ""), Failed);
  EXPECT_THROW(membership(rank_of(0, 2, 2), {0}, ""), Failed);
  EXPECT_THROW(membership(rank_of(0, 2, 2), {0, 2}, ""), Failed);
  EXPECT_THROW(membership(rank_of(0, 2, 2), {-1, 1}, ""), Failed);
}

TEST(Seat, TheLateRankIsOneOfTheSlowestGroup) {
  // Rank 3 is the slowest; in its group, rank 1 waited least. Rank 0 is quicker still, and of another group.
  const auto split = sample_of({1, 3, 2, 5}, {0, 1, 0, 1});
  EXPECT_EQ(split.max_rank, 3);
  EXPECT_EQ(split.max_seconds, 5);
  EXPECT_EQ(split.min_rank, 1);
  EXPECT_EQ(split.min_seconds, 3);
  const auto whole = sample_of({1, 3, 2, 5}, {});
  EXPECT_EQ(whole.min_rank, 0);
  EXPECT_EQ(whole.max_rank, 3);
}

TEST(Seat, OfEqualTimesTheFirstRankCounts) {
  const auto sample = sample_of({2, 2, 2}, {});
  EXPECT_EQ(sample.min_rank, 0);
  EXPECT_EQ(sample.max_rank, 0);
}

}  // namespace
}  // namespace nccltune::worker
