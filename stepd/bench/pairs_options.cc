// SPDX-License-Identifier: Apache-2.0
#include "bench/pairs_options.h"

#include "bench/option_values.h"

namespace nccltune::bench {
namespace {

// TASK is a PMIx rank.
void take_fault(PairsOptions& o, const std::string& text) {
  const auto parts = split(text, ':');
  const auto fault = parse_fault(parts[0]);
  const auto task = parts.size() == 2 ? parse_integer(parts[1], 0, kInt) : std::nullopt;
  if (!fault || !task)
    throw CLI::ValidationError(
        "--inject-fault", print("'%s' is not KIND:TASK with KIND one of %s", text.c_str(), known_faults().c_str()));
  o.fault = *fault;
  o.fault_task = static_cast<int>(*task);
}

void add_options(CLI::App& app, PairsOptions& o) {
  parsed(app, "-b,--bytes", o.bytes, parse_size, "a size; write 64K, 1.5M, 1G", "message size (64M)");
  integer(app, "-n,--iters", o.iterations, 1, kInt, "iterations (20)");
  integer(app, "-w,--warmup_iters", o.warmup, 0, kInt, "warm-up iterations (5)");
  integer(app, "-c,--check", o.check, 0, kInt, "iterations that verify the data; 0: none (1)");
  integer(app, "-g,--ngpus", o.gpus, 1, 1024, "GPUs in each task, a worker process each (1)");
  app.add_option_function<std::string>(
         "--pairs",
         [&o](const std::string& text) {
           if (text != "few" && text != "full")
             throw CLI::ValidationError("--pairs", print("'%s' is neither few nor full", text.c_str()));
           o.full = text == "full";
         },
         "few: one matching, then only what looks suspect; full: every pair once, which takes a round for each node "
         "(few)")
      ->take_last();
  parsed(
      app, "--threshold", o.threshold,
      [](const std::string& text) { return text == "1" ? std::nullopt : parse_fraction(text); },
      "a fraction such as 0.9 or 90%", "slower than this share of the median is suspect (0.9)");
  app.add_flag("!--no-alone", o.alone, "leave out the round in which each node runs by itself");
  parsed(app, "--timeout", o.timeout, parse_duration, "a duration such as 90s, 5m",
         "bound for each step without progress; a round takes at most twice that (60s)");
  app.add_option("--json", o.json, "write a line of JSON for each figure and finding, round by round")->take_last();
  app.add_flag("--all", o.all, "a row for each node and rail, however many there are");
  app.add_flag("!--no-progress", o.progress, "no progress line on a terminal");
  app.add_flag("--tasks-as-nodes", o.tasks_as_nodes,
               "each task counts as a node of its own: to try this on one machine (sets NCCL_HOSTID)");
  worker_option(app, o.worker);
  app.option_defaults()->group("");  // hidden: for tests
  app.add_option_function<std::string>(
      "--inject-fault", [&o](const std::string& text) { take_fault(o, text); }, "");
}

std::string text_of(const PairsOptions& o) {
  return print("%d %llu %d %d %d %d %d %d %.6f %.6f %d", static_cast<int>(o.collective), (unsigned long long)o.bytes,
               o.iterations, o.warmup, o.check, o.gpus, o.full, o.alone, o.threshold, o.timeout, o.tasks_as_nodes);
}

}  // namespace

ParsedPairsOptions parse_pairs_options(int argc, const char* const* argv) {
  PairsOptions options;
  CLI::App app(
      "Finds bad nodes, rails and paths in few rounds: pairs of nodes, all GPUs at once, suspects again with partners "
      "that are good. One task a GPU under srun --mpi=pmix, or -g N.",
      "nccl-tune pairs");
  app.set_help_flag("-h,--help", "this text");
  app.footer(
      "Examples:\n"
      "  srun --no-kill --mpi=pmix --ntasks-per-node=8 nccl-tune pairs --json pairs.jsonl\n"
      "  srun --no-kill --mpi=pmix --ntasks-per-node=1 nccl-tune pairs -g 8 --pairs=full\n"
      "  nccl-tune report --html pairs.html pairs.jsonl\n"
      "Exit status: 0 all good, 1 something is bad, 2 usage, 3 cannot run here, 5 interrupted or rank 0 is gone.");
  std::string collective;
  app.add_option("collective", collective, "what a pair runs; see nccl-tune bench --list (sendrecv)");
  add_options(app, options);
  const auto refuse = [](const std::string& what) {
    return ParsedPairsOptions{std::nullopt, refusal_line("pairs", "pairs", what), 2};
  };
  if (auto ended = parse_line(app, "pairs", "pairs", argc, argv)) return {std::nullopt, ended->text, ended->status};
  if (!collective.empty()) {
    const CollectiveInfo* info = find_collective(collective);
    if (info == nullptr) return refuse("unknown collective '" + collective + "'");
    options.collective = info->id;
  }
  if (options.bytes == 0) return refuse("-b: 0 bytes measure nothing");
  if (options.timeout < 1) return refuse("--timeout: shorter than a second");
  options.shared_text = text_of(options);
  return {std::move(options), "", 0};
}

}  // namespace nccltune::bench
