// SPDX-License-Identifier: Apache-2.0
// Sizes, numbers, the collective table, options, schedule and statistics.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "bench/collectives.h"
#include "bench/options.h"
#include "bench/schedule.h"
#include "bench/statistics.h"
#include "bench/text.h"

namespace nccltune::bench {
namespace {

using protocol::Collective;
using protocol::DataType;

ParsedOptions parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "bench");
  return parse_options(static_cast<int>(arguments.size()), arguments.data());
}

TEST(BenchText, NumbersFitLikeNcclTests) {
  EXPECT_EQ(fit_number(9999.94, 7), "9999.94");
  EXPECT_EQ(fit_number(9999.996, 7), "10000.0");  // two decimals would need eight
  EXPECT_EQ(fit_number(1234567.8, 7), "1234568");
  EXPECT_EQ(fit_number(12345678.9, 7), "1.2e+07");
  EXPECT_EQ(fit_number(11012736, 6), " 1e+07");
  EXPECT_EQ(fit_number(0, 6), "  0.00");
}

TEST(BenchText, Sizes) {
  EXPECT_EQ(parse_size("8"), 8u);
  EXPECT_EQ(parse_size("8g"), 8ull << 30);
  EXPECT_EQ(parse_size("1.5M"), 3u << 19);
  EXPECT_EQ(parse_size("64 KiB"), 65536u);
  EXPECT_EQ(parse_size("2T"), 2ull << 40);
  for (const char* bad : {"", "x", "-1", "1e3", "8Q", "8 GB2", "8KK", "99999999999T", "1..5", "0x10"})
    EXPECT_FALSE(parse_size(bad)) << bad;
  EXPECT_EQ(human_size(8), "8 B");
  EXPECT_EQ(human_size(65536), "64 KiB");
  EXPECT_EQ(human_size(3u << 29), "1.50 GiB");
}

TEST(BenchText, DurationsAndFractions) {
  EXPECT_EQ(parse_duration("10m"), 600);
  EXPECT_EQ(parse_duration("500ms"), 0.5);
  EXPECT_FALSE(parse_duration("10 parsecs"));
  EXPECT_EQ(parse_fraction("1%"), 0.01);
  EXPECT_EQ(parse_fraction("0.05"), 0.05);
  EXPECT_FALSE(parse_fraction("0"));
  EXPECT_FALSE(parse_fraction("100%"));
}

TEST(BenchText, RankLists) {
  EXPECT_EQ(rank_list({3, 1, 2, 7}), "1-3,7");
  EXPECT_EQ(rank_list({}), "");
  EXPECT_EQ(rank_list({0, 2, 4}, 2), "0,2,...");
}

TEST(BenchCollectives, ElevenWithTheirNames) {
  EXPECT_EQ(collectives().size(), 11u);
  for (const auto& info : collectives()) {
    EXPECT_EQ(find_collective(info.name), &info);
    EXPECT_EQ(find_collective(std::string(info.name) + "_perf"), &info);
    EXPECT_EQ(&info_of(info.id), &info);
  }
  EXPECT_EQ(find_collective("AllReduce")->id, Collective::all_reduce);
  EXPECT_EQ(find_collective("bisection"), nullptr);
}

TEST(BenchCollectives, SizesAreTrimmedAsNcclTestsDoes) {
  // all_gather.cu:38: 1000 floats over 3 ranks: 333 -> 332, the multiple of 16 bytes below.
  const Shape shape = shape_of(*find_collective("all_gather"), 4000, DataType::float32, 3);
  EXPECT_EQ(shape.elements, 332u);
  EXPECT_EQ(shape.bytes, 332u * 3 * 4);
  EXPECT_EQ(shape_of(*find_collective("all_reduce"), 4003, DataType::float32, 3).bytes, 4000u);
  EXPECT_EQ(shape_of(*find_collective("alltoall"), 8, DataType::float32, 2).bytes, 0u);
  EXPECT_EQ(shape_of(*find_collective("alltoall"), 64, DataType::int8, 2).elements, 32u);
}

TEST(BenchCollectives, Rates) {
  const auto bus = [](const char* name) {
    const auto& info = *find_collective(name);
    return bus_gbs(info, algorithm_gbs(info, 8000000000, 1, 8), 8);
  };
  EXPECT_DOUBLE_EQ(bus("all_reduce"), 14);
  EXPECT_DOUBLE_EQ(bus("all_gather"), 7);
  EXPECT_DOUBLE_EQ(bus("broadcast"), 8);
  EXPECT_DOUBLE_EQ(bus("sendrecv"), 8);
  EXPECT_DOUBLE_EQ(bus("hypercube"), 7);
  EXPECT_DOUBLE_EQ(bus("gather"), 7);
  EXPECT_EQ(bus_gbs(*find_collective("all_reduce"), 5, 1), 0);  // one rank moves nothing
  EXPECT_EQ(algorithm_gbs(*find_collective("reduce"), 5, 0, 1), 0);
}

