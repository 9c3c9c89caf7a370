// SPDX-License-Identifier: Apache-2.0
#include "bench/record.h"

#include <algorithm>
#include <cstdint>
#include <map>

#include "bench/frame.h"
#include "bench/packer.h"
#include "bench/text.h"

namespace nccltune::bench {
namespace {

constexpr char kMark[] = "NTR2";
constexpr int kRanksPerRoot = 256;

template <class Archive, class Record>
void worker_fields(Archive& archive, Record& w) {
  archive.text(w.host), archive.text(w.name), archive.text(w.bdf), archive.text(w.uuid), archive.text(w.library);
  archive.number(w.library_code), archive.number(w.header_code), archive.number(w.cuda_runtime),
      archive.number(w.cuda_driver);
  archive.number(w.device), archive.number(w.visible);
  archive.number(w.free_bytes), archive.number(w.total_bytes), archive.number(w.host_hash);
  archive.number(w.types), archive.number(w.pid), archive.text(w.id);
}

// "NCCL 2.28.9: ranks 0-3; NCCL 2.27.1: rank 4" when the values differ, "" when all agree.
template <class Value>
std::string differences(const std::vector<TaskRecord>& tasks, Value value) {
  std::map<std::string, std::vector<int>> ranks_of;
  int rank = 0;
  for (const TaskRecord& task : tasks)
    for (const WorkerRecord& worker : task.workers) ranks_of[value(task, worker)].push_back(rank++);
  if (ranks_of.size() < 2) return "";
  std::vector<std::string> parts;
  parts.reserve(ranks_of.size());
  for (auto& [text, ranks] : ranks_of)
    parts.push_back(text + (ranks.size() == 1 ? ": rank " : ": ranks ") + rank_list(ranks));
  return join(parts, "; ");
}

void find_shared_gpus(const std::vector<TaskRecord>& tasks, std::vector<std::string>& lines) {
  std::map<std::pair<uint64_t, std::string>, std::vector<int>> ranks_of;
  std::map<std::string, const WorkerRecord*> example;
  int rank = 0;
  for (const TaskRecord& task : tasks)
    for (const WorkerRecord& worker : task.workers) {
      const std::string gpu = worker.uuid.empty() ? worker.bdf : worker.uuid;
      if (!gpu.empty()) ranks_of[{worker.host_hash, gpu}].push_back(rank), example[gpu] = &worker;
      ++rank;
    }
  for (const auto& [key, ranks] : ranks_of) {
    if (ranks.size() < 2) continue;
    const WorkerRecord& worker = *example[key.second];
    lines.push_back(
        print("%s: ranks %s use the same GPU, %s (%s); give each task one of its own (--gpus-per-task=1, or no "
              "CUDA_VISIBLE_DEVICES of one GPU for all), or set a different NCCL_HOSTID for each",
              worker.host.c_str(), rank_list(ranks).c_str(), key.second.c_str(), worker.bdf.c_str()));
  }
}

}  // namespace

WorkerRecord record_of(const protocol::Ready& ready) {
  WorkerRecord w;
  w.host = text_of(ready.hostname);
  w.name = text_of(ready.name);
  w.bdf = text_of(ready.bdf);
  w.uuid = text_of(ready.uuid);
  w.library = text_of(ready.library);
  w.library_code = ready.library_code;
  w.header_code = ready.header_code;
  w.cuda_runtime = ready.cuda_runtime;
  w.cuda_driver = ready.cuda_driver;
  w.device = ready.device;
  w.visible = ready.visible_devices;
  w.free_bytes = ready.free_bytes;
  w.total_bytes = ready.total_bytes;
  w.host_hash = ready.host_hash;
  w.types = ready.types;
  w.pid = ready.pid;
  return w;
}

template <class Archive, class Record>
static void fields(Archive& archive, Record& task) {
  archive.text(task.version), archive.text(task.worker);
  archive.number(task.options_hash), archive.number(task.node);
  archive.list(task.workers, [](auto& a, auto& worker) { worker_fields(a, worker); });
}

std::string pack(const TaskRecord& record) { return packed(kMark, record); }
std::optional<TaskRecord> unpack(std::string_view bytes) { return unpacked<TaskRecord>(kMark, bytes); }

uint64_t hash_options(const Options& options) {
  uint64_t hash = 14695981039346656037ull;  // FNV-1a
  bool skip = false;
  std::vector<std::string> words = options.arguments;
  if (options.split) words.push_back(options.split->text);  // it may come from the environment
  for (const std::string& argument : words) {
    if (std::exchange(skip, false)) continue;
    static constexpr std::string_view kOutputs[] = {"--json", "--csv", "--out", "--label", "-J"};
    if (std::find(std::begin(kOutputs), std::end(kOutputs), argument) != std::end(kOutputs)) {
      skip = true;
      continue;
    }
    for (const char c : argument + '\n') hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  }
  return hash;
}

std::vector<std::string> contradictions(const std::vector<TaskRecord>& tasks) {
  std::vector<std::string> lines;
  const auto add = [&lines](const char* what, const std::string& text) {
    if (!text.empty()) lines.push_back(std::string(what) + " (" + text + ")");
  };
  add("tasks run different versions of nccl-tune",
      differences(tasks, [](const auto& t, const auto&) { return t.version; }));
  add("tasks were given different options", differences(tasks, [](const auto& t, const auto&) {
        return print("%08x", static_cast<unsigned>(t.options_hash));
      }));
  add("some tasks have a GPU and some have none",
      differences(tasks, [](const auto& t, const auto&) { return t.worker; }));
  add("ranks load different libraries", differences(tasks, [](const auto&, const auto& w) { return w.library; }));
  const auto differs = [&](const TaskRecord& task) { return task.workers.size() != tasks.front().workers.size(); };
  if (std::any_of(tasks.begin(), tasks.end(), differs)) lines.emplace_back("tasks have different numbers of workers");
  find_shared_gpus(tasks, lines);
  return lines;
}

std::vector<int> root_ranks(int ranks) {
  const int roots = std::max(1, (ranks + kRanksPerRoot - 1) / kRanksPerRoot);
  std::vector<int> result;
  result.reserve(static_cast<size_t>(roots));
  for (int i = 0; i < roots; ++i) result.push_back(static_cast<int>(static_cast<int64_t>(i) * ranks / roots));
  return result;
}

}  // namespace nccltune::bench
