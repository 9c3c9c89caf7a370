// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "check/finding.h"
#include "cli/check_formats.h"
#include "cli/check_job.h"
#include "cli/commands.h"
#include "cli/facts.h"
#include "cli/live_step.h"
#include "cli/output.h"
#include "cli/table.h"

namespace nccltune::cli {

namespace {

using check::Finding;

const std::vector<std::string> kFormats{"text", "json", "nhc", "prometheus"};

std::vector<std::string> families() {
  std::vector<std::string> names;
  for (const check::Check& c : check::all_checks())
    if (!std::count(names.begin(), names.end(), c.family)) names.emplace_back(c.family);
  names.emplace_back("job");
  return names;
}

// What --only and --skip take: families and ids.
std::optional<Error> unknown_name(const char* option, const std::vector<std::string>& asked) {
  auto known = families();
  for (const check::Check& c : check::all_checks()) known.emplace_back(c.id);
  for (const std::string& name : asked) {
    if (std::count(known.begin(), known.end(), name)) continue;
    const std::string near = nearest_word(name, known);
    const bool id = name.find('.') != std::string::npos;
    return Error{.object = option,
                 .what = fmt::format("unknown {} '{}'", id ? "check" : "family", name),
                 .remedy = near.empty() ? "known: " + join(families(), ", ") : "did you mean '" + near + "'?"};
  }
  return std::nullopt;
}

// Names that no check has make no error: a policy may be older or newer than this program.
void warn_of_unknown_ids(const std::vector<IgnoredCheck>& ignored) {
  const auto checks = check::all_checks();
  for (const IgnoredCheck& entry : ignored)
    if (std::none_of(checks.begin(), checks.end(), [&](const check::Check& c) { return glob_match(entry.id, c.id); }))
      say({.object = entry.where, .what = "ignore_checks: no check has the id '" + entry.id + "'"});
}

std::string shown(const std::string& format, const std::string& host, const std::vector<Finding>& findings) {
  if (format == "json") return findings_json(host, findings);
  if (format == "nhc") return findings_nhc(host, findings);
  if (format == "prometheus") return findings_prometheus(findings);
  return findings_text(findings, style_of_stdout());
}

// "" for a node without faults, and for all tasks of a node but the first.
std::string faults_of_node(const bench::Place& place, const std::vector<Finding>& findings) {
  std::string out;
  for (const Finding& f : findings)
    if (place.local_rank == 0 && f.ignored.empty() &&
        (f.status == check::Status::warn || f.status == check::Status::fail))
      out += printable(fmt::format("{}: {} {}: {}: {}; wanted: {}; remedy: {}", place.hostname, check::name(f.status),
                                   f.id, f.object, f.observed, f.wanted, f.remedy)) +
             "\n";
  return out;
}

}  // namespace

int check(int argc, char** argv) {
  CLI::App app("findings about this node: what is wrong, what it costs, and what mends it", "nccl-tune check");
  FactsOptions options;
  check::Selection selection;
  std::string format = "text";
  bool json = false;
  add_root_option(app, options);
  add_policy_options(app, options);
  app.add_option("--only", selection.only,
                 "this family or check alone; may be given again: " + join(families(), ", ") + ", rdma.rate")
      ->type_name("NAME")
      ->allow_extra_args(false);
  app.add_option("--skip", selection.skip, "without this family or check; may be given again")
      ->type_name("NAME")
      ->allow_extra_args(false);
  app.add_option("--format", format, "text, json, nhc (a line a fault) or prometheus (a textfile for node_exporter)")
      ->type_name("FORM")
      ->check(CLI::IsMember(kFormats));
  app.add_flag("--json", json, "the same as --format json");
  app.footer(
      "Exit status 1 when a check failed that the policy's ignore_checks does not name, 0 with warnings only.\n"
      "Examples:\n"
      "  nccl-tune check\n"
      "  nccl-tune check --only rdma --skip rdma.counters\n"
      "  nccl-tune check --format prometheus >nccl_tune.prom.new && mv nccl_tune.prom.new nccl_tune.prom\n"
      "  srun --mpi=pmix -N4 --ntasks-per-node=1 nccl-tune check     also what the nodes differ in");
  if (auto status = parse(app, argc, argv)) return *status;
  for (const auto& error : {unknown_name("--only", selection.only), unknown_name("--skip", selection.skip)})
    if (error) {
      say(*error);
      return exit_usage;
    }
  const auto kept = selection.takes_job() ? std::optional(keep_step()) : std::nullopt;
  auto facts = gather(options);
  if (!facts) {
    say(facts.error());
    return exit_usage;
  }
  const Plan plan = make_plan(facts->node, facts->policy, facts->step);
  const bool live = facts->root.live();
  const check::Hardware hardware = live ? check::read_hardware(facts->node, plan) : check::Hardware{};
  const check::Subject subject{
      facts->root, facts->node, plan, facts->step, live ? own_cpus() : std::nullopt, live ? &hardware : nullptr};
  auto findings = check::run_checks(subject, selection);
  bench::World* const world = kept ? open_step(*kept) : nullptr;
  bool complete = true;
  if (world) {
    const StepFindings of_step = check_step(*world, subject);
    findings.insert(findings.end(), of_step.findings.begin(), of_step.findings.end());
    complete = of_step.complete;
  }
  warn_of_unknown_ids(facts->policy.ignore_checks);
  check::mark_ignored(facts->policy.ignore_checks, findings);
  // One report for the step: rank 0's; of the other nodes what is wrong, a line each.
  const int written = finish(world && world->place().rank != 0 ? faults_of_node(world->place(), findings)
                                                               : shown(json ? "json" : format, plan.host, findings));
  if (world) close_step(*world, complete);
  if (written != exit_ok) return written;
  return std::any_of(findings.begin(), findings.end(), [](const Finding& f) { return f.counts_as_failed(); })
             ? exit_failed
             : exit_ok;
}

}  // namespace nccltune::cli
