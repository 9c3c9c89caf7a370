// SPDX-License-Identifier: Apache-2.0
// The search against a machine that is made up: an optimum that is planted, a space where nothing helps, settings that
// fail. Times have the noise of launches and the drift of a machine; all of it is seeded.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <functional>
#include <memory>
#include <random>

#include "bench/tune_search.h"
#include "bench/tune_verdict.h"

namespace nccltune::bench {
namespace {

Space space_of(const std::vector<std::pair<std::string, int>>& knobs) {
  Space space;
  for (const auto& [name, values] : knobs) {
    Knob knob;
    knob.name = name;
    for (int i = 1; i <= values; ++i) knob.values.push_back(std::to_string(i));
    space.knobs.push_back(knob);
  }
  return space;
}

// Seven variables as a cluster of several nodes has them: (1 + 3 * 2) * 5 * 3 * 4 * 3 * 2 = 2,520 settings.
Space large_space() {
  Space space = space_of({{"QPS", 3}, {"SPLIT", 1}, {"CTAS", 4}, {"CROSS", 2}, {"BUFF", 3}, {"CHUNK", 2}, {"PXN", 1}});
  space.knobs[1].needs = "QPS";
  return space;
}

// What each value of the large space does to the logarithm of the time: three variables help, the second one only
// beside the first, the others do harm or nothing.
double planted(const Setting& s) {
  static const double kQps[] = {0, -0.01, -0.07, -0.03}, kCtas[] = {0, 0.02, 0.01, -0.06, 0.03},
                      kCross[] = {0, 0.04, 0.01}, kBuff[] = {0, 0.0, -0.045, -0.01}, kChunk[] = {0, 0.02, 0.05},
                      kPxn[] = {0, 0.03};
  return kQps[s[0]] + (s[1] ? (s[0] == 2 ? -0.05 : 0.02) : 0) + kCtas[s[2]] + kCross[s[3]] + kBuff[s[4]] +
         kChunk[s[5]] + kPxn[s[6]];
}
const Setting kOptimum = {2, 1, 3, 0, 2, 0, 0};

struct Machine {
  std::function<double(const Setting&)> effect;
  double noise = 0.02;  // of a launch: standard deviation of the logarithm
  std::function<bool(const Setting&)> fails = [](const Setting&) { return false; };
  double seconds = 5;
};

struct Tuned {
  std::unique_ptr<Search> search;
  std::optional<Gain> gain;
};

Tuned run_on(const Machine& machine, const Space& space, uint64_t seed, double budget) {
  Tuned run;
  run.search = std::make_unique<Search>(space, Objective{{1, 1}, false}, SearchOptions{.budget = budget, .seed = seed});
  std::mt19937_64 random(seed * 7919 + 1);
  std::normal_distribution<double> launch(0, machine.noise), within(0, machine.noise / 4);
  for (int i = 0; const auto setting = run.search->next(); ++i) {
    EXPECT_LT(i, 5000);
    Answer answer;
    answer.seconds = machine.seconds;
    if (machine.fails(*setting)) {
      answer.fault = "rank 0: failed";
    } else {
      const double drift = 0.03 * std::sin(i / 40.0), level = machine.effect(*setting) + launch(random) + drift;
      for (const double base : {1e-4, 5e-3}) answer.times.push_back(base * std::exp(level + within(random)));
    }
    run.search->tell(answer);
  }
  EXPECT_LE(run.search->spent(), budget);
  if (run.search->decision() && run.search->decision()->fault.empty()) run.gain = judge_gain(*run.search, 0.01);
  return run;
}

TEST(TuneSearch, FindsAPlantedOptimumForTwentySeeds) {
  const Space space = large_space();
  int found = 0, won = 0, trials = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const Tuned run = run_on({planted}, space, seed, 1800);
    trials += run.search->trials();
    const bool right = run.search->decision() && run.search->decision()->setting == kOptimum;
    found += right;
    won += run.gain && run.gain->better;
    if (!right && run.search->decision())
      std::printf("seed %d: %s\n", static_cast<int>(seed), describe(space, run.search->decision()->setting).c_str());
  }
  std::printf("planted optimum: %d of 20 seeds, %d confirmed; %.0f runs on average, the full grid has %.0f settings\n",
              found, won, trials / 20.0, space.grid_size());
  EXPECT_EQ(found, 20);
  EXPECT_EQ(won, 20);
}

TEST(TuneSearch, DeclaresNothingWhereNothingHelps) {
  const Space space = large_space();
  int winners = 0, deciding = 0, trials = 0;
  constexpr int kSeeds = 200;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const Tuned run = run_on({[](const Setting&) { return 0.0; }}, space, seed, 1800);
    trials += run.search->trials();
    deciding += run.search->decision().has_value();
    winners += run.gain && run.gain->better;
  }
  std::printf("flat space: %d false winners in %d seeds (%d went to the deciding launches); %.0f runs on average\n",
              winners, kSeeds, deciding, trials / static_cast<double>(kSeeds));
  // One side of a 95 % interval: 2.5 % by chance, 5 of 200; 12 or more would be one time in 500.
  EXPECT_LT(winners, 12);
}

TEST(TuneSearch, HarmIsNoGain) {
  const Space space = large_space();
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const Tuned run = run_on({[](const Setting& s) { return 0.03 * count_set(s); }}, space, seed, 1800);
    EXPECT_FALSE(run.gain && run.gain->better) << seed;
  }
}

