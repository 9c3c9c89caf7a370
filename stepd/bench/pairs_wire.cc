// SPDX-License-Identifier: Apache-2.0
#include "bench/pairs_wire.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <set>
#include <utility>

#include "bench/text.h"

namespace nccltune::bench {
namespace {

constexpr const char* kCardMark = "NTP1 " NCCLTUNE_VERSION;  // a card of another version is not understood
constexpr int kMostRails = 1 << 16, kMostNodes = 1 << 17;

// Fields are cut at tabs and lines at newlines; neither is in what is told, but a library's words are not ours.
std::string field(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  return text;
}

std::string line(const std::vector<std::string>& fields) {
  std::vector<std::string> clean;
  clean.reserve(fields.size());
  for (const std::string& text : fields) clean.push_back(field(text));
  return join(clean, "\t") + "\n";
}

}  // namespace

std::optional<NodePair> RoundPlan::pair_of(int node) const {
  for (const NodePair& pair : pairs)
    if (pair.a == node || pair.b == node) return pair;
  return std::nullopt;
}

std::string pack(const NodeCard& card) {
  std::string text = line({kCardMark, card.name, card.host, card.topology, card.options});
  for (const RailCard& r : card.rails)
    text += line({std::to_string(r.rail), r.gpu, r.bdf, r.uuid, r.nics, r.library, r.failure});
  return text;
}

std::optional<NodeCard> unpack_card(std::string_view text) {
  NodeCard card;
  bool first = true;
  for (const std::string& one : split(text, '\n')) {
    if (one.empty()) continue;
    const auto f = split(one, '\t');
    if (std::exchange(first, false)) {
      if (f.size() != 5 || f[0] != kCardMark) return std::nullopt;
      card.name = f[1], card.host = f[2], card.topology = f[3], card.options = f[4];
      continue;
    }
    const auto rail = f.size() == 7 ? parse_integer(f[0], 0, kMostRails) : std::nullopt;
    if (!rail) return std::nullopt;
    card.rails.push_back({static_cast<int>(*rail), f[1], f[2], f[3], f[4], f[5], f[6]});
  }
  if (first) return std::nullopt;
  return card;
}

// As parse_real() reads it, without an exponent: a path that drops most of its packets has a rate below 1e-4.
static std::string fixed(double gbps) { return print("%.9f", std::isfinite(gbps) ? gbps : 0); }

std::string pack(const std::vector<RailReport>& reports) {
  std::string text;
  for (const RailReport& r : reports)
    text += line({std::to_string(r.rail), fixed(r.gbps), std::to_string(static_cast<int>(r.blame)),
                  r.reached ? "1" : "0", r.failure});
  return text;
}

std::optional<std::vector<RailReport>> unpack_reports(std::string_view text) {
  std::vector<RailReport> reports;
  for (const std::string& one : split(text, '\n')) {
    if (one.empty()) continue;
    const auto f = split(one, '\t');
    if (f.size() != 5) return std::nullopt;
    const auto rail = parse_integer(f[0], 0, kMostRails), blame = parse_integer(f[2], 0, 4);
    const auto gbps = parse_real(f[1]);
    if (!rail || !gbps || !blame) return std::nullopt;
    reports.push_back({static_cast<int>(*rail), *gbps, static_cast<RailReport::Blame>(*blame), f[3] == "1", f[4]});
  }
  return reports;
}

std::string pack(const RoundPlan& plan, std::optional<int> circle) {
  if (plan.over) return line({"over", std::to_string(plan.status), plan.text});
  std::string text = circle ? print("circle %d", *circle) : "pairs";
  if (!circle)
    for (const NodePair& pair : plan.pairs) text += print(" %d-%d", pair.a, pair.b);
  text += "\nlost";
  for (const int node : plan.lost) text += print(" %d", node);
  return text + "\n";
}

std::optional<RoundPlan> unpack_plan(std::string_view text, int nodes) {
  RoundPlan plan;
  const auto lines = split(text, '\n');
  if (lines[0].starts_with("over\t")) {
    const auto f = split(lines[0], '\t');
    const auto status = f.size() == 3 ? parse_integer(f[1], 0, 255) : std::nullopt;
    if (!status) return std::nullopt;
    plan.over = true, plan.status = static_cast<int>(*status), plan.text = f[2];
    return plan;
  }
  if (lines.size() < 2) return std::nullopt;
  const auto lost = split(lines[1], ' '), words = split(lines[0], ' ');
  if (lost[0] != "lost") return std::nullopt;
  for (size_t i = 1; i < lost.size(); ++i) {
    const auto node = parse_integer(lost[i], 0, kMostNodes);
    if (!node) return std::nullopt;
    plan.lost.push_back(static_cast<int>(*node));
  }
  if (words[0] == "circle") {
    const auto step = words.size() == 2 ? parse_integer(words[1], 0, kMostNodes) : std::nullopt;
    if (!step) return std::nullopt;
    const std::set<int> gone(plan.lost.begin(), plan.lost.end());
    for (const NodePair& pair : circle_round(nodes, static_cast<int>(*step)))
      if (!gone.contains(pair.a) && !gone.contains(pair.b)) plan.pairs.push_back(pair);
    return plan;
  }
  if (words[0] != "pairs") return std::nullopt;
  for (size_t i = 1; i < words.size(); ++i) {
    const auto ends = split(words[i], '-');
    const auto a = ends.size() == 2 ? parse_integer(ends[0], 0, nodes - 1) : std::nullopt;
    const auto b = ends.size() == 2 ? parse_integer(ends[1], 0, nodes - 1) : std::nullopt;
    if (!a || !b) return std::nullopt;
    plan.pairs.push_back({static_cast<int>(*a), static_cast<int>(*b)});
  }
  return plan;
}

PairFigure merge_reports(const NodePair& pair, int rail, const RailReport* a, const RailReport* b,
                         const std::string& name_a, const std::string& name_b, const std::string& silence) {
  PairFigure figure{pair, rail, 0, "", 0};
  if (a == nullptr || b == nullptr) {
    figure.failure = a == nullptr ? name_a + ": " + silence : name_b + ": " + silence;
    if (a != nullptr || b != nullptr) figure.culprit = a == nullptr ? pair.a : pair.b;
    return figure;
  }
  if (a->failure.empty() && b->failure.empty()) {
    figure.gbps = std::max(a->gbps, b->gbps);  // both tell the same number
    return figure;
  }
  const auto own_fault = [](const RailReport& end) {
    return !end.failure.empty() && end.blame <= RailReport::Blame::broke;
  };
  const bool blames_b = a->failure.empty() || (!b->failure.empty() && b->blame < a->blame);
  figure.failure = blames_b ? name_b + ": " + b->failure : name_a + ": " + a->failure;
  if (own_fault(*a) != own_fault(*b)) figure.culprit = own_fault(*a) ? pair.a : pair.b;
  figure.reached = a->reached || b->reached;
  return figure;
}

std::vector<int> fabric_order(const std::vector<std::string>& topologies) {
  std::vector<int> order(topologies.size());
  std::iota(order.begin(), order.end(), 0);
  // The last part is the node itself: nodes of one switch keep Slurm's order.
  const auto switches = [&](int node) {
    const std::string& address = topologies[static_cast<size_t>(node)];
    const size_t dot = address.rfind('.');
    return dot == std::string::npos ? std::string() : address.substr(0, dot);
  };
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return switches(a) < switches(b); });
  return order;
}

}  // namespace nccltune::bench
