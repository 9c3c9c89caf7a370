// SPDX-License-Identifier: Apache-2.0
#include "bench/pairs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

namespace nccltune::bench {
namespace {

// A node is judged after this many different partners at the most: the first, one that is known to be good, and one
// more, so that a passing disturbance does not drain a node.
constexpr int kPartners = 3;

// Figures that scatter need a wider bound: four robust standard deviations, but never below 60 % of the median.
constexpr double kSigmas = 4;
constexpr double kLowestThreshold = 0.6;

// With fewer nodes the figures do not tell their scatter well enough to widen the bound by it.
constexpr int kNodesForScatter = 16;

double median_of(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

bool is_alone(const NodePair& pair) { return pair.a == pair.b; }

std::string rail_list(const std::vector<int>& rails, int all) {
  if (static_cast<int>(rails.size()) == all) return all == 1 ? "its rail" : "all rails";
  return fmt::format("rail{} {}", rails.size() == 1 ? "" : "s", fmt::join(rails, ","));
}

}  // namespace

const char* name(PairVerdict verdict) {
  switch (verdict) {
    case PairVerdict::node:
      return "node";
    case PairVerdict::rail:
      return "rail";
    case PairVerdict::path:
      return "path";
    case PairVerdict::transient:
      return "transient";
    case PairVerdict::unreachable:
      return "unreachable";
    case PairVerdict::undecided:
      return "undecided";
  }
  return "?";
}

PairSearch::PairSearch(int nodes, int rails, const PairSearchOptions& options)
    : nodes_(nodes), rails_(rails), options_(options), records_(static_cast<size_t>(nodes)) {
  // One pair has no other to be compared with: three nodes need all of theirs.
  if (nodes == 3) options_.full = true;
}

// What each rail of each node can do: its best figure, so that a node counts once however often it was tested, and the
// partners of bad nodes count as what they are.
std::vector<double> PairSearch::best_figures(bool alone) const {
  std::vector<double> best(static_cast<size_t>(nodes_) * static_cast<size_t>(rails_), 0);
  for (const PairFigure& figure : figures_) {
    if (is_alone(figure.pair) != alone || !figure.failure.empty()) continue;
    for (const int node : {figure.pair.a, figure.pair.b}) {
      double& value = best[static_cast<size_t>(node * rails_ + figure.rail)];
      value = std::max(value, figure.gbps);
    }
  }
  std::erase(best, 0.0);
  return best;
}

double PairSearch::median(bool alone) const { return median_of(best_figures(alone)); }

double PairSearch::bound(bool alone) const {
  const std::vector<double> figures = best_figures(alone);
  const double middle = median_of(figures);
  if (nodes_ < kNodesForScatter) return middle * options_.threshold;
  std::vector<double> above;  // faults make slower: the upper half shows the scatter of healthy figures alone
  for (const double figure : figures)
    if (figure >= middle) above.push_back(figure - middle);
  const double sigma =
      middle <= 0 ? 0 : 1.4826 * median_of(std::move(above)) / middle;  // of a normal distribution, from the MAD
  return middle * std::max(kLowestThreshold, std::min(options_.threshold, 1 - kSigmas * sigma));
}

std::vector<NodePair> PairSearch::next_round() {
  current_.clear();
  if (round_ == 0 && options_.alone) {
    for (int i = 0; i < nodes_; ++i) current_.push_back({i, i});
    return current_;
  }
  const bool first = round_ == (options_.alone ? 1 : 0);
  if (options_.full && sweep_step_ < nodes_ - 1 + nodes_ % 2)
    current_ = sweep_round();
  else if (!options_.full && first)
    current_ = matching();
  else
    current_ = follow_up();
  return current_;
}

// Nodes that sit far apart, so that the pairs load the fabric's upper levels: i with i + N/2 in Slurm's order, which
// follows topology.conf. The last of an odd number idles and is a suspect until it has met a partner.
std::vector<NodePair> PairSearch::matching() const {
  std::vector<NodePair> pairs;
  for (int i = 0, half = nodes_ / 2; i < half; ++i) pairs.push_back({i, i + half});
  return pairs;
}

// The circle method: node 0 (or the idle place of an odd number) stays, the others move on by one place each round.
std::vector<NodePair> PairSearch::sweep_round() const {
  const int places = nodes_ + nodes_ % 2, turning = places - 1;
  const auto at = [&](int place) { return place == 0 ? 0 : 1 + (place - 1 + sweep_step_) % turning; };
  std::vector<NodePair> pairs;
  for (int place = 0; place < places / 2; ++place) {
    const int one = at(place), other = at(places - 1 - place);
    if (std::max(one, other) < nodes_) pairs.push_back({std::min(one, other), std::max(one, other)});
  }
  return pairs;
}

void PairSearch::record(const std::vector<PairFigure>& figures) {
  std::map<std::tuple<int, int, int>, const PairFigure*> given;
  for (const PairFigure& figure : figures) given[{figure.pair.a, figure.pair.b, figure.rail}] = &figure;
  for (const NodePair& pair : current_) {
    for (int rail = 0; rail < rails_; ++rail) {
      const auto it = given.find({pair.a, pair.b, rail});
      PairFigure figure = it != given.end() ? *it->second : PairFigure{pair, rail, 0, "no answer", 0};
      figure.round = round_;
      figures_.push_back(std::move(figure));
    }
  }
  if (options_.full && (round_ > 0 || !options_.alone)) ++sweep_step_;
  ++round_;
  evaluate();
}

// All of it again after each round: the median gets better with every figure, and so do the earlier outcomes.
void PairSearch::evaluate() {
  outcomes_.clear();
  records_.assign(static_cast<size_t>(nodes_), {});
  const double bounds[2] = {bound(false), bound(true)};
  for (const PairFigure& figure : figures_) {  // the rails of a pair follow each other
    if (outcomes_.empty() || !(outcomes_.back().pair == figure.pair) || outcomes_.back().round != figure.round)
      outcomes_.push_back({figure.pair, figure.round, {}, figure.gbps, 0, {}});
    Outcome& outcome = outcomes_.back();
    const bool failed = !figure.failure.empty();
    if (failed) {
      ++outcome.failed_rails;
      outcome.failure = figure.failure;
    }
    if (failed || figure.gbps < bounds[is_alone(figure.pair)]) outcome.slow_rails.push_back(figure.rail);
    outcome.worst = failed ? 0 : std::min(outcome.worst, figure.gbps);
  }
  for (size_t i = 0; i < outcomes_.size(); ++i) {
    const Outcome& outcome = outcomes_[i];
    if (is_alone(outcome.pair)) continue;
    for (const int node : {outcome.pair.a, outcome.pair.b}) {
      Record& record = records_[static_cast<size_t>(node)];
      ++(outcome.slow() ? record.slow : record.good);
      if (outcome.failed_rails == rails_) ++record.failed;
      record.partners[node == outcome.pair.a ? outcome.pair.b : outcome.pair.a] = outcome.slow();
      record.outcomes.push_back(static_cast<int>(i));
    }
  }
}

// No pair of it was good so far. A bad node makes every pair of it slow, so one good pair proves both ends.
bool PairSearch::is_suspect(int node) const { return records_[static_cast<size_t>(node)].good == 0; }

// A slow pair speaks against a node only where the partner is not itself the explanation, and once for each partner, so
// that a bad path does not make two bad nodes.
bool PairSearch::is_bad(int node) const {
  const Record& record = records_[static_cast<size_t>(node)];
  if (is_suspect(node)) return record.slow > 0;
  int slow = 0, good = 0;
  for (const auto& [partner, was_slow] : record.partners) {
    if (!was_slow)
      ++good;
    else if (!is_suspect(partner))
      ++slow;
  }
  return slow > good;
}

int PairSearch::times_run(int a, int b) const {
  int times = 0;
  for (const int i : records_[static_cast<size_t>(a)].outcomes) {
    const NodePair& pair = outcomes_[static_cast<size_t>(i)].pair;
    times += pair.a == b || pair.b == b;
  }
  return times;
}

std::vector<NodePair> PairSearch::follow_up() const {
  std::vector<NodePair> round;
  std::vector<bool> taken(static_cast<size_t>(nodes_), false);
  pair_with_proven(round, taken);
  if (round.empty()) pair_with_untried(round, taken);
  repeat_unexplained(round, taken);
  return round;
}

// Each suspect with a good node that it has not met. Partners are looked for far away, half the nodes on.
void PairSearch::pair_with_proven(std::vector<NodePair>& round, std::vector<bool>& taken) const {
  for (int node = 0; node < nodes_; ++node) {
    if (!is_suspect(node) || records_[static_cast<size_t>(node)].slow >= kPartners) continue;
    for (int step = 1; step < nodes_; ++step) {
      const int partner = (node + nodes_ / 2 + step) % nodes_;
      if (partner == node || taken[static_cast<size_t>(partner)] || is_suspect(partner) || times_run(node, partner))
        continue;
      taken[static_cast<size_t>(node)] = taken[static_cast<size_t>(partner)] = true;
      round.push_back({std::min(node, partner), std::max(node, partner)});
      break;
    }
  }
}

// No good node is to be had (few nodes, or all pairs slow): suspects that have not met meet each other.
void PairSearch::pair_with_untried(std::vector<NodePair>& round, std::vector<bool>& taken) const {
  for (int a = 0; a < nodes_; ++a) {
    if (taken[static_cast<size_t>(a)] || !is_suspect(a) || records_[static_cast<size_t>(a)].slow >= kPartners) continue;
    for (int b = 0; b < nodes_; ++b) {
      if (b == a || taken[static_cast<size_t>(b)] || !is_suspect(b) || times_run(a, b)) continue;
      taken[static_cast<size_t>(a)] = taken[static_cast<size_t>(b)] = true;
      round.push_back({std::min(a, b), std::max(a, b)});
      break;
    }
  }
}

// A slow pair of which neither end is bad is either a path or a passing disturbance: run once more it tells. With two
// nodes alone there is nobody else to ask, and the same pair runs again too.
void PairSearch::repeat_unexplained(std::vector<NodePair>& round, std::vector<bool>& taken) const {
  for (const Outcome& outcome : outcomes_) {
    const auto [a, b] = outcome.pair;
    if (is_alone(outcome.pair) || !outcome.slow() || taken[static_cast<size_t>(a)] || taken[static_cast<size_t>(b)])
      continue;
    const bool unexplained = nodes_ == 2 || (!is_suspect(a) && !is_suspect(b));
    if (!unexplained || times_run(a, b) > 1) continue;
    taken[static_cast<size_t>(a)] = taken[static_cast<size_t>(b)] = true;
    round.push_back(outcome.pair);
  }
}

PairFinding PairSearch::describe(PairVerdict verdict, int node, int peer, const std::vector<int>& evidence) const {
  PairFinding finding;
  finding.verdict = verdict;
  finding.node = node;
  finding.peer = peer;
  std::map<int, int> times;  // rail -> in how many of the outcomes it was slow
  int slow = 0;
  double worst = -1;
  std::string failure;
  for (const int i : evidence) {
    const Outcome& outcome = outcomes_[static_cast<size_t>(i)];
    if (!outcome.slow()) continue;
    ++slow;
    for (const int rail : outcome.slow_rails) ++times[rail];
    if (worst < 0 || outcome.worst < worst) worst = outcome.worst;
    if (!outcome.failure.empty()) failure = outcome.failure;
  }
  for (const auto& [rail, count] : times)
    if (2 * count > slow) finding.rails.push_back(rail);  // slow rails of the partners drop out
  if (finding.rails.empty())
    for (const auto& [rail, count] : times) finding.rails.push_back(rail);
  const bool alone = !evidence.empty() && is_alone(outcomes_[static_cast<size_t>(evidence.front())].pair);
  const double middle = median(alone);
  finding.percent = middle > 0 ? 100 * std::max(worst, 0.0) / middle : 0;
  finding.why = fmt::format("slow in {} of {} {}, {}, worst {:.0f} % of the median {:.1f} GB/s", slow, evidence.size(),
                            alone ? "runs alone" : "pairs", rail_list(finding.rails, rails_), finding.percent, middle);
  if (!failure.empty()) finding.why += "; " + failure;
  return finding;
}

std::vector<PairFinding> PairSearch::findings() const {
  std::vector<PairFinding> out;
  std::vector<bool> told(static_cast<size_t>(nodes_), false);
  for (int node = 0; node < nodes_; ++node) {
    const Record& record = records_[static_cast<size_t>(node)];
    std::vector<int> alone;
    for (size_t i = 0; i < outcomes_.size(); ++i)
      if (is_alone(outcomes_[i].pair) && outcomes_[i].pair.a == node) alone.push_back(static_cast<int>(i));
    const bool slow_alone = !alone.empty() && outcomes_[static_cast<size_t>(alone.front())].slow();
    if (is_bad(node)) {
      const NodePair& first = outcomes_[static_cast<size_t>(record.outcomes.front())].pair;
      const int other = first.a == node ? first.b : first.a;
      const bool only_each_other = times_run(node, other) == static_cast<int>(record.outcomes.size());
      if (only_each_other && is_bad(other)) {
        if (!told[static_cast<size_t>(other)])
          out.push_back(describe(PairVerdict::undecided, node, other, record.outcomes));
      } else {
        PairFinding finding = describe(PairVerdict::node, node, -1, record.outcomes);
        if (record.failed == record.slow)
          finding.verdict = PairVerdict::unreachable;
        else if (static_cast<int>(finding.rails.size()) < rails_)
          finding.verdict = PairVerdict::rail;
        out.push_back(std::move(finding));
      }
      told[static_cast<size_t>(node)] = true;
    } else if (slow_alone) {
      PairFinding finding = describe(PairVerdict::node, node, -1, alone);
      if (static_cast<int>(finding.rails.size()) < rails_) finding.verdict = PairVerdict::rail;
      out.push_back(std::move(finding));
    }
  }
  std::map<std::pair<int, int>, std::vector<int>> by_pair;
  for (size_t i = 0; i < outcomes_.size(); ++i)
    if (!is_alone(outcomes_[i].pair))
      by_pair[{outcomes_[i].pair.a, outcomes_[i].pair.b}].push_back(static_cast<int>(i));
  for (const auto& [pair, evidence] : by_pair) {
    if (is_bad(pair.first) || is_bad(pair.second)) continue;  // explained
    int slow = 0;
    for (const int i : evidence) slow += outcomes_[static_cast<size_t>(i)].slow();
    if (slow == 0) continue;
    const bool again = slow > 1 && outcomes_[static_cast<size_t>(evidence.back())].slow();
    out.push_back(describe(again ? PairVerdict::path : PairVerdict::transient, pair.first, pair.second, evidence));
  }
  return out;
}

}  // namespace nccltune::bench
