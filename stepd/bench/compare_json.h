// SPDX-License-Identifier: Apache-2.0
// A comparison as one JSON document (etc/nccl-tune-compare.schema.json), valid after every launch: its tail is
// rewritten in place, so that a killed run leaves what it did.
#pragma once

#include "bench/compare_report.h"
#include "bench/comparison.h"
#include "bench/json.h"

namespace nccltune::bench {

class CompareJson {
 public:
  explicit CompareJson(Sink sink) : document_(std::move(sink)) {}
  void start(const CompareInfo& info, const Comparison& comparison);
  void add(const Comparison& comparison, const ComparedLaunch& launch);
  void finish(const CompareInfo& info, const Comparison& comparison, const std::vector<VariantVerdict>& verdicts,
              const CompareEnding& ending);

 private:
  GrowingDocument document_;
};

}  // namespace nccltune::bench
