// SPDX-License-Identifier: Apache-2.0
// What runs in threads of the supervisor, with the tasks of a step as threads of one process: also for a build with
// SAN=thread.
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "bench/alarm.h"
#include "bench/pairs_exchange.h"

namespace nccltune::bench {
namespace {

using std::chrono::milliseconds;

// The server of a step: what has been committed.
struct Board {
  std::mutex lock;
  std::condition_variable changed;
  std::map<std::pair<int, std::string>, std::string> keys;
};

// Two tasks a node.
class BoardWorld : public World {
 public:
  BoardWorld(Board& board, int rank, int size) : board_(board) {
    place_.rank = rank;
    place_.size = size;
    place_.local_rank = rank % 2;
    place_.local_size = 2;
    place_.node = rank / 2;
    place_.nodes = size / 2;
  }
  const Place& place() const override { return place_; }
  Seat seat_of(int rank) const override { return {rank / 2, rank % 2}; }
  std::string name() const override { return "a board"; }
  std::optional<Error> put(const std::string& key, const std::string& value) override {
    const std::lock_guard guard(board_.lock);
    own_[key] = value;
    return std::nullopt;
  }
  std::optional<Error> commit() override {
    const std::lock_guard guard(board_.lock);
    for (const auto& [key, value] : own_) board_.keys[{place_.rank, key}] = value;
    board_.changed.notify_all();
    return std::nullopt;
  }
  std::optional<Error> fence(Deadline) override { return std::nullopt; }
  Result<std::optional<std::string>> get(int rank, const std::string& key, Deadline deadline) override {
    std::unique_lock guard(board_.lock);
    const auto known = [&] { return board_.keys.contains({rank, key}); };
    if (!board_.changed.wait_until(guard, deadline, known)) return std::optional<std::string>();
    return std::optional(board_.keys.at({rank, key}));
  }
  void leave(Deadline) override {}
  void abort(int, const std::string&) override {}

 private:
  Board& board_;
  Place place_;
  std::map<std::string, std::string> own_;
};

// An alarm's thread may outlive the alarm, so its world stays, as it does in the tool.
std::vector<std::unique_ptr<BoardWorld>>& step_of(int tasks) {
  static std::vector<std::unique_ptr<Board>> boards;
  static std::vector<std::vector<std::unique_ptr<BoardWorld>>> steps;
  Board& board = *boards.emplace_back(std::make_unique<Board>());
  auto& step = steps.emplace_back();
  for (int rank = 0; rank < tasks; ++rank) step.push_back(std::make_unique<BoardWorld>(board, rank, tasks));
  return step;
}

template <class Body>
void in_each_task(const std::vector<std::unique_ptr<BoardWorld>>& step, Body body) {
  std::vector<std::thread> tasks;
  for (const auto& world : step) tasks.emplace_back([&body, &task = *world] { body(task); });
  for (std::thread& task : tasks) task.join();
}

TEST(BenchThreads, AnAlarmReachesAllTasksAndEndsWithItsOwner) {
  std::atomic<int> heard = 0;
  in_each_task(step_of(16), [&heard](World& world) {
    Alarm alarm(world);
    alarm.watch(true);
    if (world.place().rank == 5) alarm.raise("rank 5: killed");
    const auto end = Clock::now() + std::chrono::seconds(60);
    while (world.place().rank != 5 && !alarm.heard() && Clock::now() < end)
      std::this_thread::sleep_for(milliseconds(5));
    if (alarm.heard() == "rank 5: killed") ++heard;
  });
  EXPECT_GE(heard, 15);  // the one who raised it may hear it back
}

TEST(BenchThreads, RankZeroHearsOfManyNodesAtOnce) {
  std::atomic<int> right = 0;
  in_each_task(step_of(24), [&right](World& world) {
    PairsExchange exchange(world, false, -1);
    const auto end = Clock::now() + std::chrono::seconds(60);
    if (exchange.leads()) {
      EXPECT_FALSE(exchange.tell("round", std::to_string(exchange.node())));
    }
    if (world.place().rank != 0) return;
    const auto words = exchange.gather(exchange.leaders(), "round", end);
    for (size_t node = 0; node < words.size(); ++node)
      if (words[node] == std::to_string(node)) ++right;
  });
  EXPECT_EQ(right, 12);
}

}  // namespace
}  // namespace nccltune::bench
