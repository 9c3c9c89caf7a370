// SPDX-License-Identifier: Apache-2.0
// A comparison as data: what each launch gave, and what it comes down to. Pure.
#pragma once

#include <ctime>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/ratio.h"
#include "bench/trial.h"

namespace nccltune::bench {

// The chance that a whole comparison of settings that are alike ends with any difference, at most: Holm's level over
// all sizes of all variants. Below the usual 5 %, for a user reads the table as one statement and acts on it.
inline constexpr double kFalseDifference = 0.02;

struct ComparedLaunch {
  int block = 0;       // 0-based: each variant once
  size_t variant = 0;  // index into Comparison::variants
  std::time_t started = 0;
  TrialResult result;
};

struct Comparison {
  std::vector<Variant> variants;  // the baseline first
  std::vector<Work> works;
  int ranks = 1, nodes = 1;
  int launches = 0;     // wanted of each variant
  double least = 0.01;  // a ratio nearer to 1 is no difference, whatever the evidence
  std::vector<ComparedLaunch> done;
};

enum class Verdict { better, worse, no_difference, untold };  // untold: fewer than 3 blocks, or the variant failed
const char* name(Verdict verdict);                            // "no difference"

struct SizeVerdict {
  size_t work = 0;
  uint64_t bytes = 0;                        // the size column
  double baseline = 0, variant = 0;          // seconds: the median over launches
  double baseline_gbs = 0, variant_gbs = 0;  // bus bandwidth at those
  Ratio ratio;
  double p = 1;  // corrected
  Verdict verdict = Verdict::untold;
};

struct VariantVerdict {
  size_t variant = 0;
  std::vector<SizeVerdict> sizes;
  int launches = 0, failed = 0;        // that ran; of them with a fault
  std::optional<TrialFault> fault;     // the first
  std::vector<std::string> data_path;  // of its first launch that told one
  std::vector<std::string> unread;     // its variables that NCCL did not say it read, where it says such things
  bool usable() const { return failed == 0 && launches > 0; }
  int count(Verdict verdict) const;
  double mean_ratio() const;  // geometric, over all sizes; 1: none
};

// The time that a row stands for: the mean over its placements of the median over iterations, seconds.
double time_of(const Row& row);

// Element i is of variants[i]; that of the baseline has no sizes.
std::vector<VariantVerdict> judge(const Comparison& comparison);

// The whole in one sentence.
std::string sum_up(const Comparison& comparison, const std::vector<VariantVerdict>& verdicts);

}  // namespace nccltune::bench
