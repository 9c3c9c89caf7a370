// SPDX-License-Identifier: Apache-2.0
#include "cli/report_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "base/text.h"
#include "cli/html.h"
#include "cli/output.h"

namespace nccltune::cli {

namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kRunsSideBySide = 4;  // as many as fit in kWidth

struct Kind {  // what may be compared
  std::string collective, type, op;
  bool operator<(const Kind& other) const {
    return std::tie(collective, type, op) < std::tie(other.collective, other.type, other.op);
  }
};

std::string counted(int n, const char* what) { return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s"); }

std::string what_is(const ReportRun& run) {
  std::vector<std::string> parts{run.collective.empty() ? "collective not told" : run.collective};
  if (run.ranks) parts.push_back(counted(run.ranks, "rank"));
  if (run.nodes) parts.push_back(counted(run.nodes, "node"));
  if (!run.gpu().empty()) parts.push_back(run.gpu());
  if (!run.tool.empty()) parts.push_back(run.tool);
  if (!run.nccl.empty()) parts.push_back("NCCL " + run.nccl);
  return join(parts, ", ");
}

std::string came_to(const ReportRun& run) {
  std::string text = counted(static_cast<int>(run.rows.size()), "row");
  if (!run.rows.empty()) text += fmt::format(", peak busbw {:.2f} GB/s", run.peak_busbw());
  if (run.out_of_bounds.value_or(0) > 0) text += fmt::format(", {} checks found wrong data", *run.out_of_bounds);
  return text + (run.complete ? "" : ", not complete");
}

std::string readings_text(const std::vector<Reading>& readings, const Style& style) {
  std::string out;
  size_t number = 0;
  for (const Reading& reading : readings) {
    out += style.paint(Tone::title, printable(reading.file)) +
           fmt::format(": {}, {}\n", reading.kind.empty() ? "not understood" : reading.kind,
                       counted(reading.lines, "line"));
    for (const ReportRun& run : reading.runs) {
      out += paragraph(letter_of(number++) + "  " + printable(what_is(run)), 2, 5);
      out += paragraph(printable(came_to(run)), 5, 5);
      for (const std::string& note : run.notes) out += paragraph("note: " + printable(note), 5, 7);
      if (!run.trouble.empty())
        out +=
            paragraph(style.paint(Tone::warn, "failed") + ": " + printable(run.trouble.front()) +
                          (run.trouble.size() > 1 ? fmt::format(" (and {} lines more)", run.trouble.size() - 1) : ""),
                      5, 7);
    }
    for (size_t i = 0; i < reading.refused.size() && i < 5; ++i) {
      const RefusedLine& line = reading.refused[i];
      out += paragraph(printable(fmt::format("refused line {}: {}: '{}'", line.line, line.why, line.text)), 2, 4);
    }
    if (reading.refused_in_all > 5) out += fmt::format("  refused: {} lines more\n", reading.refused_in_all - 5);
  }
  return out;
}

// The figure of a run at a size: the last row of it, as cycles and repeated small sizes give several.
const ReportHalf* figure(const ReportRun& run, const Kind& kind, uint64_t bytes) {
  const ReportHalf* found = nullptr;
  for (const ReportRow& row : run.rows)
    if (row.bytes == bytes && row.type == kind.type && row.op == kind.op && row.best()) found = row.best();
  return found;
}

struct Column1 {
  std::string letter;
  const ReportRun* run;
};

std::string side_by_side(const Kind& kind, const std::vector<Column1>& runs, const Style& style) {
  std::set<uint64_t> sizes;
  for (const auto& [letter, run] : runs)
    for (const ReportRow& row : run->rows)
      if (row.type == kind.type && row.op == kind.op) sizes.insert(row.bytes);
  std::vector<Column> columns{{"size"}};
  for (const auto& [letter, run] : runs) {
    columns.emplace_back(letter + " us");
    columns.emplace_back(letter + " GB/s");
    if (&run != &runs.front().run) columns.emplace_back(letter + "/" + runs.front().letter);
  }
  Table table(columns, 2);
  for (uint64_t bytes : sizes) {
    std::vector<Cell> cells{size_text(bytes)};
    const ReportHalf* first = figure(*runs.front().run, kind, bytes);
    for (const auto& [letter, run] : runs) {
      const ReportHalf* half = figure(*run, kind, bytes);
      cells.emplace_back(half ? fmt::format("{:.2f}", half->time_us) : "");
      cells.emplace_back(half ? fmt::format("{:.2f}", half->busbw) : "");
      if (&run == &runs.front().run) continue;
      // Small messages have no bandwidth to speak of: the times are compared where the printed bandwidth is too coarse.
      double ratio = 0;
      if (half && first && half->time_us > 0)
        ratio = first->busbw >= 1 && half->busbw >= 1 ? half->busbw / first->busbw : first->time_us / half->time_us;
      cells.emplace_back(ratio > 0 ? fmt::format("{:.2f}", ratio) : "",
                         ratio > 0 && ratio < 0.9 ? Tone::warn : Tone::plain);
    }
    table.add(std::move(cells));
  }
  std::string title = kind.collective.empty() ? "collective not told" : kind.collective;
  title += ", " + kind.type + (kind.op.empty() ? "" : ", " + kind.op);
  return "\n" + style.paint(Tone::title, printable(title)) + "\n" + table.text(style);
}

std::string against_expected(const std::vector<const ReportRun*>& runs, const std::vector<ExpectedFigure>& all) {
  std::string out;
  for (size_t i = 0; i < runs.size(); ++i)
    for (const ExpectedFigure& figure : expected_for(*runs[i], all))
      for (const ReportRow& row : runs[i]->rows)
        if (row.bytes == figure.bytes && row.best())
          out += paragraph(
              printable(fmt::format("{} at {}: {:.2f} GB/s, {:.0f} % of the {:.2f} of {} ({})", letter_of(i),
                                    size_text(row.bytes), row.best()->busbw, 100 * row.best()->busbw / figure.busbw,
                                    figure.busbw, figure.platform, figure.source)),
              2, 4);
  return out.empty() ? "" : "\nagainst published figures of the same shape\n" + out;
}

Json half_json(const std::optional<ReportHalf>& half) {
  if (!half) return nullptr;
  const auto maybe = [](const auto& value) { return value ? Json(*value) : Json(nullptr); };
  return {{"time_us", half->time_us},
          {"algbw", half->algbw},
          {"busbw", half->busbw},
          {"wrong", maybe(half->wrong)},
          {"min_us", maybe(half->min_us)},
          {"p50_us", maybe(half->p50_us)},
          {"p95_us", maybe(half->p95_us)},
          {"p99_us", maybe(half->p99_us)},
          {"max_us", maybe(half->max_us)},
          {"skew_us", maybe(half->skew_us)},
          {"network_us", maybe(half->network_us)},
          {"late_rank", maybe(half->late_rank)},
          {"late_share", half->late_share}};
}

Json run_json(const ReportRun& run, const std::string& letter, const std::vector<ExpectedFigure>& expected) {
  Json rows = Json::array(), figures = Json::array();
  for (const ReportRow& row : run.rows)
    rows.push_back({{"bytes", row.bytes},
                    {"type", row.type},
                    {"op", row.op.empty() ? Json(nullptr) : Json(row.op)},
                    {"root", row.root < 0 ? Json(nullptr) : Json(row.root)},
                    {"out_of_place", half_json(row.out)},
                    {"in_place", half_json(row.in)}});
  for (const ExpectedFigure& figure : expected_for(run, expected))
    figures.push_back(
        {{"bytes", figure.bytes}, {"busbw", figure.busbw}, {"platform", figure.platform}, {"source", figure.source}});
  return {{"letter", letter},
          {"file", run.file},
          {"label", run.label},
          {"tool", run.tool},
          {"nccl", run.nccl},
          {"collective", run.collective},
          {"started", run.started},
          {"job", run.job},
          {"ranks", run.ranks},
          {"nodes", run.nodes},
          {"gpu", run.gpu()},
          {"complete", run.complete},
          {"peak_busbw", run.peak_busbw()},
          {"mean_busbw", run.mean_busbw ? Json(*run.mean_busbw) : Json(nullptr)},
          {"out_of_bounds", run.out_of_bounds ? Json(*run.out_of_bounds) : Json(nullptr)},
          {"notes", run.notes},
          {"trouble", run.trouble},
          {"expected", figures},
          {"rows", rows}};
}

// The fields of one line of CSV; a quoted one may hold commas and doubled quotes.
std::vector<std::string> csv_fields(std::string_view line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"' && quoted && i + 1 < line.size() && line[i + 1] == '"')
      fields.back() += line[i++];
    else if (line[i] == '"')
      quoted = !quoted;
    else if (line[i] == ',' && !quoted)
      fields.emplace_back();
    else
      fields.back() += line[i];
  }
  return fields;
}

}  // namespace

