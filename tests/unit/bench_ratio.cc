// SPDX-License-Identifier: Apache-2.0
// The statistics of compare, against published tables and against simulated launches.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

#include "bench/comparison.h"
#include "bench/ratio.h"

namespace nccltune::bench {
namespace {

using testing::ElementsAre;

TEST(Ratio, StudentsTable) {
  // NIST/SEMATECH e-Handbook, 1.3.6.7.2, two-sided 95 % and 99 %.
  const struct {
    int degrees;
    double at95, at99;
  } rows[] = {{1, 12.706, 63.657}, {2, 4.303, 9.925},  {3, 3.182, 5.841},  {4, 2.776, 4.604},  {5, 2.571, 4.032},
              {9, 2.262, 3.250},   {10, 2.228, 3.169}, {30, 2.042, 2.750}, {60, 2.000, 2.660}, {100, 1.984, 2.626}};
  for (const auto& [degrees, at95, at99] : rows) {
    EXPECT_NEAR(student_bound(0.95, degrees), at95, 6e-4) << degrees;
    EXPECT_NEAR(student_bound(0.99, degrees), at99, 6e-4) << degrees;
    EXPECT_NEAR(student_within(at95, degrees), 0.95, 1e-4) << degrees;
  }
  EXPECT_EQ(student_within(0, 5), 0);
}

TEST(Ratio, OfFiveBlocks) {
  // Differences of logarithms: mean 0.02, standard deviation 0.01581, standard error 0.007071.
  std::vector<PairedTimes> blocks;
  for (const double d : {0.0, 0.01, 0.02, 0.03, 0.04}) blocks.push_back({1e-3, 1e-3 * std::exp(d)});
  const Ratio ratio = ratio_of(blocks);
  EXPECT_EQ(ratio.blocks, 5u);
  EXPECT_NEAR(ratio.ratio, std::exp(0.02), 1e-12);
  EXPECT_NEAR(ratio.spread, 0.0070711, 1e-6);
  ASSERT_TRUE(ratio.interval);
  EXPECT_NEAR(std::log(ratio.interval->second), 0.02 + 2.7764 * 0.0070711, 1e-5);
  EXPECT_NEAR(ratio.p, 0.04742, 1e-4);  // t = 2.8284, 4 degrees
}

TEST(Ratio, EqualReadingsAreTheClocksDoing) {
  const Ratio same = ratio_of({{10e-6, 10.5e-6}, {10e-6, 10.5e-6}, {10e-6, 10.5e-6}});
  EXPECT_GT(same.spread, 0);
  EXPECT_GT(same.p, 0.01);
  EXPECT_EQ(ratio_of({}).blocks, 0u);
  EXPECT_EQ(ratio_of({}).p, 1);
  EXPECT_EQ(ratio_of({{1, 2}}).interval, std::nullopt);
  EXPECT_EQ(ratio_of({{0, 2}, {1, 0}}).blocks, 0u);
}

TEST(Ratio, HolmsOwnExample) {
  const auto adjusted = holm({0.01, 0.04, 0.03, 0.005});
  EXPECT_THAT(adjusted, ElementsAre(testing::DoubleNear(0.03, 1e-12), testing::DoubleNear(0.06, 1e-12),
                                    testing::DoubleNear(0.06, 1e-12), testing::DoubleNear(0.02, 1e-12)));
  EXPECT_TRUE(holm({}).empty());
  EXPECT_THAT(holm({0.9, 0.8}), ElementsAre(1, 1));
}

using Random = std::mt19937_64;
using Noise = std::function<double(Random&)>;  // of about unit variance

// Launches whose times have a part of noise common to all sizes, as real ones do, and a drift over the run.
Comparison simulate(uint64_t seed, const Noise& noise, double sigma, double planted) {
  constexpr int kLaunches = 7;
  Random random(seed);
  Comparison c;
  c.variants = {{"plan", {}}, {"same", {}}, {"other", {}}};
  c.works.resize(1);
  for (uint64_t size = 1024; size <= 2u << 20; size *= 2) c.works[0].sizes.push_back(size);
  c.ranks = 8;
  c.launches = kLaunches;
  for (int block = 0; block < kLaunches; ++block)
    for (size_t variant = 0; variant < c.variants.size(); ++variant) {
      ComparedLaunch launch{block, variant, 0, {}};
      const double common = noise(random);
      launch.result.rows.resize(1);
      for (const uint64_t size : c.works[0].sizes) {
        Row row;
        row.asked = row.bytes = size;
        row.out.ran = true;
        const double log_time = sigma * (std::sqrt(0.7) * common + std::sqrt(0.3) * noise(random)) + 0.02 * block +
                                (variant == 2 ? std::log(planted) : 0);
        row.out.seconds = (2e-3 + static_cast<double>(size) / 1e9) * std::exp(log_time);
        launch.result.rows[0].push_back(row);
      }
      c.done.push_back(std::move(launch));
    }
  return c;
}

struct NamedNoise {
  const char* name;
  Noise draw;
};
const NamedNoise kNoises[] = {
    {"normal", [](Random& r) { return std::normal_distribution<>()(r); }},
    {"long tails", [](Random& r) { return std::student_t_distribution<>(3)(r) / std::sqrt(3); }},
    {"two modes", [](Random& r) { return (r() & 1 ? 1 : -1) + 0.1 * std::normal_distribution<>()(r); }},
    {"rare and slow", [](Random& r) { return (r() % 6 == 0 ? 2.4 : 0) + 0.4 * std::normal_distribution<>()(r); }},
};

// A false difference is any verdict but "no difference" in a whole comparison of two variants over 12 sizes.
TEST(Compare, SettingsThatAreAlikeAreAlike) {
  constexpr int kRuns = 300;
  for (const auto& [name, draw] : kNoises) {
    int wrong = 0;
    for (int run = 0; run < kRuns; ++run) {
      const auto verdicts = judge(simulate(1000 + run, draw, 0.03, 1));
      bool any = false;
      for (const VariantVerdict& v : verdicts) any |= v.count(Verdict::better) + v.count(Verdict::worse) > 0;
      wrong += any;
    }
    RecordProperty(std::string("false_of_300_") + name, wrong);
    EXPECT_LT(wrong, kRuns * 5 / 100) << name;  // 2 % is aimed at
  }
}

TEST(Compare, FivePercentAreFound) {
  constexpr int kRuns = 200;
  for (const auto& [name, draw] : kNoises) {
    int found = 0, wrong_way = 0, whole = 0;
    for (int run = 0; run < kRuns; ++run) {
      const Comparison c = simulate(5000 + run, draw, 0.01, 1.05);
      const auto verdicts = judge(c);
      found += verdicts[2].count(Verdict::worse);
      wrong_way += verdicts[2].count(Verdict::better);
      whole += sum_up(c, verdicts).find("other is worse at") != std::string::npos;
    }
    const double power = found / (12.0 * kRuns);
    EXPECT_GT(power, 0.8) << name << ": " << power;
    EXPECT_GT(whole, kRuns * 85 / 100) << name;
    EXPECT_EQ(wrong_way, 0) << name;
  }
}

TEST(Compare, WhatIsSmallerThanAskedIsNone) {
  const auto verdicts = judge(simulate(7, kNoises[0].draw, 0.0005, 1.005));
  EXPECT_EQ(verdicts[2].count(Verdict::no_difference), 12);
  EXPECT_LT(verdicts[2].sizes[3].p, kFalseDifference);
}

}  // namespace
}  // namespace nccltune::bench
