// SPDX-License-Identifier: Apache-2.0
// Words between tasks over the world's keys, without a collective: a dead task answers none, and must not stop others.
// Only the first task of each node speaks with rank 0, so that 1,000 nodes of 8 tasks make 1,000 questions a round.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "bench/world.h"

namespace nccltune::bench {

class PairsExchange {
 public:
  // `alone`: each task is a node. `signal_fd`: a signalfd, or -1; a signal ends every wait.
  PairsExchange(World& world, bool alone, int signal_fd);

  int node() const { return own_.node; }
  int local_rank() const { return own_.local_rank; }
  int nodes() const { return static_cast<int>(tasks_of_.size()); }
  bool leads() const { return own_.local_rank == 0; }
  // The tasks of a node by local rank; empty for a node without any.
  const std::vector<int>& tasks_of(int node) const { return tasks_of_[static_cast<size_t>(node)]; }
  // The first task of each node.
  std::vector<int> leaders() const;
  // "8 tasks on node 0, 4 on node 3"; "" when all have the same number.
  std::string unevenness() const;

  std::optional<Error> tell(const std::string& key, const std::string& text);

  // Waits for a key of one task; nullopt: it did not come in time, or a signal did.
  std::optional<std::string> hear(int rank, const std::string& key, Deadline deadline);
  // One try.
  std::optional<std::string> look(int rank, const std::string& key);
  // A key of many tasks, in their order (-1: nobody, not asked). One that does not answer at all is given up after
  // `kSilence`, before the deadline: its node is gone, while those that are at work still say "not yet". Not so while
  // its partner is silent as well (`partners`: positions in `ranks`, -1: none): a server that asks a dead node for
  // something hangs with it for a while, and which of the two is dead shows when the other speaks again.
  std::vector<std::optional<std::string>> gather(const std::vector<int>& ranks, const std::string& key,
                                                 Deadline deadline, const std::vector<int>& partners = {});

  // As long as others may pause between two questions.
  void linger() { pause(longest_pause() + 0.2); }

  // A signal came: its number.
  std::optional<int> interrupted();
  void note_interruption(int signal) { signal_ = signal; }

  static constexpr double kSilence = 20;      // seconds
  static constexpr double kSlowAnswer = 0.8;  // seconds; a server that is there says "not yet" within milliseconds

 private:
  bool pause(double seconds);
  // Rank 0 is asked by the first task of every node: the more there are, the longer the pauses. Seconds.
  double longest_pause() const { return std::clamp(nodes() * 0.001, 0.05, 1.0); }

  World& world_;
  int signal_fd_;
  Seat own_;
  std::vector<std::vector<int>> tasks_of_;
  std::optional<int> signal_;
};

}  // namespace nccltune::bench
