// SPDX-License-Identifier: Apache-2.0
// The run as one JSON document (etc/nccl-tune-bench.schema.json), valid after every row: its tail is rewritten in
// place, so that a killed run leaves what it did.
#pragma once

#include <string>

#include "bench/json.h"
#include "bench/report.h"

namespace nccltune::bench {

// Ends the document of a run whose writer is gone, after its last row that is whole. False: it is none, or cannot be
// written.
bool end_document(const std::string& path, const Ending& ending);

class JsonReporter : public Reporter {
 public:
  explicit JsonReporter(Sink sink) : document_(std::move(sink)) {}
  void start(const RunInfo& info) override;
  void add(const Row& row) override;
  void finish(const Ending& ending) override;

 private:
  GrowingDocument document_;
};

}  // namespace nccltune::bench