TEST(TuneSearch, ASmallSpaceIsSearchedAsAWhole) {
  const Space space = space_of({{"A", 2}, {"B", 2}, {"C", 1}});
  // A needle: nothing helps alone.
  const auto needle = [](const Setting& s) { return s == Setting{2, 1, 1} ? -0.1 : 0.01 * count_set(s); };
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const Tuned run = run_on({needle}, space, seed, 900);
    EXPECT_TRUE(run.search->exhaustive());
    ASSERT_TRUE(run.search->decision()) << seed;
    EXPECT_EQ(run.search->decision()->setting, (Setting{2, 1, 1})) << seed;
    EXPECT_TRUE(run.gain && run.gain->better) << seed;
  }
}

TEST(TuneSearch, AnOptimumWithoutNeedlessVariables) {
  const Space space = large_space();
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const Tuned run = run_on({[](const Setting& s) { return s[2] == 3 ? -0.08 : 0.0; }}, space, seed, 1800);
    ASSERT_TRUE(run.search->decision()) << seed;
    EXPECT_EQ(run.search->decision()->setting[2], 3) << seed;
    EXPECT_LE(count_set(run.search->decision()->setting), 2) << seed;
  }
}

TEST(TuneSearch, FailingSettingsAreLeftBehind) {
  const Space space = large_space();
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    const Tuned run =
        run_on({.effect = planted, .fails = [](const Setting& s) { return s[2] == 3; }}, space, seed, 1800);
    ASSERT_TRUE(run.search->decision()) << seed;
    EXPECT_EQ(run.search->decision()->setting[0], 2) << seed;
    EXPECT_NE(run.search->decision()->setting[2], 3) << seed;
    EXPECT_GE(run.search->failed().size(), 1u);
  }
}

// A value that fails is not tried again in company.
TEST(TuneSearch, WhatFailsAloneIsNotTriedInCompany) {
  const Space space = space_of({{"A", 2}, {"B", 2}, {"C", 1}});
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    std::vector<Setting> failed;
    Machine machine{[](const Setting& s) { return s[0] == 1 ? -0.1 : 0.0; }};
    machine.fails = [&failed](const Setting& s) {
      if (s[2] != 1) return false;
      for (const Setting& earlier : failed)
        EXPECT_FALSE((earlier[0] == 0 || earlier[0] == s[0]) && (earlier[1] == 0 || earlier[1] == s[1]));
      failed.push_back(s);
      return true;
    };
    const Tuned run = run_on(machine, space, seed, 900);
    EXPECT_FALSE(failed.empty());
    ASSERT_TRUE(run.gain) << seed;
    EXPECT_TRUE(run.gain->better) << seed;
  }
}

TEST(TuneSearch, TodaysSettingsThatFailEndIt) {
  const Tuned run =
      run_on({.effect = planted, .fails = [](const Setting& s) { return count_set(s) == 0; }}, large_space(), 1, 1800);
  EXPECT_EQ(run.search->trials(), 2);
  EXPECT_EQ(run.search->end_reason(), "today's settings fail");
}

TEST(TuneSearch, ShortBudgetsEndInTime) {
  for (const double budget : {5.0, 60.0, 200.0, 400.0}) {
    const Tuned run = run_on({planted}, large_space(), 3, budget);
    EXPECT_LE(run.search->spent(), budget);
    EXPECT_EQ(run.search->stage(), Search::Stage::over);
    EXPECT_TRUE(run.search->decision() || !run.search->end_reason().empty());
  }
}

TEST(TuneSearch, AShortTimeIsSpreadOverAllVariables) {
  const Space space = space_of({{"A", 3}, {"B", 2}, {"C", 1}});
  const auto effect = [](const Setting& s) { return (s[0] == 2 ? -0.2 : 0) + (s[1] == 1 ? -0.1 : 0) + 0.3 * s[2]; };
  int found = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const Tuned run = run_on({effect}, space, seed, 45 * 5.0);  // 45 trials
    EXPECT_TRUE(run.search->untried().empty()) << seed;
    found += run.search->decision() && run.search->decision()->setting == Setting{2, 1, 0} && run.gain->better;
  }
  EXPECT_EQ(found, 20);
}

TEST(TuneSearch, GoesOnFromItsAnswers) {
  const Space space = large_space();
  std::vector<std::pair<Setting, Answer>> journal;
  const SearchOptions options{.budget = 600, .seed = 5};
  const auto answer = [](const Setting& s, int i) {
    return Answer{{1e-3 * std::exp(planted(s) + 0.01 * std::sin(i * 12.9898))}, "", false, 5};
  };
  Search whole(space, {{1}, false}, options);
  for (int i = 0; const auto setting = whole.next(); ++i) {
    journal.emplace_back(*setting, answer(*setting, i));
    whole.tell(journal.back().second);
  }
  Search resumed(space, {{1}, false}, options);
  for (const auto& [setting, answer] : journal) {
    ASSERT_EQ(resumed.next(), setting);
    ASSERT_EQ(resumed.next(), setting);  // asked twice
    resumed.tell(answer);
  }
  EXPECT_EQ(resumed.next(), std::nullopt);
}

TEST(TuneSearch, CallsWeighByTheirTime) {
  const Objective shares{{1, 1}, false}, calls{{1000, 1}, true};
  const std::vector<double> today = {1e-5, 1e-1}, faster_small = {0.5e-5, 1e-1}, faster_large = {1e-5, 0.5e-1};
  EXPECT_DOUBLE_EQ(shares.score(faster_small, today), shares.score(faster_large, today));
  EXPECT_LT(calls.score(faster_large, today), calls.score(faster_small, today));
}

}  // namespace
}  // namespace nccltune::bench
