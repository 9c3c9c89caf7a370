// SPDX-License-Identifier: Apache-2.0
#include "bench/compare.h"

#include <sys/random.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <numeric>
#include <random>
#include <sstream>

#include "bench/compare_json.h"
#include "bench/compare_report.h"
#include "bench/comparison.h"
#include "bench/schedule.h"
#include "bench/step.h"
#include "bench/text.h"

namespace nccltune::bench {
namespace {

enum Exit { ok = 0, usage = 2, cannot_run = 3, wrong_data = 4, rank_died = 5 };

constexpr int kMostFaults = 2;  // of one variant: a single one may be chance, and each hang costs its whole timeout

void say(const std::string& text) { std::fprintf(stderr, "nccl-tune: %s\n", text.c_str()); }

std::vector<Work> works_of(const Options& options) {
  const CollectiveInfo& info = info_of(options.collective);
  std::vector<Work> works;
  for (const auto type : options.types)
    for (const auto op : info.has_op ? options.ops : std::vector{protocol::Op::none})
      works.push_back({options.collective, type, op, options.root, sizes_of(options, options.max_bytes)});
  return works;
}

Result<std::string> read_file(const std::string& path) {
  std::ifstream in(path);
  std::stringstream text;
  if (!(text << in.rdbuf())) return Error{path, "cannot read", "", ""};
  return text.str();
}

// Not std::random_device: a static libstdc++ gets it from arc4random, which ties the portable tool to glibc 2.36.
uint32_t draw_seed() {
  uint32_t seed = 0;
  if (getrandom(&seed, sizeof seed, 0) != static_cast<ssize_t>(sizeof seed)) seed = static_cast<uint32_t>(getpid());
  return seed;
}

// What rank 0 decides for all, as one line of text and then its file of variants.
Result<std::string> describe_run(const CompareOptions& options) {
  std::string file;
  if (!options.file.empty()) {
    auto text = read_file(options.file);
    if (!text) return text.error();
    file = std::move(*text);
  }
  return std::to_string(options.seed.value_or(draw_seed())) + "\n" + file;
}

class ComparisonRun {
 public:
  ComparisonRun(const CompareOptions& options, const Variables& environment, Step step)
      : options_(options),
        environment_(environment),
        runner_(options.bench, environment, step.world, std::move(step.worker), step.signal_fd),
        world_(step.world) {}

  int run();

 private:
  std::optional<Error> decide();
  bool try_baseline();
  void measure();
  void take(size_t variant, int block);
  bool given_up(size_t variant) const;
  int exit_status() const;
  int conclude();
  void show_progress(size_t variant) const;

