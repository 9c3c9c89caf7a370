// SPDX-License-Identifier: Apache-2.0
#include "policy/plan.h"

#include "cli/commands.h"
#include "cli/facts.h"
#include "cli/output.h"
#include "cli/plan_json.h"
#include "cli/plan_text.h"

namespace nccltune::cli {

int plan(int argc, char** argv) {
  CLI::App app("what the plugin would do to a job on this node, and why", "nccl-tune plan");
  FactsOptions options;
  bool json = false;
  add_root_option(app, options);
  add_policy_options(app, options);
  add_step_options(app, options);
  app.add_flag("--json", json, "as a JSON document");
  app.footer(
      "Examples:\n"
      "  nccl-tune plan                                   this node, a task for each GPU\n"
      "  nccl-tune plan --tasks 2 --task-cpus 0-31 --task-cpus 32-63\n"
      "  nccl-tune plan --env NCCL_IB_HCA=mlx5_0          with a value that the job sets itself\n"
      "  srun -N1 nccl-tune plan                          in a task: what this very task got");
  if (auto status = parse(app, argc, argv)) return *status;

  auto facts = gather(options);
  if (!facts) {
    say(facts.error());
    return exit_usage;
  }
  Plan plan = make_plan(facts->node, facts->policy, facts->step);
  plan.notes.insert(plan.notes.end(), facts->notes.begin(), facts->notes.end());
  return finish(json ? text_of(plan_json(plan)) : plan_text(plan, style_of_stdout()));
}

}  // namespace nccltune::cli
