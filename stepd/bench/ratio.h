// SPDX-License-Identifier: Apache-2.0
// Whether one setting is faster than another: the statistics of launches in blocks. Pure.
//
// The unit is the launch. Iterations of one launch share its rings, its memory and its neighbours on the network, and
// agree with each other far better than with those of the next launch (Hoefler & Belli, SC'15, doi
// 10.1145/2807591.2807644), so a test over iterations finds differences between a setting and itself. Here a launch
// gives one figure for each size. Every block launches each variant once, in random order, and what is judged is the
// logarithm of the ratio within a block: what changes slowly, such as clocks and other jobs, hits both and cancels.
//
// If the settings are alike, the order within a block makes the logarithm's distribution symmetric about 0 whatever the
// launches' own distribution is. Student's t keeps its level there: exactly for normal noise, and with something to
// spare for longer tails (Benjamini 1983, doi 10.1080/01621459.1983.10478003). Rank tests need no such argument, but
// with a handful of launches they cannot speak: Wilcoxon's smallest p of 5 pairs is 1/16, and a bootstrap of 5 values
// is too narrow. The many sizes of a comparison are judged with Holm's correction, which holds for any dependence
// between them; sizes of one launch depend on each other strongly.
#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

namespace nccltune::bench {

// The chance that |t| with so many degrees of freedom (>= 1) stays below `t` (>= 0).
double student_within(double t, int degrees);
// The other way: the bound that holds |t| with a chance of `within`, 0 < within < 1.
double student_bound(double within, int degrees);

struct PairedTimes {
  double baseline = 0, variant = 0;  // seconds, of one block
};

struct Ratio {
  size_t blocks = 0;
  double ratio = 1;                                   // time of the variant over that of the baseline, geometric mean
  double spread = 0;                                  // standard error of its logarithm
  std::optional<std::pair<double, double>> interval;  // 95 %, of this ratio alone; absent below 2 blocks
  double p = 1;                                       // two-sided, uncorrected
};

// Times that are not above 0 are left out. `resolution`: the clock's, seconds; equal readings are not taken for perfect
// agreement.
Ratio ratio_of(const std::vector<PairedTimes>& blocks, double resolution = 0.5e-6);

// Holm's step-down adjustment (1979): reject where the result is at most the level; then the chance of any false
// rejection among all is at most that level, whatever the dependence. In the order of `p`.
std::vector<double> holm(const std::vector<double>& p);

// The smallest ratio beyond 1 that so many blocks would find among `tests`, at `level`, in half of the cases; absent
// when the ratio says nothing.
std::optional<double> detectable(const Ratio& ratio, size_t tests, double level);

}  // namespace nccltune::bench
