// SPDX-License-Identifier: Apache-2.0
// What the tasks of a search for bad nodes tell each other, as text. A task tells the first task of its node, that one
// tells rank 0 for the whole node, and rank 0 tells everybody what comes next. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/pairs.h"

namespace nccltune::bench {

struct RailCard {  // one GPU of a node
  int rail = 0;
  std::string gpu, bdf, uuid;  // "NVIDIA H200", "0000:3b:00.0", "GPU-..."; bdf and uuid are "" for host memory
  std::string nics;            // those of the plan beside it: "mlx5_0,mlx5_1"; "": not known
  std::string library;         // "NCCL 2.28.3"
  std::string failure;         // not empty: it could not be opened
};

struct NodeCard {
  std::string name;      // Slurm's, which scontrol takes; else the host's
  std::string host;      // the kernel's
  std::string topology;  // SLURM_TOPOLOGY_ADDR: "core.leaf3.node17"; ""
  std::string options;   // what it was asked for
  std::vector<RailCard> rails;
};

// What one worker came to in one round.
struct RailReport {
  int rail = 0;
  double gbps = 0;
  // How likely its failure is the cause, and not an effect of the other end's: the likeliest first. `died` and `broke`
  // (its process, its GPU, its memory) cannot come from the other end.
  enum class Blame { died, broke, data, hung, transport } blame = Blame::transport;
  bool reached = false;  // the communicator came about
  std::string failure;   // "": it ran to the end
};

struct RoundPlan {
  bool over = false;
  int status = 0;               // when over: everybody's exit status
  std::string text;             // when over without any round: why
  std::vector<NodePair> pairs;  // of node numbers of the step (Seat::node); a == b: alone
  std::vector<int> lost;        // nodes whose tasks are gone
  // The pair that a node is in; nullopt: it waits.
  std::optional<NodePair> pair_of(int node) const;
};

std::string pack(const NodeCard& card);
std::string pack(const std::vector<RailReport>& reports);
// `circle`: the plan's pairs are all of circle_round(nodes, *circle) but those with a lost node, and take no room.
std::string pack(const RoundPlan& plan, std::optional<int> circle);

// nullopt: not a text of this build.
std::optional<NodeCard> unpack_card(std::string_view text);
std::optional<std::vector<RailReport>> unpack_reports(std::string_view text);
std::optional<RoundPlan> unpack_plan(std::string_view text, int nodes);

// The figure of one rail of a pair out of what both ends told (nullptr: an end that told nothing, `silence` says so).
// `name_*`: "node5 rail 3 (0000:bd:00.0)", put before a failure's text.
PairFigure merge_reports(const NodePair& pair, int rail, const RailReport* a, const RailReport* b,
                         const std::string& name_a, const std::string& name_b, const std::string& silence);

// The order in which nodes sit in the fabric: by switch where Slurm tells, else its own. order[i]: number of the node.
std::vector<int> fabric_order(const std::vector<std::string>& topologies);

}  // namespace nccltune::bench
