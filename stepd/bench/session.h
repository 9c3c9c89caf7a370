// SPDX-License-Identifier: Apache-2.0
// One task's part of a benchmark, from its start to the exit status.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/choose_worker.h"
#include "bench/crew.h"
#include "bench/options.h"
#include "bench/record.h"
#include "bench/report.h"
#include "bench/schedule.h"
#include "bench/world.h"

namespace nccltune::bench {

using Variables = std::map<std::string, std::string>;

class Session {
 public:
  Session(Options options, Variables environment, World& world, Alarm& alarm, ChosenWorker worker, int signal_fd);

  // Never throws; gives the exit status. The report is complete on rank 0 when it returns.
  int run();

 private:
  // Each step gives the fault that ended it.
  std::optional<Fault> start_workers();
  std::optional<Fault> open_devices();
  // `early`: what ended the start already; told in the same fence, so that nobody waits for this task.
  std::optional<Fault> exchange_records(std::optional<Fault> early);
  std::optional<Fault> plan_work();
  std::optional<Fault> connect();
  std::optional<Fault> measure();
  std::optional<Fault> warm_up(const Sweep& sweep);
  std::optional<Fault> measure_size(const Sweep& sweep, uint64_t size, int64_t cycle);
  std::optional<Fault> run_case(const protocol::Case& job, Row& row, double& seconds);
  std::optional<Fault> narrow_interval(protocol::Case job, Row& row);
  Result<bool> another_cycle(int64_t done);

  void open_reports();
  int conclude(std::optional<Fault> fault);
  void tell_trouble(const Fault& fault, Ending& ending);
  std::string describe_own_state(const Fault& fault, bool own);
  std::vector<std::string> gather_states(const std::string& own);
  void judge_rows(Ending& ending) const;
  RunInfo describe_run() const;
  double patience_for(uint64_t bytes) const;
  bool reports() const { return world_.place().rank == 0; }
  int ranks() const { return world_.place().size * options_.workers(); }

  Options options_;
  Variables environment_;
  World& world_;
  Alarm& alarm_;
  ChosenWorker worker_;
  Crew crew_;
  Clock::time_point began_;

  std::vector<std::optional<std::string>> ids_;  // of our workers; absent: no root
  std::vector<protocol::Ready> ready_;
  std::vector<TaskRecord> tasks_;
  uint64_t max_bytes_ = 0;
  std::vector<Sweep> sweeps_;
  RunInfo info_;
  std::vector<std::unique_ptr<Reporter>> reporters_;
  std::vector<Row> rows_;
  std::vector<std::string> log_files_;  // NCCL's own, of our workers
  double start_seconds_ = 0, exchange_seconds_ = 0, connect_seconds_ = 0, library_seconds_ = 0;
  uint64_t library_bytes_ = 0;
  double last_case_seconds_ = 0;
  uint64_t last_bytes_ = 0;
};

// Everything `nccl-tune bench` does after its options: worker, world, session.
int run_bench(const Options& options);

}  // namespace nccltune::bench
