// SPDX-License-Identifier: Apache-2.0
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "cli/commands.h"
#include "cli/facts.h"
#include "cli/live_step.h"
#include "cli/output.h"
#include "cli/settings.h"
#include "policy/kept.h"

namespace nccltune::cli {

namespace {

constexpr int kCannotExecute = 126, kNotFound = 127;  // as a shell says it
constexpr int kMpolPreferred = 1;  // linux/mempolicy.h: falls back to other nodes when this one is full

std::optional<Error> pin_to(const CpuSet& cpus) {
  const int most = CpuSet::kMaxId + 1;
  std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(CPU_ALLOC(most), [](cpu_set_t* s) { CPU_FREE(s); });
  if (!set) return Error{.object = "CPUs " + cpus.list(), .what = "not pinned", .reason = std::strerror(ENOMEM)};
  const size_t bytes = CPU_ALLOC_SIZE(most);
  CPU_ZERO_S(bytes, set.get());
  for (int cpu : cpus.ids()) CPU_SET_S(cpu, bytes, set.get());
  if (sched_setaffinity(0, bytes, set.get()) == 0) return std::nullopt;
  return Error{.object = "CPUs " + cpus.list(), .what = "not pinned", .reason = std::strerror(errno)};
}

std::optional<Error> prefer_memory_of(int node) {
  constexpr size_t kBits = 8 * sizeof(unsigned long);
  std::vector<unsigned long> mask(static_cast<size_t>(node) / kBits + 1);
  mask[static_cast<size_t>(node) / kBits] |= 1UL << (static_cast<size_t>(node) % kBits);
  // The kernel takes one bit less than it is told (get_nodes in mm/mempolicy.c), hence the 1.
  if (syscall(SYS_set_mempolicy, kMpolPreferred, mask.data(), mask.size() * kBits + 1) == 0) return std::nullopt;
  return Error{.object = "NUMA node " + std::to_string(node),
               .what = "not preferred for memory",
               .reason = std::strerror(errno)};
}

// Values of an earlier plan go, for they may be another node's; the user's own stay.
void apply_environment(const std::vector<EnvSetting>& settings, const Environment& users) {
  for (const std::string& name : names_set_by_us(environment_of_process())) unsetenv(name.c_str());
  unsetenv(kMark);
  for (const EnvSetting& setting : settings)
    if (!users.contains(setting.name)) setenv(setting.name.c_str(), setting.value.c_str(), 1);
  if (!settings.empty()) setenv(kMark, mark_of(settings).c_str(), 1);
}

// A pin that the kernel refuses costs speed, not the run.
void apply_pin(const TaskPlan& task) {
  if (task.cpus)
    if (auto error = pin_to(*task.cpus)) say(*error);
  if (task.mem_node)
    if (auto error = prefer_memory_of(*task.mem_node)) say(*error);
}

int run(char** command) {
  execvp(command[0], command);
  const int reason = errno;
  say({.object = command[0], .what = "cannot run", .reason = std::strerror(reason)});
  return reason == ENOENT ? kNotFound : kCannotExecute;
}

// Cuts the arguments at the first "--", or at the first word that is neither an option nor an option's value.
char** cut_command(CLI::App& app, int& argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--") {
      argc = i;
      return argv + i + 1;
    }
    if (!word.starts_with('-')) {
      argc = i;
      return argv + i;
    }
    const CLI::Option* option = app.get_option_no_throw(std::string(word));
    if (option && option->get_items_expected() > 0 && word.find('=') == std::string_view::npos) ++i;
  }
  return argv + argc;
}

}  // namespace

int exec(int argc, char** argv) {
  CLI::App app(
      "run a command with the plan applied to it: environment, CPUs, preferred memory node\n"
      "nccl-tune exec [OPTION]... -- COMMAND [ARGUMENT]...",
      "nccl-tune exec");
  FactsOptions options;
  add_root_option(app, options);
  add_policy_options(app, options);
  add_step_options(app, options);
  app.footer(
      "The process's GPU goes by LOCAL_RANK, SLURM_LOCALID, OMPI_COMM_WORLD_LOCAL_RANK or MPI_LOCALRANKID, the first\n"
      "that is set. Your own values are never overwritten. A pin that the kernel refuses is said and does not stop the "
      "run.\n"
      "Exit status: the command's; 126 or 127 when it cannot be run, 2 for a wrong option.\n"
      "Examples:\n"
      "  mpirun -np 8 nccl-tune exec -- ./train\n"
      "  torchrun --nproc-per-node 8 --no-python nccl-tune exec -- python train.py");
  char** command = cut_command(app, argc, argv);
  if (auto status = parse(app, argc, argv)) return *status;
  if (!*command) {
    say({.object = "exec", .what = "no command is given", .remedy = "see 'nccl-tune exec --help'"});
    return exit_usage;
  }

  auto facts = gather_task(options);
  if (!facts) {
    say(facts.error());
    return exit_usage;
  }
  const Plan plan = make_plan(facts->node, facts->policy, facts->step);
  if (!plan.tasks.empty()) apply_pin(plan.tasks.front());
  apply_environment(settings_of_task(plan), facts->step.env);
  return run(command);
}

}  // namespace nccltune::cli
