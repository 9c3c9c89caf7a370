// SPDX-License-Identifier: Apache-2.0
// One step on one node (or one srun, sbatch, salloc), from slurm_spank_init to slurm_spank_exit.
#pragma once

#include <sys/types.h>

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "node/node.h"
#include "plugin/apply.h"
#include "plugin/ask.h"
#include "plugin/fault.h"
#include "plugin/inside.h"
#include "plugin/options.h"
#include "plugin/spank_api.h"
#include "policy/plan.h"

namespace nccltune {

class Session {
 public:
  Session(bool remote, const ParsedArguments& parsed);

  // slurm_spank_init. In a client: what NCCLTUNE says becomes the option's value, unless the job has one already. In
  // slurmstepd: what only this hook can see of a container.
  void look_around(spank_t spank);
  // May come several times, the last one counts. kFail for a bad key, in a client only: the job is not submitted.
  int take_option(const char* argument);

  // As the user, before the tasks are forked: facts and the node's plan, once for all tasks.
  void plan_the_node(spank_t spank);
  // In the task, as the user, last before TaskProlog and exec: exports and pins.
  void tune_task(spank_t spank);
  // In the task, after pyxis (the entry with the word "inside"): tells what the image has of its own, and takes back
  // what points to a file that is not there. Nothing where the task is not in a container.
  void look_inside_container(spank_t spank) const;
  // After it, also when it threw: tells what went wrong and was not told. kFail under strict when something did.
  int finish_task(spank_t spank);
  // True in a fork of the process that made this session.
  bool in_task_process() const noexcept;

  FirstFault fault;

 private:
  struct Prepared {
    Node node;
    Policy policy;
    Step step;
    Plan plan;
  };

  bool active() const;
  bool asked() const { return option_.has_value(); }  // the user did; else the site's default acts
  Policy site_policy();
  void check_profile(const Policy& policy);
  void obey_policy_mode(const Policy& policy);
  void tell_node(spank_t spank) const;
  void tell_task(const TaskPlan& task, const std::vector<Note>& notes) const;
  void tell_fault();
  TaskPlan tune(spank_t spank, const Environment& env, const std::set<std::string>& marked, Applied& applied) const;
  bool loud() const { return options_.verbose || options_.action == Options::Action::show; }

  const bool remote_;
  const pid_t pid_;
  Arguments arguments_;
  std::optional<Options> option_;  // as the user gave it
  Options options_;                // in force
  ContainerRequest container_;
  bool node_fault_ = false;           // kept before the tasks were forked: all of them have it, the first one tells it
  std::vector<std::string> notices_;  // no faults, but worth a line to a user who asked
  std::vector<std::string> quiet_notices_;  // and to the administrator alone
  std::optional<Prepared> prepared_;
  std::optional<Outside> outside_;  // in a task that goes into a container
};

// slurmd itself loads the plugin too, once, at its start: the place to tell the administrator of a bad plugstack.conf.
void tell_bad_arguments(const ParsedArguments& parsed);

}  // namespace nccltune