TEST(BenchCollectives, RedopIsNeverEmpty) {
  Options options;
  for (const auto& info : collectives()) {
    options.collective = info.id;
    for (const Sweep& sweep : sweeps_of(options, 4, ~0u)) EXPECT_FALSE(op_name(sweep.op).empty());
  }
}

TEST(BenchOptions, DefaultsAreThoseOfNcclTests) {
  const auto parsed = parse({});
  ASSERT_TRUE(parsed.options);
  const Options& o = *parsed.options;
  EXPECT_EQ(o.collective, Collective::all_reduce);
  EXPECT_EQ(o.min_bytes, 32u << 20);
  EXPECT_EQ(o.max_bytes, 32u << 20);
  EXPECT_EQ(o.step_bytes, 1u << 20);
  EXPECT_EQ(o.iterations, 20);
  EXPECT_EQ(o.warmup, 1);
  EXPECT_EQ(o.check, 1);
  EXPECT_EQ(o.average, 1);
}

TEST(BenchOptions, ShortOptionsMeanTheSame) {
  const auto parsed = parse({"alltoall_perf",
                             "-b",
                             "8",
                             "-e",
                             "8G",
                             "-f",
                             "2",
                             "-g",
                             "2",
                             "-t",
                             "4",
                             "-n",
                             "5",
                             "-w",
                             "7",
                             "-c",
                             "0",
                             "-o",
                             "max,min",
                             "-d",
                             "bfloat16",
                             "-r",
                             "-1",
                             "-z",
                             "1",
                             "-G",
                             "3",
                             "-a",
                             "3",
                             "-R",
                             "2",
                             "-u",
                             "4",
                             "-K",
                             "1",
                             "-N",
                             "9",
                             "-m",
                             "6",
                             "-J",
                             "x.json"});
  ASSERT_TRUE(parsed.options) << parsed.text;
  const Options& o = *parsed.options;
  EXPECT_EQ(o.collective, Collective::alltoall);
  EXPECT_EQ(o.max_bytes, 8ull << 30);
  EXPECT_EQ(o.workers(), 8);
  EXPECT_EQ(o.ops, (std::vector{protocol::Op::max, protocol::Op::min}));
  EXPECT_EQ(o.types, std::vector{DataType::bfloat16});
  EXPECT_EQ(o.root, -1);
  EXPECT_EQ(o.json, "x.json");
  EXPECT_EQ(o.cycles, 9);
  EXPECT_EQ(o.aggregate, 6);
}

TEST(BenchOptions, InvalidValuesAreErrorsThatNameTheOption) {
  const std::vector<std::pair<std::vector<const char*>, const char*>> cases = {
      {{"-d", "0,1"}, "--datatype"},
      {{"-o", "xor"}, "--op"},
      {{"-b", "8X"}, "--minbytes"},
      {{"-n", "0"}, "--iters"},
      {{"-n", "5x"}, "--iters"},
      {{"-z", "4"}, "--blocking"},
      {{"-D", "1"}, "--device"},
      {{"--ci", "nope"}, "--ci"},
      {{"--worker", "tpu"}, "--worker"},
      {{"-b", "2M", "-e", "1M"}, "-b"},
      {{"-I", "1", "-G", "1"}, "-I"},
      {{"all_scatter"}, "all_scatter"},
      {{"--nonsense"}, "--nonsense"},
      {{"-i", "0", "-b", "1", "-e", "2"}, "-i"},
      {{"-y", "1", "-G", "2"}, "-y"},
      {{"-V", "32"}, "--device_cta_count"},
      {{"--split", "MOD 0"}, "--split"},
      {{"-p", "2"}, "--parallel_init"},
      {{"--repeatable", "1"}, "--repeatable"}};
  for (const auto& [arguments, names] : cases) {
    const auto parsed = parse(arguments);
    EXPECT_FALSE(parsed.options) << names;
    EXPECT_EQ(parsed.status, 2) << names;
    EXPECT_NE(parsed.text.find(names), std::string::npos) << parsed.text;
    EXPECT_TRUE(parsed.text.starts_with("nccl-tune: bench: ")) << parsed.text;
    EXPECT_EQ(std::count(parsed.text.begin(), parsed.text.end(), '\n'), 1) << parsed.text;
  }
}

TEST(BenchOptions, WhatBelongsToTheDeviceApiIsTakenWhereItChangesNothing) {
  EXPECT_TRUE(parse({"-D", "0", "-V", "16", "-p", "1", "-y", "1", "-M", "1"}).options);
  EXPECT_NE(parse({"-D", "2"}).text.find("-R 2 -D 2"), std::string::npos) << parse({"-D", "2"}).text;
}

