// SPDX-License-Identifier: Apache-2.0
// The table as nccl-tests 2.19.6 prints it, byte for byte (src/util.cu:623-834), for people and for the many programs
// that read it. All that is ours comes after "Collective test concluded", on lines that start with '#'.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/report.h"
#include "bench/sink.h"

namespace nccltune::bench {

std::string header_text(const RunInfo& info);
std::string row_text(const Options& options, const Row& row);
// What a table ends with whose writer is gone.
std::string trouble_text(const std::vector<std::string>& lines);
std::string ending_text(const RunInfo& info, const Ending& ending);

class TextReporter : public Reporter {
 public:
  // Each sink gets the same bytes, row by row.
  explicit TextReporter(std::vector<Sink> sinks) : sinks_(std::move(sinks)) {}
  void start(const RunInfo& info) override;
  void add(const Row& row) override;
  void finish(const Ending& ending) override;

 private:
  void write(const std::string& text);
  std::vector<Sink> sinks_;
  RunInfo info_;
};

}  // namespace nccltune::bench
