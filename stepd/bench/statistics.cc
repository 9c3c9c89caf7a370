// SPDX-License-Identifier: Apache-2.0
#include "bench/statistics.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace nccltune::bench {
namespace {

constexpr double kStationary = 0.02;  // of the median
constexpr size_t kSlopePoints = 300;  // 45,000 pairs: a millisecond
// A wait that counts, and how often one rank must be the reason.
constexpr double kLeastWait = 5e-6, kLeastWaitShare = 0.05, kLeastLateShare = 0.1, kSigmas = 3;
constexpr size_t kLeastTimes = 3;

// P(B = k) for B ~ Binomial(n, 1/2), by logarithms: 2^-n underflows from n = 1075 on.
double binomial_half(size_t n, size_t k) {
  return std::exp(std::lgamma(n + 1.0) - std::lgamma(k + 1.0) - std::lgamma(n - k + 1.0) - n * std::log(2.0));
}

double wait_in(const protocol::Sample& sample) { return sample.own_max_seconds - sample.own_min_seconds; }

double drift_of(const std::vector<double>& times) {
  if (times.size() < 6) return 0;
  const size_t third = times.size() / 3;
  const double first = median({times.begin(), times.begin() + third});
  const double last = median({times.end() - third, times.end()});
  return first > 0 ? (last - first) / first : 0;
}

}  // namespace

size_t settling_of(const std::vector<double>& times) {
  if (times.size() < 20) return 0;
  const size_t window = std::max<size_t>(5, times.size() / 10);
  const auto at = [&](size_t from) {
    const auto begin = times.begin() + static_cast<std::ptrdiff_t>(from);
    return std::vector<double>(begin, begin + static_cast<std::ptrdiff_t>(window));
  };
  // Standard error of a window's median, by its median absolute deviation (1.4826 and 1.2533: of a normal
  // distribution).
  const auto error_of = [&](std::vector<double> values) {
    const double middle = median(values);
    for (double& value : values) value = std::abs(value - middle);
    return 1.4826 * 1.2533 * median(std::move(values)) / std::sqrt(static_cast<double>(window));
  };
  size_t out = 0;
  for (; out + window <= times.size() / 2; out += window) {
    const double here = median(at(out)), next = median(at(out + window));
    const double scatter = std::hypot(error_of(at(out)), error_of(at(out + window)));
    if (std::abs(here - next) <= std::max(kStationary * next, 3 * scatter)) break;
  }
  return out;
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

double percentile(const std::vector<double>& sorted, double p) {
  const double n = static_cast<double>(sorted.size());
  // The small term keeps 0.95 * 20, which is 19.000000000000004 in doubles, at rank 19.
  const double rank = std::ceil(p * n - 1e-9);
  return sorted[static_cast<size_t>(std::clamp(rank, 1.0, n)) - 1];
}

std::optional<std::pair<size_t, size_t>> median_interval_ranks(size_t n) {
  double below = 0;  // P(B < k)
  size_t best = 0;
  for (size_t k = 1; k <= n / 2; ++k) {
    below += binomial_half(n, k - 1);
    if (1 - 2 * below < 0.95) break;
    best = k;
  }
  if (best == 0) return std::nullopt;
  return std::pair(best, n - best + 1);
}

double theil_sen_slope(const std::vector<double>& values) {
  const size_t n = values.size();
  if (n < 2) return 0;
  const size_t points = std::min(n, kSlopePoints);
  std::vector<double> slopes;
  slopes.reserve(points * (points - 1) / 2);
  for (size_t i = 0; i < points; ++i)
    for (size_t j = i + 1; j < points; ++j) {
      const size_t a = i * n / points, b = j * n / points;
      slopes.push_back((values[b] - values[a]) / static_cast<double>(b - a));
    }
  return median(std::move(slopes));
}

std::optional<double> Summary::relative_half_width() const {
  if (!median_interval || !(p50 > 0)) return std::nullopt;
  return (median_interval->second - median_interval->first) / 2 / p50;
}

bool Summary::drifts() const { return std::abs(drift) > std::max(kStationary, 2 * relative_half_width().value_or(0)); }

void find_late_rank(std::span<const protocol::Sample> samples, int ranks, double typical, Summary& summary) {
  const double counts = std::max(kLeastWait, kLeastWaitShare * typical);
  std::map<int, std::vector<double>> waits;  // by the rank that was late
  double late = 0;
  for (const protocol::Sample& sample : samples) {
    if (sample.late_rank < 0 || wait_in(sample) < counts) continue;
    waits[sample.late_rank].push_back(wait_in(sample));
    ++late;
  }
  const auto most = std::max_element(waits.begin(), waits.end(),
                                     [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  if (ranks < 2 || most == waits.end()) return;
  const double share = late / ranks, times = static_cast<double>(most->second.size());
  if (most->second.size() < kLeastTimes || times < kLeastLateShare * static_cast<double>(samples.size())) return;
  if (times <= share + kSigmas * std::sqrt(share * (1 - 1.0 / ranks))) return;
  summary.late_rank = most->first;
  summary.late_share = times / static_cast<double>(samples.size());
  summary.late_wait = median(most->second);
}

Summary summarise(const std::vector<protocol::Sample>& samples, size_t skip, int ranks, bool settle) {
  Summary summary;
  if (settle) {
    std::vector<double> all;
    for (size_t i = skip; i < samples.size(); ++i) all.push_back(samples[i].max_seconds);
    summary.settling = settling_of(all);
    skip += summary.settling;
  }
  std::vector<double> times, shortest, spread;
  for (size_t i = skip; i < samples.size(); ++i) {
    times.push_back(samples[i].max_seconds);
    shortest.push_back(samples[i].own_min_seconds);
    spread.push_back(wait_in(samples[i]));
  }
  summary.count = times.size();
  if (times.empty()) return summary;

  double sum = 0, squares = 0;
  for (const double t : times) sum += t;
  summary.mean = sum / times.size();
  for (const double t : times) squares += (t - summary.mean) * (t - summary.mean);
  summary.cv = summary.mean > 0 ? std::sqrt(squares / times.size()) / summary.mean : 0;
  summary.drift = drift_of(times);
  summary.slope = theil_sen_slope(times);

  std::vector<double> sorted = times;
  std::sort(sorted.begin(), sorted.end());
  summary.min = sorted.front();
  summary.max = sorted.back();
  summary.p50 = median(sorted);
  summary.p95 = percentile(sorted, 0.95);
  summary.p99_nearest = percentile(sorted, 0.99);
  if (sorted.size() >= 100) summary.p99 = summary.p99_nearest;
  if (const auto ranks_of = median_interval_ranks(sorted.size()))
    summary.median_interval = {sorted[ranks_of->first - 1], sorted[ranks_of->second - 1]};

  summary.network = median(shortest);
  summary.skew = median(spread);
  find_late_rank(std::span(samples).subspan(skip), ranks, summary.p50, summary);
  return summary;
}

}  // namespace nccltune::bench
