// SPDX-License-Identifier: Apache-2.0
#include "bench/digest.h"

#include <algorithm>
#include <map>

#include "bench/packer.h"
#include "bench/schedule.h"

namespace nccltune::bench {
namespace {

constexpr char kMark[] = "NTD1";
constexpr int32_t kScalableInit = 22300;  // ncclCommInitRankScalable takes several ids: NCCL 2.23

bool takes_several_ids(const std::vector<TaskRecord>& tasks) {
  for (const TaskRecord& task : tasks)
    for (const WorkerRecord& worker : task.workers)
      if (worker.library_code < kScalableInit) return false;
  return true;
}

}  // namespace

Digest digest_of(const std::vector<TaskRecord>& tasks, bool check, bool split) {
  Digest digest;
  const size_t per_task = tasks.front().workers.size();
  const WorkerRecord& first = tasks.front().workers.front();
  digest.library = first.library;
  digest.device = first.name;
  digest.types = ~0u;
  for (const TaskRecord& task : tasks) {
    if (split) digest.nodes.push_back(task.node);
    for (const WorkerRecord& worker : task.workers) digest.types &= worker.types;
  }
  digest.largest_message = largest_message(tasks, check);
  auto roots = root_ranks(static_cast<int>(tasks.size() * per_task));
  if (!takes_several_ids(tasks)) roots.resize(1);
  for (const int root : roots) {
    const auto at = static_cast<size_t>(root);
    digest.ids.push_back(tasks[at / per_task].workers[at % per_task].id);
  }
  return digest;
}

template <class Archive, class D>
static void fields(Archive& archive, D& digest) {
  archive.text(digest.library), archive.text(digest.device);
  archive.number(digest.types), archive.number(digest.largest_message);
  archive.list(digest.ids, [](auto& a, auto& id) { a.text(id); });
  archive.list(digest.nodes, [](auto& a, auto& node) { a.number(node); });
}

std::string pack(const Digest& digest) { return packed(kMark, digest); }
std::optional<Digest> unpack_digest(std::string_view bytes) { return unpacked<Digest>(kMark, bytes); }

uint64_t largest_message(const std::vector<TaskRecord>& tasks, bool check) {
  // Ranks that draw on one memory: those of one GPU, or, without GPUs, those of one host.
  std::map<std::string, int> share;
  const auto memory = [](const WorkerRecord& w) { return w.uuid.empty() ? "host " + w.host : w.uuid; };
  for (const TaskRecord& task : tasks)
    for (const WorkerRecord& worker : task.workers) ++share[memory(worker)];
  uint64_t least = UINT64_MAX;
  for (const TaskRecord& task : tasks)
    for (const WorkerRecord& w : task.workers)
      if (w.total_bytes > 0)
        least = std::min(least, largest_message(w.free_bytes, w.total_bytes, share[memory(w)], check, w.uuid.empty()));
  return least;
}

}  // namespace nccltune::bench
