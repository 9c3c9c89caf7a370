// SPDX-License-Identifier: Apache-2.0
// A comparison as one JSON document (etc/nccl-tune-compare.schema.json), valid after every launch: its tail is
// rewritten in place, so that a killed run leaves what it did.
#pragma once

#include <cstdint>

#include "bench/compare_report.h"
#include "bench/comparison.h"
#include "bench/sink.h"

namespace nccltune::bench {

class CompareJson {
 public:
  explicit CompareJson(Sink sink) : sink_(std::move(sink)) {}
  void start(const CompareInfo& info, const Comparison& comparison);
  void add(const Comparison& comparison, const ComparedLaunch& launch);
  void finish(const CompareInfo& info, const Comparison& comparison, const std::vector<VariantVerdict>& verdicts,
              const CompareEnding& ending);

 private:
  Sink sink_;
  uint64_t end_of_launches_ = 0;
  bool first_ = true;
};

}  // namespace nccltune::bench
