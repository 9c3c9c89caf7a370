// SPDX-License-Identifier: Apache-2.0
#include "bench/gather.h"

#include <algorithm>

namespace nccltune::bench {

std::vector<std::optional<std::string>> gather_at_rank_0(World& world, const std::string& key, const std::string& own,
                                                         double seconds) {
  const Deadline deadline = in_seconds(seconds);
  const Place& place = world.place();
  std::vector<std::optional<std::string>> texts;
  if (place.rank == 0) {
    texts.emplace_back(own);
    for (int task = 1; task < place.size; ++task) {
      auto text = world.get(task, key, std::min(deadline, in_seconds(5)));
      texts.push_back(text ? std::move(*text) : std::nullopt);
    }
  } else if (!world.put(key, own)) {
    world.commit();
  }
  if (place.size > 1) world.fence(false, deadline);
  return texts;
}

}  // namespace nccltune::bench
