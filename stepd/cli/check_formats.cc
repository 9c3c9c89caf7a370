// SPDX-License-Identifier: Apache-2.0
#include "cli/check_formats.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <map>

#include "base/text.h"
#include "cli/output.h"
#include "cli/plan_json.h"

namespace nccltune::cli {

namespace {

using check::Finding;
using check::Status;

Tone tone_of(Status status) {
  switch (status) {
    case Status::ok:
      return Tone::good;
    case Status::warn:
    case Status::fail:
      return Tone::warn;
    case Status::skip:
      return Tone::faint;
  }
  return Tone::plain;
}

size_t count(const std::vector<Finding>& findings, Status status) {
  return static_cast<size_t>(
      std::count_if(findings.begin(), findings.end(), [&](const Finding& f) { return f.status == status; }));
}

std::string summary(const std::vector<Finding>& findings) {
  const auto ignored =
      std::count_if(findings.begin(), findings.end(), [](const Finding& f) { return !f.ignored.empty(); });
  return fmt::format("{} ok, {} warn, {} fail, {} skip{}", count(findings, Status::ok), count(findings, Status::warn),
                     count(findings, Status::fail), count(findings, Status::skip),
                     ignored ? fmt::format("; {} of them ignored by the policy", ignored) : "");
}

// The objects, or how many they are.
std::string in_short(const std::vector<std::string>& words) {
  return words.size() <= 3 ? join(words, " ")
                           : fmt::format("{} ... {} ({})", words.front(), words.back(), words.size());
}

// One row for what of a check came out the same way, so that a node of 18 HCAs is read at a glance.
void add_rows(const std::vector<const Finding*>& of_check, Table& table) {
  for (Status status : {Status::fail, Status::warn, Status::ok, Status::skip}) {
    std::vector<std::string> objects, observed;
    for (const Finding* f : of_check) {
      if (f->status != status) continue;
      objects.push_back(f->object);
      if (!std::count(observed.begin(), observed.end(), f->observed)) observed.push_back(f->observed);
    }
    if (objects.empty()) continue;
    if (observed.size() > 3) observed = {observed.front(), "...", observed.back()};
    table.add({{check::name(status), tone_of(status)}, of_check.front()->id, in_short(objects), join(observed, "; ")});
  }
}

std::string fault_text(const std::vector<const Finding*>& of_check, const Style& style) {
  std::string out;
  for (const Finding* f : of_check) {
    if (f->status != Status::warn && f->status != Status::fail) continue;
    if (out.empty())
      out = "\n" + style.paint(Tone::title, f->id) + "\n" + paragraph(printable(f->why + " (" + f->source + ")"), 2, 2);
    out += "  " + style.paint(tone_of(f->status), check::name(f->status)) + "  " +
           paragraph(printable(f->object + ": " + f->observed), 0, 8) +
           paragraph("wanted: " + printable(f->wanted), 8, 10) + paragraph("remedy: " + printable(f->remedy), 8, 10);
  }
  return out;
}

// The reason, when all that a check looked at was skipped for the same one; else "".
std::string skipped_for(const std::vector<const Finding*>& of_check) {
  for (const Finding* f : of_check)
    if (f->status != Status::skip || f->observed != of_check.front()->observed) return "";
  return of_check.front()->observed;
}

}  // namespace

std::string findings_text(const std::vector<Finding>& findings, const Style& style) {
  Table table({"", {"check", 22}, {"object", 24}, "observed"}, 0);
  std::string faults;
  std::vector<std::pair<std::string, std::string>> skipped;  // reason -> ids, in the order of the checks
  for (size_t i = 0; i < findings.size();) {
    std::vector<const Finding*> of_check;
    for (const std::string& id = findings[i].id; i < findings.size() && findings[i].id == id; ++i)
      of_check.push_back(&findings[i]);
    if (const std::string reason = skipped_for(of_check); !reason.empty()) {
      auto entry = std::find_if(skipped.begin(), skipped.end(), [&](const auto& one) { return one.first == reason; });
      if (entry == skipped.end()) entry = skipped.emplace(skipped.end(), reason, "");
      entry->second += " " + of_check.front()->id;
      continue;
    }
    add_rows(of_check, table);
    faults += fault_text(of_check, style);
  }
  std::string skips;
  for (const auto& [reason, ids] : skipped)
    skips += paragraph(style.paint(Tone::faint, "skip") + " (" + printable(reason) + "):" + ids, 0, 6);
  return table.text(style) + (skips.empty() ? "" : "\n" + skips) + faults + "\n" + summary(findings) + "\n";
}

std::string findings_json(const std::string& host, const std::vector<Finding>& findings) {
  Json list = Json::array();
  for (const Finding& f : findings)
    list.push_back({{"id", f.id},
                    {"family", f.family},
                    {"status", check::name(f.status)},
                    {"object", f.object},
                    {"observed", f.observed},
                    {"wanted", f.wanted},
                    {"why", f.why},
                    {"remedy", f.remedy},
                    {"source", f.source},
                    {"ignored", f.ignored.empty() ? Json(nullptr) : Json(f.ignored)}});
  return text_of({{"host", host},
                  {"counts",
                   {{"ok", count(findings, Status::ok)},
                    {"warn", count(findings, Status::warn)},
                    {"fail", count(findings, Status::fail)},
                    {"skip", count(findings, Status::skip)}}},
                  {"findings", std::move(list)}});
}

// NHC's own manner: "ERROR:  nhc:  Health check failed:  ..." is what its log readers look for; Slurm keeps the first
// line as the node's reason.
std::string findings_nhc(const std::string& host, const std::vector<Finding>& findings) {
  std::string out;
  for (Status status : {Status::fail, Status::warn})
    for (const Finding& f : findings)
      if (f.status == status && f.ignored.empty())
        out += printable(fmt::format("{}:  nccl-tune:  {}:  {}:  {}; wanted: {}; remedy: {}",
                                     status == Status::fail ? "ERROR" : "WARNING", f.id, f.object, f.observed, f.wanted,
                                     f.remedy)) +
               "\n";
  if (out.empty()) out = "nccl-tune:  " + printable(host) + ":  " + summary(findings) + "\n";
  return out;
}

namespace {

// A label's value of the exposition format, which knows three escapes: backslash, quote and newline.
std::string label(const std::string& text) {
  std::string out;
  for (char c : text) {
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    for (char shown : printable({&c, 1})) {
      if (shown == '\\' || shown == '"') out += '\\';
      out += shown;
    }
  }
  return out;
}

}  // namespace

// For the textfile collector of node_exporter, which adds the node's name itself.
std::string findings_prometheus(const std::vector<Finding>& findings) {
  std::string out =
      "# HELP nccl_tune_check_status Worst finding of a check: 0 ok, 1 warn, 2 fail, -1 not looked at.\n"
      "# TYPE nccl_tune_check_status gauge\n";
  std::map<std::string, int> worst;
  for (const Finding& f : findings) {
    const int value = f.status == Status::skip || !f.ignored.empty() ? -1 : static_cast<int>(f.status);
    auto [entry, first] = worst.emplace(f.id, value);
    if (!first) entry->second = std::max(entry->second, value);
  }
  for (const auto& [id, value] : worst)
    out += fmt::format("nccl_tune_check_status{{check=\"{}\"}} {}\n", label(id), value);
  out +=
      "# HELP nccl_tune_finding A fault of an object: 1 warn, 2 fail.\n"
      "# TYPE nccl_tune_finding gauge\n";
  std::map<std::string, int> series;  // one line a set of labels, whatever an object's name holds
  for (const Finding& f : findings)
    if ((f.status == Status::warn || f.status == Status::fail) && f.ignored.empty()) {
      int& value = series[fmt::format("check=\"{}\",object=\"{}\"", label(f.id), label(f.object))];
      value = std::max(value, static_cast<int>(f.status));
    }
  for (const auto& [labels, value] : series) out += fmt::format("nccl_tune_finding{{{}}} {}\n", labels, value);
  out +=
      "# HELP nccl_tune_check_time_seconds When the checks ran.\n"
      "# TYPE nccl_tune_check_time_seconds gauge\n" +
      fmt::format("nccl_tune_check_time_seconds {}\n", std::time(nullptr));
  return out;
}

}  // namespace nccltune::cli
