// SPDX-License-Identifier: Apache-2.0
// The nodes of the job as the hostfile of a launcher that does not ask Slurm itself.
#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "base/text.h"
#include "bench/hostlist.h"
#include "cli/commands.h"
#include "cli/facts.h"
#include "cli/live_step.h"
#include "cli/output.h"

namespace nccltune::cli {

namespace {

constexpr int kMostSlots = 1 << 20;
constexpr size_t kMostHosts = 65536;  // as expand_hosts has it

// "8", "a100:8" or "a100:4,v100:4" as SLURM_GPUS_PER_NODE and SLURM_GPUS have it. nullopt: not set, or cannot be read.
std::optional<int> gpus_of(std::string_view text) {
  if (text.empty()) return std::nullopt;
  int64_t sum = 0;
  for (std::string_view part : split(text, ',')) {
    const size_t colon = part.rfind(':');
    const auto count = parse_int(colon == std::string_view::npos ? part : part.substr(colon + 1), 0, kMostSlots);
    if (!count) return std::nullopt;
    sum += *count;
  }
  return sum > 0 && sum <= kMostSlots ? std::optional<int>(static_cast<int>(sum)) : std::nullopt;
}

// The GPUs of each node, as far as Slurm's environment tells. An Error: they differ, and it does not say how.
Result<std::vector<int>> gpu_slots(const Environment& env, size_t nodes) {
  auto each = gpus_of(value_of(env, "SLURM_GPUS_PER_NODE"));
  if (!each) {
    each = gpus_of(value_of(env, "SLURM_GPUS_ON_NODE"));  // of this node
    const auto all = gpus_of(value_of(env, "SLURM_GPUS"));
    if (each && all && static_cast<size_t>(*all) != nodes * static_cast<size_t>(*each))
      return Error{.object = "SLURM_GPUS",
                   .what = fmt::format("{} GPUs on {} nodes, {} of them here: the nodes differ", *all, nodes, *each),
                   .remedy = "ask for --gpus-per-node, or give --slots"};
  }
  if (!each) return std::vector<int>();
  return std::vector<int>(nodes, *each);
}

// "4(x2),3" -> 4 4 3, as SLURM_TASKS_PER_NODE has it. Empty: cannot be read.
std::vector<int> expand_counts(std::string_view counts) {
  std::vector<int> numbers;
  for (std::string_view part : split(counts, ',')) {
    const size_t open = part.find("(x");
    std::optional<int64_t> times = 1;
    if (open != std::string_view::npos)
      times =
          part.ends_with(')') ? parse_int(part.substr(open + 2, part.size() - open - 3), 1, kMostHosts) : std::nullopt;
    const auto number = parse_int(part.substr(0, open), 1, kMostSlots);
    if (!times || !number || numbers.size() + static_cast<size_t>(*times) > kMostHosts) return {};
    numbers.insert(numbers.end(), static_cast<size_t>(*times), static_cast<int>(*number));
  }
  return numbers;
}

// The tasks of each node of the job; in a step that has them all, of the step.
std::vector<int> task_slots(const Environment& env, size_t nodes) {
  for (const char* name : {"SLURM_TASKS_PER_NODE", "SLURM_STEP_TASKS_PER_NODE"}) {
    auto slots = expand_counts(value_of(env, name));
    if (slots.size() == nodes) return slots;
  }
  return {};
}

// `wanted`: "", "gpus", "tasks" or a number.
Result<std::vector<int>> slots_of(const std::string& wanted, const Environment& env, size_t nodes) {
  if (const auto number = parse_int(wanted, 1, kMostSlots)) return std::vector<int>(nodes, static_cast<int>(*number));
  if (!wanted.empty() && wanted != "gpus" && wanted != "tasks")
    return Error{.object = "--slots", .what = "'" + wanted + "' is none of gpus, tasks, or a number above 0"};
  if (wanted != "tasks") {
    auto slots = gpu_slots(env, nodes);
    if (!slots || !slots->empty()) return slots;
    if (wanted == "gpus")
      return Error{.object = "--slots",
                   .what = "neither SLURM_GPUS_PER_NODE nor SLURM_GPUS_ON_NODE is set",
                   .remedy = "give the job --gpus-per-node, or --slots a number"};
  }
  auto slots = task_slots(env, nodes);
  if (slots.empty())
    return Error{.object = "--slots",
                 .what = fmt::format("Slurm's environment tells neither GPUs nor tasks of {} nodes", nodes),
                 .remedy = "give a number"};
  return slots;
}

}  // namespace

int hostfile(int argc, char** argv) {
  CLI::App app("the nodes of this job as a hostfile, in Slurm's order", "nccl-tune hostfile");
  std::string format = "deepspeed", slots_wanted, nodes;
  app.add_option("--format", format, "deepspeed and openmpi: 'HOST slots=N'; mpich: 'HOST:N'")
      ->check(CLI::IsMember({"deepspeed", "openmpi", "mpich"}));
  app.add_option("--slots", slots_wanted, "what N is: gpus (default where the job has any), tasks, or a number");
  app.add_option("--nodes", nodes, "this list in place of SLURM_JOB_NODELIST, such as 'node[01-04]'");
  app.footer(
      "In a batch script or in salloc's shell. Open MPI and MPICH built with Slurm's support need no hostfile.\n"
      "Examples:\n"
      "  deepspeed --hostfile <(nccl-tune hostfile) train.py\n"
      "  nccl-tune hostfile --format mpich --slots tasks >hosts; mpiexec -f hosts ...");
  if (auto status = parse(app, argc, argv)) return *status;

  const Environment env = environment_of_process();
  if (nodes.empty()) nodes = value_of(env, "SLURM_JOB_NODELIST");
  if (nodes.empty()) {
    say({.object = "SLURM_JOB_NODELIST",
         .what = "is not set: this is no job of Slurm",
         .remedy = "run it in sbatch or salloc, or give --nodes and --slots"});
    return exit_cannot_run;
  }
  const std::vector<std::string> hosts = bench::expand_hosts(nodes);
  if (hosts.empty()) {
    say({.object = nodes, .what = "is no list of at most 65536 hosts such as 'node[01-03,7]-ib'"});
    return exit_usage;
  }
  auto slots = slots_of(slots_wanted, env, hosts.size());
  if (!slots) return say(slots.error()), exit_usage;
  std::string text;
  for (size_t i = 0; i < hosts.size(); ++i)
    text += format == "mpich" ? fmt::format("{}:{}\n", hosts[i], (*slots)[i])
                              : fmt::format("{} slots={}\n", hosts[i], (*slots)[i]);
  return finish(text);
}

}  // namespace nccltune::cli
