// SPDX-License-Identifier: Apache-2.0
// What each task tells all others in the one fence at the start, and what is wrong with a set of tasks: said before the
// library starts, for its own errors come late and name nobody.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/options.h"
#include "bench/report.h"
#include "worker/protocol.h"

namespace nccltune::bench {

struct WorkerRecord {
  std::string host, name, bdf, uuid, library;
  int32_t library_code = 0, header_code = 0, cuda_runtime = 0, cuda_driver = 0;
  int32_t device = 0, visible = 0;
  uint64_t free_bytes = 0, total_bytes = 0, host_hash = 0;
  uint32_t types = 0;
  int64_t pid = 0;
  std::string id;  // of the communicator, from root ranks only
};

struct TaskRecord {
  std::string version;  // of the tool
  std::string worker;   // "nccl", "host"
  uint64_t options_hash = 0;
  int32_t node = 0;
  std::vector<WorkerRecord> workers;
};

WorkerRecord record_of(const protocol::Ready& ready);
std::string pack(const TaskRecord& record);
// nullopt: not a record of this build.
std::optional<TaskRecord> unpack(std::string_view bytes);

// Equal for tasks that were given the same work; names of output files do not count.
uint64_t hash_options(const Options& options);

// One line each, ranks named; empty: go ahead. `tasks` in rank order, one element a task.
std::vector<std::string> contradictions(const std::vector<TaskRecord>& tasks);

// The ranks that make an id: one for every 256 ranks, spread evenly (ncclCommInitRankScalable; bootstrap staggers above
// 256 ranks a root since NCCL 2.23).
std::vector<int> root_ranks(int ranks);

}  // namespace nccltune::bench
