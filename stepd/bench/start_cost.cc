// SPDX-License-Identifier: Apache-2.0
#include "bench/start_cost.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "bench/digest.h"
#include "bench/gather.h"
#include "bench/record.h"
#include "bench/text.h"

namespace nccltune::bench {
namespace {

constexpr const char* kKey = "record.0";
constexpr const char* kDigestKey = "digest.0";
constexpr const char* kTimesKey = "times";

enum Step { init, put, fence, read, digest, kSteps };
using Times = std::array<double, kSteps>;  // seconds

int fail(const Error& error) {
  std::fprintf(stderr, "nccl-tune: %s\n", error.text().c_str());
  return 3;
}

// As a task with one GPU would have it: names of the usual length, and an id from the ranks that make one.
TaskRecord record_for(const Place& place) {
  TaskRecord record{NCCLTUNE_VERSION, "nccl", 1, place.node, {}};
  WorkerRecord& worker = record.workers.emplace_back();
  worker.host = place.hostname;
  worker.name = "NVIDIA H100 80GB HBM3";
  worker.bdf = "0000:3b:00.0";
  worker.uuid = print("GPU-00000000-0000-4000-8000-%012x", place.rank);
  worker.library = "NCCL 2.28.3";
  worker.library_code = 22803;
  const auto roots = root_ranks(place.size);
  if (std::find(roots.begin(), roots.end(), place.rank) != roots.end()) worker.id = std::string(128, 'i');
  return record;
}

void tell(const World& world, const std::vector<std::optional<std::string>>& told, size_t own_bytes, size_t all_bytes) {
  Times most{};
  for (const auto& text : told) {
    const auto words = split(text.value_or(""), ' ');
    for (size_t i = 0; i < kSteps && i < words.size(); ++i)
      most[i] = std::max(most[i], parse_real(words[i]).value_or(0));
  }
  std::printf("%6d %6d %8zu %10zu", world.place().size, world.place().nodes, own_bytes, all_bytes);
  for (const double seconds : most) std::printf(" %10.2f", seconds * 1e3);
  std::printf("   %s\n", world.name().c_str());
}

}  // namespace

int measure_start(const Options& options, const Variables& environment) {
  Times times{};
  auto mark = Clock::now();
  const auto take = [&](Step step) { times[step] = seconds_since(std::exchange(mark, Clock::now())); };
  auto world = open_world(environment, in_seconds(options.timeout));
  if (!world) return fail(world.error());
  World& here = *world->release();  // never freed: a thread of it may still sit in a PMIx call when the process ends
  take(init);

  const std::string own = pack(record_for(here.place()));
  if (auto error = here.put(kKey, own)) return fail(*error);
  if (auto error = here.commit()) return fail(*error);
  take(put);
  if (auto error = here.fence(in_seconds(options.timeout))) return fail(*error);
  take(fence);
  size_t bytes = 0;
  if (here.place().rank == 0) {
    std::vector<TaskRecord> tasks;
    for (int task = 0; task < here.place().size; ++task) {
      auto text = here.get(task, kKey, in_seconds(10));
      if (!text) return fail(text.error());
      auto record = *text ? unpack(**text) : std::nullopt;
      if (!record) return fail({print("task %d", task), "left no record", "", ""});
      bytes += (*text)->size();
      tasks.push_back(std::move(*record));
    }
    const auto lines = contradictions(tasks);
    if (!lines.empty()) return fail({"bench", lines.front(), "", ""});
    if (auto error = tell_others(here, kDigestKey, pack(digest_of(tasks, true, false)), options.timeout))
      return fail(*error);
    take(read);
  } else {
    auto text = hear_rank_0(here, kDigestKey, options.timeout, [] { return false; });
    if (!text) return fail(text.error());
    if (!*text || !unpack_digest(**text)) return fail({"rank 0", "did not tell the start", "", ""});
    take(digest);
  }

  std::string words;
  for (const double seconds : times) words += print("%.9f ", seconds);
  const auto told = gather_at_rank_0(here, kTimesKey, words, options.timeout);
  if (here.place().rank == 0) tell(here, told, own.size(), bytes);
  std::fflush(nullptr);
  here.leave(in_seconds(5));
  return 0;
}

}  // namespace nccltune::bench
