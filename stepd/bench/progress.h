// SPDX-License-Identifier: Apache-2.0
// One line on a terminal's stderr that says how far a long run is; nothing anywhere else.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/clock.h"

namespace nccltune::bench {

class Progress {
 public:
  explicit Progress(bool wanted);  // shown only when stderr is a terminal and stdout is not: else the table shows it
  ~Progress() { clear(); }
  // Case `at` of `total` begins; `sizes` are those of one sweep, to weigh what is left.
  void show(uint64_t size, size_t at, size_t total, const std::vector<uint64_t>& sizes);
  void clear() const;

 private:
  bool shown_;
  Clock::time_point began_ = Clock::now();
};

// Seconds left, judging by what the cases so far took: each is taken to cost a constant and its bytes. Pure.
double seconds_left(double elapsed, size_t at, size_t total, const std::vector<uint64_t>& sizes);

}  // namespace nccltune::bench
