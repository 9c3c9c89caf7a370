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

// `lags`: how long each rank took from the end of one operation to the start of the next.
protocol::Sample sample(const std::vector<double>& own, const std::vector<double>& lags,
                        const std::vector<uint32_t>& group_of = {}) {
  std::vector<IterationTime> times;
  for (size_t rank = 0; rank < own.size(); ++rank) times.push_back({own[rank] + lags[rank], own[rank]});
  return sample_of(times, group_of);
}

TEST(Sample, TheLateRankHasTheShortestTimeOfItsOwn) {
  const auto late = sample({5, 5.1, 3, 5}, {0, 0, 2, 0});
  EXPECT_EQ(late.late_rank, 2);
  EXPECT_EQ(late.own_min_rank, 2);
  EXPECT_EQ(late.own_min_seconds, 3);
  EXPECT_EQ(late.own_max_seconds, 5.1);
  EXPECT_EQ(late.max_rank, 1);
  EXPECT_EQ(late.max_seconds, 5.1);
}

TEST(Sample, OfTwoLateRanksTheLaterCounts) { EXPECT_EQ(sample({5, 4, 3, 5}, {0, 1, 2, 0}).late_rank, 2); }

// The root of a broadcast is done when its data are on their way, and nobody waited for it.
TEST(Sample, WhoEndsEarlyIsNotLate) {
  const auto early = sample({1, 5, 5, 5}, {0.1, 0, 0, 0.1});
  EXPECT_EQ(early.late_rank, -1);
  EXPECT_EQ(early.own_min_rank, 0);
}

// All begin late alike: the host does not keep up with the device.
TEST(Sample, WhatAllHaveIsNoLateness) { EXPECT_EQ(sample({5, 5, 4, 5}, {9, 9, 9, 9}).late_rank, -1); }

// A rank that begins late while nobody waits keeps nobody from anything.
TEST(Sample, LateAndStillWaitingIsNotLate) { EXPECT_EQ(sample({3, 5, 5, 5}, {0, 0, 2, 0}).late_rank, -1); }

TEST(Sample, TheLateRankIsOneOfTheGroupThatWaits) {
  // Groups 0 and 1 take turns. Rank 0's is slow, with nobody late; in the other, rank 3 keeps rank 1 waiting.
  const auto split = sample({9, 3, 8.9, 1}, {0, 0, 0, 2}, {0, 1, 0, 1});
  EXPECT_EQ(split.max_rank, 0);
  EXPECT_EQ(split.max_seconds, 9);
  EXPECT_EQ(split.late_rank, 3);
  EXPECT_EQ(split.own_min_rank, 3);
  EXPECT_EQ(split.own_min_seconds, 1);
  EXPECT_EQ(split.own_max_seconds, 3);
}

TEST(Sample, OfEqualTimesTheFirstRankCounts) {
  const auto equal = sample({2, 2, 2}, {0, 0, 0});
  EXPECT_EQ(equal.own_min_rank, 0);
  EXPECT_EQ(equal.max_rank, 0);
  EXPECT_EQ(equal.late_rank, -1);
}

}  // namespace
}  // namespace nccltune::worker