std::string letter_of(size_t run) {
  const std::string letter(1, static_cast<char>('A' + run % 26));
  return run < 26 ? letter : letter + std::to_string(run / 26);
}

std::string size_text(uint64_t bytes) {
  constexpr const char* kUnits[] = {"", "K", "M", "G", "T"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit < 4) {
    value /= 1024;
    ++unit;
  }
  // All-gather and its kin trim sizes to 16 bytes a rank: 33553920 is 32M to a person.
  return fmt::format("{:.{}g}{}", value, value < 1000 ? 3 : 4, kUnits[unit]);
}

std::vector<ExpectedFigure> read_expected(const std::string& csv) {
  std::vector<ExpectedFigure> figures;
  std::map<std::string, size_t> column;
  for (std::string_view line : split_lines(csv)) {
    if (trim(line).empty() || line.starts_with('#')) continue;
    const auto fields = csv_fields(line);
    if (column.empty()) {
      for (size_t i = 0; i < fields.size(); ++i) column[std::string(trim(fields[i]))] = i;
      continue;
    }
    const auto at = [&](const char* name) {
      const auto it = column.find(name);
      return it == column.end() || it->second >= fields.size() ? std::string() : fields[it->second];
    };
    const auto bytes = parse_int(at("size_bytes"), 1, INT64_MAX), ranks = parse_int(at("gpus"), 1, INT32_MAX);
    const double busbw = std::strtod(at("busbw_gbs").c_str(), nullptr);
    if (bytes && ranks && busbw > 0)
      figures.push_back({at("collective"), at("gpu"), at("platform"), at("source"), static_cast<int>(*ranks),
                         static_cast<uint64_t>(*bytes), busbw});
  }
  return figures;
}

