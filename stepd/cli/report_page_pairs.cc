// SPDX-License-Identifier: Apache-2.0
#include "cli/report_page_pairs.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "cli/html.h"
#include "cli/json_field.h"

namespace nccltune::cli {

namespace {

using Json = nlohmann::ordered_json;

// A matrix of more nodes is no picture any more: then it shows those that something is wrong with, and their partners.
constexpr size_t kMostNodes = 48;

double number(const Json& json, const char* name) {
  const Json& value = field(json, name);
  return value.is_number() ? value.get<double>() : 0;
}

struct Cell {           // of two nodes, or of a node and a rail
  double percent = -1;  // of the median; the lowest rail's
  bool failed = false, slow = false;
  std::string rails;  // for the pointer: each rail's figure
};

struct Figure {
  std::string node, peer;  // peer: the node itself when it ran alone
  int rail = 0, round = 0;
  double gbps = 0, percent = 0;
  std::string verdict, failure;
};

std::vector<Figure> figures_of(const Json& pairs) {
  std::vector<Figure> figures;
  for (const Json& line : field(pairs, "figures")) {
    Figure figure;
    figure.node = text_of_field(line, "node");
    const Json& peer = field(line, "peer");
    figure.peer = peer.is_object() ? text_of_field(peer, "node") : figure.node;
    figure.rail = static_cast<int>(number(line, "rail"));
    figure.round = static_cast<int>(number(line, "round"));
    figure.gbps = number(line, "gbps"), figure.percent = number(line, "percent");
    figure.verdict = text_of_field(line, "verdict"), figure.failure = text_of_field(line, "failure");
    if (!figure.node.empty() && !figure.peer.empty()) figures.push_back(std::move(figure));
  }
  return figures;
}

// The colour's class; the word for those who do not see it.
const char* tone(const Cell& cell) {
  if (cell.failed) return "h0";
  if (cell.percent < 60) return "h1";
  if (cell.slow) return "h2";
  return cell.percent < 97 ? "h3" : "h4";
}

std::string cell_html(const Cell& cell, const std::string& where) {
  if (cell.percent < 0 && !cell.failed) return "<td class=\"h\"></td>";
  return fmt::format("<td class=\"h {}\" title=\"{}: {}\">{}</td>", tone(cell), html(where), html(cell.rails),
                     cell.failed ? "<span aria-label=\"failed\">✕</span>" : fmt::format("{:.0f}", cell.percent));
}

void add(Cell& cell, const Figure& figure) {
  const bool failed = figure.verdict == "failed";
  if (!cell.rails.empty()) cell.rails += ", ";
  cell.rails += fmt::format("rail {} {}", figure.rail, failed ? "failed" : fmt::format("{:.4g} GB/s", figure.gbps));
  cell.failed |= failed;
  cell.slow |= figure.verdict == "slow";
  if (!failed && (cell.percent < 0 || figure.percent < cell.percent)) cell.percent = figure.percent;
}

// The nodes in the order of the search, with all that are of interest when there are too many.
std::vector<std::string> nodes_of(const Json& pairs, const std::vector<Figure>& figures) {
  std::vector<std::string> nodes;
  for (const Json& node : field(field(pairs, "start"), "nodes")) nodes.push_back(text_of_field(node, "node"));
  if (nodes.size() <= kMostNodes) return nodes;
  std::set<std::string> named, shown;
  for (const Json& finding : field(pairs, "findings")) named.insert(text_of_field(finding, "node"));
  for (const Figure& figure : figures)
    if (shown.size() < kMostNodes && (named.contains(figure.node) || named.contains(figure.peer)))
      shown.insert({figure.node, figure.peer});
  std::erase_if(nodes, [&](const std::string& node) { return !shown.contains(node); });
  return nodes;
}

std::string head_row(const std::vector<std::string>& names) {
  std::string out = "<thead><tr><td></td>";
  for (const std::string& name : names) out += "<th scope=\"col\"><span>" + html(name) + "</span></th>";
  return out + "</tr></thead>";
}

std::string region(const std::string& name, const std::string& table) {
  return "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"" + name + "\">" + table + "</div>";
}

// The last time that two nodes ran counts; the diagonal is the node by itself.
std::string matrix(const std::vector<std::string>& nodes, const std::vector<Figure>& figures) {
  std::map<std::pair<std::string, std::string>, std::pair<int, Cell>> cells;  // round, cell
  for (const Figure& figure : figures)
    for (const auto& ends : {std::pair(figure.node, figure.peer), std::pair(figure.peer, figure.node)}) {
      auto& [round, cell] = cells[ends];
      if (figure.round != round) cell = {}, round = figure.round;
      add(cell, figure);
      if (figure.node == figure.peer) break;
    }
  std::string out =
      "<table class=\"heat\"><caption>lowest rail of each pair, in % of the median; the diagonal is a node "
      "by itself; empty: not run</caption>" +
      head_row(nodes) + "<tbody>";
  for (const std::string& a : nodes) {
    out += "<tr><th scope=\"row\">" + html(a) + "</th>";
    for (const std::string& b : nodes) {
      const auto at = cells.find({a, b});
      out += cell_html(at == cells.end() ? Cell{} : at->second.second, a == b ? a : a + " with " + b);
    }
    out += "</tr>";
  }
  return region("the pair matrix", out + "</tbody></table>");
}

// What each rail of each node reached at its best: a bad rail stands out where the matrix shows its node only.
std::string rails_table(const std::vector<std::string>& nodes, const std::vector<Figure>& figures, int rails) {
  std::map<std::pair<std::string, int>, Cell> best;
  for (const Figure& figure : figures) {
    if (figure.node == figure.peer) continue;
    for (const std::string& node : {figure.node, figure.peer}) {
      Cell& cell = best[{node, figure.rail}];
      Cell now;
      add(now, figure);
      const bool better =
          cell.rails.empty() || (cell.failed && !now.failed) || (!now.failed && now.percent > cell.percent);
      if (better) cell = now;
    }
  }
  std::vector<std::string> names;
  names.reserve(static_cast<size_t>(rails));
  for (int rail = 0; rail < rails; ++rail) names.push_back(fmt::format("rail {}", rail));
  std::string out =
      "<table class=\"heat\"><caption>best of each rail, in % of the median</caption>" + head_row(names) + "<tbody>";
  for (const std::string& node : nodes) {
    out += "<tr><th scope=\"row\">" + html(node) + "</th>";
    for (int rail = 0; rail < rails; ++rail) out += cell_html(best[{node, rail}], node);
    out += "</tr>";
  }
  return region("the rails", out + "</tbody></table>");
}

std::string finding_row(const Json& finding) {
  std::string gpus, rails;
  for (const Json& rail : field(finding, "rails")) {
    if (!rails.empty()) rails += ", ";
    rails += fmt::format("{}", static_cast<int>(number(rail, "rail")));
    const std::string bdf = text_of_field(rail, "bdf"), nics = text_of_field(rail, "nics");
    if (!bdf.empty()) gpus += html(bdf + (nics.empty() ? "" : " · " + nics)) + "<br>";
  }
  const std::string verdict = text_of_field(finding, "verdict"), drain = text_of_field(finding, "drain");
  return "<tr><td data-name=\"node\"><strong>" + html(text_of_field(finding, "node")) +
         "</strong></td><td data-name=\"verdict\"><span class=\"state " + (verdict == "transient" ? "warn" : "fail") +
         "\">" + html(verdict) + "</span></td><td data-name=\"rails\">" + rails + "</td><td data-name=\"GPU, NIC\">" +
         (gpus.empty() ? "–" : gpus) + "</td><td data-name=\"peer\">" +
         (field(finding, "peer").is_string() ? html(text_of_field(finding, "peer")) : "–") +
         fmt::format("</td><td data-name=\"of the median\">{:.0f} %</td>", number(finding, "percent")) +
         "<td data-name=\"why\">" + html(text_of_field(finding, "why")) +
         (drain.empty() ? "" : "<br><code>" + html(drain) + "</code>") + "</td></tr>";
}

std::string figures_table(const std::vector<Figure>& figures) {
  std::string out =
      "<table><thead><tr><th class=\"n\">round</th><th>node</th><th>peer</th><th class=\"n\">rail</th><th class=\"n\">"
      "GB/s</th><th class=\"n\">% of median</th><th>verdict</th></tr></thead><tbody>";
  for (const Figure& figure : figures)
    out += fmt::format(
        "<tr><td class=\"n\">{}</td><td>{}</td><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{:.4g}"
        "</td><td class=\"n\">{:.0f}</td><td>{}</td></tr>",
        figure.round + 1, html(figure.node), figure.node == figure.peer ? "alone" : html(figure.peer), figure.rail,
        figure.gbps, figure.percent, html(figure.verdict + (figure.failure.empty() ? "" : ": " + figure.failure)));
  return "<details><summary>all " + std::to_string(figures.size()) + " figures</summary>" +
         region("figures of the pairs", out + "</tbody></table>") + "</details>";
}

std::string summary(const Json& pairs) {
  const Json& start = field(pairs, "start");
  const Json& end = field(pairs, "end");
  std::string out = fmt::format("<p>{} nodes, {} rail{} each, {} of {:.4g} MiB.", field(start, "nodes").size(),
                                number(start, "rails"), number(start, "rails") == 1 ? "" : "s",
                                html(text_of_field(start, "collective")), number(start, "bytes") / (1 << 20));
  if (end.is_null()) return out + " <span class=\"state fail\">The search did not come to its end.</span></p>";
  out += fmt::format(" {} rounds, {:.1f} s. The median of the pairs is {:.4g} GB/s; slow is below {:.4g} GB/s.</p><p>",
                     number(end, "rounds"), number(end, "seconds"), number(end, "median"), number(end, "bound"));
  for (const auto& [name, tone] :
       {std::pair("good", "ok"), {"bad", "fail"}, {"unreachable", "fail"}, {"undecided", "warn"}, {"untested", "warn"}})
    if (const std::string hosts = text_of_field(end, name); !hosts.empty())
      out += fmt::format("<span class=\"state {}\">{}</span> {} ", tone, name, html(hosts));
  return out + "</p>";
}

}  // namespace

std::string pairs_section(const Json& pairs) {
  const std::vector<Figure> figures = figures_of(pairs);
  const std::vector<std::string> nodes = nodes_of(pairs, figures);
  const int rails = std::clamp(static_cast<int>(number(field(pairs, "start"), "rails")), 0, 64);
  std::string out = summary(pairs), rows;
  for (const Json& finding : field(pairs, "findings")) rows += finding_row(finding);
  if (!rows.empty())
    out +=
        "<div class=\"wide\"><table class=\"stack\"><thead><tr><th>node</th><th>verdict</th><th>rails</th><th>GPU, "
        "NIC</th><th>peer</th><th>of the median</th><th>why</th></tr></thead><tbody>" +
        rows + "</tbody></table></div>";
  if (figures.empty()) return out;
  out += "<p class=\"legend soft\">";
  for (const auto& [tone, text, what] : {std::tuple("h0", "✕", "failed"),
                                         {"h1", "59", "below 60 %"},
                                         {"h2", "85", "slow"},
                                         {"h3", "95", "below 97 %"},
                                         {"h4", "100", "good"}})
    out += fmt::format("<span><span class=\"h {}\">{}</span> {}</span> ", tone, text, what);
  out += "</p>";
  out += matrix(nodes, figures);
  if (rails > 1) out += rails_table(nodes, figures, rails);
  return out + figures_table(figures);
}

}  // namespace nccltune::cli
