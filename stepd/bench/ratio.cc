// SPDX-License-Identifier: Apache-2.0
#include "bench/ratio.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

namespace nccltune::bench {

// Abramowitz & Stegun 26.7.3 and 26.7.4: exact for whole degrees.
double student_within(double t, int degrees) {
  const double angle = std::atan(t / std::sqrt(degrees));
  const double cosine = std::cos(angle), square = cosine * cosine;
  const bool odd = degrees % 2 != 0;
  double term = odd ? cosine : 1, sum = degrees == 1 ? 0 : term;
  for (int k = odd ? 3 : 2; k <= degrees - 2; k += 2) {
    term *= square * (k - 1) / k;
    sum += term;
  }
  const double within = std::sin(angle) * sum;
  return odd ? 2 / std::numbers::pi * (angle + within) : within;
}

double student_bound(double within, int degrees) {
  double low = 0, high = 1;
  while (student_within(high, degrees) < within && high < 1e12) high *= 2;
  for (int i = 0; i < 200 && high - low > 1e-12 * high; ++i) {
    const double middle = (low + high) / 2;
    (student_within(middle, degrees) < within ? low : high) = middle;
  }
  return high;
}

Ratio ratio_of(const std::vector<PairedTimes>& blocks, double resolution) {
  std::vector<double> logs;
  double mean_time = 0;
  for (const PairedTimes& block : blocks) {
    if (!(block.baseline > 0) || !(block.variant > 0)) continue;
    logs.push_back(std::log(block.variant / block.baseline));
    mean_time += block.baseline;
  }
  Ratio result;
  result.blocks = logs.size();
  if (logs.empty()) return result;
  const auto n = static_cast<double>(logs.size());
  const double mean = std::accumulate(logs.begin(), logs.end(), 0.0) / n;
  result.ratio = std::exp(mean);
  if (logs.size() < 2) return result;
  double squares = 0;
  for (const double value : logs) squares += (value - mean) * (value - mean);
  // Two readings, each uniform within the clock's step: variance step^2 / 12.
  const double step = resolution / (mean_time / n);
  const double variance = std::max(squares / (n - 1), step * step / 6);
  result.spread = std::sqrt(variance / n);
  const int degrees = static_cast<int>(logs.size()) - 1;
  const double half = student_bound(0.95, degrees) * result.spread;
  result.interval = {std::exp(mean - half), std::exp(mean + half)};
  result.p = std::clamp(1 - student_within(std::abs(mean) / result.spread, degrees), 0.0, 1.0);
  return result;
}

std::vector<double> holm(const std::vector<double>& p) {
  std::vector<size_t> order(p.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&p](size_t a, size_t b) { return p[a] < p[b]; });
  std::vector<double> adjusted(p.size());
  double largest = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    largest = std::max(largest, std::min(1.0, p[order[i]] * static_cast<double>(p.size() - i)));
    adjusted[order[i]] = largest;
  }
  return adjusted;
}

std::optional<double> detectable(const Ratio& ratio, size_t tests, double level) {
  if (ratio.blocks < 2 || tests == 0) return std::nullopt;
  const double bound = student_bound(1 - level / static_cast<double>(tests), static_cast<int>(ratio.blocks) - 1);
  return std::exp(bound * ratio.spread);
}

}  // namespace nccltune::bench
