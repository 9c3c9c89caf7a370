// SPDX-License-Identifier: Apache-2.0
#include "bench/trial.h"

#include <algorithm>

#include "bench/data_path.h"
#include "bench/gather.h"
#include "bench/measure.h"
#include "bench/outcome.h"
#include "bench/rank_path.h"
#include "bench/text.h"
#include "bench/trouble.h"

namespace nccltune::bench {
namespace {

// Tasks that would measure different things are found before they wait for each other in a collective. The variant's
// environment does not count: each node has its own plan.
std::vector<std::string> arguments_of(const Options& base, const Variant& variant, const std::vector<Work>& works) {
  std::vector<std::string> arguments = base.arguments;
  arguments.push_back(variant.name);
  for (const Work& work : works) {
    arguments.push_back(print("%s %s %s %d", std::string(info_of(work.collective).name).c_str(),
                              std::string(type_name(work.type)).c_str(), std::string(op_name(work.op)).c_str(),
                              work.root));
    for (const uint64_t size : work.sizes) arguments.push_back(std::to_string(size));
  }
  return arguments;
}

Options options_for(const Options& base, const Work& work) {
  Options options = base;
  options.collective = work.collective;
  options.types = {work.type};
  options.all_types = false;
  options.ops = {work.op};
  options.root = work.root;
  options.min_bytes = work.sizes.front();
  options.max_bytes = work.sizes.back();
  return options;
}

Fault refusal(std::string text) {
  return Fault{Fault::Kind::failed, -1, std::move(text), "", protocol::FailureKind::usage};
}

std::optional<TrialFault> find_wrong_data(const std::vector<Work>& works, const std::vector<std::vector<Row>>& rows) {
  TrialFault fault;
  fault.kind = TrialFault::Kind::wrong_data;
  for (size_t w = 0; w < rows.size(); ++w)
    for (const Row& row : rows[w])
      for (const Half* half : {&row.out, &row.in}) {
        if (half->wrong == 0) continue;
        std::string text =
            print("%s, %s %s: %lld wrong elements", std::string(info_of(works[w].collective).name).c_str(),
                  human_size(row.bytes).c_str(), row.type.c_str(), static_cast<long long>(half->wrong));
        if (half->wrong_rank >= 0)
          text += print(", the first on rank %d, element %lld: expected %s, found %s", half->wrong_rank,
                        static_cast<long long>(half->wrong_element), half->expected.c_str(), half->found.c_str());
        if (fault.lines.empty()) fault.rank = half->wrong_rank;
        fault.lines.push_back(std::move(text));
      }
  if (fault.lines.empty()) return std::nullopt;
  fault.text = fault.lines.front();
  return fault;
}

}  // namespace

const char* name(TrialFault::Kind kind) {
  static constexpr const char* kNames[] = {"died", "failed", "hung", "wrong data", "refused", "signal", "lost"};
  return kNames[static_cast<int>(kind)];
}

TrialRunner::TrialRunner(Options base, Variables environment, World& world, ChosenWorker worker, int signal_fd)
    : base_(std::move(base)),
      environment_(std::move(environment)),
      world_(world),
      worker_(std::move(worker)),
      signal_fd_(signal_fd) {}

TrialResult TrialRunner::no_further(const std::string& why) const {
  TrialResult result;
  TrialFault fault;
  fault.kind = TrialFault::Kind::lost;
  fault.text = why;
  fault.lines = {why};
  result.fault = std::move(fault);
  return result;
}

TrialResult TrialRunner::run(const Variant& variant, const std::vector<Work>& works, double seconds) {
  if (lost_) return no_further("the tasks of the step have lost each other");
  const auto began = Clock::now();
  const Deadline end = in_seconds(seconds);
  Options options = base_;
  options.arguments = arguments_of(base_, variant, works);
  options.timeout = std::min(base_.timeout, seconds);
  Launch::Setting setting;
  setting.number = trials_++;
  setting.environment = variant.environment;
  setting.one_of_many = true;
  Launch launch(options, environment_, worker_, world_, signal_fd_, std::move(setting));

  TrialResult result;
  double longest_wait = options.timeout;
  std::optional<Fault> fault = launch.start();
  if (!fault) {
    result.library = launch.digest().library;
    result.device = launch.digest().device;
  }
  if (!fault) fault = measure(launch, options, works, end, longest_wait, result);
  if (fault && fault->kind == Fault::Kind::hung && passed(end))
    fault->text += print("; the trial's bound of %.0f s is over", seconds);
  settle(launch, fault, longest_wait, began, result);
  if (!result.fault) result.fault = find_wrong_data(works, result.rows);
  over_ = result.over();
  return result;
}

std::optional<Fault> TrialRunner::measure(Launch& launch, const Options& base, const std::vector<Work>& works,
                                          Deadline end, double& longest_wait, TrialResult& result) {
  std::vector<Options> options;
  std::vector<Schedule> schedules;
  uint64_t max_bytes = 0;
  for (const Work& work : works) {
    if (work.sizes.empty()) return refusal("no size is to be measured");
    options.push_back(options_for(base, work));
    schedules.push_back(schedule_of(options.back(), launch.digest(), launch.sizes()));
    if (!schedules.back().refusal.empty()) return refusal(schedules.back().refusal);
    max_bytes = std::max(max_bytes, schedules.back().max_bytes);
  }
  if (auto fault = launch.connect(max_bytes)) return fault;
  for (size_t w = 0; w < works.size(); ++w) {
    result.rows.emplace_back();
    Measurement measurement(launch, options[w], max_bytes, end);
    const Sweep& sweep = schedules[w].sweeps.front();
    std::optional<Fault> fault;
    if (base.warmup > 0) fault = measurement.warm_up(sweep);
    for (const uint64_t size : works[w].sizes) {
      if (fault || size > schedules[w].max_bytes) break;
      Row row;
      fault = measurement.measure(sweep, size, 0, row);
      if (fault) break;
      row.out.samples.clear();  // the summaries stay
      row.in.samples.clear();
      result.rows.back().push_back(std::move(row));
    }
    longest_wait = std::max(longest_wait, measurement.longest_wait());
    if (fault) return fault;
  }
  return std::nullopt;
}

// Ends the workers, and agrees with the other tasks on what became of the trial. Whatever happened here, every task
// comes to this one fence.
void TrialRunner::settle(Launch& launch, const std::optional<Fault>& fault, double longest_wait,
                         Clock::time_point began, TrialResult& result) {
  Outcome own = outcome_of(launch, fault);
  if (own.cause) launch.alarm().raise(split(own.text, '\n').front());
  if (fault)
    launch.crew().kill_all();
  else
    launch.crew().dismiss(10);
  for (const auto& rows : result.rows) own.rows.push_back(rows.size());
  own.library = result.library;
  own.device = result.device;
  if (reports()) {
    own.seconds = seconds_since(began);
    if (!launch.log_files().empty()) {
      const DataPath path = read_data_path(launch.log_files().front());
      for (const std::string& fault : judge(0, path, {}, "", launch.environment()).faults)
        own.data_path.push_back("WARNING: " + fault);
      for (std::string& line : describe_data_path(path)) own.data_path.push_back(std::move(line));
      own.settings.assign(path.settings.begin(), path.settings.end());
    }
  }
  // Another task may have begun its longest wait when this one was done.
  const auto outcomes = exchange_outcomes(launch, own, in_seconds(longest_wait + base_.timeout + 60));
  if (!outcomes) {
    lost_ = true;
    result = no_further(outcomes.error().text());
    return;
  }
  combine(*outcomes, launch.per_task(), result);
}

Result<std::string> TrialRunner::agree(const std::string& rank_0_text) {
  const std::string key = print("word.%d", words_++);
  if (over_) return Error{"the step", "is over", "", ""};  // the others have left
  return word_of_rank_0(world_, key, rank_0_text, base_.timeout);
}

}  // namespace nccltune::bench
