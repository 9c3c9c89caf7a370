// SPDX-License-Identifier: Apache-2.0
#include "cli/report_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "cli/html.h"
#include "cli/json_field.h"
#include "cli/report_page_node.h"
#include "cli/report_page_pairs.h"
#include "cli/report_text.h"

namespace nccltune::cli {

extern const char kPageStyle[], kPageScript[], kChartStyle[], kChartScript[];  // made by embed_page.sh

namespace {

using Json = nlohmann::ordered_json;

std::string figure(const Json& value, int digits = 2) {
  return value.is_number() ? fmt::format("{:.{}f}", value.get<double>(), digits) : "–";
}

const Json& best_half(const Json& row) { return row["out_of_place"].is_null() ? row["in_place"] : row["out_of_place"]; }

// A few notes as they are; the statistics that our own runs append fold away.
std::string notes_of(const Json& notes) {
  std::string out;
  if (notes.size() <= 3) {
    for (const Json& note : notes) out += "<p>" + html_of(note) + "</p>";
    return out;
  }
  for (const Json& note : notes) out += html_of(note) + "\n";
  return fmt::format("<details><summary>{} notes</summary><pre tabindex=\"0\">{}</pre></details>", notes.size(), out);
}

std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// What a person wants to know of a run at a glance.
std::string run_card(const Json& run, size_t index) {
  const bool complete = run["complete"];
  std::string out = fmt::format(
      "<article class=\"card\" style=\"--tone:var(--run{})\"><h3>{} {}</h3>", index % 6, html_of(run["letter"]),
      html(is_blank(run["label"]) ? base_name(run["file"]) : run["label"].get<std::string>()));
  const std::string collective =
      is_blank(run["collective"]) ? "collective not told" : run["collective"].get<std::string>();
  out += "<p class=\"figure\">" +
         (run["rows"].empty() ? "no row" : figure(run["peak_busbw"]) + " <small>GB/s peak busbw</small>") + "</p><p>" +
         html(collective);
  if (run["ranks"] > 0) out += fmt::format(", {} ranks", run["ranks"].get<int>());
  if (run["nodes"] > 0) out += fmt::format(" on {} node{}", run["nodes"].get<int>(), run["nodes"] == 1 ? "" : "s");
  out += "</p><p class=\"soft\">";
  std::string about;
  for (const char* name : {"gpu", "tool", "nccl", "started", "job"})
    if (const std::string text = run[name]; !text.empty())
      about += (about.empty() ? "" : " · ") +
               std::string(std::string(name) == "nccl"  ? "NCCL "
                           : std::string(name) == "job" ? "job "
                                                        : "") +
               text;
  out += html(about) + "</p>";
  const bool wrong = run["out_of_bounds"].is_number() && run["out_of_bounds"] > 0;
  if (wrong)
    out += fmt::format("<p class=\"state fail\">wrong data in {} checks</p>", run["out_of_bounds"].get<int64_t>());
  out += complete ? "<p class=\"state ok\">complete</p>" : "<p class=\"state fail\">not complete</p>";
  out += notes_of(run["notes"]);
  size_t shown = 0;
  for (const auto& line : run["trouble"])
    if (++shown <= 3) out += "<p class=\"trouble\">" + html_of(line) + "</p>";
  if (shown > 3) out += fmt::format("<p class=\"soft\">and {} lines more</p>", shown - 3);
  return out + "</article>";
}

bool has(const Json& run, const char* name) {
  return std::any_of(run["rows"].begin(), run["rows"].end(),
                     [&](const Json& row) { return !best_half(row)[name].is_null(); });
}

std::string rows_table(const Json& run) {
  const bool iterations = has(run, "p50_us"),
             both = std::any_of(run["rows"].begin(), run["rows"].end(), [](const Json&row) {
               return !row["out_of_place"].is_null() && !row["in_place"].is_null();
             });
  std::string out = "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"figures of run " +
                    html_of(run["letter"]) + "\"><table><caption>" + html_of(run["letter"]) + ": " +
                    html_of(run["file"]) +
                    "</caption><thead><tr><th class=\"n\">size</th><th>type</th><th>op</th><th class=\"n\">time µs</th>"
                    "<th class=\"n\">algbw GB/s</th><th class=\"n\">busbw GB/s</th><th class=\"n\">wrong</th>";
  if (both) out += "<th class=\"n\">in place: µs</th><th class=\"n\">busbw</th><th class=\"n\">wrong</th>";
  if (iterations)
    out +=
        "<th class=\"n\">min µs</th><th class=\"n\">p50</th><th class=\"n\">p95</th><th class=\"n\">p99</th><th "
        "class=\"n\">max</th>";
  out += "</tr></thead><tbody>";
  const auto number = [](const std::string& text) { return "<td class=\"n\">" + text + "</td>"; };
  for (const Json& row : run["rows"]) {
    const Json& half = best_half(row);
    out += fmt::format("<tr><th class=\"n\" scope=\"row\" title=\"{} bytes\">{}</th>", row["bytes"].get<uint64_t>(),
                       size_text(row["bytes"])) +
           "<td>" + html_of(row["type"]) + "</td><td>" + (row["op"].is_null() ? "–" : html_of(row["op"])) + "</td>" +
           number(figure(half["time_us"])) + number(figure(half["algbw"])) + number(figure(half["busbw"])) +
           number(figure(half["wrong"], 0));
    if (both) {
      const Json& in = row["in_place"];
      out += in.is_null()
                 ? "<td></td><td></td><td></td>"
                 : number(figure(in["time_us"])) + number(figure(in["busbw"])) + number(figure(in["wrong"], 0));
    }
    if (iterations)
      for (const char* name : {"min_us", "p50_us", "p95_us", "p99_us", "max_us"}) out += number(figure(half[name]));
    out += "</tr>";
  }
  return out + "</tbody></table></div>";
}

// Which ranks kept the others waiting, and for how long.
std::string skew_section(const Json& run) {
  if (!has(run, "late_rank")) return "";
  std::map<int, double> late;  // rank -> sum of its shares
  size_t rows = 0;
  double most_skew = 0;
  for (const Json& row : run["rows"]) {
    const Json& half = best_half(row);
    if (half["late_rank"].is_null()) continue;
    late[half["late_rank"].get<int>()] += half["late_share"].get<double>();
    ++rows;
    if (half["skew_us"].is_number()) most_skew = std::max(most_skew, half["skew_us"].get<double>());
  }
  std::vector<std::pair<double, int>> order;
  order.reserve(late.size());
  for (const auto& [rank, share] : late) order.emplace_back(share / static_cast<double>(rows), rank);
  std::sort(order.rbegin(), order.rend());
  std::string out = "<h3>" + html_of(run["letter"]) + ": " + html_of(run["file"]) +
                    "</h3><p>The largest median wait for the last rank was " + fmt::format("{:.1f} µs", most_skew) +
                    ". In how many iterations a rank came last:</p>";
  for (size_t i = 0; i < order.size() && i < 16; ++i)
    out += fmt::format(
        "<div class=\"bar\"><span>rank {}</span><span><i style=\"width:{:.1f}%\"></i></span><span>{:.1f} "
        "%</span></div>",
        order[i].second, 100 * order[i].first, 100 * order[i].first);
  return out;
}

std::string files_table(const Json& files) {
  std::string out =
      "<div class=\"wide\"><table class=\"stack\"><thead><tr><th>file</th><th>read as</th><th "
      "class=\"n\">runs</th><th>refused</th></tr></thead><tbody>";
  for (const Json& file : files) {
    out += "<tr><td data-name=\"file\"><code>" + html_of(file["file"]) + "</code></td><td data-name=\"read as\">" +
           (is_blank(file["kind"]) ? "not understood" : html_of(file["kind"])) +
           fmt::format("</td><td class=\"n\" data-name=\"runs\">{}</td><td data-name=\"refused\">",
                       file["runs"].get<size_t>());
    for (const Json& line : file["refused"])
      out += fmt::format("<p>line {}: {}: <code>{}</code></p>", line["line"].get<int>(), html_of(line["why"]),
                         html_of(line["text"]));
    out += file["refused"].empty() ? "nothing</td></tr>" : "</td></tr>";
  }
  return out + "</tbody></table></div>";
}

// Inside <script type="application/json"> only "</script" and "<!--" could end it: no '<' is left.
std::string script_safe(const Json& json) {
  std::string out;
  for (char c : json.dump(-1, ' ', false, Json::error_handler_t::replace)) {
    if (c == '<')
      out += "\\u003c";
    else
      out += c;
  }
  return out;
}

std::string title_of(const Json& report) {
  for (const Json& run : report["runs"])
    if (!is_blank(run["collective"]))
      return run["collective"].get<std::string>() +
             (run["ranks"] > 0 ? fmt::format(", {} ranks", run["ranks"].get<int>()) : "");
  if (!report["pairs"].is_null()) return "pairs of nodes";
  for (const char* part : {"findings", "topology", "plan"})
    if (!report[part].is_null() && report[part].contains("host")) return text_of_field(report[part], "host");
  return "results";
}

struct Section {
  const char *id, *title;
  std::string body;
};

}  // namespace

bool has_chart_library() { return kChartScript[0] && kChartScript[1]; }

std::string report_page(const Json& report) {
  std::vector<Section> sections;
  std::string cards, rows, skew;
  for (size_t i = 0; i < report["runs"].size(); ++i) {
    cards += run_card(report["runs"][i], i);
    if (!report["runs"][i]["rows"].empty()) rows += rows_table(report["runs"][i]);
    skew += skew_section(report["runs"][i]);
  }
  if (!cards.empty()) sections.push_back({"runs", "Runs", "<div class=\"cards\">" + cards + "</div>"});
  if (!rows.empty())
    sections.push_back({"measured", "Measured",
                        "<div class=\"charts\" id=\"charts\"><noscript>The charts need JavaScript; the tables hold the "
                        "same figures.</noscript></div>"});
  if (!skew.empty()) sections.push_back({"skew", "Skew between ranks", skew});
  if (!report["pairs"].is_null()) sections.push_back({"pairs", "Pairs of nodes", pairs_section(report["pairs"])});
  if (!report["findings"].is_null()) sections.push_back({"findings", "Findings", findings_section(report["findings"])});
  if (!report["topology"].is_null()) sections.push_back({"topology", "Topology", topology_section(report["topology"])});
  if (!report["plan"].is_null()) sections.push_back({"plan", "Plan", plan_section(report["plan"])});
  if (!rows.empty())
    sections.push_back({"figures", "All figures",
                        "<details" + std::string(report["runs"].size() > 3 ? "" : " open") +
                            "><summary>a table for each run</summary>" + rows + "</details>"});
  sections.push_back({"files", "Files read", files_table(report["files"])});

  const std::string title = html(title_of(report));
  std::string nav, body;
  for (const Section& section : sections) {
    nav += fmt::format("<a href=\"#{}\">{}</a>", section.id, section.title);
    body += fmt::format("<section aria-labelledby=\"{0}\"><h2 id=\"{0}\">{1}</h2>{2}</section>\n", section.id,
                        section.title, section.body);
  }
  // A page without a chart has no place to put one.
  const std::string scripts =
      rows.empty() ? "" : "<script>" + std::string(kChartScript) + "</script>\n<script>" + kPageScript + "</script>\n";
  return "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
         // Nothing is asked of a network, whatever a file that was read holds.
         "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
         "script-src 'unsafe-inline'; img-src data:\">\n"
         "<title>" +
         title + " – nccl-tune</title>\n<style>" + kChartStyle + kPageStyle +
         "</style>\n</head>\n<body>\n"
         "<a class=\"skip\" href=\"#main\">to the content</a>\n<header><h1>" +
         title + "</h1><button id=\"theme\" type=\"button\" hidden>light / dark</button><nav aria-label=\"sections\">" +
         nav + "</nav></header>\n<main id=\"main\">\n" + body +
         "</main>\n<footer>nccl-tune " NCCLTUNE_VERSION
         " · busbw and algbw as nccl-tests defines them, GB = 10<sup>9</sup> bytes, sizes in binary units</footer>\n"
         "<script type=\"application/json\" id=\"report\">" +
         script_safe(report) + "</script>\n" + scripts + "</body>\n</html>\n";
}

}  // namespace nccltune::cli
