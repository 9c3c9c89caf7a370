// SPDX-License-Identifier: Apache-2.0
#include "bench/gather.h"

#include <algorithm>

namespace nccltune::bench {

std::vector<std::optional<std::string>> gather_at_rank_0(World& world, const std::string& key, const std::string& own,
                                                         double seconds, const std::function<bool()>& over) {
  const Place& place = world.place();
  std::vector<std::optional<std::string>> texts;
  bool met = true;
  if (place.size > 1) met = !world.put(key, own) && !world.commit() && !world.fence_unless(over, in_seconds(seconds));
  if (place.rank != 0) return texts;
  texts.emplace_back(own);
  for (int task = 1; task < place.size; ++task) {
    auto text = met ? world.get(task, key, in_seconds(10)) : std::optional<std::string>();
    texts.push_back(text ? std::move(*text) : std::nullopt);
  }
  return texts;
}

Result<std::optional<std::string>> hear(World& world, int task, const std::string& key, double seconds,
                                        const std::function<bool()>& over) {
  const Deadline deadline = in_seconds(seconds);
  for (;;) {
    auto text = world.get(task, key, std::min(deadline, in_seconds(1)));
    if (!text || *text || passed(deadline) || over()) return text;
  }
}

std::optional<Error> tell_others(World& world, const std::string& key, const std::string& text, double seconds) {
  auto error = world.put(key, text);
  if (!error) error = world.commit();
  if (!error && world.asks_one_server()) error = world.fence(in_seconds(seconds));
  return error;
}

Result<std::optional<std::string>> hear_rank_0(World& world, const std::string& key, double seconds,
                                               const std::function<bool()>& over) {
  if (world.asks_one_server())
    if (const auto error = world.fence_unless(over, in_seconds(seconds))) return *error;
  return hear(world, 0, key, seconds, over);
}

Result<std::string> word_of_rank_0(World& world, const std::string& key, const std::string& text, double seconds) {
  const Place& place = world.place();
  if (place.size == 1) return text;
  if (place.rank == 0)
    if (auto error = world.put(key, text)) return *error;
  if (auto error = world.commit()) return *error;
  if (auto error = world.fence(in_seconds(seconds))) return *error;
  if (place.rank == 0) return text;
  auto said = world.get(0, key, in_seconds(10));
  if (!said) return said.error();
  if (!*said) return Error{"rank 0", "did not say how to go on", "", "see what it said itself"};
  return std::move(**said);
}

}  // namespace nccltune::bench
