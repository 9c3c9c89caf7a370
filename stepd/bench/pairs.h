// SPDX-License-Identifier: Apache-2.0
// Finding bad nodes, rails and paths by testing nodes two by two: which pairs to run next, and what the figures say.
// No I/O: the same code decides for a real run and for the simulator that tests it.
//
// A collective over all nodes shows only the slowest of them, and its per-rank times name the victims; communicators of
// two nodes do locate a fault. One perfect matching finds every suspect, whatever the number of nodes; suspects then
// meet partners that were found good; pairs that stay unexplained are run again.
#pragma once

#include <map>
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
};

enum class PairVerdict {
  node,         // slow with every partner
  rail,         // the same, but on some of its rails only
  path,         // slow with this peer only, twice
  transient,    // slow once, good when run again
  unreachable,  // no pair of it ran to the end
  undecided,    // slow, and no third node to tell which end it is
};
const char* name(PairVerdict verdict);

struct PairFinding {
  PairVerdict verdict{};
  int node = 0;
  int peer = -1;           // path, transient, undecided: the other end; -1 otherwise
  std::vector<int> rails;  // that were slow, ascending
  double percent = 0;      // the worst figure against the median, in %; 0 when nothing ran
  std::string why;         // the evidence, one sentence
};

struct PairSearchOptions {
  double threshold = 0.9;  // of the median: slower is suspect. Never of the maximum: that condemns healthy clusters.
  bool alone = true;       // begin with a round of every node by itself
  bool full = false;       // every pair once (circle method, N - 1 rounds): the only way to test every path
};

class PairSearch {
 public:
  // nodes >= 1, rails >= 1.
  PairSearch(int nodes, int rails, const PairSearchOptions& options);

  // The pairs of the next round, to be run at once; no node is in two of them. Empty: the search is over.
  std::vector<NodePair> next_round();

  // What became of every pair of that round. A rail of a pair without a figure counts as failed ("no answer").
  void record(const std::vector<PairFigure>& figures);

  int rounds() const { return round_; }
  const std::vector<PairFigure>& figures() const { return figures_; }

  // The median over nodes and rails of the best figure of this kind (node alone, or in a pair), GB/s; 0: nothing ran.
  double median(bool alone) const;
  // A figure below this is slow, GB/s: threshold x median, and lower where the figures scatter by more than that.
  double bound(bool alone) const;

  // Once the search is over: one finding for everything that is not good, nodes first.
  std::vector<PairFinding> findings() const;

 private:
  struct Outcome {  // of one pair in one round
    NodePair pair;
    int round = 0;
    std::vector<int> slow_rails;
    double worst = 0;  // lowest figure of the pair, GB/s
    int failed_rails = 0;
    std::string failure;
    bool slow() const { return !slow_rails.empty(); }
  };
  struct Record {                        // of one node, over all its pairs
    int slow = 0, good = 0, failed = 0;  // outcomes
    std::map<int, bool> partners;        // node -> was the last outcome with it slow?
    std::vector<int> outcomes;           // indexes into outcomes_
  };

  void evaluate();
  std::vector<double> best_figures(bool alone) const;
  std::vector<NodePair> matching() const;
  std::vector<NodePair> sweep_round() const;
  std::vector<NodePair> follow_up() const;
  void pair_with_proven(std::vector<NodePair>& round, std::vector<bool>& taken) const;
  void pair_with_untried(std::vector<NodePair>& round, std::vector<bool>& taken) const;
  void repeat_unexplained(std::vector<NodePair>& round, std::vector<bool>& taken) const;
  bool is_suspect(int node) const;
  bool is_bad(int node) const;
  int times_run(int a, int b) const;
  PairFinding describe(PairVerdict verdict, int node, int peer, const std::vector<int>& evidence) const;

  int nodes_, rails_;
  PairSearchOptions options_;
  int round_ = 0;
  int sweep_step_ = 0;
  bool over_ = false;
  std::vector<NodePair> current_;
  std::vector<PairFigure> figures_;
  std::vector<Outcome> outcomes_;
  std::vector<Record> records_;  // of pairs, by node; a node's run alone does not count here
};

}  // namespace nccltune::bench
