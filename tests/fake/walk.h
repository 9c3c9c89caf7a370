// SPDX-License-Identifier: Apache-2.0
// Slurm's part: loads a built plugin as Slurm does and calls its hooks in Slurm's order, each task in a process of its
// own.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "fake/spank.h"

namespace fake {

// The built plugin, held open. Hooks that it does not have give 0, as in Slurm.
class Plugin {
 public:
  // $NCCLTUNE_PLUGIN. Throws std::runtime_error with the reason when Slurm would refuse it: dlopen, identity, version.
  Plugin();
  ~Plugin();
  Plugin(const Plugin&) = delete;
  Plugin& operator=(const Plugin&) = delete;

  // One hook, with the words of plugstack.conf.
  int call(const std::string& hook, const std::vector<std::string>& words) const;
  // The callback of the option that was registered last.
  int call_option(const char* argument, bool remote) const;
  bool has(const std::string& hook) const;

 private:
  void* handle_;
};

enum class Release {
  v22_05,  // the option's callback comes twice to slurmstepd: from the launch message, then from the environment
  v24_11   // once
};

struct StepRequest {
  Release release = Release::v22_05;
  std::vector<std::string> words;  // of plugstack.conf
  bool with_option = true;
  std::optional<std::string> argument;    // of the option; absent: bare. "(null)" is what an srun inside a job gets
  Environment env;                        // of the job
  Environment only_init;                  // variables that Slurm takes away after the option callbacks
  std::vector<Environment> tasks = {{}};  // what each task has on top of it: one entry a task
  // What an image sets, as pyxis lays it over a task's environment; present: the plugin stands in the stack a second
  // time, after pyxis.
  std::optional<Environment> image;
  uint32_t step_id = 0, node_id = 0;
  std::function<void()> after_user_init;  // what changes on the node before the tasks start
  std::string throws, throws_int, fails;  // set for `in_hook`
  std::string in_hook;
};

struct TaskOutcome {
  int rc = 0;
  bool died = false;   // by a signal
  bool ended = false;  // by the plugin: _exit(1) before exec, as Slurm ends a task itself
  Environment env;
  std::string cpus;      // its mask afterwards
  int memory_mode = -1;  // get_mempolicy: 0 default, 1 preferred
  std::string memory_nodes;
  std::vector<LogLine> log;
};

struct StepOutcome {
  int init = 0, option = 0, user_init = 0, exit = 0;  // option: of the last call
  Environment env;                                    // of the step after user_init
  std::vector<LogLine> log;                           // of slurmstepd itself
  std::vector<TaskOutcome> tasks;
  std::vector<std::string> misuse;
};

// slurmstepd: init, option, init_post_opt, user_init, then for each task task_init in a fork, then exit.
StepOutcome run_step(const Plugin& plugin, const StepRequest& request);

struct ClientOutcome {
  int init = 0, option = 0;
  std::string forwarded;  // what init left in the environment for Slurm's clients to find; "" for nothing
  std::vector<LogLine> log;
};

// srun (S_CTX_LOCAL) or sbatch and salloc (S_CTX_ALLOCATOR), each argument one --nccl-tune on the command line; what
// init left for Slurm's clients is given to the callback first, as they do.
ClientOutcome run_client(const Plugin& plugin, spank_context_t context,
                         const std::vector<std::optional<std::string>>& arguments);

}  // namespace fake
