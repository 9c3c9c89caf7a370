// SPDX-License-Identifier: Apache-2.0
// What the table cannot say: one line each, printed as comments after it and kept in the JSON. Pure.
#pragma once

#include <string>
#include <vector>

#include "bench/report.h"

namespace nccltune::bench {

std::vector<std::string> describe_setting(const RunInfo& info, const std::string& worker_note);
std::vector<std::string> describe_rates(const RunInfo& info, const std::vector<Row>& rows);
std::vector<std::string> describe_times(const RunInfo& info, const std::vector<Row>& rows);
std::vector<std::string> describe_wrong(const RunInfo& info, const std::vector<Row>& rows);

// The best busbw of all rows, GB/s; 0 without any.
double best_busbw(const std::vector<Row>& rows);

}  // namespace nccltune::bench
