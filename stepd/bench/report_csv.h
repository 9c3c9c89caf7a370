// SPDX-License-Identifier: Apache-2.0
// The rows as CSV (RFC 4180), one line a placement, each with all that tells it from other runs.
#pragma once

#include "bench/report.h"
#include "bench/sink.h"

namespace nccltune::bench {

std::string csv_head();
std::string csv_rows(const RunInfo& info, const Row& row);

class CsvReporter : public Reporter {
 public:
  explicit CsvReporter(Sink sink) : sink_(std::move(sink)) {}
  void start(const RunInfo& info) override;
  void add(const Row& row) override { sink_.write(csv_rows(info_, row)); }
  void finish(const Ending&) override {}

 private:
  Sink sink_;
  RunInfo info_;
};

}  // namespace nccltune::bench
