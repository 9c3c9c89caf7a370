// SPDX-License-Identifier: Apache-2.0
// What the figures of a search say in the end.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "bench/pairs.h"
#include "bench/text.h"

namespace nccltune::bench {
namespace {

std::string rails_in_words(const std::vector<int>& rails, int all) {
  if (static_cast<int>(rails.size()) == all) return all == 1 ? "its rail" : "all rails";
  return (rails.size() == 1 ? "rail " : "rails ") + rank_list(rails);
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

PairFinding PairSearch::describe(PairVerdict verdict, int node, int peer, const std::vector<int>& rails,
                                 const std::vector<int>& evidence) const {
  PairFinding finding;
  finding.verdict = verdict;
  finding.node = node;
  finding.peer = peer;
  finding.rails = rails;
  int slow = 0;
  double worst = -1;
  std::string failure;
  for (const int i : evidence) {
    const Outcome& outcome = outcomes_[static_cast<size_t>(i)];
    bool counts = false;
    for (const int rail : rails) {
      if (std::find(outcome.slow_rails.begin(), outcome.slow_rails.end(), rail) == outcome.slow_rails.end()) continue;
      const PairFigure& figure = figures_[outcome.first + static_cast<size_t>(rail)];
      counts = true;
      if (worst < 0 || figure.gbps < worst) worst = figure.gbps;
      if (failure.empty() || (figure.culprit == node && !figure.failure.empty())) failure = figure.failure;
    }
    slow += counts;
  }
  if (!evidence.empty()) {
    const auto [a, b] = outcomes_[static_cast<size_t>(evidence.front())].pair;
    finding.alone = a == b;
  }
  const double middle = median(finding.alone);
  finding.percent = middle > 0 ? 100 * std::max(worst, 0.0) / middle : 0;
  finding.why =
      fmt::format("slow in {} of {} {}, {}, worst {:.0f} % of the median {:.3g} GB/s", slow, evidence.size(),
                  finding.alone ? "runs alone" : "pairs", rails_in_words(rails, rails_), finding.percent, middle);
  if (!failure.empty()) finding.why += "; " + failure;
  return finding;
}

std::optional<PairFinding> PairSearch::judge_node(int node, std::vector<bool>& told) const {
  const NodeRecord& record = record_of(node);
  if (lost(node)) {
    PairFinding finding{PairVerdict::unreachable, node, -1, {}, 0, lost_.at(node)};
    for (int rail = 0; rail < rails_; ++rail) finding.rails.push_back(rail);
    return finding;
  }
  const std::vector<int> rails = bad_rails(node);
  if (rails.empty()) return std::nullopt;
  told[static_cast<size_t>(node)] = true;
  const auto [a, b] = outcomes_[static_cast<size_t>(record.outcomes.front())].pair;
  const int other = a == node ? b : a;
  const bool only_each_other = times_run(node, other) == static_cast<int>(record.outcomes.size());
  if (only_each_other && !lost(other) && !bad_rails(other).empty()) {
    if (told[static_cast<size_t>(other)]) return std::nullopt;
    return describe(PairVerdict::undecided, node, other, rails, record.outcomes);
  }
  PairFinding finding = describe(PairVerdict::node, node, -1, rails, record.outcomes);
  if (static_cast<int>(rails.size()) < rails_)
    finding.verdict = PairVerdict::rail;
  else if (record.unreached == static_cast<int>(record.outcomes.size()))
    finding.verdict = PairVerdict::unreachable;
  return finding;
}

// Slow by itself, its pairs being good.
std::optional<PairFinding> PairSearch::judge_alone(int node) const {
  const auto& alone = record_of(node).alone;
  std::map<int, int> times;  // rail -> in how many of the runs it was slow
  int slow = 0;
  for (const int i : alone) {
    slow += outcomes_[static_cast<size_t>(i)].slow();
    for (const int rail : outcomes_[static_cast<size_t>(i)].slow_rails) ++times[rail];
  }
  if (slow == 0) return std::nullopt;
  const bool passed = !outcomes_[static_cast<size_t>(alone.back())].slow();
  std::vector<int> rails;
  for (const auto& [rail, count] : times)
    if (count == slow) rails.push_back(rail);
  if (rails.empty())
    for (const auto& [rail, count] : times) rails.push_back(rail);
  const bool whole = static_cast<int>(rails.size()) == rails_;
  return describe(passed  ? PairVerdict::transient
                  : whole ? PairVerdict::node
                          : PairVerdict::rail,
                  node, -1, rails, alone);
}

std::optional<PairFinding> PairSearch::judge_path(const NodePair& pair, const std::vector<int>& evidence) const {
  std::map<int, int> times;  // rail -> in how many of the outcomes it was slow, neither end being to blame
  std::map<int, bool> last;
  for (const int i : evidence) {
    for (auto& [rail, slow] : last) slow = false;
    for (const int rail : outcomes_[static_cast<size_t>(i)].slow_rails) {
      if (is_bad(pair.a, rail) || is_bad(pair.b, rail)) continue;
      ++times[rail];
      last[rail] = true;
    }
  }
  if (times.empty() || lost(pair.a) || lost(pair.b)) return std::nullopt;
  std::vector<int> again, once;
  for (const auto& [rail, count] : times) (count > 1 && last[rail] ? again : once).push_back(rail);
  if (!again.empty()) return describe(PairVerdict::path, pair.a, pair.b, again, evidence);
  // Beside a rail that is bad, one that was slow once is no news.
  if (!bad_rails(pair.a).empty() || !bad_rails(pair.b).empty()) return std::nullopt;
  return describe(PairVerdict::transient, pair.a, pair.b, once, evidence);
}

std::vector<PairFinding> PairSearch::findings() const {
  std::vector<PairFinding> found;
  std::vector<bool> told(static_cast<size_t>(nodes_), false);
  for (int node = 0; node < nodes_; ++node) {
    auto finding = judge_node(node, told);
    if (!finding && bad_rails(node).empty()) finding = judge_alone(node);
    if (finding) found.push_back(std::move(*finding));
  }
  std::map<std::pair<int, int>, std::vector<int>> by_pair;
  for (size_t i = 0; i < outcomes_.size(); ++i)
    if (const auto [a, b] = outcomes_[i].pair; a != b) by_pair[{a, b}].push_back(static_cast<int>(i));
  for (const auto& [pair, evidence] : by_pair)
    if (auto finding = judge_path({pair.first, pair.second}, evidence)) found.push_back(std::move(*finding));
  return found;
}

}  // namespace nccltune::bench
