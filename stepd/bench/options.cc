// SPDX-License-Identifier: Apache-2.0
#include "bench/options.h"

#include <cstdint>
#include <cstdlib>

#include "bench/option_values.h"

namespace nccltune::bench {
namespace {

constexpr const char* kSize = "a size; write 8, 64K, 1.5M, 8G";

template <class T, class Name>
std::vector<T> named_values(const std::string& text, int count, Name name, const char* names, const char* what) {
  std::vector<T> values;
  std::vector<std::string> known;
  known.reserve(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) known.emplace_back(name(static_cast<T>(i)));
  for (const std::string& wanted : split(lower(text), ',')) {
    bool found = false;
    for (int i = 0; i < count; ++i)
      if (wanted == "all" || wanted == known[i]) values.push_back(static_cast<T>(i)), found = true;
    if (!found)
      throw CLI::ValidationError(
          names, print("'%s' is not %s; known: %s, all", wanted.c_str(), what, join(known, ", ").c_str()));
  }
  return values;
}

void add_classic(CLI::App& app, Options& o) {
  const std::string group = "nccl-tests' options";
  app.option_defaults()->group(group);
  integer(app, "-t,--nthreads", o.threads, 1, 1024, "multiplies -g");
  integer(app, "-g,--ngpus", o.gpus, 1, 1024, "GPUs in each task, a worker process each (1)");
  parsed(app, "-b,--minbytes", o.min_bytes, parse_size, kSize, "smallest size (32M)");
  parsed(app, "-e,--maxbytes", o.max_bytes, parse_size, kSize, "largest size (32M)");
  parsed(app, "-i,--stepbytes", o.step_bytes, parse_size, kSize, "added from size to size, without -f (1M)");
  integer(app, "-f,--stepfactor", o.factor, 1, 1 << 30, "factor from size to size");
  integer(app, "-n,--iters", o.iterations, 1, kInt, "iterations (20)");
  integer(app, "-m,--agg_iters", o.aggregate, 1, kInt, "operations of one group, an iteration (1)");
  integer(app, "-w,--warmup_iters", o.warmup, 0, kInt, "warm-up iterations of each size (1)");
  integer(app, "-N,--run_cycles", o.cycles, 0, kInt, "times through all sizes; 0: until a signal (1)");
  integer(app, "-p,--parallel_init", o.parallel_init, 0, 1,
          "1: ranks of a task join at the same time (each is a process here, so they always do)");
  integer(app, "-c,--check", o.check, 0, kInt, "iterations that verify the data; 0: none (1)");
  app.add_option_function<std::string>(
         "-o,--op",
         [&o](const std::string& text) {
           o.ops = named_values<protocol::Op>(text, kOps, op_name, "-o,--op", "an operation");
         },
         "sum, prod, max, min, avg, mulsum, a list of them, all (sum)")
      ->take_last();
  app.add_option_function<std::string>(
         "-d,--datatype",
         [&o](const std::string& text) {
           o.types = named_values<protocol::DataType>(text, kTypes, type_name, "-d,--datatype", "a datatype");
           o.all_types = lower(text) == "all";
         },
         "int8, uint8, int32, uint32, int64, uint64, half, float, double, bfloat16, f8e4m3, f8e5m2, a list, all "
         "(float)")
      ->take_last();
  app.add_option_function<std::string>(
         "-r,--root",
         [&o](const std::string& text) {
           const auto value = lower(text) == "all" ? std::optional<int64_t>(-1) : parse_integer(text, -1, kInt);
           if (!value) throw CLI::ValidationError("-r,--root", print("'%s' is not a rank, -1 or all", text.c_str()));
           o.root = static_cast<int>(*value);
         },
         "root rank; -1 or all: every rank in turn (0)")
      ->take_last();
  integer(app, "-z,--blocking", o.blocking, 0, 3,
          "1: wait and barrier after each operation, 2: wait, 3: each iteration (0)");
  integer(app, "-y,--stream_null", o.null_stream, 0, 1, "use the null stream (0)");
  integer(app, "-T,--stream_timeout", o.timeout_s, 0, kInt,
          "seconds for one wait for the stream; 0: no bound of its own (0)");
  integer(app, "-G,--cudagraph", o.graph, 0, kInt, "capture the iterations and launch them so often (0)");
  integer(app, "-C,--report_cputime", o.cpu_time, 0, 1, "show the host's time to enqueue (0)");
  integer(app, "-S,--report_timestamps", o.timestamps, 0, 1, "a time stamp in each row (0)");
  integer(app, "-a,--average", o.average, 0, 3, "time shown: 0 rank 0's, 1 mean, 2 minimum, 3 maximum over ranks (1)");
  integer(app, "-R,--local_register", o.registration, 0, 2, "register buffers: 1 local, 2 symmetric windows (0)");
  integer(app, "-x,--cta_policy", o.cta_policy, -1, 2, "ncclConfig's CTA policy; -1: the library's (-1)");
  app.add_option_function<std::string>(
         "-D,--device_implementation",
         [](const std::string& text) {
           if (text != "0")
             throw CLI::ValidationError(
                 "-D,--device_implementation",
                 "kernels that call NCCL's device API are not part of this benchmark (they are tied to the one NCCL "
                 "release that they are compiled with); leave it out, or run nccl-tests' all_reduce_perf -R 2 -D " +
                     text);
         },
         "only 0: the collectives of the host API")
      ->take_last();
  app.add_option_function<std::string>(
         "-V,--device_cta_count",
         [](const std::string& text) {
           if (text != "16")
             throw CLI::ValidationError("-V,--device_cta_count",
                                        "it counts the CTAs of -D's kernels, which this benchmark does not have; "
                                        "leave it out (NCCL's own: NCCL_MAX_CTAS)");
         },
         "only 16, nccl-tests' default: it belongs to -D")
      ->take_last();
  integer(app, "-M,--memory", o.memory_report, 0, 1, "report device memory (0)");
  parsed(app, "-u,--unalign", o.unalign, parse_size, kSize, "bytes by which the buffers miss their alignment (0)");
  integer(app, "-I,--per_iter", o.per_iteration, 0, 1, "nccl-tests' columns of per-iteration time (0)");
  integer(app, "-K,--per_iter_skip", o.skip, 0, kInt, "leading iterations that summaries leave out (0)");
  app.add_option_function<std::string>(
         "-J,--output_file", [&o](const std::string& text) { o.json = text, o.announce_json = true; }, "same as --json")
      ->take_last();
}

void add_ours(CLI::App& app, Options& o) {
  app.option_defaults()->group("our options");
  app.add_option("--json", o.json, "write one JSON document, kept valid while it grows")->take_last();
  app.add_option("--csv", o.csv, "write the rows as CSV")->take_last();
  app.add_option("--out", o.out, "the report's file; none: no file (nccl_test_<jobid>.out in a Slurm job)")
      ->take_last();
  parsed(app, "--ci", o.ci, parse_fraction, "a fraction such as 1% or 0.01",
         "run each size until the median's 95 % interval is this narrow (half width over median)");
  parsed(app, "--ci-time", o.ci_seconds, parse_duration, "a duration such as 30s", "bound for --ci, a size (10s)");
  parsed(app, "--duration", o.duration, parse_duration, "a duration such as 90s, 10m, 2h",
         "repeat all sizes for so long");
  parsed(app, "--min-busbw", o.min_busbw, parse_real, "a number of GB/s", "exit 1 when the best busbw stays below");
  parsed(app, "--min-ratio", o.min_ratio, parse_real, "a ratio such as 0.9",
         "exit 1 when busbw over the figure expected for this very shape is below");
  app.add_option("--expected", o.expected, "file of expected figures")->take_last();
  integer(app, "--repeatable", o.repeat, 2, kInt,
          "run each size so often with one input and compare the results bit by bit; exit 1 when one differs");
  parsed(app, "--timeout", o.timeout, parse_duration, "a duration such as 90s, 5m",
         "bound for each phase without progress (3m)");
  app.add_flag("!--no-statistics", o.statistics, "leave out the pass that times each iteration");
  app.add_option_function<std::string>(
         "--percentiles",
         [&o](const std::string& text) {
           for (const std::string& part : split(text, ',')) {
             const auto value = parse_real(part);
             if (!value || !(*value > 0) || !(*value < 100))
               throw CLI::ValidationError("--percentiles",
                                          print("'%s' is not a percentile between 0 and 100", part.c_str()));
             o.percentiles.push_back(*value);
           }
         },
         "more percentiles in the notes, such as 90,99.9")
      ->take_last();
  app.add_flag("--list", o.list, "list collectives, datatypes and operations");
  app.add_flag("!--no-progress", o.progress, "no progress line on a terminal");
  app.add_flag("!--no-data-path", o.data_path, "do not read NCCL's log for the data path");
  app.add_flag("--algorithms", o.algorithms,
               "have NCCL name the algorithms that it chose; small operations then take up to 20 % longer");
  worker_option(app, o.worker, true);
  parsed(app, "--split", o.split, parse_split, "one of 'MOD N', 'DIV N', 'AND N', 'OR N', node, rail",
         "groups of ranks that run at the same time, each by itself: by the task's number as NCCL_TESTS_SPLIT has it, "
         "node: each node, rail: equal places of all nodes");
  app.add_option("--label", o.label, "kept in the JSON")->take_last();
  app.option_defaults()->group("");  // hidden: for tests of the verification and the deadlines
  app.add_option_function<std::string>(
      "--inject-fault",
      [&o](const std::string& text) {  // KIND:RANK[:ELEMENT]
        const auto parts = split(text, ':');
        const auto fault = parse_fault(parts[0]);
        const auto rank = parts.size() > 1 ? parse_integer(parts[1], 0, kInt) : std::nullopt;
        const auto element = parts.size() > 2 ? parse_integer(parts[2], 0, INT64_MAX) : std::optional<int64_t>(0);
        if (!fault || !rank || !element || parts.size() > 3)
          throw CLI::ValidationError("--inject-fault", print("'%s' is not KIND:RANK[:ELEMENT] with KIND one of %s",
                                                             text.c_str(), known_faults().c_str()));
        o.fault = *fault;
        o.fault_rank = static_cast<int>(*rank);
        o.fault_element = *element;
      });
}

std::string list_text() {
  std::string text = "collectives:\n";
  for (const CollectiveInfo& info : collectives())
    text += print("  %-15s %s\n", std::string(info.name).c_str(), std::string(info.what).c_str());
  text += "datatypes: ";
  for (int i = 0; i < kTypes; ++i) (text += i ? ", " : "") += type_name(static_cast<protocol::DataType>(i));
  text += "\noperations: ";
  for (int i = 0; i < kOps; ++i) (text += i ? ", " : "") += op_name(static_cast<protocol::Op>(i));
  return text + "\n";
}

// What no single option can see. Empty: all is well.
std::string contradiction(const Options& o) {
  if (o.min_bytes > o.max_bytes)
    return print("-b: the smallest size (%llu) is above the largest, -e (%llu)", (unsigned long long)o.min_bytes,
                 (unsigned long long)o.max_bytes);
  if (o.adds_bytes() && o.step_bytes == 0 && o.max_bytes > o.min_bytes)
    return "-i: a step of 0 bytes never ends; give -f 2";
  if (o.per_iteration && o.graph) return "-I: iterations of a graph (-G) cannot be timed one by one";
  if (o.null_stream && o.graph) return "-y: the null stream cannot be captured in a graph (-G)";
  if (o.skip > 0 && o.skip >= o.iterations)
    return print("-K: skipping %d of %d iterations leaves nothing", o.skip, o.iterations);
  if (o.duration && o.cycles != 1) return "--duration: it sets the number of cycles itself; leave -N out";
  return "";
}

}  // namespace

ParsedOptions parse_options(int argc, const char* const* argv) {
  Options options;
  CLI::App app("Measures a collective as nccl-tests does, without MPI: one task a GPU under srun --mpi=pmix, or -g N.",
               "nccl-tune bench");
  app.set_help_flag("-h,--help", "this text");
  app.footer(
      "Examples:\n"
      "  srun --mpi=pmix --ntasks-per-node=8 nccl-tune bench all_reduce -b 8 -e 8G -f 2\n"
      "  nccl-tune bench alltoall -g 8 -b 1M -e 1G -f 2 --ci 1% --json alltoall.json\n"
      "  srun --mpi=pmix nccl-tune bench all_reduce -b 1G -e 8G -f 2 --min-ratio 0.9\n"
      "Exit status: 0 ok, 1 below what was asked, 2 usage, 3 cannot run here, 4 wrong data, 5 a rank died or hung.");
  std::string collective;
  app.add_option("collective", collective, "what to measure; see --list (all_reduce)");
  add_classic(app, options);
  add_ours(app, options);
  for (int i = 1; i < argc; ++i) options.arguments.emplace_back(argv[i]);
  if (auto ended = parse_line(app, argv[0], "bench", argc, argv)) return {std::nullopt, ended->text, ended->status};
  if (options.list) return {std::nullopt, list_text(), 0};
  if (!collective.empty()) {
    const CollectiveInfo* info = find_collective(collective);
    if (info == nullptr)
      return {std::nullopt,
              print("nccl-tune: %s: unknown collective '", argv[0]) + collective + "'; see nccl-tune bench --list\n",
              2};
    options.collective = info->id;
  }
  if (const std::string fault = contradiction(options); !fault.empty())
    return {std::nullopt, print("nccl-tune: %s: ", argv[0]) + fault + "\n", 2};
  return {std::move(options), "", 0};
}

}  // namespace nccltune::bench
