// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "check/finding.h"
#include "cli/commands.h"
#include "cli/facts.h"
#include "cli/live_step.h"
#include "cli/output.h"
#include "cli/plan_json.h"
#include "cli/table.h"

namespace nccltune::cli {

namespace {

using check::Finding;
using check::Status;

std::vector<std::string> families() {
  std::vector<std::string> names;
  for (const check::Check& c : check::all_checks())
    if (names.empty() || names.back() != c.family) names.emplace_back(c.family);
  return names;
}

std::optional<Error> unknown_family(const std::vector<std::string>& asked) {
  const auto known = families();
  for (const std::string& name : asked) {
    if (std::count(known.begin(), known.end(), name)) continue;
    const std::string near = nearest_word(name, known);
    return Error{.object = "--only",
                 .what = "unknown family '" + name + "'",
                 .remedy = near.empty() ? "known: " + join(known, ", ") : "did you mean '" + near + "'?"};
  }
  return std::nullopt;
}

Tone tone_of(Status status) {
  switch (status) {
    case Status::ok:
      return Tone::good;
    case Status::warn:
      return Tone::warn;
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
  return fmt::format("{} ok, {} warn, {} fail, {} skip", count(findings, Status::ok), count(findings, Status::warn),
                     count(findings, Status::fail), count(findings, Status::skip));
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

std::string findings_text(const std::vector<Finding>& findings, const Style& style) {
  Table table({"", {"check", 22}, {"object", 24}, "observed"}, 0);
  std::string faults, absent;
  for (size_t i = 0; i < findings.size();) {
    std::vector<const Finding*> of_check;
    for (const std::string& id = findings[i].id; i < findings.size() && findings[i].id == id; ++i)
      of_check.push_back(&findings[i]);
    if (of_check.front()->observed == check::kNothing) {
      absent += " " + of_check.front()->id;
      continue;
    }
    add_rows(of_check, table);
    faults += fault_text(of_check, style);
  }
  if (!absent.empty()) absent = "\n" + paragraph(std::string(check::kNothing) + " for:" + absent, 0, 2);
  return table.text(style) + absent + faults + "\n" + summary(findings) + "\n";
}

Json findings_json(const std::string& host, const std::vector<Finding>& findings) {
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
                    {"source", f.source}});
  return {{"host", host},
          {"counts",
           {{"ok", count(findings, Status::ok)},
            {"warn", count(findings, Status::warn)},
            {"fail", count(findings, Status::fail)},
            {"skip", count(findings, Status::skip)}}},
          {"findings", std::move(list)}};
}

}  // namespace

int check(int argc, char** argv) {
  CLI::App app("findings about this node: what is wrong, what it costs, and what mends it", "nccl-tune check");
  FactsOptions options;
  std::vector<std::string> only;
  bool json = false;
  add_root_option(app, options);
  add_policy_options(app, options);
  app.add_option("--only", only, "this family alone; may be given again: " + join(families(), ", "))
      ->type_name("FAMILY")
      ->allow_extra_args(false);
  app.add_flag("--json", json, "as a JSON document");
  app.footer(
      "Exit status 1 when a check failed, 0 with warnings only.\n"
      "Examples:\n"
      "  nccl-tune check\n"
      "  nccl-tune check --only rdma --only net\n"
      "  srun -N4 --ntasks-per-node=1 nccl-tune check");
  if (auto status = parse(app, argc, argv)) return *status;
  if (auto error = unknown_family(only)) {
    say(*error);
    return exit_usage;
  }
  auto facts = gather(options);
  if (!facts) {
    say(facts.error());
    return exit_usage;
  }
  const Plan plan = make_plan(facts->node, facts->policy, facts->step);
  const auto findings = check::run_checks(
      {facts->root, facts->node, plan, facts->step, facts->root.live() ? own_cpus() : std::nullopt}, only);
  const int written =
      finish(json ? text_of(findings_json(plan.host, findings)) : findings_text(findings, style_of_stdout()));
  if (written != exit_ok) return written;
  return count(findings, Status::fail) ? exit_failed : exit_ok;
}

}  // namespace nccltune::cli
