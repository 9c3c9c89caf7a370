// SPDX-License-Identifier: Apache-2.0
// The tasks of this step, and what they can tell each other before and beside the communicator: who is there, a store
// of keys each task puts for itself, one fence. Nothing here waits longer than its deadline, so that a dead task stops
// nobody.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "bench/clock.h"
#include "bench/slate.h"

namespace nccltune::bench {

struct Place {
  int rank = 0, size = 1;              // of this task in the step
  int local_rank = 0, local_size = 1;  // on this node
  int node = 0, nodes = 1;
  std::string hostname;
};

// Where a task of the step is.
struct Seat {
  int node = 0;        // 0 to nodes - 1, in the order of the launcher's node list
  int local_rank = 0;  // among the tasks of that node
};

class World {
 public:
  virtual ~World() = default;
  virtual const Place& place() const = 0;
  // Of any task, without asking it. Where the launcher does not tell: blocks of equal size, its order.
  virtual Seat seat_of(int rank) const;
  // The name of its node, likewise; "" where the launcher does not tell.
  virtual std::string host_of(int rank) const { return rank == place().rank ? place().hostname : ""; }
  // "one process", "PMIx 4.2.2", "PMI-2 of Slurm".
  virtual std::string name() const = 0;
  // Whether one process answers the whole step's get() of what no fence has brought: then ask seldom.
  virtual bool asks_one_server() const { return false; }

  // A key of this task; others see it after the next commit. A key is put once.
  virtual std::optional<Error> put(const std::string& key, const std::string& value) = 0;
  virtual std::optional<Error> commit() = 0;
  // Waits for all tasks; what they committed is then held by each node.
  virtual std::optional<Error> fence(Deadline deadline) = 0;
  // The same, broken off when `over` says so: it is asked now and then.
  virtual std::optional<Error> fence_unless(const std::function<bool()>& over, Deadline deadline) {
    return over() ? std::optional(Error{name(), "the fence was broken off", "", ""}) : fence(deadline);
  }
  // A key of task `rank`, asked for until it is there or the deadline has passed (nullopt). At least one try is made.
  virtual Result<std::optional<std::string>> get(int rank, const std::string& key, Deadline deadline) = 0;

  // Leaves in good order: a PMIx server ends the whole step of a client that goes without a word.
  virtual void leave(Deadline deadline) = 0;
  // Ends the whole step.
  virtual void abort(int status, const std::string& text) = 0;

  // What this task is at, for who tells it in its place; read by nobody before `keep_on`.
  Slate& slate() { return *slate_; }
  void keep_on(Slate& slate) { slate_ = &slate; }

 private:
  Slate own_slate_{};
  Slate* slate_ = &own_slate_;
};

// The world that this process was started in: PMIx where the environment offers it, else PMI-2. An error when it was
// started as one of several but without either: each would measure itself alone (NVIDIA/nccl-tests#213, #306).
// `environment` is the process's own.
Result<std::unique_ptr<World>> open_world(const std::map<std::string, std::string>& environment, Deadline deadline);

// The message for a task that cannot see its peers; "" when `environment` speaks of one task only. Pure.
std::optional<Error> lonely_task(const std::map<std::string, std::string>& environment);

Result<std::unique_ptr<World>> open_pmix_world(const std::map<std::string, std::string>& environment,
                                               Deadline deadline);
// Whether the launcher has put a PMI-2 connection into `environment` that is still open.
bool offers_pmi2(const std::map<std::string, std::string>& environment);
Result<std::unique_ptr<World>> open_pmi2_world(const std::map<std::string, std::string>& environment,
                                               Deadline deadline);
std::unique_ptr<World> open_single_world();

// Whether there is a launcher's world to open: PMIx or PMI-2.
bool offers_world(const std::map<std::string, std::string>& environment);

}  // namespace nccltune::bench
