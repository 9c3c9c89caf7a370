// SPDX-License-Identifier: Apache-2.0
// One set of settings, measured once with fresh workers: NCCL reads its environment once a process. Many trials run in
// one job step; one that fails or hangs is a result like any other, and the next one starts afresh.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/choose_worker.h"
#include "bench/environment.h"
#include "bench/launch.h"
#include "bench/options.h"
#include "bench/report.h"
#include "bench/world.h"

namespace nccltune::bench {

struct Variant {
  std::string name;     // for people: "NCCL_PROTO=Simple"
  Changes environment;  // over the step's own
};

struct Work {  // what a trial measures
  protocol::Collective collective = protocol::Collective::all_reduce;
  protocol::DataType type = protocol::DataType::float32;
  protocol::Op op = protocol::Op::sum;  // ignored where the collective has none
  int root = 0;                         // likewise
  std::vector<uint64_t> sizes;          // bytes, ascending
};

struct TrialFault {
  enum class Kind {
    died,        // a worker ended
    failed,      // a worker said why: CUDA, NCCL, memory, transport
    hung,        // no progress within the deadline, or past the trial's time
    wrong_data,  // all rows are there, and some are wrong
    refused,     // this work cannot run here: more memory than there is, a datatype that is not there
    signal,      // SIGINT, SIGTERM, SIGHUP: the user's word; no further trial runs
    lost,        // a task of the step answers no longer; no further trial runs
  } kind{};
  protocol::FailureKind failure = protocol::FailureKind::internal;  // of a worker that said why
  int rank = -1;                   // of the worker that is the likeliest cause; -1: none
  std::string text;                // one line
  std::vector<std::string> lines;  // where the ranks were and what NCCL said last, the likeliest first; may hold `text`
};
const char* name(TrialFault::Kind kind);  // "died", "wrong data"

// The same on every task, but for the rows' `stamp`.
struct TrialResult {
  std::vector<std::vector<Row>> rows;  // rows[w][s] is of works[w].sizes[s]; shorter where the trial ended early
  std::optional<TrialFault> fault;
  double seconds = 0;                  // wall time, rank 0's
  std::vector<std::string> data_path;  // NCCL's own words on rank 0, one line each; empty: it told nothing
  std::vector<std::string> settings;   // variables that NCCL's log on rank 0 says it read
  std::string library, device;         // "NCCL 2.28.3", "NVIDIA H200", of rank 0; "": no worker came up

  // The command must end: what it has is all there will be.
  bool over() const {
    return fault && (fault->kind == TrialFault::Kind::signal || fault->kind == TrialFault::Kind::lost);
  }
};

class TrialRunner {
 public:
  // `base`: how each size is measured (iterations, check, workers a task, timeout); its collective, sizes, datatypes
  // and root are those of the works instead. `environment`: this task's own. `signal_fd`: a signalfd, or -1. The world
  // outlives the runner.
  TrialRunner(Options base, Variables environment, World& world, ChosenWorker worker, int signal_fd);
  TrialRunner(const TrialRunner&) = delete;

  // Collective over the tasks of the step: all call it with the same arguments in the same order. `seconds`: bound for
  // the whole trial, hung beyond it; the timeout of `base` bounds each phase within. Never throws.
  TrialResult run(const Variant& variant, const std::vector<Work>& works, double seconds = 1e9);

  // Rank 0's word to all, for decisions that depend on its clock or its files; the others' argument is ignored.
  // Collective. An error: rank 0 did not speak in time.
  Result<std::string> agree(const std::string& rank_0_text);

  int ranks() const { return world_.place().size * base_.workers(); }
  bool reports() const { return world_.place().rank == 0; }
  int trials() const { return trials_; }                      // so far
  const std::string& worker() const { return worker_.kind; }  // "nccl", "host"

 private:
  std::optional<Fault> measure(Launch& launch, const Options& options, const std::vector<Work>& works, Deadline end,
                               double& longest_wait, TrialResult& result);
  void settle(Launch& launch, const std::optional<Fault>& fault, double longest_wait, Clock::time_point began,
              TrialResult& result);
  TrialResult no_further(const std::string& why) const;

  Options base_;
  Variables environment_;
  World& world_;
  ChosenWorker worker_;
  int signal_fd_;
  int trials_ = 0, words_ = 0;
  bool lost_ = false, over_ = false;  // a fence broke: tasks no longer go in step
};

}  // namespace nccltune::bench
