// SPDX-License-Identifier: Apache-2.0
#include "bench/alarm.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

namespace nccltune::bench {
namespace {

constexpr int kFanOut = 16;  // 4,000 tasks are three levels deep

}  // namespace

std::vector<int> alarm_neighbours(int rank, int size) {
  std::vector<int> neighbours;
  if (rank > 0) neighbours.push_back((rank - 1) / kFanOut);
  for (int child = kFanOut * rank + 1; child <= kFanOut * rank + kFanOut && child < size; ++child)
    neighbours.push_back(child);
  return neighbours;
}

struct Alarm::Shared {
  std::mutex lock;
  std::condition_variable changed;
  bool watching = false, stop = false, raised = false;
  std::optional<std::string> heard;
};

Alarm::Alarm(World& world, std::string key)
    : shared_(std::make_shared<Shared>()),
      world_(world),
      key_(std::move(key)),
      event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

Alarm::~Alarm() {
  {
    const std::lock_guard guard(shared_->lock);
    shared_->stop = true;
    shared_->changed.notify_all();
  }
  if (event_ >= 0) close(event_);
}

void Alarm::raise(const std::string& text) {
  {
    const std::lock_guard guard(shared_->lock);
    if (std::exchange(shared_->raised, true)) return;
  }
  if (!world_.put(key_, text)) world_.commit();
}

std::optional<std::string> Alarm::heard() {
  const std::lock_guard guard(shared_->lock);
  return shared_->heard;
}

bool Alarm::heard_of_loss() {
  const auto text = heard();
  return text && text->starts_with(kLostMark);
}

void Alarm::watch(bool on) {
  const Place& place = world_.place();
  if (place.size == 1) return;
  {
    const std::lock_guard guard(shared_->lock);
    shared_->watching = on;
    shared_->changed.notify_all();
  }
  if (!on || std::exchange(started_, true)) return;
  // Two questions a task and round; where one server answers them all, 200 of them a second.
  const auto shortest = std::chrono::milliseconds(world_.asks_one_server() ? std::max(200, 10 * place.size) : 200);
  // The thread may outlive this object, in a PMIx call: what it needs is its own or the world's.
  std::thread([shared = shared_, world = &world_, event = event_, key = key_, shortest,
               neighbours = alarm_neighbours(place.rank, place.size)] {
    auto pause = shortest;
    std::unique_lock guard(shared->lock);
    for (;;) {
      if (!shared->watching) pause = shortest;
      shared->changed.wait(guard, [&] { return shared->watching || shared->stop; });
      if (shared->stop) return;
      for (const int rank : neighbours) {
        guard.unlock();
        auto text = world->get(rank, key, Clock::now());
        guard.lock();
        if (shared->stop) return;
        if (text && *text) {
          shared->heard = **text;
          const uint64_t one = 1;
          (void)!write(event, &one, sizeof one);
          const bool pass_on = !std::exchange(shared->raised, true);
          guard.unlock();
          if (pass_on && !world->put(key, **text)) world->commit();
          return;
        }
      }
      shared->changed.wait_for(guard, pause, [&] { return shared->stop; });
      pause = std::max(shortest, std::min(pause * 3 / 2, std::chrono::milliseconds(2000)));
    }
  }).detach();
}

}  // namespace nccltune::bench
