// SPDX-License-Identifier: Apache-2.0
#include "bench/pairs_report.h"

#include <algorithm>
#include <map>
#include <set>

#include "bench/collectives.h"
#include "bench/hostlist.h"
#include "bench/json.h"
#include "bench/text.h"

namespace nccltune::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostGoodRows = 64;

bool is_alone(const NodePair& pair) { return pair.a == pair.b; }

const RailCard& card_of(const NodeCard& node, int rail) {
  static const RailCard kNone;
  for (const RailCard& card : node.rails)
    if (card.rail == rail) return card;
  return kNone;
}

std::string line(const Json& json) { return dump(json) + "\n"; }

Json end_json(const NodeCard& node, int rail) {
  const RailCard& card = card_of(node, rail);
  return {{"node", node.name}, {"host", node.host}, {"gpu", card.gpu},
          {"bdf", card.bdf},   {"uuid", card.uuid}, {"nics", card.nics}};
}

// A figure that is no number would make the line unreadable.
double rounded(double value, double step) { return std::round(value / step) * step; }

std::string rails_text(const std::vector<int>& rails, int all) {
  return static_cast<int>(rails.size()) == all ? "all" : rank_list(rails);
}

bool condemns(PairVerdict verdict) {
  return verdict == PairVerdict::node || verdict == PairVerdict::rail || verdict == PairVerdict::unreachable;
}

// The partners that a node was measured with, each with the worst of the finding's rails: the evidence.
Json evidence_json(const PairsRun& run, const PairSearch& search, const PairFinding& finding) {
  Json evidence = Json::array();
  for (const PairFigure& figure : search.figures()) {
    const bool own = figure.pair.a == finding.node || figure.pair.b == finding.node;
    if (!own || is_alone(figure.pair) != finding.alone ||
        std::find(finding.rails.begin(), finding.rails.end(), figure.rail) == finding.rails.end())
      continue;
    const int peer = figure.pair.a == finding.node ? figure.pair.b : figure.pair.a;
    if (finding.peer >= 0 && peer != finding.peer) continue;
    Json item = {{"round", figure.round},
                 {"rail", figure.rail},
                 {"peer", is_alone(figure.pair) ? Json() : Json(run.nodes[static_cast<size_t>(peer)].name)},
                 {"gbps", rounded(figure.gbps, 1e-4)}};
    if (!figure.failure.empty()) item["failure"] = figure.failure;
    evidence.push_back(std::move(item));
  }
  return evidence;
}

std::string drain_reason(const PairsRun& run, const PairFinding& finding) {
  std::string reason = "nccl-tune pairs: ";
  if (finding.verdict == PairVerdict::unreachable) {
    reason += "unreachable";
  } else {
    if (finding.verdict == PairVerdict::rail) {
      reason += "rail " + rank_list(finding.rails);
      const std::string& bdf = card_of(run.nodes[static_cast<size_t>(finding.node)], finding.rails.front()).bdf;
      if (finding.rails.size() == 1 && !bdf.empty()) reason += " (GPU " + bdf + ")";
      reason += " ";
    }
    reason += finding.percent > 0 ? print("at %.0f %% of the median", finding.percent) : "fails";
  }
  return reason;
}

std::string drain_command(const PairsRun& run, const PairFinding& finding) {
  return print("scontrol update nodename=%s state=drain reason=\"%s\"",
               run.nodes[static_cast<size_t>(finding.node)].name.c_str(), drain_reason(run, finding).c_str());
}

// Rows of the table, columns to be aligned.
using Rows = std::vector<std::vector<std::string>>;

std::string aligned(const Rows& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows)
    for (size_t c = 0; c < row.size(); ++c) {
      if (c == widths.size()) widths.push_back(0);
      widths[c] = std::max(widths[c], row[c].size());
    }
  std::string text;
  for (const auto& row : rows) {
    std::string one;
    for (size_t c = 0; c < row.size(); ++c) {
      const bool number = c == 4 || c == 5;  // GB/s, %
      const std::string blanks(widths[c] - row[c].size(), ' ');
      one += number ? blanks + row[c] : row[c] + blanks;
      one += "  ";
    }
    one.erase(one.find_last_not_of(' ') + 1);
    text += one + "\n";
  }
  return text;
}

// GB/s with the digits that tell figures apart, of NVLink and of a slow Ethernet alike.
std::string rate(double gbps) { return print(gbps >= 100 ? "%.1f" : gbps >= 1 ? "%.2f" : "%.4f", gbps); }

std::string dash(const std::string& text) { return text.empty() ? "-" : text; }

void add_finding(const PairsRun& run, const PairSearch& search, const PairFinding& finding, Rows& rows) {
  const NodeCard& node = run.nodes[static_cast<size_t>(finding.node)];
  const RailCard& card = finding.rails.size() == 1 ? card_of(node, finding.rails.front()) : RailCard{};
  const double middle = search.median(finding.alone);
  rows.push_back({node.name, rails_text(finding.rails, run.rails), dash(card.bdf),
                  finding.peer < 0 ? "-" : run.nodes[static_cast<size_t>(finding.peer)].name,
                  rate(finding.percent * middle / 100), print("%.0f", finding.percent), name(finding.verdict),
                  finding.why + (card.nics.empty() ? "" : "; NIC " + card.nics)});
}

