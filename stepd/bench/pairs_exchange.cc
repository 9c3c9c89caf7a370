// SPDX-License-Identifier: Apache-2.0
#include "bench/pairs_exchange.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <thread>

#include "bench/text.h"

namespace nccltune::bench {
namespace {

constexpr double kFirstPause = 0.005;  // seconds between two questions; it grows, so that a long round costs few
constexpr int kMostThreads = 16;       // of one gathering: a node that is gone holds up one of them for a second

}  // namespace

PairsExchange::PairsExchange(World& world, bool alone, int signal_fd) : world_(world), signal_fd_(signal_fd) {
  const Place& place = world.place();
  const auto seat_of = [&](int rank) { return alone ? Seat{rank, 0} : world.seat_of(rank); };
  own_ = seat_of(place.rank);
  std::map<int, std::map<int, int>> seats;  // node -> local rank -> rank
  for (int rank = 0; rank < place.size; ++rank) {
    const Seat seat = seat_of(rank);
    seats[seat.node][seat.local_rank] = rank;
  }
  const int last = seats.empty() ? 0 : seats.rbegin()->first;
  tasks_of_.resize(static_cast<size_t>(last) + 1);
  for (const auto& [node, tasks] : seats)
    for (const auto& [local, rank] : tasks) tasks_of_[static_cast<size_t>(node)].push_back(rank);
}

std::vector<int> PairsExchange::leaders() const {
  std::vector<int> ranks;
  for (const auto& tasks : tasks_of_) ranks.push_back(tasks.empty() ? -1 : tasks.front());
  return ranks;
}

std::string PairsExchange::unevenness() const {
  for (size_t node = 1; node < tasks_of_.size(); ++node)
    if (tasks_of_[node].size() != tasks_of_[0].size())
      return print("%zu tasks on node 0, %zu on node %zu", tasks_of_[0].size(), tasks_of_[node].size(), node);
  return "";
}

std::optional<Error> PairsExchange::tell(const std::string& key, const std::string& text) {
  if (auto error = world_.put(key, text)) return error;
  return world_.commit();
}

std::optional<std::string> PairsExchange::look(int rank, const std::string& key) {
  auto text = world_.get(rank, key, Clock::now());
  return text ? std::move(*text) : std::nullopt;
}

std::optional<int> PairsExchange::interrupted() {
  signalfd_siginfo info;
  if (!signal_ && signal_fd_ >= 0 && ::read(signal_fd_, &info, sizeof info) == sizeof info)
    signal_ = static_cast<int>(info.ssi_signo);
  return signal_;
}

// False when a signal came.
bool PairsExchange::pause(double seconds) {
  pollfd wait{signal_fd_, POLLIN, 0};
  ::poll(&wait, signal_fd_ >= 0 ? 1 : 0, static_cast<int>(seconds * 1000) + 1);
  return !interrupted();
}

std::optional<std::string> PairsExchange::hear(int rank, const std::string& key, Deadline deadline) {
  for (double seconds = kFirstPause;; seconds = std::min(seconds * 1.5, longest_pause())) {
    if (auto text = look(rank, key)) return text;
    if (interrupted() || passed(deadline) || !pause(std::min(seconds, std::max(0.0, seconds_until(deadline)))))
      return std::nullopt;
  }
}

std::vector<std::optional<std::string>> PairsExchange::gather(const std::vector<int>& ranks, const std::string& key,
                                                              Deadline deadline, const std::vector<int>& partners) {
  std::vector<std::optional<std::string>> texts(ranks.size());
  std::vector<Clock::time_point> heard_of(ranks.size(), Clock::now()), next_try = heard_of;
  std::vector<size_t> missing;
  for (size_t i = 0; i < ranks.size(); ++i)
    if (ranks[i] >= 0) missing.push_back(i);
  double seconds = kFirstPause;
  while (!missing.empty() && !interrupted()) {
    std::atomic<size_t> next = 0;
    const auto ask = [&] {
      for (size_t at; (at = next++) < missing.size();) {
        const size_t i = missing[at];
        if (!passed(next_try[i])) continue;
        const auto began = Clock::now();
        texts[i] = look(ranks[i], key);
        if (texts[i] || seconds_since(began) < kSlowAnswer)
          heard_of[i] = Clock::now();
        else
          next_try[i] = in_seconds(kSilence / 5);  // every question to a dead node is a burden on the servers
      }
    };
    std::vector<std::thread> others;
    const int threads = std::clamp(static_cast<int>(missing.size()) / 4, 1, kMostThreads);
    for (int i = 1; i < threads; ++i) others.emplace_back(ask);
    ask();
    for (std::thread& other : others) other.join();
    const auto partner_is_silent = [&](size_t i) {
      if (partners.empty() || partners[i] < 0) return false;
      const auto partner = static_cast<size_t>(partners[i]);
      return !texts[partner] && seconds_since(heard_of[partner]) > kSilence / 2;
    };
    std::erase_if(missing, [&](size_t i) {
      return texts[i] || (seconds_since(heard_of[i]) > kSilence && !partner_is_silent(i));
    });
    if (missing.empty() || passed(deadline)) break;
    pause(std::min(seconds, std::max(0.0, seconds_until(deadline))));
    seconds = std::min(seconds * 1.5, 0.5);
  }
  return texts;
}

}  // namespace nccltune::bench
