// SPDX-License-Identifier: Apache-2.0
// What the user asked `nccl-tune pairs` for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/options.h"

namespace nccltune::bench {

struct PairsOptions {
  // sendrecv loads both directions at once and computes nothing; a node alone runs all_reduce over its NVLinks.
  protocol::Collective collective = protocol::Collective::sendrecv;
  uint64_t bytes = 64u << 20;  // -b: one large size; a bad path can look well with small ones
  int iterations = 20;         // -n
  int warmup = 5;              // -w
  int check = 1;               // -c
  int gpus = 1;                // -g: GPUs of each task
  bool full = false;           // --pairs=full
  bool alone = true;           // begin with every node by itself, where it has several GPUs
  double threshold = 0.9;      // of the median
  double timeout = 60;         // seconds without progress, a step; a round takes at most twice that
  std::string json;            // file of JSON lines; "": none
  bool all = false;            // a row for each node and rail, however many
  bool progress = true;
  bool tasks_as_nodes = false;
  WorkerChoice worker = WorkerChoice::automatic;

  uint32_t fault = 0;  // for tests: protocol::Fault of the workers of one task
  int fault_task = -1;

  std::string shared_text;  // what all tasks must have been given alike
};

using ParsedPairsOptions = Parsed<PairsOptions>;

// argv[0] is the command's name.
ParsedPairsOptions parse_pairs_options(int argc, const char* const* argv);

}  // namespace nccltune::bench
