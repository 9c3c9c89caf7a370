// SPDX-License-Identifier: Apache-2.0
#include "bench/compare.h"
#include "bench/option_values.h"

namespace nccltune::bench {
namespace {

constexpr int kMostLaunches = 1000;

// Options of bench that would do something else than what compare reports.
std::string contradiction(const Options& o) {
  if (o.cycles != 1) return "-N: launches take the place of cycles; see --launches";
  if (o.duration) return "--duration: see --launches";
  if (o.min_busbw || o.min_ratio) return "--min-busbw, --min-ratio: compare judges against its baseline only";
  if (!o.json.empty()) return "-J: see --json";
  if (!o.out.empty()) return "--out: compare writes to stdout, --json and --csv";
  if (!o.percentiles.empty() || o.per_iteration) return "-I, --percentiles: compare keeps one figure of each launch";
  if (o.root < 0) return "-r: compare takes one root";
  if (o.repeat > 0) return "--repeatable: compare keeps times; run bench under each setting";
  return "";
}

void add_options(CLI::App& app, CompareOptions& o) {
  app.add_option("--env", o.grid,
                 "NAME=VALUE,VALUE...: the values that a variable takes; an empty one unsets it; several --env make a "
                 "grid")
      ->allow_extra_args(false);  // the collective follows
  app.add_option("--file", o.file, "YAML file of named variants")->take_last();
  app.add_option("--baseline", o.choice.baseline,
                 "plan: the environment as it is; none: without what the plan set; or a variant's name (plan)")
      ->take_last();
  app.add_option("--against", o.choice.against, "one more variant: none or plan")->take_last();
  integer(app, "--launches", o.launches, 3, kMostLaunches,
          "launches of each variant, a block of all variants at a time (7)");
  parsed(
      app, "--seed", o.seed, [](const std::string& text) { return parse_integer(text, 0, INT64_MAX); },
      "an integer of at least 0", "of the random order (drawn, and shown)");
  parsed(app, "--least", o.least, parse_fraction, "a fraction such as 1% or 0.01",
         "a smaller difference is none, however certain (1%)");
  app.add_option("--json", o.json, "write one JSON document, kept valid while it grows")->take_last();
  app.add_option("--csv", o.csv, "write the verdicts as CSV")->take_last();
}

// CLI11 takes what starts with a dash for an option of ours or for a stranger, and leaves strangers in order.
std::vector<const char*> arguments_of_bench(const std::vector<std::string>& left) {
  std::vector<const char*> arguments = {"compare"};
  for (const std::string& word : left) arguments.push_back(word.c_str());
  return arguments;
}

// 1M to 4G in steps of 1M, nccl-tests' default, is 4,096 sizes: nobody compares those.
void double_sizes(const std::vector<std::string>& arguments, Options& options) {
  for (const std::string& word : arguments)
    if (word.starts_with("-f") || word.starts_with("-i") || word.starts_with("--step")) return;
  options.factor = 2;
}

}  // namespace

ParsedCompare parse_compare_options(int argc, const char* const* argv) {
  CompareOptions options;
  CLI::App app(
      "Which settings are better here, with evidence: fresh workers for each, in random order, in one job step.",
      "nccl-tune compare");
  app.set_help_flag("-h,--help", "this text");
  app.allow_extras();
  app.footer(
      "COLLECTIVE and all options that say what is measured and how are those of nccl-tune bench (-b -e -f -n -w -c "
      "-d\n"
      "-o -r -g --ci --timeout --worker ...; see nccl-tune bench --help); without -f and -i, sizes double.\n"
      "Examples:\n"
      "  srun --mpi=pmix nccl-tune compare --env NCCL_GDRCOPY_ENABLE=0,1 all_reduce -b 1M -e 4G -f 4\n"
      "  srun --mpi=pmix nccl-tune compare --baseline plan --against none all_reduce -b 8 -e 8G -f 8\n"
      "  nccl-tune compare --file variants.yaml --launches 10 alltoall -g 8 -b 1M -e 1G -f 4 --json compare.json\n"
      "Exit status: 0 the comparison is complete (a variant that fails is a result), 2 usage, 3 cannot run here,\n"
      "4 a variant gave wrong data, 5 the baseline failed, or the run ended early.");
  add_options(app, options);
  for (int i = 1; i < argc; ++i) options.arguments.emplace_back(argv[i]);
  const auto refuse = [](const std::string& text) {
    return ParsedCompare{std::nullopt, refusal_line("compare", "compare", text), 2};
  };
  if (auto ended = parse_line(app, "compare", "compare", argc, argv)) return {std::nullopt, ended->text, ended->status};
  const std::vector<std::string> left = app.remaining();
  const std::vector<const char*> arguments = arguments_of_bench(left);
  ParsedOptions bench = parse_options(static_cast<int>(arguments.size()), arguments.data());
  if (!bench.options) return {std::nullopt, bench.text, bench.status};
  if (const std::string fault = contradiction(*bench.options); !fault.empty()) return refuse(fault);
  options.bench = std::move(*bench.options);
  options.bench.arguments = options.arguments;
  double_sizes(left, options.bench);
  if (options.grid.empty() && options.file.empty() && options.choice.against.empty())
    return refuse("there is nothing to compare: name settings with --env, --file or --against none");
  if (auto specs = variants_of_grid(options.grid); !specs) return refuse(specs.error().text());
  return {std::move(options), "", 0};
}

}  // namespace nccltune::bench
