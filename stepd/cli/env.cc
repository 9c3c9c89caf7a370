// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/facts.h"
#include "cli/live_step.h"
#include "cli/output.h"
#include "cli/plan_json.h"
#include "cli/settings.h"

namespace nccltune::cli {

namespace {

// Inside single quotes a shell takes every byte as it is, but for the quote itself.
std::string quoted(const std::string& value) {
  std::string out = "'";
  for (char c : value) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

std::string export_lines(const std::vector<EnvSetting>& settings, bool why) {
  std::string out;
  for (const EnvSetting& setting : settings) {
    if (why) out += fmt::format("# {} [{}]\n", printable(setting.why), printable(setting.rule));
    out += fmt::format("export {}={}\n", setting.name, quoted(setting.value));
  }
  return out;
}

}  // namespace

int env(int argc, char** argv) {
  CLI::App app("the plan's environment as export lines for a shell; what is set already is left alone",
               "nccl-tune env");
  FactsOptions options;
  bool json = false, why = false;
  add_root_option(app, options);
  add_policy_options(app, options);
  add_step_options(app, options);
  app.add_flag("--why", why, "the reason of each value as a comment above it");
  app.add_flag("--json", json, "as a JSON list of name, value, rule and why");
  app.footer(
      "NCCLTUNE_SET, the last line, names what was exported, so that a later step can tell it from your own values.\n"
      "Examples:\n"
      "  eval \"$(nccl-tune env)\"\n"
      "  mpirun -x NCCL_IB_HCA ... after it, where all nodes are alike; else: mpirun nccl-tune exec -- COMMAND");
  if (auto status = parse(app, argc, argv)) return *status;

  auto facts = gather_task(options);
  if (!facts) {
    say(facts.error());
    return exit_usage;
  }
  auto settings = settings_of_task(make_plan(facts->node, facts->policy, facts->step));
  if (json) return finish(text_of(settings_json(settings)));
  std::string text = export_lines(settings, why);
  if (!settings.empty()) text += fmt::format("export {}={}\n", kMark, quoted(mark_of(settings)));
  return finish(text);
}

}  // namespace nccltune::cli
