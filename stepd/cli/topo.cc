// SPDX-License-Identifier: Apache-2.0
#include "cli/commands.h"
#include "cli/facts.h"
#include "cli/output.h"
#include "cli/topo_json.h"
#include "cli/topo_text.h"
#include "policy/plan.h"

namespace nccltune::cli {

int topo(int argc, char** argv) {
  CLI::App app("what this node has: GPUs, HCAs, distances, interfaces; and why each is in or out", "nccl-tune topo");
  FactsOptions options;
  bool json = false;
  add_root_option(app, options);
  add_policy_options(app, options);
  app.add_flag("--json", json, "as a JSON document");
  app.footer(
      "Examples:\n"
      "  nccl-tune topo\n"
      "  nccl-tune topo --root node17.dump     another machine's facts, from 'nccl-tune dump node17.dump'");
  if (auto status = parse(app, argc, argv)) return *status;

  auto facts = gather(options);
  if (!facts) {
    say(facts.error());
    return exit_usage;
  }
  Plan plan = plan_node(facts->node, facts->policy, facts->step);
  plan.notes.insert(plan.notes.end(), facts->notes.begin(), facts->notes.end());
  // The driver speaks of this machine alone.
  const GpuLinks links = options.root.empty() ? links_of(check::read_driver()) : GpuLinks();
  return finish(json ? text_of(topo_json(facts->node, plan, links))
                     : topo_text(facts->node, plan, links, style_of_stdout()));
}

}  // namespace nccltune::cli