TEST(BenchOptions, HelpAndListAreNoErrors) {
  EXPECT_EQ(parse({"-h"}).status, 0);
  EXPECT_NE(parse({"--help"}).text.find("srun --mpi=pmix"), std::string::npos);
  EXPECT_NE(parse({"--list"}).text.find("reduce_scatter"), std::string::npos);
}

TEST(BenchSchedule, Sizes) {
  Options o;
  o.min_bytes = 8;
  o.max_bytes = 1024;
  o.factor = 2;
  EXPECT_EQ(sizes_of(o, 1024).size(), 8u);
  EXPECT_EQ(sizes_of(o, 1023).back(), 512u);  // the last doubling below what memory allows
  o.factor = 1;
  o.step_bytes = 500;
  EXPECT_EQ(sizes_of(o, 1024), (std::vector<uint64_t>{8, 508, 1008}));
  EXPECT_EQ(warmup_sizes_of(o, 40), (std::vector<uint64_t>{8, 16, 32}));
  o.min_bytes = 0;
  o.factor = 2;
  EXPECT_EQ(sizes_of(o, 1024), std::vector<uint64_t>{0});
}

TEST(BenchSchedule, SweepsInOrder) {
  Options o;
  o.collective = Collective::reduce;
  o.types = {DataType::int8, DataType::f8e4m3};
  o.ops = {protocol::Op::sum, protocol::Op::mulsum};
  o.root = -1;
  const auto sweeps = sweeps_of(o, 2, ~0u);
  ASSERT_EQ(sweeps.size(), 6u);  // int8: 2 ops x 2 roots; f8: sum only
  EXPECT_EQ(sweeps[1].root, 1);
  EXPECT_EQ(sweeps[2].op, protocol::Op::mulsum);
  EXPECT_EQ(sweeps_of(o, 2, 1u << static_cast<int>(DataType::int8)).size(), 4u);
}

TEST(BenchSchedule, MemoryLimit) {
  constexpr uint64_t kGiB = 1ull << 30;
  // common.cu:1537 for 80 GiB: 4 GiB of reserve, 1 GiB beside it, three buffers.
  EXPECT_EQ(largest_message(80 * kGiB, 80 * kGiB, 1, true, false), 75 * kGiB / 3);
  EXPECT_EQ(largest_message(80 * kGiB, 80 * kGiB, 1, false, false), 75 * kGiB / 2);
  EXPECT_EQ(largest_message(10 * kGiB, 80 * kGiB, 1, true, false), 3 * kGiB);  // others sit on the GPU
  EXPECT_EQ(largest_message(80 * kGiB, 80 * kGiB, 5, true, false), 5 * kGiB);
  EXPECT_GT(largest_message(kGiB, 4 * kGiB, 1, true, false), 0u);
}

TEST(BenchStatistics, IntervalOfTheMedian) {
  EXPECT_FALSE(median_interval_ranks(5));
  EXPECT_EQ(median_interval_ranks(6), (std::pair<size_t, size_t>(1, 6)));
  EXPECT_EQ(median_interval_ranks(20), (std::pair<size_t, size_t>(6, 15)));
  EXPECT_EQ(median_interval_ranks(100), (std::pair<size_t, size_t>(40, 61)));
  const auto large = median_interval_ranks(10000);  // n/2 -+ 0.98 sqrt(n)
  ASSERT_TRUE(large);
  EXPECT_NEAR(large->first, 4902, 2);
}

TEST(BenchStatistics, Percentiles) {
  std::vector<double> values;
  for (int i = 1; i <= 20; ++i) values.push_back(i);
  EXPECT_EQ(percentile(values, 0.95), 19);
  EXPECT_EQ(percentile(values, 0.99), 20);
  EXPECT_EQ(percentile(values, 0.5), 10);
  EXPECT_EQ(percentile({7}, 0.01), 7);
}

// Times with a scatter of about 1 %, of which the first `slow` are longer by a fifth.
std::vector<double> warming(size_t count, size_t slow) {
  std::vector<double> times;
  for (size_t i = 0; i < count; ++i)
    times.push_back(100e-6 * (1 + 0.01 * static_cast<double>(i * 7919 % 13) / 13) * (i < slow ? 1.2 : 1));
  return times;
}

