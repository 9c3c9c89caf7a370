// SPDX-License-Identifier: Apache-2.0
// One collective on the workers of a launch: warm-up, timing, and more of it until the median is known well enough.
#pragma once

#include <optional>

#include "bench/clock.h"
#include "bench/launch.h"
#include "bench/options.h"
#include "bench/report.h"
#include "bench/schedule.h"

namespace nccltune::bench {

class Measurement {
 public:
  // `options`: the collective, and how each size is measured. `max_bytes`: what the launch was connected with. No wait
  // goes beyond `end`. All that is referred to outlives the measurement.
  Measurement(Launch& launch, const Options& options, uint64_t max_bytes, Deadline end = Deadline::max());

  // The sizes from options.min_bytes to options.max_bytes, or to what memory allows, doubled.
  std::optional<Fault> warm_up(const Sweep& sweep);
  // Fills in `row`. `cycle`: 0-based.
  std::optional<Fault> measure(const Sweep& sweep, uint64_t size, int64_t cycle, Row& row);
  // Device memory that operations took, bytes, the most of our workers; with Options::memory_report.
  uint64_t device_bytes() const { return device_bytes_; }
  // Seconds that the longest wait could last so far: another task may still be in it when this one is done.
  double longest_wait() const { return longest_wait_; }

 private:
  protocol::Case case_of(const Sweep& sweep, uint64_t size) const;
  Crew::Answers ask(const protocol::Case& job);
  std::optional<Fault> run_case(const protocol::Case& job, Row& row);
  std::optional<Fault> narrow_interval(protocol::Case job, Row& row);
  double patience_for(uint64_t bytes);

  Launch& launch_;
  const Options& options_;
  uint64_t max_bytes_;
  Deadline end_;
  double last_case_seconds_ = 0, longest_wait_ = 0;
  uint64_t last_bytes_ = 0, device_bytes_ = 0;
};

}  // namespace nccltune::bench
