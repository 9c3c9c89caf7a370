// SPDX-License-Identifier: Apache-2.0
// One task's part of a benchmark, from its start to the exit status.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/choose_worker.h"
#include "bench/environment.h"
#include "bench/launch.h"
#include "bench/options.h"
#include "bench/report.h"
#include "bench/schedule.h"
#include "bench/world.h"

namespace nccltune::bench {

class Session {
 public:
  Session(Options options, const Variables& environment, World& world, ChosenWorker worker, int signal_fd);

  // Never throws; gives the exit status. The report is complete on rank 0 when it returns.
  int run();

 private:
  // Each step gives the fault that ended it.
  std::optional<Fault> plan_work();
  std::optional<Fault> measure();
  void keep(Row row);
  Result<bool> another_cycle(int64_t done);

  void open_reports();
  int conclude(std::optional<Fault> fault);
  void tell_trouble(const Fault& fault, Ending& ending);
  std::vector<std::string> gather_states(const std::string& own);
  void judge_rows(Ending& ending) const;
  RunInfo describe_run() const;
  bool reports() const { return world_.place().rank == 0; }
  int ranks() const { return world_.place().size * options_.workers(); }

  Options options_;
  const Variables& environment_;
  World& world_;
  ChosenWorker worker_;
  Launch launch_;
  Clock::time_point began_;

  Schedule schedule_;
  RunInfo info_;
  std::vector<std::unique_ptr<Reporter>> reporters_;
  std::vector<Row> rows_;
};

// Everything `nccl-tune bench` does after its options: worker, world, session.
int run_bench(const Options& options);

}  // namespace nccltune::bench
