// SPDX-License-Identifier: Apache-2.0
#include "bench/measure.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <ctime>

#include "bench/text.h"

namespace nccltune::bench {
namespace {

constexpr int kFirstBatch = 10;  // iterations; 6 are the fewest that give an interval

Repeats repeats_of(const protocol::Repeats& told) {
  Repeats repeats;
  repeats.runs = told.runs;
  repeats.differing = told.differing;
  if (told.differing == 0) return repeats;
  repeats.run = told.run;
  repeats.elements = told.wrong.elements;
  repeats.bad_ranks = told.wrong.bad_ranks;
  repeats.rank = told.wrong.first.rank;
  repeats.element = told.wrong.first.element;
  repeats.before = text_of(told.wrong.first.expected);
  repeats.after = text_of(told.wrong.first.found);
  return repeats;
}

void take_half(const CollectiveInfo& info, const protocol::CaseResult& result, const protocol::Placement& placement,
               std::string_view& samples, int ranks, size_t skip, bool settle, Half& half) {
  half.ran = placement.ran != 0;
  half.checked = placement.checked != 0;
  half.seconds = placement.seconds;
  half.cpu_seconds = placement.cpu_seconds;
  half.algbw = algorithm_gbs(info, result.bytes, placement.seconds, ranks);
  half.busbw = bus_gbs(info, half.algbw, ranks);
  half.wrong += placement.wrong.elements;
  half.bad_ranks += placement.wrong.bad_ranks;
  if (const protocol::Wrong& first = placement.wrong.first; first.rank >= 0 && half.wrong_rank < 0) {
    half.wrong_rank = first.rank;
    half.wrong_element = first.element;
    half.expected = text_of(first.expected);
    half.found = text_of(first.found);
  }
  if (placement.repeats.runs > 0) half.repeats = repeats_of(placement.repeats);
  const size_t bytes =
      std::min<size_t>(placement.samples, samples.size() / sizeof(protocol::Sample)) * sizeof(protocol::Sample);
  const size_t had = half.samples.size();
  half.samples.resize(had + bytes / sizeof(protocol::Sample));
  std::memcpy(half.samples.data() + had, samples.data(), bytes);
  samples.remove_prefix(bytes);
  half.summary = summarise(half.samples, skip, ranks, settle);
}

void take_groups(const CollectiveInfo& info, const protocol::CaseResult& result, const protocol::Case& job,
                 std::string_view times, const Groups& groups, Row& row) {
  const size_t count = result.groups;
  if (count == 0 || count != groups.members.size() || times.size() < 2 * count * sizeof(protocol::GroupTime)) return;
  row.groups.resize(count);
  for (size_t i = 0; i < 2 * count; ++i) {
    protocol::GroupTime time;
    std::memcpy(&time, times.data() + i * sizeof time, sizeof time);
    GroupHalf& half = i < count ? row.groups[i].out : row.groups[i - count].in;
    half.seconds = time.seconds;
    half.wrong += time.wrong;
    const int ranks = static_cast<int>(groups.members[i % count].size());
    half.algbw = algorithm_gbs(info, shape_of(info, job.bytes, job.type, ranks).bytes, half.seconds, ranks);
    half.busbw = bus_gbs(info, half.algbw, ranks);
  }
}

}  // namespace

Measurement::Measurement(Launch& launch, const Options& options, uint64_t max_bytes, Deadline end)
    : launch_(launch), options_(options), max_bytes_(max_bytes), end_(end) {}

// What a size may take is judged by the one before: no bound fits 8 B and 64 GiB, nor NVLink and TCP.
double Measurement::patience_for(uint64_t bytes) {
  const double growth = last_bytes_ > 0 ? std::max(1.0, static_cast<double>(bytes) / last_bytes_) : 1;
  const double patience = options_.timeout + 10 * last_case_seconds_ * growth;
  longest_wait_ = std::max(longest_wait_, patience);
  return end_ == Deadline::max() ? patience : std::clamp(seconds_until(end_), 0.0, patience);
}

protocol::Case Measurement::case_of(const Sweep& sweep, uint64_t size) const {
  protocol::Case job;
  job.collective = options_.collective;
  job.type = sweep.type;
  job.op = sweep.op;
  job.root = sweep.root;
  job.bytes = size;
  job.max_bytes = max_bytes_;
  job.blocking = options_.blocking;
  job.timeout_ms = options_.timeout_s * 1000;
  return job;
}

Crew::Answers Measurement::ask(const protocol::Case& job) {
  const auto began = Clock::now();
  auto answers = launch_.crew().ask_all(protocol::Kind::run, std::string(bytes_of(job)), protocol::Kind::result,
                                        patience_for(job.bytes));
  if (answers.fault) return answers;
  last_case_seconds_ = seconds_since(began);
  last_bytes_ = job.bytes;
  return answers;
}

std::optional<Fault> Measurement::warm_up(const Sweep& sweep) {
  const std::string name(info_of(options_.collective).name);
  for (const uint64_t size : warmup_sizes_of(options_, std::min(options_.max_bytes, max_bytes_))) {
    protocol::Case job = case_of(sweep, size);
    job.warmup = options_.warmup;
    job.check = 0;
    job.warm_only = 1;
    launch_.crew().describe_work(name + ", " + human_size(size));
    auto answers = ask(job);
    if (answers.fault) return answers.fault;
  }
  return std::nullopt;
}

std::optional<Fault> Measurement::run_case(const protocol::Case& job, Row& row) {
  launch_.crew().describe_work(print("%s, %s %s", std::string(info_of(options_.collective).name).c_str(),
                                     human_size(job.bytes).c_str(), std::string(type_name(job.type)).c_str()));
  auto answers = ask(job);
  if (answers.fault) return answers.fault;
  for (const auto& answer : answers.of)
    if (const auto own = answer->as<protocol::CaseResult>()) device_bytes_ = std::max(device_bytes_, own->device_bytes);
  const Message& message = *answers.of.front();
  const auto result = message.as<protocol::CaseResult>();
  if (!result) return Fault{Fault::Kind::failed, -1, "the worker's answer is too short; is it of this build?", ""};
  row.bytes = result->bytes;
  row.elements = result->elements;
  row.iterations += job.iterations;
  row.stamp = std::time(nullptr);
  std::string_view samples = message.after<protocol::CaseResult>();
  const CollectiveInfo& info = info_of(job.collective);
  // Of a split run the table shows the mean over all groups, for a communicator of the size of rank 0's, as nccl-tests
  // has it.
  const int ranks = launch_.sizes().front();
  const size_t skip = row.iterations > options_.skip ? options_.skip : 0;
  const bool settle = !options_.per_iteration;  // nccl-tests' own columns are of all iterations but -K's
  take_half(info, *result, result->out_of_place, samples, ranks, skip, settle, row.out);
  take_half(info, *result, result->in_place, samples, ranks, skip, settle, row.in);
  take_groups(info, *result, job, samples, launch_.groups(), row);
  return std::nullopt;
}

// More batches of iterations until both medians are known as well as asked. Every task has the same samples, and so
// decides alike; the clock, which differs, is bounded by the sum of the samples.
std::optional<Fault> Measurement::narrow_interval(protocol::Case job, Row& row) {
  constexpr int64_t kMostIterations = 100000;
  const auto wide = [this](const Half& half) {
    if (half.summary.count == 0) return false;
    const auto width = half.summary.relative_half_width();
    // The interval is one of values that vary about a median: more of them do not help against a trend, but may show
    // that it ends. So it goes on, to the bounds.
    return !width || *width > *options_.ci || half.summary.drifts();
  };
  const auto measured = [](const Half& half) { return half.summary.mean * static_cast<double>(half.summary.count); };
  double out_total = row.out.seconds * job.iterations, in_total = row.in.seconds * job.iterations;
  job.check = job.repeat = 0;
  job.warmup = 0;
  while ((wide(row.out) || wide(row.in)) && row.iterations < kMostIterations &&
         measured(row.out) + measured(row.in) < options_.ci_seconds) {
    const Half out = row.out, in = row.in;
    job.iterations = static_cast<int32_t>(std::min<int64_t>(row.iterations, kMostIterations - row.iterations));
    if (auto fault = run_case(job, row)) return fault;
    out_total += row.out.seconds * job.iterations;
    in_total += row.in.seconds * job.iterations;
    // The verification of the first batch stands; the time shown is the mean over all batches.
    row.out.checked = out.checked, row.in.checked = in.checked;
  }
  const int ranks = launch_.sizes().front();
  const auto mean = [&](Half& half, double total) {
    half.seconds = total / static_cast<double>(row.iterations);
    half.algbw = algorithm_gbs(info_of(job.collective), row.bytes, half.seconds, ranks);
    half.busbw = bus_gbs(info_of(job.collective), half.algbw, ranks);
  };
  mean(row.out, out_total);
  mean(row.in, in_total);
  return std::nullopt;
}

std::optional<Fault> Measurement::measure(const Sweep& sweep, uint64_t size, int64_t cycle, Row& row) {
  protocol::Case job = case_of(sweep, size);
  job.iterations = options_.ci ? kFirstBatch : options_.iterations;
  job.warmup = 0;  // done for all sizes before
  job.aggregate = options_.aggregate;
  job.check = options_.check;
  job.repeat = options_.repeat;
  job.graph = options_.graph;
  job.average = options_.average;
  job.cpu_time = options_.cpu_time;
  job.per_iteration = (options_.statistics || options_.per_iteration || options_.ci) && !options_.graph;

  row.asked = size;
  row.type = type_name(sweep.type);
  row.op = op_name(sweep.op);
  row.root = sweep.root;
  row.cycle = cycle;
  if (auto fault = run_case(job, row)) return fault;
  return options_.ci ? narrow_interval(job, row) : std::nullopt;
}

}  // namespace nccltune::bench
