// SPDX-License-Identifier: Apache-2.0
// One task's part of a search for bad nodes, from its start to the exit status.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/pairs_report.h"
#include "bench/pairs_workers.h"
#include "bench/sink.h"

namespace nccltune::bench {

using NicsOf = std::function<std::string(const std::string& bdf)>;

class PairsTask {
 public:
  PairsTask(PairsOptions options, std::map<std::string, std::string> environment, World& world, Alarm& alarm,
            const ChosenWorker& worker, int signal_fd, NicsOf nics);

  // Never throws; gives the exit status. On rank 0 the report is complete when it returns.
  int run();

 private:
  // All tasks: what rank 0 (or the first task of the node, which passes it on) says comes next.
  RoundPlan hear_plan(int round, double seconds);
  void take_part(const RoundPlan& plan, int round);
  void part();
  void lead(int round, const std::string& own, Deadline deadline);
  std::vector<int> others_of_node() const;
  // What a task would tell of its rails, were it not gone.
  std::vector<RailReport> reports_of_lost(int task, const std::string& why) const;
  // For a keeper: what others wait for from here in this round, and what comes after it.
  void owe(int round);

  // Rank 0.
  std::string meet_nodes();
  RoundPlan decide(int round);
  void collect(const RoundPlan& plan, int round);
  void announce(int round, const RoundPlan& plan, std::optional<int> circle);
  void finish(int status);
  void show_progress(const std::string& text);

  std::string own_name() const;
  std::string variable(const char* name) const;
  double round_seconds() const { return 2 * options_.timeout + 10; }
  bool reports() const { return world_.place().rank == 0; }

  PairsOptions options_;
  std::map<std::string, std::string> environment_;
  World& world_;
  PairsExchange exchange_;
  PairsWorkers workers_;
  std::string worker_kind_;
  Clock::time_point began_ = Clock::now();
  std::map<int, std::string> lost_tasks_;  // of this node, known to its first task: rank -> why

  // Rank 0's.
  PairsRun run_;
  std::vector<int> order_;  // search's index -> number of the node
  std::unique_ptr<PairSearch> search_;
  std::map<int, std::string> early_lost_;  // number of the node -> why: no card of it came
  std::optional<Sink> json_;
};

// Everything `nccl-tune pairs` does after its options. `nics`: the plan's NICs beside a GPU.
int run_pairs(const PairsOptions& options, const NicsOf& nics);

}  // namespace nccltune::bench