std::vector<ExpectedFigure> expected_for(const ReportRun& run, const std::vector<ExpectedFigure>& all) {
  std::map<uint64_t, ExpectedFigure> best;  // of several of one size the highest
  for (const ExpectedFigure& figure : all) {
    const std::string model = figure.gpu.substr(0, figure.gpu.find('-'));
    if (figure.collective != run.collective || figure.ranks != run.ranks) continue;
    if (run.gpu().empty() || run.gpu().find(model) == std::string::npos) continue;
    auto [entry, first] = best.emplace(figure.bytes, figure);
    if (!first && entry->second.busbw < figure.busbw) entry->second = figure;
  }
  std::vector<ExpectedFigure> figures;
  figures.reserve(best.size());
  for (auto& [bytes, figure] : best) figures.push_back(std::move(figure));
  return figures;
}

std::vector<const ReportRun*> runs_of(const std::vector<Reading>& readings) {
  std::vector<const ReportRun*> runs;
  for (const Reading& reading : readings)
    for (const ReportRun& run : reading.runs) runs.push_back(&run);
  return runs;
}

// What a search for bad nodes found; its matrix is on the page.
static std::string pairs_lines(const Json& pairs) {
  std::string out;
  if (pairs.is_null()) return out;
  const auto add = [&out](const std::string& line) { out += "  " + printable(line) + "\n"; };
  for (const Json& finding : pairs["findings"]) {
    const std::string peer = text_of_field(finding, "peer");
    add(fmt::format("{}{}: {}: {}", text_of_field(finding, "node"), peer.empty() ? "" : " - " + peer,
                    text_of_field(finding, "verdict"), text_of_field(finding, "why")));
  }
  if (pairs["end"].is_null()) add("the search did not come to its end");
  for (const char* list : {"good", "bad", "unreachable", "undecided", "untested"})
    if (const std::string hosts = text_of_field(pairs["end"], list); !hosts.empty())
      add(fmt::format("{}: {}", list, hosts));
  return out;
}

std::string report_text(const std::vector<Reading>& readings, const std::vector<ExpectedFigure>& expected,
                        const Style& style) {
  std::string out = readings_text(readings, style);
  const auto runs = runs_of(readings);
  std::map<Kind, std::vector<Column1>> kinds;
  for (size_t i = 0; i < runs.size(); ++i) {
    std::set<Kind> of_run;
    for (const ReportRow& row : runs[i]->rows) of_run.insert({runs[i]->collective, row.type, row.op});
    for (const Kind& kind : of_run) kinds[kind].push_back({letter_of(i), runs[i]});
  }
  for (const auto& [kind, columns] : kinds)
    for (size_t start = 0; start < columns.size();) {
      // Each table begins with the run that the others are held against.
      std::vector<Column1> some{columns.front()};
      if (start == 0) start = 1;
      while (start < columns.size() && some.size() < kRunsSideBySide) some.push_back(columns[start++]);
      out += side_by_side(kind, some, style);
    }
  for (const Reading& reading : readings) out += pairs_lines(reading.pairs);
  return out + against_expected(runs, expected);
}

nlohmann::ordered_json report_json(const std::vector<Reading>& readings, const std::vector<ExpectedFigure>& expected) {
  Json files = Json::array(), runs = Json::array();
  Json topology = nullptr, plan = nullptr, findings = nullptr, pairs = nullptr;
  for (const Reading& reading : readings) {
    Json refused = Json::array();
    for (const RefusedLine& line : reading.refused)
      refused.push_back({{"line", line.line}, {"text", line.text}, {"why", line.why}});
    files.push_back({{"file", reading.file},
                     {"kind", reading.kind},
                     {"lines", reading.lines},
                     {"runs", reading.runs.size()},
                     {"refused", refused},
                     {"refused_in_all", reading.refused_in_all}});
    for (const ReportRun& run : reading.runs) runs.push_back(run_json(run, letter_of(runs.size()), expected));
    if (!reading.topology.is_null()) topology = reading.topology;
    if (!reading.plan.is_null()) plan = reading.plan;
    if (!reading.findings.is_null()) findings = reading.findings;
    if (!reading.pairs.is_null()) pairs = reading.pairs;
  }
  return {{"files", files}, {"runs", runs},         {"topology", topology},
          {"plan", plan},   {"findings", findings}, {"pairs", pairs}};
}

}  // namespace nccltune::cli
