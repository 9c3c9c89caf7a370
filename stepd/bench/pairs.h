// SPDX-License-Identifier: Apache-2.0
// Finding bad nodes, rails and paths by testing nodes two by two: which pairs to run next, and what the figures say.
// No I/O: the same code decides for a real run and for the simulator that tests it.
//
// A collective over all nodes shows only the slowest of them, and its per-rank times name the victims; communicators of
// two nodes do locate a fault. One perfect matching finds every suspect, whatever the number of nodes; suspects then
// meet partners that were found good; pairs that stay unexplained are run again.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace nccltune::bench {

struct NodePair {
  int a = 0, b = 0;  // indexes of nodes, in Slurm's topology order; a == b: the node alone (its NVLinks, say)
  bool operator==(const NodePair&) const = default;
};

// What one rail (GPU i with GPU i) of one pair gave.
struct PairFigure {
  NodePair pair;
  int rail = 0;
  double gbps = 0;      // bus bandwidth, GB/s
  std::string failure;  // not empty: the pair crashed, hung or could not connect. A crash is a figure too.
  int round = 0;        // filled in by PairSearch::record
  int culprit = -1;  // of a failure: the node whose end broke by itself (its process died, its GPU); it speaks against
                     // that one alone. -1: either
  bool reached = false;  // of a failure: the two had connected
};

enum class PairVerdict {
  node,         // slow with every partner
  rail,         // the same, but on some of its rails only
  path,         // slow with this peer only, twice
  transient,    // slow once, good when run again
  unreachable,  // with nobody did it connect, or its tasks are gone
  undecided,    // slow, and no third node to tell which end it is
};
const char* name(PairVerdict verdict);

struct PairFinding {
  PairVerdict verdict{};
  int node = 0;
  int peer = -1;           // path, transient, undecided: the other end; -1 otherwise, and of a node alone
  std::vector<int> rails;  // that were slow, ascending
  double percent = 0;      // the worst figure against the median, in %; 0 when nothing ran
  std::string why;         // the evidence, one sentence
  bool alone = false;      // told by a run of the node by itself
};

struct PairSearchOptions {
  double threshold = 0.9;  // of the median: slower is suspect. Never of the maximum: that condemns healthy clusters.
  bool alone = true;       // begin with a round of every node by itself
  bool full = false;       // every pair once (circle method, N - 1 rounds): the only way to test every path
};

// Round `step` of nodes - 1 (nodes, when odd) in which everybody meets everybody once: the circle method. Pure.
std::vector<NodePair> circle_round(int nodes, int step);

class PairSearch {
 public:
  // nodes >= 1, rails >= 1.
  PairSearch(int nodes, int rails, const PairSearchOptions& options);

  // The pairs of the next round, to be run at once; no node is in two of them. Empty: the search is over.
  std::vector<NodePair> next_round();

  // The tasks of this node are gone: its pairs so far speak against nobody else, and it gets no more of them. Before
  // next_round.
  void lose(int node, const std::string& why);
  bool lost(int node) const { return lost_.contains(node); }

  // What became of every pair of that round. A rail of a pair without a figure counts as failed ("no answer").
  void record(const std::vector<PairFigure>& figures);

  int rounds() const { return round_; }
  // That of circle_round when the current round is one of a full search; else nullopt.
  std::optional<int> circle_step() const;
  const std::vector<PairFigure>& figures() const { return figures_; }

  // The median over nodes and rails of the best figure of this kind (node alone, or in a pair), GB/s; 0: nothing ran.
  double median(bool alone) const;
  // A figure below this is slow, GB/s: threshold x median, and lower where the figures scatter by more than that.
  double bound(bool alone) const;
  // What one half of the nodes moved to the other in the first round of pairs, all of them and their rails together,
  // GB/s each way. 0: none, or every pair was asked for.
  double bisection() const;

  // Every rail of it ran well with some partner (or, where there is no other node, nothing was slow).
  bool proven(int node) const { return nodes_ == 1 ? !lost(node) : !is_suspect(node); }

  // Once the search is over: one finding for everything that is not good, nodes first.
  std::vector<PairFinding> findings() const;

 private:
  struct Outcome {  // of one pair in one round
    NodePair pair;
    size_t first = 0;             // its figure of rail 0 in figures_; the other rails follow
    std::vector<int> slow_rails;  // slow or failed
    bool unreached = false;       // nothing of it came to a connection
    bool slow() const { return !slow_rails.empty(); }
  };
  struct RailRecord {              // of one rail of one node, over all its pairs
    int slow = 0, good = 0;        // that speak about it
    std::map<int, bool> partners;  // node -> was the last time with it slow?
  };
  struct NodeRecord {
    int unreached = 0;          // outcomes
    std::vector<int> outcomes;  // of pairs, indexes into outcomes_; a node's run alone does not count here
    std::vector<int> alone;     // of the node by itself
  };

  void evaluate();
  std::vector<double> best_figures(bool alone) const;
  std::vector<NodePair> matching() const;
  std::vector<NodePair> second_matching() const;
  std::vector<int> nodes_there() const;
  std::vector<NodePair> follow_up() const;
  void pair_with_proven(std::vector<NodePair>& round, std::vector<bool>& taken) const;
  void pair_with_untried(std::vector<NodePair>& round, std::vector<bool>& taken) const;
  void repeat_unexplained(std::vector<NodePair>& round, std::vector<bool>& taken) const;
  void repeat_alone(std::vector<NodePair>& round, std::vector<bool>& taken) const;
  size_t place_of(int node, int rail) const {
    return static_cast<size_t>(node) * static_cast<size_t>(rails_) + static_cast<size_t>(rail);
  }
  const RailRecord& record_of(int node, int rail) const { return rail_records_[place_of(node, rail)]; }
  const NodeRecord& record_of(int node) const { return node_records_[static_cast<size_t>(node)]; }
  bool is_suspect(int node) const;
  bool wants_partner(int node) const;
  bool is_bad(int node, int rail) const;
  std::vector<int> bad_rails(int node) const;
  int times_run(int a, int b) const;
  std::optional<PairFinding> judge_node(int node, std::vector<bool>& told) const;
  std::optional<PairFinding> judge_alone(int node) const;
  std::optional<PairFinding> judge_path(const NodePair& pair, const std::vector<int>& evidence) const;
  PairFinding describe(PairVerdict verdict, int node, int peer, const std::vector<int>& rails,
                       const std::vector<int>& evidence) const;

  int nodes_, rails_;
  PairSearchOptions options_;
  int round_ = 0;
  int sweep_step_ = 0;
  std::map<int, std::string> lost_;  // node -> why
  bool over_ = false;
  std::vector<NodePair> current_;
  std::vector<PairFigure> figures_;
  std::vector<Outcome> outcomes_;
  std::vector<RailRecord> rail_records_;  // by node, then rail
  std::vector<NodeRecord> node_records_;
};

}  // namespace nccltune::bench