TEST(BenchStatistics, LeadingTimesThatHaveNotSettledAreLeftOut) {
  EXPECT_EQ(settling_of(warming(19, 5)), 0u) << "too few to spare any";
  EXPECT_EQ(settling_of(warming(100, 0)), 0u);
  EXPECT_EQ(settling_of(warming(100, 10)), 10u);
  EXPECT_EQ(settling_of(warming(40, 5)), 5u);
  EXPECT_LE(settling_of(warming(100, 90)), 50u) << "never more than half";
  // A trend without end is no warm-up: it stays a drift.
  std::vector<double> climbing, noisy;
  for (int i = 0; i < 100; ++i) climbing.push_back(100e-6 * (1 + 0.001 * i));
  EXPECT_EQ(settling_of(climbing), 0u);
  // Where single times differ by a half, the medians of two windows differ by chance.
  for (int i = 0; i < 100; ++i) noisy.push_back(100e-6 * (1 + 0.5 * (i * 7919 % 101) / 101.0));
  EXPECT_EQ(settling_of(noisy), 0u);
}

TEST(BenchStatistics, SummaryCountsWhatSettlingLeavesOut) {
  std::vector<protocol::Sample> samples;
  for (const double time : warming(100, 10)) samples.push_back({time, time, time});
  const Summary trimmed = summarise(samples, 0, 1), whole = summarise(samples, 0, 1, false);
  EXPECT_EQ(trimmed.settling, 10u);
  EXPECT_EQ(trimmed.count, 90u);
  EXPECT_LT(trimmed.max, 102e-6);
  EXPECT_FALSE(trimmed.drifts());
  EXPECT_EQ(whole.settling, 0u);
  EXPECT_EQ(whole.count, 100u);
  EXPECT_GT(whole.max, 119e-6);
}

TEST(BenchStatistics, SummaryNamesTheLateRank) {
  std::vector<protocol::Sample> samples;
  for (int i = 0; i < 30; ++i) {
    const double slow = i < 10 ? 0 : i < 20 ? 1e-6 : 5e-6;
    samples.push_back({100e-6 + slow, 100e-6, 40e-6, 0, 5, i % 3 ? 5 : 2});
  }
  const Summary s = summarise(samples, 0, 8);
  EXPECT_EQ(s.count, 30u);
  EXPECT_EQ(s.late_rank, 5);
  EXPECT_NEAR(s.late_share, 20.0 / 30, 1e-9);
  EXPECT_NEAR(s.late_wait, 60e-6, 1e-12);
  EXPECT_NEAR(s.skew, 60e-6, 1e-12);
  EXPECT_NEAR(s.network, 40e-6, 1e-12);
  EXPECT_NEAR(s.drift, 0.05, 1e-9);
  EXPECT_TRUE(s.drifts());
  EXPECT_GT(s.slope, 0);
  EXPECT_FALSE(s.p99);
  EXPECT_EQ(summarise(samples, 30, 8).count, 0u);
  EXPECT_EQ(summarise(samples, 0, 1).late_rank, -1);
}

// `waits` and who was waited for, one an iteration of 100 us.
Summary of_waits(const std::vector<std::pair<double, int>>& waits, int ranks) {
  std::vector<protocol::Sample> samples;
  for (const auto& [wait, late] : waits) samples.push_back({100e-6, 40e-6 + wait, 40e-6, 0, 0, late});
  return summarise(samples, 0, ranks);
}

TEST(BenchStatistics, NobodyIsLateByChance) {
  std::vector<std::pair<double, int>> waits;
  uint64_t draw = 1;
  for (int i = 0; i < 200; ++i) {
    draw = draw * 6364136223846793005u + 1442695040888963407u;
    waits.emplace_back(30e-6, static_cast<int>((draw >> 33) % 4));
  }
  EXPECT_EQ(of_waits(waits, 4).late_rank, -1);
  for (auto& [wait, late] : waits) late = 3, wait = 4e-6;  // a wait that counts for nothing
  EXPECT_EQ(of_waits(waits, 4).late_rank, -1);
  for (auto& [wait, late] : waits) late = -1, wait = 30e-6;  // nobody's fault
  const Summary s = of_waits(waits, 4);
  EXPECT_EQ(s.late_rank, -1);
  EXPECT_EQ(s.late_share, 0);
  EXPECT_NEAR(s.skew, 30e-6, 1e-12);
}

TEST(BenchStatistics, ARankThatIsLateNowAndThenIsNamed) {
  std::vector<std::pair<double, int>> waits(20, {1e-6, -1});
  for (const int i : {3, 8, 15, 19}) waits[static_cast<size_t>(i)] = {500e-6, 6};
  const Summary s = of_waits(waits, 8);
  EXPECT_EQ(s.late_rank, 6);
  EXPECT_NEAR(s.late_share, 0.2, 1e-9);
  EXPECT_NEAR(s.late_wait, 500e-6, 1e-12);
  EXPECT_NEAR(s.skew, 1e-6, 1e-12);
  waits[8] = waits[3] = {1e-6, -1};  // twice is no habit
  EXPECT_EQ(of_waits(waits, 8).late_rank, -1);
}

}  // namespace
}  // namespace nccltune::bench
