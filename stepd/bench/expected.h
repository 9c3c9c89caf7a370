// SPDX-License-Identifier: Apache-2.0
// Published figures, for the very shape that was measured: collective, GPU, ranks, nodes and size. A figure of another
// number of ranks is never used: it would judge nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/report.h"

namespace nccltune::bench {

struct ExpectedFigure {
  std::string platform, gpu, collective;
  int nodes = 0, ranks = 0;
  std::optional<uint64_t> bytes;  // absent: of large messages, 1 GiB and up
  double busbw = 0;               // GB/s
  bool gate = false;              // a health check's minimum, not a measurement
  bool sharp = false;
  std::string source;
};

Result<std::vector<ExpectedFigure>> read_expected(const std::string& path);

// "H100-SXM", "GB200 NVL72" name the device "NVIDIA H100 80GB HBM3" or "NVIDIA GB200". Pure.
bool names_gpu(const std::string& gpu, const std::string& device);

struct Verdict {
  std::vector<std::string> lines;
  bool met = true;  // false: a ratio that was asked for is not reached, or there is nothing to hold it against
};
Verdict compare(const std::vector<ExpectedFigure>& figures, const RunInfo& info, const std::vector<Row>& rows);
// Reads options.expected, or the shipped file, and compares; without GPUs or with one rank there is nothing to say.
Verdict compare_with_expected(const Options& options, const RunInfo& info, const std::vector<Row>& rows);

}  // namespace nccltune::bench
