// SPDX-License-Identifier: Apache-2.0
// Deadlines on a clock that nobody sets.
#pragma once

#include <algorithm>
#include <chrono>

namespace nccltune::bench {

using Clock = std::chrono::steady_clock;
using Deadline = Clock::time_point;

inline Deadline in_seconds(double seconds) {
  return Clock::now() +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(std::min(seconds, 1e9)));
}
inline double seconds_since(Clock::time_point then) {
  return std::chrono::duration<double>(Clock::now() - then).count();
}
inline double seconds_until(Deadline deadline) { return -seconds_since(deadline); }
inline bool passed(Deadline deadline) { return Clock::now() >= deadline; }

}  // namespace nccltune::bench
