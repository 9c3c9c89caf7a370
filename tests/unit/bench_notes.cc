// SPDX-License-Identifier: Apache-2.0
// What the table cannot say: groups, limits, cycles, intervals that were not reached.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/notes.h"
#include "bench/text.h"

namespace nccltune::bench {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

RunInfo info_of_run(int ranks, int nodes, protocol::Collective collective = protocol::Collective::all_reduce) {
  RunInfo info;
  info.options.collective = collective;
  info.ranks = info.group_ranks = ranks;
  info.nodes = info.group_nodes = nodes;
  for (int rank = 0; rank < ranks; ++rank) {
    info.devices.emplace_back();
    info.devices.back().rank = rank;
    info.devices.back().host = print("n%d", rank * nodes / ranks);
  }
  return info;
}

Row row_of(uint64_t bytes, double seconds, double busbw = 0) {
  Row row;
  row.asked = row.bytes = bytes;
  row.type = "float", row.op = "sum";
  row.out.ran = row.in.ran = true;
  row.out.seconds = row.in.seconds = seconds;
  row.out.busbw = row.in.busbw = busbw;
  return row;
}

// "expected N/(N-1) x NIC": 16 ranks in two nodes with 8 HCAs of 50 GB/s.
TEST(BenchNotes, LimitOfTheHcas) {
  const auto limit = [](protocol::Collective collective, int ranks, int nodes) {
    return join(describe_limit(info_of_run(ranks, nodes, collective), {row_of(1 << 30, 1, 300)}, 400), "\n");
  };
  EXPECT_THAT(limit(protocol::Collective::all_reduce, 16, 2),
              AllOf(HasSubstr("400.0 GB/s"), HasSubstr("busbw of 750.0 GB/s"), HasSubstr("40 % of it")));
  EXPECT_THAT(limit(protocol::Collective::all_gather, 32, 4), HasSubstr("busbw of 516.7 GB/s"));
  EXPECT_THAT(limit(protocol::Collective::alltoall, 16, 2), HasSubstr("busbw of 93.8 GB/s"));
  EXPECT_THAT(limit(protocol::Collective::broadcast, 16, 2), HasSubstr("busbw of 400.0 GB/s"));
  EXPECT_EQ(limit(protocol::Collective::sendrecv, 16, 2), "");
  EXPECT_EQ(limit(protocol::Collective::all_reduce, 8, 1), "") << "nothing leaves the node";
  EXPECT_EQ(limit(protocol::Collective::all_reduce, 15, 2), "") << "nodes of different sizes";
  EXPECT_THAT(describe_limit(info_of_run(16, 2), {row_of(1, 1)}, 0), IsEmpty()) << "the rate is not known";
}

TEST(BenchNotes, TheLateRankIsNamedWithHostAndGpu) {
  RunInfo info = info_of_run(4, 2);
  info.devices[2].bdf = "0000:3b:00.0";
  std::vector<Row> rows{row_of(1024, 1e-5), row_of(2048, 1e-5)};
  for (Row& row : rows)
    for (Half* half : {&row.out, &row.in}) {
      half->summary.count = 20;
      half->summary.p50 = half->summary.skew = 1e-3;
    }
  const auto told = [&] { return join(describe_times(info, rows), "\n"); };
  EXPECT_THAT(told(), Not(HasSubstr("comes late in")));
  EXPECT_THAT(told(), HasSubstr(" 1000.00     -")) << "no rank in the column";
  const auto late = [](Half& half, int rank) {
    half.summary.late_rank = rank, half.summary.late_share = 0.6, half.summary.late_wait = 2e-3;
  };
  late(rows[0].out, 2), late(rows[0].in, 2);
  EXPECT_THAT(told(), Not(HasSubstr("comes late in"))) << "half of the measurements are no habit";
  late(rows[1].out, 2), late(rows[1].in, 1);
  EXPECT_THAT(told(), HasSubstr("rank 2 (n1, GPU 0000:3b:00.0) comes late in 60 % of the iterations of 3 of 4 "
                                "measurements; the others wait for it, 2000 us in the median"));
}

TEST(BenchNotes, GroupsAreToldAtTheLargestSizeWithTheSlowOnesMarked) {
  RunInfo info = info_of_run(8, 4);
  info.options.split = parse_split("node");
  for (int g = 0; g < 4; ++g) info.groups.push_back({g, {2 * g, 2 * g + 1}});
  info.group_ranks = 2;
  Row small = row_of(1024, 1e-5), large = row_of(1 << 20, 1e-3);
  for (int g = 0; g < 4; ++g) {
    const double seconds = g == 2 ? 1.25e-3 : 1e-3;
    small.groups.push_back({{1e-5, 0, 0, 0}, {1e-5, 0, 0, 0}});
    large.groups.push_back({{seconds, 2, 1 / seconds, 0}, {seconds * 1.1, 2, 2, 0}});
  }
  const auto lines = describe_groups(info, {large, small});
  ASSERT_EQ(lines.size(), 6u) << join(lines, "\n");
  EXPECT_THAT(lines[0], HasSubstr("1 MiB float sum"));
  EXPECT_THAT(lines[2], AllOf(HasSubstr(" 80%  4-5 at n2"), testing::EndsWith("slow")));
  for (size_t i = 3; i < 6; ++i) EXPECT_THAT(lines[i], AllOf(HasSubstr("100%"), Not(HasSubstr("slow"))));
  EXPECT_THAT(describe_setting(info, ""), testing::Contains(StartsWith("split in 4 groups (node)")));
  EXPECT_THAT(describe_groups(info_of_run(8, 4), {row_of(1, 1)}), IsEmpty());
}

TEST(BenchNotes, ManyGroupsAreCut) {
  RunInfo info = info_of_run(200, 100);
  Row row = row_of(1024, 1e-5);
  for (int g = 0; g < 100; ++g) {
    info.groups.push_back({g, {2 * g, 2 * g + 1}});
    row.groups.push_back({{1e-5, 0, 0, 0}, {}});
  }
  const auto lines = describe_groups(info, {row});
  EXPECT_EQ(lines.size(), 35u);
  EXPECT_EQ(lines.back(), "and 68 more");
}

TEST(BenchNotes, TheTimeOfSmallSizesIsExplained) {
  RunInfo info = info_of_run(4, 1);
  const std::vector<Row> rows = {row_of(8, 1e-5), row_of(1 << 20, 1e-4)};
  EXPECT_THAT(describe_small(info, rows), ElementsAre(AllOf(HasSubstr("launching"), Not(HasSubstr("together")))));
  info.options.aggregate = 4;
  EXPECT_THAT(describe_small(info, rows), ElementsAre(HasSubstr("with -m 4 operations are launched together")));
  info.options.graph = 1;
  EXPECT_THAT(describe_small(info, rows), ElementsAre(HasSubstr("with -G a row's operations are launched together")));
  EXPECT_THAT(describe_small(info, {row_of(1 << 20, 1e-4)}), IsEmpty());
}

TEST(BenchNotes, CyclesTellTheirExtremes) {
  std::vector<Row> rows;
  for (int cycle = 0; cycle < 5; ++cycle)
    for (const uint64_t bytes : {uint64_t(8), uint64_t(1) << 20}) {
      rows.push_back(row_of(bytes, bytes == 8 ? 1 : cycle == 3 ? 2e-3 : cycle == 1 ? 0.5e-3 : 1e-3));
      rows.back().cycle = cycle;
      rows.back().stamp = 1000000000 + cycle;
    }
  EXPECT_THAT(describe_cycles(rows),
              ElementsAre(AllOf(StartsWith("5 cycles from "), HasSubstr("1000.00 us (median)"),
                                HasSubstr("500.00 us in cycle 2 at "), HasSubstr("2000.00 us in cycle 4 at "))));
  EXPECT_THAT(describe_cycles({row_of(8, 1)}), IsEmpty());
}

TEST(BenchNotes, IntervalsThatWereNotReached) {
  RunInfo info = info_of_run(2, 1);
  Row narrow = row_of(8, 1e-5), wide = row_of(1024, 1e-5), drifting = row_of(2048, 1e-5);
  for (Row* row : {&narrow, &wide, &drifting})
    for (Half* half : {&row->out, &row->in}) {
      half->summary.count = 100;
      half->summary.p50 = 100e-6;
      half->summary.median_interval = {99.9e-6, 100.1e-6};
    }
  wide.in.summary.median_interval = {95e-6, 105e-6};
  drifting.out.summary.drift = -0.07;
  EXPECT_THAT(describe_unmet(info, {wide, drifting}), IsEmpty()) << "it was not asked for";
  info.options.ci = 0.01;
  EXPECT_THAT(describe_unmet(info, {narrow}), IsEmpty());
  EXPECT_THAT(
      describe_unmet(info, {narrow, wide, drifting}),
      ElementsAre("--ci 1%: not reached in 2 of 6 measurements within its bounds (half width of the interval): 1 KiB "
                  "float in 5.0 %; 2 KiB float out 0.1 %, drifts by -7.0 %"));
}

// Which run, which rank, which element, and its bits before and after (NVIDIA/nccl-tests PR #388).
TEST(BenchNotes, RunsThatDifferAreTold) {
  RunInfo info = info_of_run(4, 2);
  std::vector<Row> rows = {row_of(1 << 20, 1e-3), row_of(2 << 20, 2e-3)};
  EXPECT_THAT(describe_repeats(info, rows), IsEmpty()) << "not asked";
  info.options.repeat = 10;
  for (Row& row : rows) row.out.repeats.runs = row.in.repeats.runs = 10;
  rows[1].in.repeats.runs = 0;  // input and output overlap
  EXPECT_THAT(describe_repeats(info, rows),
              ElementsAre("repeatable: 10 runs of one input gave the same bits in each of 3 measurements"));
  rows[1].out.repeats = {10, 3, 4, 17, 2, 1, 77, "1.5 (0x3fc00000)", "1.50000012 (0x3fc00001)"};
  EXPECT_THAT(describe_repeats(info, rows),
              ElementsAre("not repeatable: 2 MiB float sum, out of place: 3 of 10 runs gave other bits than the first; "
                          "run 4 in 17 elements of 2 ranks; first: rank 1 (n0), element 77, 1.5 (0x3fc00000), then "
                          "1.50000012 (0x3fc00001)",
                          AllOf(HasSubstr("NCCL_NVLS_ENABLE=0"), HasSubstr("NCCL_COLLNET_ENABLE=0"))));
}

}  // namespace
}  // namespace nccltune::bench
