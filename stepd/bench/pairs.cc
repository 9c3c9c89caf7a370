// SPDX-License-Identifier: Apache-2.0
#include "bench/pairs.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "bench/statistics.h"

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

bool is_alone(const NodePair& pair) { return pair.a == pair.b; }

}  // namespace

PairSearch::PairSearch(int nodes, int rails, const PairSearchOptions& options)
    : nodes_(nodes),
      rails_(rails),
      options_(options),
      rail_records_(static_cast<size_t>(nodes) * static_cast<size_t>(rails)),
      node_records_(static_cast<size_t>(nodes)) {
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
      double& value = best[place_of(node, figure.rail)];
      value = std::max(value, figure.gbps);
    }
  }
  std::erase(best, 0.0);
  return best;
}

double PairSearch::median(bool alone) const { return bench::median(best_figures(alone)); }

double PairSearch::bound(bool alone) const {
  const std::vector<double> figures = best_figures(alone);
  const double middle = bench::median(figures);
  if (nodes_ < kNodesForScatter) return middle * options_.threshold;
  std::vector<double> above;  // faults make slower: the upper half shows the scatter of healthy figures alone
  for (const double figure : figures)
    if (figure >= middle) above.push_back(figure - middle);
  const double sigma =
      middle <= 0 ? 0 : 1.4826 * bench::median(std::move(above)) / middle;  // of a normal distribution, from the MAD
  return middle * std::max(kLowestThreshold, std::min(options_.threshold, 1 - kSigmas * sigma));
}

double PairSearch::bisection() const {
  if (options_.full) return 0;
  double sum = 0;
  for (const PairFigure& figure : figures_)
    if (figure.round == (options_.alone ? 1 : 0) && figure.failure.empty()) sum += figure.gbps;
  return sum;
}

std::vector<NodePair> PairSearch::next_round() {
  current_.clear();
  if (round_ == 0 && options_.alone) {
    for (int i = 0; i < nodes_; ++i)
      if (!lost(i)) current_.push_back({i, i});
    return current_;
  }
  for (; circle_step(); ++sweep_step_) {
    current_ = circle_round(nodes_, sweep_step_);
    std::erase_if(current_, [this](const NodePair& pair) { return lost(pair.a) || lost(pair.b); });
    if (!current_.empty()) return current_;
  }
  const int before = round_ - (options_.alone ? 1 : 0);
  if (!options_.full && before == 0) current_ = matching();
  if (!options_.full && before == 1 && nodes_ < kNodesForScatter) current_ = second_matching();
  if (current_.empty()) current_ = follow_up();
  return current_;
}

void PairSearch::lose(int node, const std::string& why) {
  lost_.emplace(node, why);
  evaluate();
}

std::optional<int> PairSearch::circle_step() const {
  const bool alone_now = round_ == 0 && options_.alone;
  if (!options_.full || alone_now || sweep_step_ >= nodes_ - 1 + nodes_ % 2) return std::nullopt;
  return sweep_step_;
}

// Nodes that sit far apart, so that the pairs load the fabric's upper levels: i with i + N/2 in Slurm's order, which
// follows topology.conf. The last of an odd number idles and is a suspect until it has met a partner.
std::vector<NodePair> PairSearch::matching() const {
  const std::vector<int> there = nodes_there();
  std::vector<NodePair> pairs;
  for (size_t i = 0, half = there.size() / 2; i < half; ++i) pairs.push_back({there[i], there[i + half]});
  return pairs;
}

// A few nodes meet a second partner each before anybody is judged: three faults in the first four pairs would else make
// the median slow. Who idled chooses first.
std::vector<NodePair> PairSearch::second_matching() const {
  const std::vector<int> there = nodes_there();
  std::vector<size_t> order(there.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return record_of(there[a]).outcomes.size() < record_of(there[b]).outcomes.size();
  });
  std::vector<bool> taken(static_cast<size_t>(nodes_), false);
  std::vector<NodePair> pairs;
  for (const size_t at : order) {
    const int a = there[at];
    for (size_t step = 0; step < there.size() && !taken[static_cast<size_t>(a)]; ++step) {
      const int b = there[(at + there.size() / 2 + 1 + step) % there.size()];
      if (b == a || taken[static_cast<size_t>(b)] || times_run(a, b)) continue;
      taken[static_cast<size_t>(a)] = taken[static_cast<size_t>(b)] = true;
      pairs.push_back({std::min(a, b), std::max(a, b)});
    }
  }
  return pairs;
}

std::vector<int> PairSearch::nodes_there() const {
  std::vector<int> there;
  for (int i = 0; i < nodes_; ++i)
    if (!lost(i)) there.push_back(i);
  return there;
}

