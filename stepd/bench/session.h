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
#include "bench/node_view.h"
#include "bench/options.h"
#include "bench/rank_path.h"
#include "bench/report.h"
#include "bench/schedule.h"
#include "bench/world.h"

namespace nccltune::bench {

class Session {
 public:
  Session(Options options, const Variables& environment, World& world, ChosenWorker worker, int signal_fd,
          ViewNode view_node);

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
  void judge_rows(Ending& ending) const;
  // What rank 0 learns of all tasks when a run has ended well.
  struct Gathered {
    std::vector<RankPath> paths;
    double hca_gbs = 0;                                 // of this node's HCAs, GB/s each way; 0: unknown
    uint64_t library = 0, buffers = 0, operations = 0;  // bytes of device memory, the most of any rank
  };
  Gathered gather_ends();
  RunInfo describe_run() const;
  bool reports() const { return world_.place().rank == 0; }
  int ranks() const { return world_.place().size * options_.workers(); }

  Options options_;
  const Variables& environment_;
  World& world_;
  ChosenWorker worker_;
  Launch launch_;
  ViewNode view_node_;
  Clock::time_point began_;

  Schedule schedule_;
  RunInfo info_;
  uint64_t operation_bytes_ = 0;  // device memory that operations took
  std::vector<std::unique_ptr<Reporter>> reporters_;
  std::vector<Row> rows_;
  bool lost_ = false;  // some task did not answer
};

// Everything `nccl-tune bench` does after its options: worker, world, session.
// `view_node` may be empty: then the data path is not judged by the node's facts.
int run_bench(const Options& options, ViewNode view_node = {});

}  // namespace nccltune::bench