// What a node that nobody complains about reached, rail by rail.
void add_good_rows(const PairsRun& run, const PairSearch& search, const std::set<int>& named, Rows& rows) {
  std::map<std::pair<int, int>, std::pair<double, int>> best;  // node, rail -> GB/s, pairs
  const bool alone = run.nodes.size() == 1;
  for (const PairFigure& figure : search.figures()) {
    if (is_alone(figure.pair) != alone || !figure.failure.empty()) continue;
    for (const int node : std::set<int>{figure.pair.a, figure.pair.b}) {
      auto& [gbps, pairs] = best[{node, figure.rail}];
      gbps = std::max(gbps, figure.gbps);
      ++pairs;
    }
  }
  const double middle = search.median(alone);
  for (size_t node = 0; node < run.nodes.size(); ++node) {
    if (named.contains(static_cast<int>(node)) || !search.proven(static_cast<int>(node))) continue;
    for (int rail = 0; rail < run.rails; ++rail) {
      const auto& [gbps, pairs] = best[{static_cast<int>(node), rail}];
      rows.push_back({run.nodes[node].name, std::to_string(rail), dash(card_of(run.nodes[node], rail).bdf), "-",
                      rate(gbps), print("%.0f", middle > 0 ? 100 * gbps / middle : 0), "good",
                      print("best of %d", pairs)});
    }
  }
}

std::string list_line(const char* what, const std::vector<std::string>& names) {
  return names.empty() ? "" : print("# %-12s: %s (%zu)\n", what, compress_hosts(names).c_str(), names.size());
}

std::string head_text(const PairsRun& run, const PairSearch& search) {
  std::set<std::pair<int, std::pair<int, int>>> pairs;
  for (const PairFigure& figure : search.figures())
    if (!is_alone(figure.pair)) pairs.insert({figure.round, {figure.pair.a, figure.pair.b}});
  const std::string collective(info_of(run.options.collective).name);
  std::string text = print("# pairs: %zu nodes, %d %s each, %s worker; %s of %s, %d iterations\n", run.nodes.size(),
                           run.rails, run.rails == 1 ? "rail" : "rails", run.worker.c_str(), collective.c_str(),
                           human_size(run.options.bytes).c_str(), run.options.iterations);
  text += print("# %d rounds, %zu pairs, %.1f s%s\n", search.rounds(), pairs.size(), run.seconds,
                run.complete ? "" : "; ended early");
  for (const bool alone : {false, true})
    if (const double middle = search.median(alone); middle > 0)
      text += print("# median of %s: %s GB/s; slow is below %s GB/s\n", alone ? "nodes alone" : "pairs",
                    rate(middle).c_str(), rate(search.bound(alone)).c_str());
  if (const double sum = search.bisection(); sum > 0 && run.nodes.size() > 3)
    text += print("# bisection, one half of the nodes with the other at a time: %s GB/s each way\n", rate(sum).c_str());
  return text;
}

}  // namespace

std::string rail_name(const NodeCard& node, int rail) {
  const std::string& bdf = card_of(node, rail).bdf;
  return print("%s rail %d%s", node.name.c_str(), rail, bdf.empty() ? "" : (" (" + bdf + ")").c_str());
}

std::string json_start(const PairsRun& run) {
  Json nodes = Json::array();
  for (const NodeCard& node : run.nodes) {
    Json cards = Json::array();
    for (const RailCard& card : node.rails) {
      cards.push_back({{"rail", card.rail},
                       {"gpu", card.gpu},
                       {"bdf", card.bdf},
                       {"uuid", card.uuid},
                       {"nics", card.nics},
                       {"library", card.library}});
    }
    nodes.push_back({{"node", node.name}, {"host", node.host}, {"topology", node.topology}, {"rails", cards}});
  }
  return line({{"kind", "start"},
               {"nccl_tune", NCCLTUNE_VERSION},
               {"job", run.job},
               {"worker", run.worker},
               {"world", run.world},
               {"collective", info_of(run.options.collective).name},
               {"bytes", run.options.bytes},
               {"iterations", run.options.iterations},
               {"threshold", run.options.threshold},
               {"full", run.options.full},
               {"rails", run.rails},
               {"nodes", nodes}});
}

std::string json_figures(const PairsRun& run, const PairSearch& search, size_t from) {
  std::string text;
  const double bounds[2] = {search.bound(false), search.bound(true)};
  const double medians[2] = {search.median(false), search.median(true)};
  for (size_t i = from; i < search.figures().size(); ++i) {
    const PairFigure& figure = search.figures()[i];
    const bool alone = is_alone(figure.pair);
    Json json = {{"kind", alone ? "alone" : "pair"}, {"round", figure.round}, {"rail", figure.rail}};
    json.update(end_json(run.nodes[static_cast<size_t>(figure.pair.a)], figure.rail));
    json["peer"] = alone ? Json() : end_json(run.nodes[static_cast<size_t>(figure.pair.b)], figure.rail);
    json["gbps"] = rounded(figure.gbps, 1e-4);
    json["percent"] = medians[alone] > 0 ? rounded(100 * figure.gbps / medians[alone], 0.1) : 0;
    json["verdict"] = !figure.failure.empty() ? "failed" : figure.gbps < bounds[alone] ? "slow" : "good";
    json["failure"] = figure.failure;
    text += line(json);
  }
  return text;
}

