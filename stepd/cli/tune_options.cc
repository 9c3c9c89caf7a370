// SPDX-License-Identifier: Apache-2.0
#include "cli/tune_options.h"

#include "bench/collectives.h"
#include "bench/option_values.h"
#include "bench/text.h"
#include "cli/commands.h"
#include "cli/output.h"

namespace nccltune::cli {
namespace {

using bench::parsed;
using bench::print;
using bench::worker_option;

auto whole(int64_t low, int64_t high) {
  return [low, high](const std::string& text) { return bench::parse_integer(text, low, high); };
}

void add_measure_options(CLI::App& app, bench::Options& base) {
  parsed(app, "-b,--minbytes", base.min_bytes, bench::parse_size, "a size", "smallest size (32M)")->type_name("SIZE");
  parsed(app, "-e,--maxbytes", base.max_bytes, bench::parse_size, "a size", "largest size (32M)")->type_name("SIZE");
  parsed(app, "-f,--stepfactor", base.factor, whole(2, 1 << 30), "a factor of at least 2",
         "factor from size to size (4)")
      ->type_name("N");
  parsed(app, "-n,--iters", base.iterations, whole(6, 1000000), "a number of at least 6",
         "iterations of each size (20)")
      ->type_name("N");
  parsed(app, "-w,--warmup_iters", base.warmup, whole(0, 1000000), "a number", "warm-up iterations (3)")
      ->type_name("N");
  parsed(app, "-g,--ngpus", base.gpus, whole(1, 1024), "a number", "GPUs in each task, a worker process each (1)")
      ->type_name("N");
  parsed(app, "-R,--local_register", base.registration, whole(0, 2), "0, 1 or 2",
         "register buffers: 1 local, 2 windows (0)")
      ->type_name("N");
  app.add_option_function<std::string>(
         "-d,--datatype",
         [&base](const std::string& text) {
           for (int i = 0; i < bench::kTypes; ++i)
             if (text == bench::type_name(static_cast<protocol::DataType>(i))) {
               base.types = {static_cast<protocol::DataType>(i)};
               return;
             }
           throw CLI::ValidationError("-d,--datatype", print("'%s' is not a datatype", text.c_str()));
         },
         "datatype (float)")
      ->take_last()
      ->type_name("TYPE");
  parsed(app, "--timeout", base.timeout, bench::parse_duration, "a duration such as 90s, 5m",
         "bound for each phase without progress (3m)")
      ->type_name("TIME");
  worker_option(app, base.worker)->type_name("NAME");
}

void add_search_options(CLI::App& app, TuneOptions& options) {
  parsed(app, "--budget", options.search.budget, bench::parse_duration, "a duration such as 60s, 30m",
         "seconds of trials, all together (30m)")
      ->type_name("TIME");
  app.add_option("--space", options.space, "what may be tried, in place of the shipped file")->type_name("FILE");
  app.add_option("--workload", options.workload, "collectives and sizes with their weights, in place of those above")
      ->type_name("FILE");
  parsed(app, "--launches", options.search.launches, whole(bench::kFewestLaunches, 1000), "a number of at least 6",
         "launches of each side that decide in the end (10)")
      ->type_name("N");
  parsed(app, "--min-gain", options.search.min_gain, bench::parse_fraction, "a fraction such as 2% or 0.02",
         "gain below which nothing is written (1%)")
      ->type_name("PART");
  parsed(app, "--seed", options.search.seed, whole(0, INT64_MAX), "a number", "of the order of trials (1)")
      ->type_name("N");
  app.add_option("--out", options.out, "the profile's file (nccl-tune-tuned.yaml)")->type_name("FILE");
  app.add_option("--state", options.state, "kept to go on from; none: no file (nccl-tune-tune.state)")
      ->type_name("FILE");
  app.add_option("--json", options.json, "all trials and the result as one JSON document")->type_name("FILE");
  app.add_flag("!--no-progress", options.base.progress, "no progress line");
  app.add_flag("--verbose", options.verbose, "also why variables are not tried here");
  app.add_flag("--list", options.list, "list the variables that may be tried, their bounds, and what is never tried");
}

std::string list_text() {
  std::string text = "may be tried:\n";
  for (const auto& [name, words] : bench::known_names()) text += print("  %-28s %s\n", name.c_str(), words.c_str());
  text += "never tried:\n";
  for (const auto& [name, why] : bench::refused_names()) text += print("  %-28s %s\n", name.c_str(), why.c_str());
  return text;
}

}  // namespace

std::pair<std::optional<TuneOptions>, int> parse_tune_options(int argc, char** argv) {
  TuneOptions options;
  options.base.factor = 4;
  options.base.warmup = 3;
  CLI::App app(
      "Searches settings that are faster for what you measure, on this step's nodes, and writes them as a profile of "
      "the "
      "policy.",
      "nccl-tune tune");
  std::string collective;
  app.add_option("collective", collective, "what to measure; see nccl-tune bench --list (all_reduce)");
  add_measure_options(app, options.base);
  add_search_options(app, options);
  add_policy_options(app, options.facts);
  app.footer(
      "Examples:\n"
      "  srun --nccl-tune --mpi=pmix -N2 --ntasks-per-node=8 nccl-tune tune all_reduce -b 1M -e 1G --budget 30m\n"
      "  srun --nccl-tune --mpi=pmix nccl-tune tune --workload training.yaml --budget 2h\n"
      "  nccl-tune plan --policy nccl-tune-tuned.yaml     what the profile does here\n"
      "A search that was killed goes on when the same command is given again.\n"
      "Exit status: 0 done, found or not, 1 interrupted, 2 usage, 3 cannot run here, 4 wrong data with today's "
      "settings, "
      "5 they fail, or a task is lost.");
  if (auto status = parse(app, argc, argv)) return {std::nullopt, *status};
  if (options.list) return {std::nullopt, finish(list_text())};
  const auto refuse = [](const std::string& object, const std::string& what, const std::string& remedy = "") {
    say({.object = object, .what = what, .remedy = remedy});
    return std::pair{std::optional<TuneOptions>(), static_cast<int>(exit_usage)};
  };
  if (!collective.empty()) {
    const bench::CollectiveInfo* info = bench::find_collective(collective);
    if (info == nullptr) return refuse("tune", "unknown collective '" + collective + "'", "see nccl-tune bench --list");
    options.base.collective = info->id;
    if (!options.workload.empty()) return refuse("tune", "a collective and --workload", "give one of them");
  }
  if (options.base.min_bytes > options.base.max_bytes)
    return refuse("-b", "the smallest size is above the largest, -e");
  if (options.base.min_bytes == 0) return refuse("-b", "nothing is measured at 0 bytes");
  for (int i = 0; i < argc; ++i) options.base.arguments.emplace_back(argv[i]);
  if (options.state == "none") options.state.clear();
  return {std::move(options), exit_ok};
}

}  // namespace nccltune::cli
