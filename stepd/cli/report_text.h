// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/report_run.h"
#include "cli/table.h"

namespace nccltune::cli {

// A figure of the expected-performance table that a run of this shape is held against.
struct ExpectedFigure {
  std::string collective, gpu, platform, source;
  int ranks = 0;
  uint64_t bytes = 0;
  double busbw = 0;
};

// CSV with the columns platform, gpu, gpus, collective, size_bytes, busbw_gbs and source, in any order.
std::vector<ExpectedFigure> read_expected(const std::string& csv);

// Those of the run's collective, number of ranks and, where both tell it, model of GPU.
std::vector<ExpectedFigure> expected_for(const ReportRun& run, const std::vector<ExpectedFigure>& all);

// The runs of the readings, in their order.
std::vector<const ReportRun*> runs_of(const std::vector<Reading>& readings);

// "A", "B", ..., "Z", "A1", ...
std::string letter_of(size_t run);

// What was read, what was refused, and the runs side by side, those of one collective, datatype and operation together.
std::string report_text(const std::vector<Reading>& readings, const std::vector<ExpectedFigure>& expected,
                        const Style& style);

// All of it as one document.
nlohmann::ordered_json report_json(const std::vector<Reading>& readings, const std::vector<ExpectedFigure>& expected);

// "512", "8K", "1.5M", "4G": binary units.
std::string size_text(uint64_t bytes);

}  // namespace nccltune::cli