std::string json_end(const PairsRun& run, const PairSearch& search, int status) {
  std::string text;
  for (const PairFinding& finding : search.findings()) {
    const NodeCard& node = run.nodes[static_cast<size_t>(finding.node)];
    Json rails = Json::array();
    for (const int rail : finding.rails) {
      Json end = end_json(node, rail);
      end["rail"] = rail;
      rails.push_back(std::move(end));
    }
    text += line({{"kind", "finding"},
                  {"verdict", name(finding.verdict)},
                  {"node", node.name},
                  {"host", node.host},
                  {"rails", rails},
                  {"peer", finding.peer < 0 ? Json() : Json(run.nodes[static_cast<size_t>(finding.peer)].name)},
                  {"alone", finding.alone},
                  {"percent", rounded(finding.percent, 0.1)},
                  {"why", finding.why},
                  {"evidence", evidence_json(run, search, finding)},
                  {"drain", condemns(finding.verdict) && !run.options.tasks_as_nodes ? Json(drain_command(run, finding))
                                                                                     : Json()}});
  }
  const NodeLists lists = node_lists(run, search);
  text += line({{"kind", "end"},
                {"complete", run.complete},
                {"rounds", search.rounds()},
                {"seconds", rounded(run.seconds, 0.001)},
                {"median", rounded(search.median(false), 1e-4)},
                {"median_alone", rounded(search.median(true), 1e-4)},
                {"bound", rounded(search.bound(false), 1e-4)},
                {"bisection", rounded(search.bisection(), 1e-4)},
                {"good", compress_hosts(lists.good)},
                {"bad", compress_hosts(lists.bad)},
                {"unreachable", compress_hosts(lists.unreachable)},
                {"undecided", compress_hosts(lists.undecided)},
                {"untested", compress_hosts(lists.untested)},
                {"exit_status", status}});
  return text;
}

NodeLists node_lists(const PairsRun& run, const PairSearch& search) {
  NodeLists lists;
  std::map<int, PairVerdict> worst;
  for (const PairFinding& finding : search.findings()) {
    if (condemns(finding.verdict)) worst.emplace(finding.node, finding.verdict);
    if (finding.verdict == PairVerdict::undecided)
      for (const int node : {finding.node, finding.peer}) worst.emplace(node, finding.verdict);
  }
  for (size_t i = 0; i < run.nodes.size(); ++i) {
    const auto at = worst.find(static_cast<int>(i));
    std::vector<std::string>& list = at == worst.end()
                                         ? search.proven(static_cast<int>(i)) ? lists.good : lists.untested
                                     : at->second == PairVerdict::unreachable ? lists.unreachable
                                     : at->second == PairVerdict::undecided   ? lists.undecided
                                                                              : lists.bad;
    list.push_back(run.nodes[i].name);
  }
  return lists;
}

std::vector<std::string> drain_commands(const PairsRun& run, const PairSearch& search) {
  std::vector<std::string> commands;
  std::set<int> told;
  if (run.options.tasks_as_nodes) return commands;
  for (const PairFinding& finding : search.findings())
    if (condemns(finding.verdict) && told.insert(finding.node).second) commands.push_back(drain_command(run, finding));
  return commands;
}

int pairs_status(const PairSearch& search) {
  const auto findings = search.findings();
  return std::any_of(findings.begin(), findings.end(),
                     [](const PairFinding& f) { return f.verdict != PairVerdict::transient; });
}

std::string pairs_text(const PairsRun& run, const PairSearch& search) {
  Rows rows = {{"node", "rail", "GPU", "peer", "GB/s", "% of median", "verdict", "why"}};
  std::set<int> named;
  for (const PairFinding& finding : search.findings()) {
    add_finding(run, search, finding, rows);
    if (condemns(finding.verdict) || finding.verdict == PairVerdict::undecided) named.insert(finding.node);
    if (finding.verdict == PairVerdict::undecided) named.insert(finding.peer);
  }
  const NodeLists lists = node_lists(run, search);
  const size_t good = lists.good.size() * static_cast<size_t>(run.rails);
  if (run.options.all || good <= kMostGoodRows) add_good_rows(run, search, named, rows);
  std::string text = head_text(run, search);
  if (rows.size() > 1) text += aligned(rows);
  text += list_line("good", lists.good) + list_line("bad", lists.bad) + list_line("unreachable", lists.unreachable) +
          list_line("undecided", lists.undecided) + list_line("not tested", lists.untested);
  const auto commands = drain_commands(run, search);
  if (!commands.empty()) text += "# to take them out of service:\n";
  for (const std::string& command : commands) text += command + "\n";
  return text;
}

}  // namespace nccltune::bench
