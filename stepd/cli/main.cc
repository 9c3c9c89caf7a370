// SPDX-License-Identifier: Apache-2.0
// nccl-tune: finds the command and hands over.
#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "cli/commands.h"
#include "cli/output.h"

namespace nccltune::cli {

// Weak: a build may leave the benchmark out, and the other commands do not need it. Said here, as the definitions are
// not. NOLINTBEGIN(readability-redundant-declaration)
int bench(int argc, char** argv) __attribute__((weak));
int compare(int argc, char** argv) __attribute__((weak));
int pairs(int argc, char** argv) __attribute__((weak));
int tune(int argc, char** argv) __attribute__((weak));
// NOLINTEND(readability-redundant-declaration)

namespace {

struct Command {
  const char* name;
  int (*run)(int argc, char** argv);
};

constexpr std::array kCommands{
    Command{"topo", topo},     Command{"plan", plan},       Command{"env", env},     Command{"exec", exec},
    Command{"dump", dump},     Command{"check", check},     Command{"bench", bench}, Command{"pairs", pairs},
    Command{"report", report}, Command{"compare", compare}, Command{"tune", tune},   Command{"hostfile", hostfile},
};

constexpr const char* kHelp =
    "usage: nccl-tune COMMAND [OPTION]...\n"
    "\n"
    "What a node has for NCCL, what is exported and pinned for a job on it, and why.\n"
    "\n"
    "  topo    GPUs, HCAs, interfaces, the distances between them, and which are used\n"
    "  plan    what the Slurm plugin would do to a job here\n"
    "  env     the plan's environment as export lines for a shell\n"
    "  exec    run a command with the plan applied to it\n"
    "  check   findings about this node, and across the nodes of a job step\n"
    "  dump    this node's facts as one file, for --root\n"
    "  bench   measure collectives, with the columns of nccl-tests\n"
    "  compare which settings are better here, with evidence\n"
    "  tune    search faster settings here, and write them as a profile of the policy\n"
    "  pairs   find bad nodes, rails and paths of a job step, two nodes at a time\n"
    "  report  results side by side, as text or as a page\n"
    "  hostfile  the job's nodes in the forms of DeepSpeed, Open MPI and MPICH\n"
    "\n"
    "  nccl-tune COMMAND --help     options and examples of a command\n"
    "  nccl-tune --version\n"
    "\n"
    "Examples:\n"
    "  nccl-tune topo                            the matrix, and what is in and out\n"
    "  eval \"$(nccl-tune env)\"                   tune this shell, outside Slurm\n"
    "  torchrun ... --no-python nccl-tune exec -- python train.py\n"
    "  srun --nccl-tune --mpi=pmix nccl-tune bench all_reduce -b 8 -e 8G -f 2\n";

int refuse(const std::string& word) {
  std::vector<std::string> names;
  names.reserve(std::size(kCommands));
  for (const Command& command : kCommands) names.emplace_back(command.name);
  const std::string near = nearest_word(word, names);
  say({.object = word,
       .what = word.starts_with('-') ? "unknown option" : "unknown command",
       .remedy = near.empty() ? "see 'nccl-tune --help'" : "did you mean '" + near + "'?"});
  return exit_usage;
}

int dispatch(int argc, char** argv) {
  if (argc < 2) {
    say({.object = "command", .what = "none is given", .remedy = "see 'nccl-tune --help'"});
    return exit_usage;
  }
  const std::string_view word = argv[1];
  if (word == "--help" || word == "-h" || word == "help") return finish(kHelp);
  if (word == "--version" || word == "-V") return finish("nccl-tune " NCCLTUNE_VERSION "\n");
  auto command = std::find_if(kCommands.begin(), kCommands.end(), [&](const Command& c) { return word == c.name; });
  if (command == kCommands.end()) return refuse(std::string(word));
  if (!command->run) {
    say({.object = command->name, .what = "left out of this build"});
    return exit_cannot_run;
  }
  return command->run(argc - 1, argv + 1);
}

}  // namespace
}  // namespace nccltune::cli

int main(int argc, char** argv) { return nccltune::cli::dispatch(argc, argv); }
