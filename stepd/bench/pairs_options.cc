// SPDX-License-Identifier: Apache-2.0
#include "bench/pairs_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <limits>

#include "bench/text.h"

namespace nccltune::bench {
namespace {

constexpr int kInt = std::numeric_limits<int>::max();
const std::vector<std::string> kFaults = {"none", "flip", "hang", "crash", "slow"};  // in the order of protocol::Fault

template <class T, class Parse>
void value(CLI::App& app, const std::string& names, T& target, Parse parse, const std::string& what,
           const std::string& help) {
  app.add_option_function<std::string>(
         names,
         [&target, parse, what, names](const std::string& text) {
           const auto value = parse(text);
           if (!value) throw CLI::ValidationError(names, print("'%s' is not %s", text.c_str(), what.c_str()));
           target = static_cast<T>(*value);
         },
         help)
      ->take_last();
}

void integer(CLI::App& app, const std::string& names, int& target, int low, int high, const std::string& help) {
  const std::string what =
      high == kInt ? print("an integer of at least %d", low) : print("an integer from %d to %d", low, high);
  value(
      app, names, target, [low, high](const std::string& text) { return parse_integer(text, low, high); }, what, help);
}

// TASK is a PMIx rank.
void take_fault(PairsOptions& o, const std::string& text) {
  const auto parts = split(text, ':');
  const auto kind = std::find(kFaults.begin(), kFaults.end(), parts[0]);
  const auto task = parts.size() == 2 ? parse_integer(parts[1], 0, kInt) : std::nullopt;
  if (kind == kFaults.end() || !task)
    throw CLI::ValidationError("--inject-fault", print("'%s' is not KIND:TASK with KIND one of %s", text.c_str(),
                                                       join(kFaults, ", ").c_str()));
  o.fault = static_cast<uint32_t>(kind - kFaults.begin());
  o.fault_task = static_cast<int>(*task);
}

void add_options(CLI::App& app, PairsOptions& o) {
  value(app, "-b,--bytes", o.bytes, parse_size, "a size; write 64K, 1.5M, 1G", "message size (64M)");
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
  value(
      app, "--threshold", o.threshold,
      [](const std::string& text) { return text == "1" ? std::nullopt : parse_fraction(text); },
      "a fraction such as 0.9 or 90%", "slower than this share of the median is suspect (0.9)");
  app.add_flag("!--no-alone", o.alone, "leave out the round in which each node runs by itself");
  value(app, "--timeout", o.timeout, parse_duration, "a duration such as 90s, 5m",
        "bound for each step without progress; a round takes at most twice that (60s)");
  app.add_option("--json", o.json, "write a line of JSON for each figure and finding, round by round")->take_last();
  app.add_flag("--all", o.all, "a row for each node and rail, however many there are");
  app.add_flag("!--no-progress", o.progress, "no progress line on a terminal");
  app.add_flag("--tasks-as-nodes", o.tasks_as_nodes,
               "each task counts as a node of its own: to try this on one machine (sets NCCL_HOSTID)");
  app.add_option_function<std::string>(
         "--worker",
         [&o](const std::string& text) {
           if (text != "auto" && text != "nccl" && text != "host")
             throw CLI::ValidationError("--worker",
                                        print("'%s' is not a worker; known: auto, nccl, host", text.c_str()));
           o.worker = text == "host"   ? WorkerChoice::host
                      : text == "nccl" ? WorkerChoice::nccl
                                       : WorkerChoice::automatic;
         },
         "nccl: GPUs; host: host memory over TCP; auto (auto)")
      ->take_last();
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
    return ParsedPairsOptions{std::nullopt, "nccl-tune: pairs: " + what + "; see nccl-tune pairs --help\n", 2};
  };
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return {std::nullopt, app.help(), 0};
  } catch (const CLI::ParseError& fault) {
    return refuse(fault.what());
  }
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
