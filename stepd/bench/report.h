// SPDX-License-Identifier: Apache-2.0
// What a run found, as plain data, and the interface of those who write it down.
#pragma once

#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/options.h"
#include "bench/statistics.h"
#include "worker/protocol.h"

namespace nccltune::bench {

struct DeviceLine {
  int rank = 0, group = 0;
  int64_t pid = 0;
  std::string host;
  int device = 0;
  std::string bdf, uuid, name;  // bdf "" for host memory
  std::string library;
  int32_t cuda_runtime = 0, cuda_driver = 0;
};

struct GroupLine {
  int64_t color = 0;  // what the split computes
  std::vector<int> ranks;
};

struct RunInfo {
  std::string tool = "nccl-tune", version;  // the first line; a golden test feeds nccl-tests' own
  int32_t header_code = 0, library_code = 0;
  Options options;
  int ranks = 1, nodes = 1;              // of all groups
  std::vector<GroupLine> groups;         // empty: not split
  int group_ranks = 1, group_nodes = 1;  // of rank 0's group, which the table speaks of; without a split as above
  uint64_t max_bytes = 0;                // in force; below options.max_bytes when memory limits it
  std::vector<DeviceLine> devices;
  std::string job, step;  // Slurm's; "" outside
  std::string worker;     // "nccl", "host"
  std::string world;      // "PMIx 4.2.2", "one process"
  std::time_t started = 0;
  std::vector<std::pair<std::string, std::string>> plan;  // NCCL_, UCX_, SHARP_ and our variables in force

  std::string program() const { return std::string(info_of(options.collective).name) + "_perf"; }
};

// Runs of one input, compared with the first.
struct Repeats {
  int runs = 0, differing = 0;  // 0 runs: not asked, or input and output overlap
  int run = 0;                  // the first that differs, 1-based; what follows is of it
  int64_t elements = 0;
  int bad_ranks = 0, rank = -1;
  int64_t element = 0;
  std::string before, after;  // the first such element, in the first run and in this one
};

struct Half {
  bool ran = false, checked = false;
  double seconds = 0, cpu_seconds = 0;  // per operation, over ranks as -a says
  double algbw = 0, busbw = 0;          // GB/s
  int64_t wrong = 0;
  int bad_ranks = 0;
  int wrong_rank = -1;  // of the first wrong element; -1: none is known
  int64_t wrong_element = 0;
  std::string expected, found;
  Repeats repeats;
  std::vector<protocol::Sample> samples;
  Summary summary;  // of the samples; count 0: none
};

// What one group of a split run took.
struct GroupHalf {
  double seconds = 0;  // per operation, over its ranks as -a says
  double algbw = 0, busbw = 0;
  int64_t wrong = 0;
};
struct GroupRow {
  GroupHalf out, in;
};

struct Row {
  uint64_t asked = 0, bytes = 0, elements = 0;
  std::string type, op;  // op "none" where there is none: parsers count 13 words
  int root = -1;
  Half out, in;
  std::vector<GroupRow> groups;  // by group; empty: not split
  int64_t cycle = 0;             // 0-based
  int64_t iterations = 0;
  std::time_t stamp = 0;
};

struct Trouble {  // why a run ended early, one line each
  std::vector<std::string> lines;
  bool any() const { return !lines.empty(); }
};

struct Ending {
  bool complete = false;           // every row that was asked for is there
  int64_t wrong_checks = 0;        // nccl-tests' "Out of bounds values": checks that found any, summed over ranks
  double mean_busbw = 0;           // over all rows and both placements
  std::optional<bool> mean_ok;     // against NCCL_TESTS_MIN_BW; absent: not asked
  std::string memory;              // -M's line; "": not asked
  std::vector<std::string> notes;  // one line each, without "# "
  Trouble trouble;
  double seconds = 0;
  int exit_status = 0;
};

// Writes one form of the report. Called in this order, on rank 0 only. None throws; a sink that fails says so once.
class Reporter {
 public:
  virtual ~Reporter() = default;
  virtual void start(const RunInfo& info) = 0;
  virtual void add(const Row& row) = 0;
  virtual void finish(const Ending& ending) = 0;
};

}  // namespace nccltune::bench
