// SPDX-License-Identifier: Apache-2.0
// Behind pyxis, in the container: what became of the plan there. Before it the image cannot be seen, after it the
// host's files cannot: so the library stands in the stack twice, before pyxis with its arguments and after it with the
// one word "inside".
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "plugin/apply.h"
#include "plugin/spank_api.h"
#include "policy/plan.h"

namespace nccltune {

// The word in plugstack.conf that makes an entry the one after pyxis.
bool is_inside_entry(int count, char** words);

// What the task had when it went into the container.
struct Outside {
  std::map<std::string, std::string> exported;  // by us, with the values
  std::map<std::string, std::string> nccl;      // every NCCL_* name in its environment
};
Outside state_outside(const Plan& plan, const TaskPlan& task, const std::set<std::string>& exported,
                      const Environment& env);

struct InsideFindings {
  std::vector<Note> lost;            // what the user should hear of
  std::vector<Note> details;         // what the image adds beside the plan
  std::set<std::string> overridden;  // names of ours that have the image's value now
  std::set<std::string> unreadable;  // names of ours whose file is not in the container
};

// Compares. `env` is the task's environment as pyxis left it: the image's own names win there
// (pyxis_slurmstepd.c: spank_import_container_env) unless --container-env names them. Looks at two paths, in the
// container: the one of NCCL_TOPO_FILE and that of PMIX_SERVER_TMPDIR.
InsideFindings look_inside(const Outside& outside, const Environment& env);

// Takes the unreadable ones away, and both kinds out of the mark: they are no longer the plan's.
void correct_env(spank_t spank, const Outside& outside, const InsideFindings& findings);

}  // namespace nccltune
