// SPDX-License-Identifier: Apache-2.0
#include "bench/gather.h"

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

}  // namespace nccltune::bench