  const CompareOptions& options_;
  const Variables& environment_;
  TrialRunner runner_;
  World& world_;
  Comparison comparison_;
  CompareInfo info_;
  std::optional<CompareJson> json_;
  std::optional<TrialFault> end_;  // what ended the run early
  Clock::time_point began_ = Clock::now();
};

// An error is one of usage, and the same on every task.
std::optional<Error> ComparisonRun::decide() {
  std::string said = "E";
  if (runner_.reports()) {
    auto text = describe_run(options_);
    said = text ? "S" + *text : "E" + text.error().text();
  }
  auto word = runner_.agree(said);
  if (!word) return word.error();
  if (word->front() == 'E') return Error{"compare", word->substr(1), "", ""};
  const size_t line = word->find('\n');
  info_.seed = std::strtoull(word->c_str() + 1, nullptr, 10);

  auto specs = variants_of_grid(options_.grid);
  if (!specs) return specs.error();
  if (!options_.file.empty()) {
    auto named = variants_of_file(word->substr(line + 1), options_.file);
    if (!named) return named.error();
    specs->insert(specs->end(), named->begin(), named->end());
  }
  auto all = with_baseline(std::move(*specs), options_.choice);
  if (!all) return all.error();
  // Whether there is a plan to do without is rank 0's to say: every node has its own.
  auto plan = runner_.agree(without_plan(environment_).empty() ? "" : "plan");
  if (!plan) return plan.error();
  for (const VariantSpec& spec : *all) {
    if (spec.without_plan && plan->empty())
      return Error{"compare", "the plan set nothing here (NCCLTUNE_SET is empty), so there is nothing to leave out", "",
                   "start it with srun --nccl-tune, or with nccl-tune exec"};
    comparison_.variants.push_back(variant_of(spec, environment_));
  }
  return std::nullopt;
}

int ComparisonRun::run() {
  comparison_.works = works_of(options_.bench);
  comparison_.ranks = runner_.ranks();
  comparison_.nodes = world_.place().nodes;
  comparison_.launches = options_.launches;
  comparison_.least = options_.least;
  if (auto error = decide()) {
    if (runner_.reports()) say(error->text());
    return usage;
  }
  const auto value = [this](const char* name) {
    const auto at = environment_.find(name);
    return at == environment_.end() ? std::string() : at->second;
  };
  info_.version = NCCLTUNE_VERSION;
  info_.world = world_.name();
  info_.worker = runner_.worker();
  info_.job = value("SLURM_JOB_ID");
  info_.step = value("SLURM_STEP_ID");
  info_.started = std::time(nullptr);
  info_.arguments = options_.arguments;
  info_.environment = named_settings(environment_);
  if (runner_.reports() && !options_.json.empty()) {
    auto sink = open_named(options_.json);
    if (!sink) say(sink.error().text());
    if (sink) json_.emplace(std::move(*sink));
    if (json_) json_->start(info_, comparison_);
  }
  if (try_baseline()) measure();
  return conclude();
}

// One launch that does not count, of the smallest sizes: the first of a step pays for cold caches and sleeping GPUs,
// and what cannot run at all is found in a moment.
bool ComparisonRun::try_baseline() {
  std::vector<Work> smallest = comparison_.works;
  for (Work& work : smallest) work.sizes.resize(1);
  TrialResult result = runner_.run(comparison_.variants.front(), smallest);
  info_.library = result.library;
  info_.device = result.device;
  if (result.fault) end_ = std::move(result.fault);
  return !end_;
}

void ComparisonRun::measure() {
  for (int block = 0; block < comparison_.launches; ++block)
    for (const size_t variant : order_of_block(comparison_.variants.size(), info_.seed, block)) {
      if (given_up(variant)) continue;
      show_progress(variant);
      take(variant, block);
      if (end_) return;
    }
}

void ComparisonRun::take(size_t variant, int block) {
  ComparedLaunch launch{block, variant, std::time(nullptr), {}};
  launch.result = runner_.run(comparison_.variants[variant], comparison_.works);
  const auto& fault = launch.result.fault;
  if (fault && runner_.reports() && fault->kind != TrialFault::Kind::signal)
    say(comparison_.variants[variant].name + ": " + fault->text);
  if (launch.result.over()) {  // no launch of the variant's: the run was ended
    end_ = fault;
    return;
  }
  if (json_) json_->add(comparison_, launch);
  comparison_.done.push_back(std::move(launch));
  if (variant == 0 && given_up(0)) end_ = comparison_.done.back().result.fault;
}

bool ComparisonRun::given_up(size_t variant) const {
  int faults = 0;
  for (const ComparedLaunch& launch : comparison_.done) {
    if (launch.variant != variant || !launch.result.fault) continue;
    const auto kind = launch.result.fault->kind;
    if (kind == TrialFault::Kind::hung || kind == TrialFault::Kind::wrong_data || kind == TrialFault::Kind::refused)
      return true;
    ++faults;
  }
  return faults >= kMostFaults;
}

void ComparisonRun::show_progress(size_t variant) const {
  if (!runner_.reports() || !options_.bench.progress || !isatty(STDERR_FILENO)) return;
  const size_t total = comparison_.variants.size() * comparison_.launches, done = comparison_.done.size();
  const double left = done ? seconds_since(began_) / static_cast<double>(done) * static_cast<double>(total - done) : 0;
  std::fprintf(stderr, "\r\033[Klaunch %zu of %zu, about %.0f s left: %s", done + 1, total, left,
               comparison_.variants[variant].name.c_str());
}

int ComparisonRun::exit_status() const {
  bool wrong = false;
  for (const ComparedLaunch& launch : comparison_.done)
    wrong |= launch.result.fault && launch.result.fault->kind == TrialFault::Kind::wrong_data;
  if (wrong || (end_ && end_->kind == TrialFault::Kind::wrong_data)) return wrong_data;
  if (!end_) return ok;
  if (end_->kind == TrialFault::Kind::refused) return usage;
  const bool unfit =
      end_->failure == protocol::FailureKind::no_device || end_->failure == protocol::FailureKind::unsupported;
  return end_->kind == TrialFault::Kind::failed && unfit ? cannot_run : rank_died;
}

int ComparisonRun::conclude() {
  const int status = exit_status();
  if (!runner_.reports()) return status;
  if (options_.bench.progress && isatty(STDERR_FILENO)) std::fputs("\r\033[K", stderr);
  const auto verdicts = judge(comparison_);
  CompareEnding ending;
  ending.complete = !end_;
  ending.seconds = seconds_since(began_);
  if (end_) {
    const bool users = end_->kind == TrialFault::Kind::signal;
    for (const std::string& line : end_->lines) ending.trouble.push_back((users ? "" : "baseline: ") + line);
    for (const std::string& line : ending.trouble) say(line);
  }
  ending.sentence = comparison_.done.empty() ? "nothing was measured" : sum_up(comparison_, verdicts);
  ending.exit_status = status;
  if (json_) json_->finish(info_, comparison_, verdicts, ending);
  if (!options_.csv.empty()) {
    auto sink = open_named(options_.csv);
    if (sink)
      sink->write(compare_csv(comparison_, verdicts));
    else
      say(sink.error().text());
  }
  Sink(STDOUT_FILENO, "stdout", true).write(compare_text(info_, comparison_, verdicts, ending));
  return status;
}

}  // namespace

std::vector<size_t> order_of_block(size_t variants, uint64_t seed, int block) {
  std::vector<size_t> order(variants);
  std::iota(order.begin(), order.end(), size_t{0});
  std::seed_seq mixed{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32), static_cast<uint32_t>(block)};
  std::mt19937_64 random(mixed);
  // Not std::shuffle: its draws are the library's own, and all tasks must agree.
  for (size_t left = variants; left > 1; --left) std::swap(order[left - 1], order[random() % left]);
  return order;
}

int run_compare(const CompareOptions& options) {
  const Variables environment = own_environment();
  auto step = open_step(environment, options.bench.worker, options.bench.timeout);
  if (!step) return say(step.error().text()), cannot_run;
  World& world = step->world;
  int status = 0;
  {
    ComparisonRun run(options, environment, std::move(*step));
    status = run.run();
  }
  std::fflush(nullptr);
  world.leave(in_seconds(5));
  return status;
}

}  // namespace nccltune::bench
