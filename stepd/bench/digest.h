// SPDX-License-Identifier: Apache-2.0
// What rank 0 makes of the records of all tasks, and every task needs to go on. Rank 0 alone reads the records: where
// each of N tasks read N, that took longer than the fence from some hundred tasks on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/record.h"

namespace nccltune::bench {

struct Digest {
  std::string library, device;   // of rank 0, in words
  uint32_t types = 0;            // that every rank has, a bit each
  uint64_t largest_message = 0;  // bytes that every rank has memory for
  std::vector<std::string> ids;  // of the communicator, by root; one where some library takes no more
  std::vector<int32_t> nodes;    // by task; empty where nothing is split
};

// `tasks` in rank order, without contradictions. `check`: data are checked or runs compared, which takes a buffer more.
Digest digest_of(const std::vector<TaskRecord>& tasks, bool check, bool split);
std::string pack(const Digest& digest);
// nullopt: not one of this build.
std::optional<Digest> unpack_digest(std::string_view bytes);

// The largest message that every rank has memory for.
uint64_t largest_message(const std::vector<TaskRecord>& tasks, bool check);

}  // namespace nccltune::bench
