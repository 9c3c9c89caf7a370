// SPDX-License-Identifier: Apache-2.0
// The facts of the node, read in a process of its own with a deadline. A read of sysfs runs a driver's code: one that
// hangs leaves the reader in the kernel, where no signal reaches it, and slurmstepd would never start the step, nor
// end. A thread is no way out: every later change of uid waits for all threads (glibc's setxid), and Slurm changes uid
// often. The process also keeps from slurmstepd what an odd node does to our readers: a crash, or memory without end.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

#include "base/result.h"
#include "node/node.h"
#include "node/read.h"

namespace nccltune {

struct FactsRequest {
  std::string root;  // of a recorded machine; "" for the live one
  ReadOptions options;
  std::string node_name;  // whose address is asked for
};

struct Facts {
  Node node;
  std::string node_address;  // address_of(node_name)
};

// A hundred times what a busy node takes, and half of Slurm's MessageTimeout of 10 s.
constexpr std::chrono::milliseconds kFactsDeadline{5000};

// Bytes that the reader may take beyond what slurmstepd has: the largest machine needs a hundredth. The reader inherits
// slurmstepd's oom_score_adj of -1000, so without a bound the kernel would end jobs in its place.
constexpr std::size_t kFactsMemory = 256 << 20;

// As the calling user. The Error names the path that was being read when the deadline passed or the memory was used up,
// or the signal that ended the reader. A reader that cannot be killed is left behind, with no file or socket of
// slurmstepd's open; it ends when its read does.
Result<Facts> gather_facts(const FactsRequest& request, std::chrono::milliseconds deadline = kFactsDeadline,
                           std::size_t memory = kFactsMemory);

// The same in the calling process, without a deadline: what the reader runs.
Result<Facts> read_facts(const FactsRequest& request, PathWatch* watch = nullptr);

}  // namespace nccltune
