// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <map>
#include <string>

#include "base/text.h"
#include "bench/pairs_options.h"
#include "bench/pairs_run.h"
#include "cli/commands.h"
#include "cli/facts.h"
#include "cli/live_step.h"
#include "policy/plan.h"

namespace nccltune::cli {
namespace {

// What carries a GPU's traffic by the plan of this node: the used HCAs nearest to it, else the interface of NCCL's
// sockets. Read when the first worker has said which GPU it holds.
class PlannedNics {
 public:
  std::string beside(const std::string& bdf) {
    if (!known_) read();
    const auto at = by_gpu_.find(bdf);
    return at != by_gpu_.end() && !at->second.empty() ? at->second : interface_;
  }

 private:
  void read() {
    known_ = true;
    const auto source = open_source({});
    if (!source) return;  // a policy that is wrong: the search needs none
    const Node node = read_node(source->root, source->read);
    Step step;
    step.outside_slurm = true;
    step.env = without_ours(source->env);
    step.local_tasks = static_cast<int>(node.gpus.size());
    for (int i = 0; i < step.local_tasks; ++i) step.tasks.push_back({.local_id = i, .env = step.env});
    const Plan plan = make_plan(node, source->policy, step);
    for (const TaskPlan& task : plan.tasks)
      for (const std::string& gpu : task.gpus) by_gpu_[gpu] = join(task.hcas, ",");
    for (const EnvSetting& setting : plan.env)
      if (setting.name == "NCCL_SOCKET_IFNAME") interface_ = setting.value;
    for (const KeptSetting& kept : plan.kept)
      if (kept.name == "NCCL_SOCKET_IFNAME") interface_ = kept.value;
    if (interface_.starts_with('=')) interface_.erase(0, 1);
  }

  bool known_ = false;
  std::string interface_;
  std::map<std::string, std::string> by_gpu_;
};

}  // namespace

int pairs(int argc, char** argv) {
  const nccltune::bench::ParsedPairsOptions parsed = nccltune::bench::parse_pairs_options(argc, argv);
  if (!parsed.options) {
    std::fputs(parsed.text.c_str(), parsed.status == exit_ok ? stdout : stderr);
    return parsed.status;
  }
  PlannedNics nics;
  return nccltune::bench::run_pairs(*parsed.options, [&nics](const std::string& bdf) { return nics.beside(bdf); });
}

}  // namespace nccltune::cli
