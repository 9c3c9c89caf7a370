// SPDX-License-Identifier: Apache-2.0
// What each task says of a trial when it is over, and what all of them take it to be.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/launch.h"
#include "bench/trial.h"

namespace nccltune::bench {

struct Outcome {
  std::vector<size_t> rows;               // done, by work
  std::optional<TrialFault::Kind> fault;  // absent: none here
  bool cause = false;                     // the fault is of this task's workers, not one that it heard of
  int order = 9;                          // how likely it is the cause: 0 first
  int rank = -1;
  protocol::FailureKind failure = protocol::FailureKind::internal;
  std::string text, remedy;
  std::string state;  // of describe_own_state
  std::string library, device;
  double seconds = 0;  // rank 0's, as are the next two
  std::vector<std::string> data_path, settings;
};

// To be called before the workers are ended.
Outcome outcome_of(const Launch& launch, const std::optional<Fault>& fault);

// One fence over the world; by task. An error: a task did not come, and nothing that follows would be in step.
Result<std::vector<Outcome>> exchange_outcomes(Launch& launch, const Outcome& own, Deadline deadline);

// The outcome that all tasks find alike: fills in `result`, and cuts its rows to those that every task has. Pure.
void combine(const std::vector<Outcome>& outcomes, int per_task, TrialResult& result);

std::string pack(const Outcome& outcome);
std::optional<Outcome> unpack_outcome(const std::string& text);

}  // namespace nccltune::bench
