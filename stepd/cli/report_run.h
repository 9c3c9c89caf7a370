// SPDX-License-Identifier: Apache-2.0
// What `report` knows of a measured run, whoever wrote it down, and what a file gave.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nccltune::cli {

struct ReportHalf {
  double time_us = 0, algbw = 0, busbw = 0;  // GB/s, GB = 10^9 bytes
  std::optional<int64_t> wrong;              // elements; absent: not checked, or a version that tells an error instead
  // Of single iterations, in microseconds; absent: not measured.
  std::optional<double> min_us, p50_us, p95_us, p99_us, max_us, skew_us, network_us;
  std::optional<int> late_rank;  // most often the last to arrive
  double late_share = 0;         // in which part of the iterations
};

struct ReportRow {
  uint64_t bytes = 0, elements = 0;
  std::string type, op;  // op "": none
  int root = -1;
  std::optional<ReportHalf> out, in;

  // The out-of-place half, or the other where that is all there is.
  const ReportHalf* best() const { return out ? &*out : in ? &*in : nullptr; }
};

struct ReportDevice {
  int rank = 0;
  std::string host, name;
};

struct ReportRun {
  std::string file;
  std::string label;       // given with bench --label; "" for none
  std::string tool;        // "nccl-tests 2.17.8", "nccl-tune 0.1.0"; "" when not told
  std::string nccl;        // "2.27.3+cuda12.9"; "" when not told
  std::string collective;  // "all_reduce"; "" when neither told nor to be concluded
  std::string started, job;
  int ranks = 0, nodes = 0;  // 0: not told
  std::vector<ReportDevice> devices;
  std::vector<ReportRow> rows;
  std::optional<double> mean_busbw;
  std::optional<int64_t> out_of_bounds;
  bool complete = false;             // the footer is there and nothing failed
  std::vector<std::string> notes;    // what a reader should know of it
  std::vector<std::string> trouble;  // lines that tell a failure, as written
  std::vector<std::pair<std::string, std::string>> environment;

  double peak_busbw() const;
  std::string gpu() const;  // the model of the first device
};

// A count as a file has it, "1e+00" or 5e307: what no int64_t holds becomes the nearest one.
inline int64_t count_of(double number) {
  constexpr double kEdge = 9223372036854775808.0;  // 2^63
  if (!(number > -kEdge)) return INT64_MIN;
  return number < kEdge ? static_cast<int64_t>(number) : INT64_MAX;
}

struct RefusedLine {
  int line = 0;  // 1-based
  std::string text, why;
};

// What one file held.
struct Reading {
  std::string file;
  std::string kind;  // "nccl-tests output", "nccl-tune bench", ...; "" when nothing was understood
  std::vector<ReportRun> runs;
  nlohmann::ordered_json topology, plan, findings;  // of topo, plan, check; null when not in this file
  nlohmann::ordered_json pairs;                     // of pairs: its lines by kind; null when not in this file
  int lines = 0;
  std::vector<RefusedLine> refused;  // at most 100 are kept
  int refused_in_all = 0;

  bool empty() const {
    return runs.empty() && topology.is_null() && plan.is_null() && findings.is_null() && pairs.is_null();
  }
  void refuse(int line, std::string_view text, std::string why);
};

// Understands the text of a file by what is in it. Never fails: Reading tells what was refused.
Reading read_report_file(const std::string& file, const std::string& text);

// The output of nccl-tests since 2.8, of nccl-tune bench, and of RCCL's tests: also with a label of srun or mpirun, a
// time stamp before each line, NCCL's log between the lines, and several collectives in a file.
void read_nccl_tests(const std::string& text, Reading& reading);

// A document of nccl-tune bench, topo, plan or check, nccl-tests -J, a line of rccl-tests' JSON or of nccl-tune pairs.
// False: none of these.
bool read_json_document(const nlohmann::ordered_json& json, Reading& reading);

// Fills what the file did not tell and the figures do.
void conclude(ReportRun& run);

}  // namespace nccltune::cli
