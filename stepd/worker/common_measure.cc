// SPDX-License-Identifier: Apache-2.0
#include "worker/common_measure.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>

#include "worker/common_io.h"

namespace nccltune::worker {

using protocol::GroupTime;
using protocol::Placement;
using protocol::Sample;
using protocol::WrongTotal;
using Clock = std::chrono::steady_clock;

static double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double reduce_over_ranks(int32_t average, const std::vector<double>& values) {
  switch (average) {
    case 0:
      return values.front();
    case 2:
      return *std::min_element(values.begin(), values.end());
    case 3:
      return *std::max_element(values.begin(), values.end());
    default:
      return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  }
}

static uint64_t checksum_of(const Account& account) {
  uint64_t sum = mix(static_cast<uint64_t>(account.wrong)) ^ mix(1, static_cast<uint64_t>(account.first));
  for (size_t i = 0; i < sizeof account.expected; ++i) {
    sum =
        mix(sum, static_cast<unsigned char>(account.expected[i]) * 256u + static_cast<unsigned char>(account.found[i]));
  }
  return sum;
}

static bool is_intact(const Account& account) { return account.checksum == checksum_of(account); }

Account account_of(const Findings& findings) {
  Account account;
  account.wrong = findings.wrong;
  account.first = findings.first;
  copy_text(account.expected, findings.expected);
  copy_text(account.found, findings.found);
  account.checksum = checksum_of(account);
  return account;
}

void merge(const std::vector<Account>& accounts, WrongTotal& total) {
  for (size_t rank = 0; rank < accounts.size(); ++rank) {
    Account account = accounts[rank];
    if (!is_intact(account)) {
      account = Account{};
      account.wrong = 1;
      copy_text(account.expected, "an intact record");
      copy_text(account.found, "a corrupted one");
    }
    if (account.wrong == 0) continue;
    total.elements += account.wrong;
    if (total.bad_ranks++ > 0) continue;
    total.first.rank = static_cast<int32_t>(rank);
    total.first.element = account.first;
    copy_text(total.first.expected, account.expected);
    copy_text(total.first.found, account.found);
  }
}

static bool is_meant(const Seat& seat) {
  return seat.setup.fault_rank == static_cast<int32_t>(seat.own_rank()) || seat.setup.fault_rank == protocol::kAnyRank;
}

int64_t fault_element(const Seat& seat, const std::vector<Run>& runs, protocol::Fault fault) {
  if (seat.setup.fault != fault || !is_meant(seat)) return -1;
  int64_t end = 0;
  for (const Run& run : runs) end = std::max(end, static_cast<int64_t>(run.offset + run.count * run.repeat));
  if (end == 0) return -1;
  const int64_t asked = seat.setup.fault_element;
  return std::clamp<int64_t>(asked < 0 ? end + asked : asked, 0, end - 1);
}

uint64_t fault_mask(DataType type, const std::vector<Run>& runs, int64_t element) {
  const Pattern pattern = locate(runs, static_cast<uint64_t>(element)).pattern;
  uint64_t mask = 1;
  with_format(type, [&](auto format) {
    using F = decltype(format);
    const bool bounded = F::kFloat && pattern.reduced && pattern.op == Op::avg && !pattern.reduction.exact_average;
    if (bounded) mask = F::kSignBit;
  });
  return mask;
}

bool is_late_iteration(int64_t percent, int iteration) {
  return percent <= 0 || (iteration + 1) * percent / 100 > iteration * percent / 100;
}

// Tests ask for a rank that dies, hangs or is late, in the middle of the timed operations.
static void act_on_fault(const Seat& seat, int iteration) {
  if (!is_meant(seat)) return;
  if (seat.setup.fault == protocol::crash) std::abort();
  while (seat.setup.fault == protocol::hang) ::pause();
  if (seat.setup.fault == protocol::slow && is_late_iteration(seat.setup.fault_element, iteration)) ::usleep(2000);
}

void warm_up(const Case& job, Transfer& transfer) {
  send_phase("warm-up");
  for (int i = 0; i < job.warmup; ++i) transfer.start(false, static_cast<uint64_t>(i));
  transfer.finish();
  // The barrier is a collective of its own, connected when first used: after the first sendrecv, say, in the middle of
  // its timing, where it made the first row three times as long.
  transfer.barrier();
}

// One iteration: the operations of a group, and -z's waits. `start_mark`: set once the rank is there for it. Returns
// the seconds of -z 3, which leaves the barrier out.
static double run_iteration(const Case& job, bool in_place, int iteration, const Seat& seat, Transfer& transfer,
                            std::optional<uint32_t> start_mark = std::nullopt) {
  const auto start = Clock::now();
  if (seat.setup.fault > protocol::flip_element) act_on_fault(seat, iteration);
  if (start_mark) transfer.mark(*start_mark);
  if (job.aggregate > 1) transfer.begin_group();
  for (int i = 0; i < job.aggregate; ++i) {
    transfer.start(in_place,
                   static_cast<uint64_t>(iteration) * static_cast<uint64_t>(job.aggregate) + static_cast<uint64_t>(i));
    // Inside a group nothing has been launched yet, so there is nothing to wait for.
    if (job.blocking && job.aggregate == 1) transfer.finish();
    if (job.blocking == 1 && job.aggregate == 1) transfer.barrier();
  }
  if (job.aggregate > 1) transfer.end_group();
  if (job.blocking && job.aggregate > 1) transfer.finish();
  if (job.blocking == 1 && job.aggregate > 1) transfer.barrier();
  const double seconds = seconds_since(start);
  if (job.blocking == 3) transfer.barrier();
  return seconds;
}

struct Seconds {
  double all = 0, enqueue = 0;  // per operation
};

static Seconds time_operations(const Case& job, bool in_place, const Seat& seat, Transfer& transfer) {
  send_phase("timing");
  transfer.start(in_place, 0);
  transfer.finish();
  transfer.barrier();

  if (job.graph > 0) transfer.begin_capture();
  double without_barriers = 0;
  auto start = Clock::now();
  for (int i = 0; i < job.iterations; ++i) without_barriers += run_iteration(job, in_place, i, seat, transfer);
  if (job.graph > 0) {
    transfer.end_capture();
    transfer.barrier();
    start = Clock::now();
    for (int i = 0; i < job.graph; ++i) transfer.launch_graph();
  }
  const double operations = static_cast<double>(job.iterations) * job.aggregate;
  Seconds seconds;
  seconds.enqueue = (job.blocking == 3 ? without_barriers : seconds_since(start)) / operations;
  if (!job.blocking || job.graph > 0) transfer.finish();
  seconds.all = (job.blocking == 3 ? without_barriers : seconds_since(start)) / operations;
  if (job.graph > 0) {
    seconds.all /= job.graph;
    transfer.drop_graph();
  }
  return seconds;
}

// One operation as it was timed, on what is in the buffers now.
static void run_once(const Case& job, bool in_place, Transfer& transfer) {
  if (job.graph > 0) transfer.begin_capture();
  transfer.start(in_place, 0);
  if (job.graph > 0) {
    transfer.end_capture();
    transfer.launch_graph();
  }
  transfer.finish();
  if (job.graph > 0) transfer.drop_graph();
}

static void check_placement(const Case& job, bool in_place, const Seat& seat, uint64_t seed, Transfer& transfer,
                            Placement& placement, GroupTime* groups) {
  send_phase("verify");
  std::vector<Account> accounts(seat.all_ranks());
  for (int i = 0; i < job.check && placement.wrong.elements == 0; ++i) {
    const uint64_t this_seed = mix(seed, static_cast<uint64_t>(i));
    transfer.fill(in_place, this_seed, Input::exact);
    run_once(job, in_place, transfer);
    const Account mine = account_of(transfer.check(in_place, this_seed));
    transfer.exchange(&mine, sizeof mine, accounts.data());
    merge(accounts, placement.wrong);
    for (uint32_t rank = 0; rank < seat.group_of.size(); ++rank)
      groups[seat.group_of[rank]].wrong += is_intact(accounts[rank]) ? accounts[rank].wrong : 1;
  }
}

// The same input again and again: NCCL adds in one order as long as nothing else changes, a switch (NVLS, SHARP) need
// not (NVIDIA/nccl#1497). All runs are done, whatever one finds: how many differ tells a rare fault from a rule.
static void repeat_placement(const Case& job, bool in_place, const Seat& seat, uint64_t seed, Transfer& transfer,
                             protocol::Repeats& repeats) {
  std::vector<Account> accounts(seat.all_ranks());
  for (repeats.runs = 1;; ++repeats.runs) {
    send_phase("repeat");  // again for each: a deadline is of one run
    transfer.fill(in_place, seed, Input::rough);
    run_once(job, in_place, transfer);
    if (repeats.runs == 1) {
      transfer.keep(in_place);
      continue;
    }
    const bool last = repeats.runs == job.repeat;
    const Account mine = account_of(transfer.compare_with_kept(in_place, last));
    transfer.exchange(&mine, sizeof mine, accounts.data());
    WrongTotal total;
    merge(accounts, total);
    if (total.elements > 0 && repeats.differing++ == 0) {
      repeats.run = repeats.runs;
      repeats.wrong = total;
    }
    if (last) return;
  }
}

// What the ranks of one group tell of an iteration, without max_seconds.
static Sample sample_of_group(const std::vector<IterationTime>& times, const std::vector<uint32_t>& ranks) {
  Sample sample;
  double promptest = std::numeric_limits<double>::infinity();
  uint32_t shortest = ranks.front(), longest = shortest;
  for (const uint32_t rank : ranks) {
    if (times[rank].own < times[shortest].own) shortest = rank;
    if (times[rank].own > times[longest].own) longest = rank;
    promptest = std::min(promptest, times[rank].whole - times[rank].own);
  }
  sample.own_min_rank = static_cast<int32_t>(shortest);
  sample.own_min_seconds = times[shortest].own;
  sample.own_max_seconds = times[longest].own;
  double most = (sample.own_max_seconds - sample.own_min_seconds) / 2;
  const double short_enough = sample.own_min_seconds + most;
  for (const uint32_t rank : ranks) {
    const double lag = times[rank].whole - times[rank].own - promptest;
    if (times[rank].own > short_enough || lag <= most) continue;
    most = lag;
    sample.late_rank = static_cast<int32_t>(rank);
  }
  return sample;
}

Sample sample_of(const std::vector<IterationTime>& times, const std::vector<uint32_t>& group_of) {
  std::vector<std::vector<uint32_t>> groups(1);
  uint32_t slowest = 0;
  for (uint32_t rank = 0; rank < times.size(); ++rank) {
    const uint32_t group = group_of.empty() ? 0 : group_of[rank];
    if (group >= groups.size()) groups.resize(group + 1);
    groups[group].push_back(rank);
    if (times[rank].whole > times[slowest].whole) slowest = rank;
  }
  Sample sample;
  for (const auto& ranks : groups) {
    const Sample of_group = ranks.empty() ? Sample{} : sample_of_group(times, ranks);
    const bool wider =
        of_group.own_max_seconds - of_group.own_min_seconds > sample.own_max_seconds - sample.own_min_seconds;
    if (&ranks == &groups.front() || wider) sample = of_group;
  }
  sample.max_seconds = times[slowest].whole;
  sample.max_rank = static_cast<int32_t>(slowest);
  return sample;
}

// Where the marks of an iteration stand. -z 3 leaves the barrier between two iterations out; else one begins where the
// one before has ended.
struct Marks {
  uint32_t from, start, end;
};
static Marks marks_of(uint32_t iteration, bool apart) {
  const uint32_t first = iteration * (apart ? 3 : 2);
  return {first, first + 1, first + 2};
}

// A pass of its own: the marks would slow the classic one. Back to back like it (-z apart).
static std::vector<Sample> sample_iterations(const Case& job, bool in_place, const Seat& seat, Transfer& transfer) {
  const auto count = static_cast<uint32_t>(job.iterations);
  const bool apart = job.blocking == 3;
  Case bare = job;
  if (apart) bare.blocking = 2;
  transfer.reserve_marks(marks_of(count - 1, apart).end + 1);
  transfer.barrier();
  for (uint32_t i = 0; i < count; ++i) {
    const Marks marks = marks_of(i, apart);
    if (apart || i == 0) transfer.mark(marks.from);
    run_iteration(bare, in_place, static_cast<int>(i), seat, transfer, marks.start);
    transfer.mark(marks.end);
    if (apart) transfer.barrier();
  }
  transfer.finish();

  std::vector<Sample> samples(count);
  const uint32_t ranks = seat.all_ranks();
  const uint32_t chunk = std::max(1u, (1u << 16) / ranks);  // at most 1 MiB of all ranks' times
  std::vector<IterationTime> mine(chunk), all(static_cast<size_t>(chunk) * ranks), times(ranks);
  for (uint32_t from = 0; from < count; from += chunk) {
    const uint32_t now = std::min(chunk, count - from);
    for (uint32_t i = 0; i < now; ++i) {
      const Marks marks = marks_of(from + i, apart);
      mine[i] = {transfer.seconds_between(marks.from, marks.end) / job.aggregate,
                 transfer.seconds_between(marks.start, marks.end) / job.aggregate};
    }
    transfer.exchange(mine.data(), now * sizeof(IterationTime), all.data());
    for (uint32_t i = 0; i < now; ++i) {
      for (uint32_t rank = 0; rank < ranks; ++rank) times[rank] = all[static_cast<size_t>(rank) * now + i];
      samples[from + i] = sample_of(times, seat.group_of);
    }
  }
  return samples;
}

static std::vector<double> all_ranks(const Seat& seat, double mine, Transfer& transfer) {
  std::vector<double> values(seat.all_ranks());
  transfer.exchange(&mine, sizeof mine, values.data());
  return values;
}

static Placement measure_placement(const Case& job, bool in_place, const Seat& seat, uint64_t seed, Transfer& transfer,
                                   Outcome& outcome) {
  Placement placement;
  placement.ran = 1;
  std::vector<GroupTime> groups(seat.is_split() ? seat.groups : 0);
  if (job.check > 0) transfer.fill(in_place, mix(seed, 1u << 20), Input::exact);
  const Seconds seconds = time_operations(job, in_place, seat, transfer);
  placement.own_seconds = seconds.all;
  const std::vector<double> all = all_ranks(seat, seconds.all, transfer);
  placement.seconds = reduce_over_ranks(job.average, all);
  for (uint32_t group = 0; group < groups.size(); ++group) {
    std::vector<double> times;
    for (const int rank : members_of(seat, group)) times.push_back(all[static_cast<size_t>(rank)]);
    groups[group].seconds = reduce_over_ranks(job.average, times);
  }
  if (job.cpu_time) placement.cpu_seconds = reduce_over_ranks(job.average, all_ranks(seat, seconds.enqueue, transfer));
  if (job.per_iteration && job.graph == 0) {
    const auto found = sample_iterations(job, in_place, seat, transfer);
    placement.samples = static_cast<uint32_t>(found.size());
    outcome.samples.insert(outcome.samples.end(), found.begin(), found.end());
  }
  if (job.check > 0 && is_checkable(job.collective, in_place)) {
    placement.checked = 1;
    check_placement(job, in_place, seat, seed, transfer, placement, groups.data());
  }
  if (job.repeat > 1 && is_checkable(job.collective, in_place))
    repeat_placement(job, in_place, seat, mix(seed, 2u << 20), transfer, placement.repeats);
  outcome.groups.insert(outcome.groups.end(), groups.begin(), groups.end());
  return placement;
}

Outcome measure(const Case& job, const Shape& shape, const Seat& seat, uint64_t seed, Transfer& transfer) {
  Outcome outcome;
  outcome.result.bytes = shape.bytes();
  outcome.result.elements = shape.count;
  if (job.warm_only) {
    warm_up(job, transfer);
    return outcome;
  }
  outcome.result.groups = seat.is_split() ? seat.groups : 0;
  // Each group has data of its own, so that what strays from one to another is seen.
  const uint64_t own = seat.is_split() ? mix(seed, 2 + seat.group) : seed;
  outcome.result.out_of_place = measure_placement(job, false, seat, mix(own, 0), transfer, outcome);
  outcome.result.in_place = measure_placement(job, true, seat, mix(own, 1), transfer, outcome);
  return outcome;
}

}  // namespace nccltune::worker
