// SPDX-License-Identifier: Apache-2.0
// What the deciding launches of a search say.
#pragma once

#include <utility>
#include <vector>

#include "bench/tune_search.h"

namespace nccltune::bench {

struct Gain {
  double speed = 1;                    // today's time over the best setting's: above 1 is faster
  std::pair<double, double> interval;  // 95 %, launches being the unit
  double p = 1;                        // two-sided
  bool told = false;                   // a difference beyond the noise, at compare's level
  bool better = false;                 // told, and faster by min_gain
};

// Of the pairs of deciding launches, over all entries, weighted. Only where search.decision() holds both sides.
Gain judge_gain(const Search& search, double min_gain);

struct EntryGain {
  double today = 0, best = 0;  // seconds: medians over launches
  Gain gain;                   // p corrected for the number of entries (Holm)
};
// Each entry alone, in the objective's order: told apart from the whole, for what is faster on the whole may be slower
// somewhere.
std::vector<EntryGain> judge_entries(const Search::Decision& decision);

}  // namespace nccltune::bench
