// SPDX-License-Identifier: Apache-2.0
// How a task tells the others that the run is over, and hears it from them, without a collective: a dead task answers
// none. Tasks form a tree over which an alarm travels both ways, so each asks a handful of others, whatever the size.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "bench/world.h"

namespace nccltune::bench {

// Before the text of an alarm that says that a task comes to no further fence: its supervisor is gone.
inline constexpr char kLostMark[] = "lost: ";

// The tasks that task `rank` of `size` asks: its parent and its children. Pure.
std::vector<int> alarm_neighbours(int rank, int size);

class Alarm {
 public:
  // `key`: of no other alarm of this step.
  explicit Alarm(World& world, std::string key = "alarm");
  ~Alarm();  // does not wait for a PMIx call that is under way
  Alarm(const Alarm&) = delete;

  // Tells the others; the first text stays.
  void raise(const std::string& text);
  // Asks the neighbours from now on, or no longer. Costs them a message each, so only while a wait grows long.
  void watch(bool on);
  // Readable once an alarm of another task has come.
  int fd() const { return event_; }
  std::optional<std::string> heard();
  // A task comes to no further fence.
  bool heard_of_loss();

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
  World& world_;
  std::string key_;
  int event_;
  bool started_ = false;
};

}  // namespace nccltune::bench
