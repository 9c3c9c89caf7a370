// SPDX-License-Identifier: Apache-2.0
// What the tool shows of a machine: names in sysfs and in a dump hold any bytes, and a terminal, a log reader and
// Prometheus take the lines for ours.
#include "check/finding.h"
#include "check/kernel_log.h"
#include "cli/check_formats.h"
#include "cli/plan_json.h"
#include "cli/plan_text.h"
#include "cli/topo_json.h"
#include "cli/topo_text.h"
#include "fuzz/planned.h"

namespace fuzz {
namespace {

using namespace nccltune;

void show(std::string_view input) {
  const std::optional<Planned> planned = plan_of(input);
  if (!planned) return;
  const auto& [file, root, node, policy, step, plan] = *planned;
  MUST(is_plain_text(cli::plan_text(plan, {})));
  MUST(is_plain_text(cli::topo_text(node, plan, {}, {})));
  MUST(nlohmann::json::accept(cli::text_of(cli::plan_json(plan))));
  MUST(nlohmann::json::accept(cli::text_of(cli::topo_json(node, plan, {}))));

  std::vector<check::Finding> findings = check::run_checks({root, node, plan, step, std::nullopt}, {});
  check::mark_ignored(policy.ignore_checks, findings);
  MUST(findings.size() >= check::all_checks().size());  // one that had nothing to look at says so
  MUST(is_plain_text(cli::findings_text(findings, {})));
  MUST(is_plain_text(cli::findings_nhc(plan.host, findings)) && is_plain_text(cli::findings_nhc(plan.host, {})));
  MUST(is_plain_text(cli::findings_prometheus(findings)));
  MUST(nlohmann::json::accept(cli::findings_json(plan.host, findings)));
}

void kernel_log(std::string_view input) {
  const auto message = check::message_of(input, 0);
  MUST(!message || message->find('\n') == std::string::npos);
  if (const auto xid = check::xid_in(input)) MUST(xid->code >= 0 && !xid->bdf.empty());
}

}  // namespace

void add_show_targets(std::vector<Target>& all) {
  all.push_back({"show", show, 1 << 20});
  all.push_back({"kernel-log", kernel_log, 8192});
}

}  // namespace fuzz
