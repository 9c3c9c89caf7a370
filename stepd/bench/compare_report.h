// SPDX-License-Identifier: Apache-2.0
// A comparison for people and for spreadsheets.
#pragma once

#include <string>
#include <vector>

#include "bench/comparison.h"

namespace nccltune::bench {

struct CompareInfo {
  std::string version, world, worker, library, device;
  std::string job, step;  // Slurm's; "" outside
  std::time_t started = 0;
  uint64_t seed = 0;
  std::vector<std::string> arguments;
  std::vector<std::pair<std::string, std::string>> environment;  // rank 0's settings: see named_settings
};

struct CompareEnding {
  bool complete = false;
  double seconds = 0;
  std::string sentence;
  std::vector<std::string> trouble;  // why it ended early, one line each
  int exit_status = 0;
};

std::string compare_text(const CompareInfo& info, const Comparison& comparison,
                         const std::vector<VariantVerdict>& verdicts, const CompareEnding& ending);

std::string compare_csv(const Comparison& comparison, const std::vector<VariantVerdict>& verdicts);

}  // namespace nccltune::bench
