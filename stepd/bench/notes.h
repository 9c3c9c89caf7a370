// SPDX-License-Identifier: Apache-2.0
// What the table cannot say: one line each, printed as comments after it and kept in the JSON. Pure.
#pragma once

#include <string>
#include <vector>

#include "bench/report.h"

namespace nccltune::bench {

std::vector<std::string> describe_setting(const RunInfo& info, const std::string& worker_note);
std::vector<std::string> describe_rates(const RunInfo& info, const std::vector<Row>& rows);
// What the time of a small message is, which people ask again and again (NVIDIA/nccl-tests#123, #333,
// NVIDIA/nccl#1984). None without such rows.
std::vector<std::string> describe_small(const RunInfo& info, const std::vector<Row>& rows);
std::vector<std::string> describe_times(const RunInfo& info, const std::vector<Row>& rows);
// Rows whose interval did not become as narrow as --ci asks, or that drift. None without --ci.
std::vector<std::string> describe_unmet(const RunInfo& info, const std::vector<Row>& rows);
// What the HCAs of a node allow: `hca_gbs`, GB/s each way, of each node. None for one node, split runs, or where it is
// 0.
std::vector<std::string> describe_limit(const RunInfo& info, const std::vector<Row>& rows, double hca_gbs);
// How a run of several cycles changed in its course, with the times of day of its extremes.
std::vector<std::string> describe_cycles(const std::vector<Row>& rows);
// The groups of a split run at its largest size, the slow ones marked. None where it is not split.
std::vector<std::string> describe_groups(const RunInfo& info, const std::vector<Row>& rows);
std::vector<std::string> describe_wrong(const RunInfo& info, const std::vector<Row>& rows);
// What --repeatable found: each measurement whose runs differ, or that none does. Source of the remedy:
// NVIDIA/nccl#1497, #2360.
std::vector<std::string> describe_repeats(const RunInfo& info, const std::vector<Row>& rows);

// "rank 3 (node7, GPU 0000:3b:00.0)".
std::string name_rank(const RunInfo& info, int rank);

// The best busbw of all rows, GB/s; 0 without any.
double best_busbw(const std::vector<Row>& rows);

}  // namespace nccltune::bench
