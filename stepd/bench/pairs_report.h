// SPDX-License-Identifier: Apache-2.0
// What a search for bad nodes found: lines of JSON while it runs, and at its end the table, the lists of nodes and the
// commands that take the bad ones out of service.
#pragma once

#include <string>
#include <vector>

#include "bench/pairs.h"
#include "bench/pairs_options.h"
#include "bench/pairs_wire.h"

namespace nccltune::bench {

struct PairsRun {  // all that a report is made of
  PairsOptions options;
  std::vector<NodeCard> nodes;  // by the search's index
  int rails = 1;
  std::string worker, world, job;
  double seconds = 0;
  bool complete = false;  // false: interrupted
};

// "node5 rail 3 (0000:bd:00.0)".
std::string rail_name(const NodeCard& node, int rail);

// One line each, ended by a newline.
std::string json_start(const PairsRun& run);
// The figures of the search from number `from` on.
std::string json_figures(const PairsRun& run, const PairSearch& search, size_t from);
std::string json_end(const PairsRun& run, const PairSearch& search, int status);

// For people, on stdout.
std::string pairs_text(const PairsRun& run, const PairSearch& search);

struct NodeLists {
  std::vector<std::string> good, bad, unreachable, undecided, untested;
};
NodeLists node_lists(const PairsRun& run, const PairSearch& search);

// "scontrol update nodename=node5 state=drain reason=\"...\"", for each node that is bad or unreachable. Never run.
std::vector<std::string> drain_commands(const PairsRun& run, const PairSearch& search);

// 1 when anything is bad; a disturbance that passed is not.
int pairs_status(const PairSearch& search);

}  // namespace nccltune::bench
