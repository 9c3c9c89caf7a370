// SPDX-License-Identifier: Apache-2.0
// What the user asked for. The short options are nccl-tests' own (2.19.6), with the same meaning; the long ones are
// ours.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/collectives.h"
#include "bench/split.h"

namespace nccltune::bench {

enum class WorkerChoice { automatic, host, nccl, none };  // none: start_cost.h

struct Options {
  protocol::Collective collective = protocol::Collective::all_reduce;

  int threads = 1;  // -t: multiplies -g; a worker is a process here, so the two mean the same
  int gpus = 1;     // -g
  uint64_t min_bytes = 32u << 20, max_bytes = 32u << 20, step_bytes = 1u << 20;
  int64_t factor = 1;     // -f; 1: add step_bytes
  int iterations = 20;    // -n
  int aggregate = 1;      // -m
  int warmup = 1;         // -w
  int64_t cycles = 1;     // -N; 0: until a signal
  int parallel_init = 0;  // -p
  int check = 1;          // -c
  std::vector<protocol::Op> ops = {protocol::Op::sum};
  std::vector<protocol::DataType> types = {protocol::DataType::float32};
  bool all_types = false;  // -d all: leave out, with a note, what the library lacks
  int root = 0;            // -r; -1: every rank in turn
  int blocking = 0;        // -z
  int null_stream = 0;     // -y
  int timeout_s = 0;       // -T: of one wait for the stream; 0: none of its own
  int graph = 0;           // -G
  int cpu_time = 0;        // -C
  int timestamps = 0;      // -S
  int average = 1;         // -a
  int registration = 0;    // -R
  int cta_policy = -1;     // -x
  int memory_report = 0;   // -M
  uint64_t unalign = 0;    // -u
  int per_iteration = 0;   // -I: nccl-tests' columns for it
  int skip = 0;            // -K: leading samples that the summaries leave out

  // Ours.
  std::string json, csv;            // files; "": none
  bool announce_json = false;       // it came as -J: nccl-tests' first line says where it goes
  std::string out;                  // "": by the job id; "none": no file
  std::optional<double> ci;         // relative half width of the median's interval to run each size to
  double ci_seconds = 10;           // bound for it, a size
  std::optional<double> duration;   // seconds to repeat the cycles for
  std::optional<double> min_busbw;  // GB/s
  std::optional<double> min_ratio;  // of the expected figure of this shape
  std::string expected;             // file; "": the shipped one
  int repeat = 0;                   // runs of one input that must give the same bits; 0: none
  double timeout = 180;             // seconds without progress, a phase
  bool statistics = true;           // the pass that times each iteration
  std::vector<double> percentiles;  // more of them in the notes: 0 < p < 100
  bool list = false;
  bool progress = true;     // on a terminal
  bool data_path = true;    // read NCCL's own log
  bool algorithms = false;  // have it name the algorithm of each operation, which costs time
  WorkerChoice worker = WorkerChoice::automatic;
  std::optional<Split> split;        // ranks in groups; absent: as the environment says
  std::string label;                 // kept in the JSON: what this run is
  std::optional<double> check_mean;  // NCCL_TESTS_MIN_BW: fails below 0.9 of it

  // For tests of the verification and of the deadlines: protocol::Fault, and where.
  uint32_t fault = 0;
  int fault_rank = -1;
  int64_t fault_element = 0;

  std::vector<std::string> arguments;  // as given

  int workers() const { return threads * gpus; }
  bool adds_bytes() const { return factor <= 1; }
};

template <class T>
struct Parsed {
  std::optional<T> options;  // absent: print `text` and exit with `status`
  std::string text;
  int status = 0;
};
using ParsedOptions = Parsed<Options>;

// argv[0] is the command's name. Environment: NCCL_TESTS_DEVICE and its kin are read elsewhere.
ParsedOptions parse_options(int argc, const char* const* argv);

}  // namespace nccltune::bench
