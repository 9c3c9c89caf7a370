// SPDX-License-Identifier: Apache-2.0
// Summary of per-iteration times. No distribution is assumed: order statistics only (Hoefler & Belli, SC'15,
// doi 10.1145/2807591.2807644).
#pragma once

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "worker/protocol.h"

namespace nccltune::bench {

// 0 of nothing; the mean of the two in the middle of an even number.
double median(std::vector<double> values);

// Nearest rank: the smallest value with at least p (0 < p <= 1) of the values at or below it. `sorted` is not empty.
double percentile(const std::vector<double>& sorted, double p);

// The 1-based ranks of the two order statistics that hold the median with at least 95 %: (6, 15) for n = 20, (40, 61)
// for n = 100. nullopt for n < 6, where even the whole range does not.
std::optional<std::pair<size_t, size_t>> median_interval_ranks(size_t n);

// Median slope over all pairs, per step. At most `kSlopePoints` evenly chosen values take part.
double theil_sen_slope(const std::vector<double>& values);

struct Summary {
  size_t count = 0;
  double min = 0, p50 = 0, p95 = 0, max = 0, mean = 0;       // seconds; of the maximum over ranks
  std::optional<double> p99;                                 // from 100 samples on: below, nearest rank is the maximum
  double p99_nearest = 0;                                    // of any count: what the -I columns of nccl-tests show
  double cv = 0;                                             // population standard deviation over mean
  std::optional<std::pair<double, double>> median_interval;  // 95 %
  size_t settling = 0;  // leading samples that were left out: the times had not settled
  double drift = 0;     // (median of the last third - of the first) / of the first; 0 below 6 samples
  double slope = 0;     // Theil-Sen, of the median, over the whole run
  // Of the operation alone (own_* of protocol::Sample), medians over iterations: from the last arrival on; how long the
  // first waited.
  double network = 0, skew = 0;
  int late_rank = -1;     // see find_late_rank
  double late_share = 0;  // of the iterations, in which it was late
  double late_wait = 0;   // how long it was waited for in those, median

  // More than 2 %, and more than the median itself is uncertain.
  bool drifts() const;
  // Half of median_interval over the median; absent without an interval.
  std::optional<double> relative_half_width() const;
};

// How many leading values to leave out until the times are stationary: windows of a tenth (at least 5), from the front,
// as long as the medians of one window and the next differ by more than 2 % and by more than their own scatter
// explains. At most half; 0 below 20 values, of which none can be spared.
size_t settling_of(const std::vector<double>& times);

// The rank that comes late, and for that more often than chance would have it: among those by which a wait counts (5
// us, and 5 % of `typical`, the median time of an iteration), three standard deviations above an equal share, in at
// least a tenth of the iterations and three of them. Fills late_*; nobody: leaves them.
void find_late_rank(std::span<const protocol::Sample> samples, int ranks, double typical, Summary& summary);

// `skip` leading samples are left out (-K), and those of `settling_of` where `settle`. `ranks` is the size of the
// communicator. count 0: nothing left.
Summary summarise(const std::vector<protocol::Sample>& samples, size_t skip, int ranks, bool settle = true);

}  // namespace nccltune::bench
