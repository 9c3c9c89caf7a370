// SPDX-License-Identifier: Apache-2.0
#include "bench/progress.h"

#include <unistd.h>

#include <cstdint>
#include <cstdio>

#include "bench/text.h"

namespace nccltune::bench {

double seconds_left(double elapsed, size_t at, size_t total, const std::vector<uint64_t>& sizes) {
  constexpr double kConstant = 16 << 20;  // bytes that cost as much as starting a case
  double done = 0, all = 0;
  for (size_t i = 0; i < total; ++i) {
    const double cost = kConstant + static_cast<double>(sizes[i % sizes.size()]);
    all += cost;
    if (i < at) done += cost;
  }
  return done > 0 ? elapsed * (all - done) / done : 0;
}

Progress::Progress(bool wanted) : shown_(wanted && isatty(STDERR_FILENO) && !isatty(STDOUT_FILENO)) {}

void Progress::show(uint64_t size, size_t at, size_t total, const std::vector<uint64_t>& sizes) {
  if (!shown_) return;
  const double left = seconds_left(seconds_since(began_), at, total, sizes);
  std::fprintf(stderr, "\r%s  %zu of %zu  %s\033[K", human_size(size).c_str(), at + 1, total,
               at > 0 ? print("about %.0f s left", left).c_str() : "");
}

void Progress::clear() const {
  if (shown_) std::fputs("\r\033[K", stderr);
}

}  // namespace nccltune::bench
