// SPDX-License-Identifier: Apache-2.0
#include "bench/comparison.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "bench/statistics.h"
#include "bench/text.h"

namespace nccltune::bench {
namespace {

constexpr size_t kFewestBlocks = 3;  // two differences have one degree of freedom: nothing is ever found

// The row of a launch; nullptr where it did not come so far.
const Row* row_at(const TrialResult& result, size_t work, size_t size) {
  if (work >= result.rows.size() || size >= result.rows[work].size()) return nullptr;
  return &result.rows[work][size];
}

SizeVerdict figures_of(const Comparison& c, size_t variant, size_t work, size_t size) {
  SizeVerdict verdict;
  verdict.work = work;
  verdict.bytes = c.works[work].sizes[size];
  std::map<int, PairedTimes> blocks;
  std::vector<double> ours, theirs;
  for (const ComparedLaunch& launch : c.done) {
    const Row* row = row_at(launch.result, work, size);
    if (row == nullptr || (launch.variant != variant && launch.variant != 0)) continue;
    const bool own = launch.variant == variant;
    const double seconds = time_of(*row);
    (own ? ours : theirs).push_back(seconds);
    (own ? blocks[launch.block].variant : blocks[launch.block].baseline) = seconds;
    verdict.bytes = row->bytes;
  }
  verdict.variant = median(std::move(ours));
  verdict.baseline = median(std::move(theirs));
  const CollectiveInfo& info = info_of(c.works[work].collective);
  const auto rate = [&](double seconds) {
    return bus_gbs(info, algorithm_gbs(info, verdict.bytes, seconds, c.ranks), c.ranks);
  };
  verdict.variant_gbs = rate(verdict.variant);
  verdict.baseline_gbs = rate(verdict.baseline);
  std::vector<PairedTimes> pairs;
  pairs.reserve(blocks.size());
  for (const auto& [block, pair] : blocks) pairs.push_back(pair);
  verdict.ratio = ratio_of(pairs);
  return verdict;
}

void take_launches(const Comparison& c, VariantVerdict& verdict) {
  std::vector<std::string> settings;
  bool told = false;
  for (const ComparedLaunch& launch : c.done) {
    if (launch.variant != verdict.variant) continue;
    ++verdict.launches;
    if (launch.result.fault) {
      ++verdict.failed;
      if (!verdict.fault) verdict.fault = launch.result.fault;
    }
    if (verdict.data_path.empty()) verdict.data_path = launch.result.data_path;
    told |= !launch.result.settings.empty();
    settings.insert(settings.end(), launch.result.settings.begin(), launch.result.settings.end());
  }
  // NCCL names what it reads; other libraries' variables it does not know of.
  if (!told) return;
  for (const auto& [name, value] : c.variants[verdict.variant].environment)
    if (value && name.starts_with("NCCL_") && std::find(settings.begin(), settings.end(), name) == settings.end())
      verdict.unread.push_back(name);
}

std::string percent(double ratio) {
  return print("%.1f %% %s", std::abs(1 - ratio) * 100, ratio < 1 ? "faster" : "slower");
}

// "5 of 12 sizes (1 MiB to 1 GiB, 3.0 % faster at most)".
std::string describe(const VariantVerdict& v, Verdict verdict) {
  const SizeVerdict* extreme = nullptr;
  uint64_t low = UINT64_MAX, high = 0;
  for (const SizeVerdict& size : v.sizes) {
    if (size.verdict != verdict) continue;
    low = std::min(low, size.bytes);
    high = std::max(high, size.bytes);
    if (!extreme || std::abs(std::log(size.ratio.ratio)) > std::abs(std::log(extreme->ratio.ratio))) extreme = &size;
  }
  const int count = v.count(verdict);
  const std::string where = low == high ? human_size(low) : human_size(low) + " to " + human_size(high);
  return print("%d of %zu sizes (%s, %s%s)", count, v.sizes.size(), where.c_str(),
               percent(extreme->ratio.ratio).c_str(), count > 1 ? " at most" : "");
}

std::string failures(const Comparison& c, const std::vector<VariantVerdict>& verdicts) {
  std::vector<std::string> parts;
  for (const VariantVerdict& v : verdicts)
    if (v.fault) parts.push_back(c.variants[v.variant].name + " failed (" + name(v.fault->kind) + ")");
  return parts.empty() ? "" : "; " + join(parts, ", ");
}

// What the noise of this comparison would have hidden.
std::string describe_noise(const Comparison& c, const std::vector<VariantVerdict>& verdicts) {
  std::vector<double> smallest;
  size_t tests = 0, blocks = 0;
  for (const VariantVerdict& v : verdicts) tests += v.sizes.size();
  for (const VariantVerdict& v : verdicts)
    for (const SizeVerdict& size : v.sizes)
      if (const auto ratio = detectable(size.ratio, tests, kFalseDifference)) {
        smallest.push_back(*ratio - 1);
        blocks = std::max(blocks, size.ratio.blocks);
      }
  if (smallest.empty()) return "";
  const double least = std::max(median(smallest), c.least);
  if (least > 1) return print("; with this noise %zu launches tell nothing, use more (--launches)", blocks);
  return print("; with this noise %zu launches find what is above %.1f %%", blocks, least * 100);
}

}  // namespace

const char* name(Verdict verdict) {
  static constexpr const char* kNames[] = {"better", "worse", "no difference", "-"};
  return kNames[static_cast<int>(verdict)];
}

int VariantVerdict::count(Verdict verdict) const {
  return static_cast<int>(
      std::count_if(sizes.begin(), sizes.end(), [verdict](const auto& size) { return size.verdict == verdict; }));
}

double VariantVerdict::mean_ratio() const {
  double sum = 0;
  for (const SizeVerdict& size : sizes) sum += std::log(size.ratio.ratio);
  return sizes.empty() ? 1 : std::exp(sum / static_cast<double>(sizes.size()));
}

double time_of(const Row& row) {
  double sum = 0;
  int placements = 0;
  for (const Half* half : {&row.out, &row.in}) {
    if (!half->ran) continue;
    sum += half->summary.count > 0 ? half->summary.p50 : half->seconds;
    ++placements;
  }
  return placements ? sum / placements : 0;
}

std::vector<VariantVerdict> judge(const Comparison& c) {
  std::vector<VariantVerdict> verdicts;
  std::vector<double> p;
  for (size_t variant = 0; variant < c.variants.size(); ++variant) {
    VariantVerdict& v = verdicts.emplace_back();
    v.variant = variant;
    take_launches(c, v);
    if (variant == 0) continue;
    for (size_t work = 0; work < c.works.size(); ++work)
      for (size_t size = 0; size < c.works[work].sizes.size(); ++size) {
        SizeVerdict figures = figures_of(c, variant, work, size);
        if (figures.variant <= 0) continue;  // it failed before, or memory does not hold so much
        if (figures.ratio.blocks >= kFewestBlocks) p.push_back(figures.ratio.p);
        v.sizes.push_back(std::move(figures));
      }
  }
  const std::vector<double> corrected = holm(p);
  size_t next = 0;
  for (VariantVerdict& v : verdicts)
    for (SizeVerdict& size : v.sizes) {
      if (size.ratio.blocks < kFewestBlocks) continue;
      size.p = corrected[next++];
      if (v.fault && v.fault->kind == TrialFault::Kind::wrong_data) continue;  // how fast it is wrong does not matter
      const bool told = size.p <= kFalseDifference && std::abs(std::log(size.ratio.ratio)) >= std::log1p(c.least);
      size.verdict = !told ? Verdict::no_difference : size.ratio.ratio < 1 ? Verdict::better : Verdict::worse;
    }
  return verdicts;
}

std::string sum_up(const Comparison& c, const std::vector<VariantVerdict>& verdicts) {
  const std::string& baseline = c.variants.front().name;
  const VariantVerdict *clear = nullptr, *mixed = nullptr, *worse = nullptr;
  size_t told = 0;
  for (const VariantVerdict& v : verdicts) {
    told += v.sizes.size() - v.count(Verdict::untold);
    if (!v.usable() || v.variant == 0) continue;
    const bool any_better = v.count(Verdict::better) > 0, any_worse = v.count(Verdict::worse) > 0;
    const auto prefer = [&v](const VariantVerdict*& best) {
      if (best == nullptr || v.mean_ratio() < best->mean_ratio()) best = &v;
    };
    if (any_better && !any_worse) prefer(clear);
    if (any_better && any_worse) prefer(mixed);
    if (!any_better && any_worse && (worse == nullptr || v.mean_ratio() > worse->mean_ratio())) worse = &v;
  }
  const std::string failed = failures(c, verdicts);
  if (clear)
    return c.variants[clear->variant].name + " is better than " + baseline + " at " +
           describe(*clear, Verdict::better) + " and worse at none" + failed;
  if (mixed)
    return c.variants[mixed->variant].name + " is better than " + baseline + " at " +
           describe(*mixed, Verdict::better) + " and worse at " + describe(*mixed, Verdict::worse) +
           ": choose by the sizes that matter" + failed;
  if (told == 0) return "too few launches ended well to tell anything" + failed;
  if (worse)
    return "keep " + baseline + ": nothing is better, and " + c.variants[worse->variant].name + " is worse at " +
           describe(*worse, Verdict::worse) + failed;
  return "no difference beyond the noise: keep " + baseline + describe_noise(c, verdicts) + failed;
}

}  // namespace nccltune::bench