// Node 0 (or the idle place of an odd number) stays, the others move on by one place each round.
std::vector<NodePair> circle_round(int nodes, int step) {
  const int places = nodes + nodes % 2, turning = places - 1;
  const auto at = [&](int place) { return place == 0 ? 0 : 1 + (place - 1 + step) % turning; };
  std::vector<NodePair> pairs;
  for (int place = 0; place < places / 2; ++place) {
    const int one = at(place), other = at(places - 1 - place);
    if (std::max(one, other) < nodes) pairs.push_back({std::min(one, other), std::max(one, other)});
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
  rail_records_.assign(rail_records_.size(), {});
  node_records_.assign(node_records_.size(), {});
  const double bounds[2] = {bound(false), bound(true)};
  for (size_t first = 0; first < figures_.size(); first += static_cast<size_t>(rails_)) {
    Outcome outcome{figures_[first].pair, first, {}, true};
    const auto [a, b] = outcome.pair;
    const bool alone = a == b;
    for (int rail = 0; rail < rails_; ++rail) {
      const PairFigure& figure = figures_[first + static_cast<size_t>(rail)];
      const bool failed = !figure.failure.empty(), slow = failed || figure.gbps < bounds[alone];
      if (slow) outcome.slow_rails.push_back(rail);
      if (!failed || figure.reached || figure.culprit >= 0) outcome.unreached = false;
      if (alone) continue;
      for (const auto& [node, other] : {std::pair(a, b), std::pair(b, a)}) {
        if (!lost(node) && lost(other)) continue;  // the other end is why
        if (failed && figure.culprit >= 0 && figure.culprit != node) continue;
        RailRecord& record = rail_records_[place_of(node, rail)];
        ++(slow ? record.slow : record.good);
        record.partners[other] = slow;
      }
    }
    const int index = static_cast<int>(outcomes_.size());
    if (alone) {
      node_records_[static_cast<size_t>(a)].alone.push_back(index);
    } else {
      for (const int node : {a, b}) {
        node_records_[static_cast<size_t>(node)].outcomes.push_back(index);
        node_records_[static_cast<size_t>(node)].unreached += outcome.unreached;
      }
    }
    outcomes_.push_back(std::move(outcome));
  }
}

// Some rail of it was good with nobody so far. A bad rail makes all its figures slow, so a good one proves both ends.
bool PairSearch::is_suspect(int node) const {
  for (int rail = 0; rail < rails_; ++rail)
    if (record_of(node, rail).good == 0) return true;
  return lost(node);
}

// Partners of which nothing was learnt, their end being at fault, count less than those that speak against it.
bool PairSearch::wants_partner(int node) const {
  if (lost(node) || !is_suspect(node) || record_of(node).outcomes.size() >= kPartners + 2) return false;
  int most = 0;
  for (int rail = 0; rail < rails_; ++rail)
    if (record_of(node, rail).good == 0) most = std::max(most, record_of(node, rail).slow);
  return most < kPartners;
}

// A slow figure speaks against a rail only where the partner's is not itself the explanation, and once for each
// partner, so that a bad path does not make two bad nodes.
bool PairSearch::is_bad(int node, int rail) const {
  const RailRecord& record = record_of(node, rail);
  if (record.good == 0) return record.slow > 0;
  int slow = 0, good = 0;
  for (const auto& [partner, was_slow] : record.partners) {
    if (!was_slow)
      ++good;
    else if (record_of(partner, rail).good > 0)
      ++slow;
  }
  return slow > good;
}

std::vector<int> PairSearch::bad_rails(int node) const {
  std::vector<int> rails;
  for (int rail = 0; rail < rails_; ++rail)
    if (is_bad(node, rail)) rails.push_back(rail);
  return rails;
}

int PairSearch::times_run(int a, int b) const {
  int times = 0;
  for (const int i : record_of(a).outcomes) {
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
  repeat_alone(round, taken);
  return round;
}

// Each suspect with a good node that it has not met. Partners are looked for far away, half the nodes on.
void PairSearch::pair_with_proven(std::vector<NodePair>& round, std::vector<bool>& taken) const {
  for (int node = 0; node < nodes_; ++node) {
    if (!wants_partner(node)) continue;
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
    if (taken[static_cast<size_t>(a)] || !wants_partner(a)) continue;
    for (int b = 0; b < nodes_; ++b) {
      if (b == a || taken[static_cast<size_t>(b)] || !is_suspect(b) || lost(b) || times_run(a, b)) continue;
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
    if (a == b || !outcome.slow() || lost(a) || lost(b)) continue;
    if (taken[static_cast<size_t>(a)] || taken[static_cast<size_t>(b)]) continue;
    const bool unexplained = nodes_ == 2 || (!is_suspect(a) && !is_suspect(b));
    if (!unexplained || times_run(a, b) > 1) continue;
    taken[static_cast<size_t>(a)] = taken[static_cast<size_t>(b)] = true;
    round.push_back(outcome.pair);
  }
}

// So that a disturbance does not drain a node that was alone when it came.
void PairSearch::repeat_alone(std::vector<NodePair>& round, std::vector<bool>& taken) const {
  for (int node = 0; node < nodes_; ++node) {
    const auto& alone = record_of(node).alone;
    if (alone.size() != 1 || !outcomes_[static_cast<size_t>(alone.front())].slow()) continue;
    if (lost(node) || taken[static_cast<size_t>(node)] || !bad_rails(node).empty()) continue;
    taken[static_cast<size_t>(node)] = true;
    round.push_back({node, node});
  }
}

}  // namespace nccltune::bench
