// SPDX-License-Identifier: Apache-2.0
#include "bench/tune_verdict.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "bench/comparison.h"
#include "bench/ratio.h"
#include "bench/statistics.h"

namespace nccltune::bench {
namespace {

Gain gain_of(const std::vector<PairedTimes>& pairs, double min_gain) {
  const Ratio ratio = ratio_of(pairs);
  Gain gain;
  gain.speed = 1 / ratio.ratio;
  gain.p = ratio.p;
  gain.interval = ratio.interval ? std::pair(1 / ratio.interval->second, 1 / ratio.interval->first)
                                 : std::pair(0.0, std::numeric_limits<double>::infinity());
  gain.told = gain.p <= kFalseDifference;
  gain.better = gain.told && gain.speed >= 1 + min_gain;
  return gain;
}

// Both launches of pair i ended well.
bool is_whole(const Search::Decision& decision, size_t i) {
  return !decision.today[i].empty() && !decision.best[i].empty();
}

}  // namespace

Gain judge_gain(const Search& search, double min_gain) {
  const Search::Decision& decision = *search.decision();
  std::vector<PairedTimes> pairs;
  for (size_t i = 0; i < std::min(decision.today.size(), decision.best.size()); ++i)
    if (is_whole(decision, i))  // the weighted geometric mean of the times
      pairs.push_back({std::exp(search.score(decision.today[i])), std::exp(search.score(decision.best[i]))});
  return gain_of(pairs, min_gain);
}

std::vector<EntryGain> judge_entries(const Search::Decision& decision) {
  std::vector<EntryGain> entries;
  std::vector<double> p;
  const size_t launches = std::min(decision.today.size(), decision.best.size());
  size_t count = 0;
  for (size_t i = 0; i < launches; ++i) count = std::max(count, decision.best[i].size());
  for (size_t entry = 0; entry < count; ++entry) {
    std::vector<PairedTimes> pairs;
    std::vector<double> today, best;
    for (size_t i = 0; i < launches; ++i) {
      if (!is_whole(decision, i)) continue;
      today.push_back(decision.today[i][entry]);
      best.push_back(decision.best[i][entry]);
      pairs.push_back({today.back(), best.back()});
    }
    entries.push_back({median(std::move(today)), median(std::move(best)), gain_of(pairs, 0)});
    p.push_back(entries.back().gain.p);
  }
  const std::vector<double> corrected = holm(p);
  for (size_t i = 0; i < entries.size(); ++i) {
    entries[i].gain.p = corrected[i];
    entries[i].gain.told = corrected[i] <= kFalseDifference;
    entries[i].gain.better = entries[i].gain.told && entries[i].gain.speed > 1;
  }
  return entries;
}

}  // namespace nccltune::bench
