// SPDX-License-Identifier: Apache-2.0
// A set of workers from their start to a connected communicator. A step can launch many times, one after the other:
// each launch has fresh processes, an environment of its own, and keys and an alarm that carry its number, for a PMIx
// key is put once.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/alarm.h"
#include "bench/choose_worker.h"
#include "bench/crew.h"
#include "bench/digest.h"
#include "bench/environment.h"
#include "bench/options.h"
#include "bench/record.h"
#include "bench/split.h"
#include "bench/world.h"

namespace nccltune::bench {

class Launch {
 public:
  struct Setting {
    int number = 0;       // of this launch; the same on all tasks of the step, and never used twice
    Changes environment;  // of the workers, over ours
    // The step goes on after this launch, whatever becomes of it: no task may leave without the exchange, and each
    // waits there for those that give up at their own deadline first.
    bool one_of_many = false;
  };

  // `options`: workers, timeout and how data are checked; what is measured does not matter here. `environment`: this
  // task's own. All that is referred to outlives the launch.
  Launch(const Options& options, const Variables& environment, const ChosenWorker& worker, World& world, int signal_fd,
         Setting setting);
  ~Launch();  // kills the workers
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  // Workers, devices, and the exchange of records: all tasks then know each other, or end alike. Gives
  // the fault that ended it.
  std::optional<Fault> start();
  // Makes the communicator, and buffers for messages of `max_bytes`. After start().
  std::optional<Fault> connect(uint64_t max_bytes);

  World& world() { return world_; }
  const World& world() const { return world_; }
  Crew& crew() { return crew_; }
  const Crew& crew() const { return crew_; }
  Alarm& alarm() { return alarm_; }
  int per_task() const { return options_.workers(); }
  int ranks() const { return world_.place().size * per_task(); }
  // How the ranks are split; empty: they are not. After start().
  const Groups& groups() const { return groups_; }
  // The sizes of the communicators that are measured: that of rank 0 first, which the report speaks of.
  std::vector<int> sizes() const;
  int first_rank() const { return world_.place().rank * per_task(); }  // of our workers
  // A key of this launch: "record.7".
  std::string key(const char* name) const;
  const Variables& environment() const { return environment_; }             // of the workers
  const Digest& digest() const { return digest_; }                          // of all ranks; after start()
  const std::vector<TaskRecord>& tasks() const { return tasks_; }           // by rank; on rank 0 alone
  const std::vector<protocol::Ready>& ready() const { return ready_; }      // of our workers
  const std::vector<std::string>& log_files() const { return log_files_; }  // NCCL's own, of our workers; may be none

  struct Times {  // seconds
    double start = 0, exchange = 0, connect = 0;
    double library = 0;  // of connect, within the library, the slowest of our workers
  };
  const Times& times() const { return times_; }
  // What ended start() here; other tasks are told its text only.
  const std::optional<Fault>& early() const { return early_; }
  struct Memory {          // bytes of the device, the most that one of our workers saw
    uint64_t library = 0;  // that the communicator took
    uint64_t buffers = 0;
  };
  const Memory& memory() const { return memory_; }

 private:
  std::optional<Fault> start_workers();
  std::optional<Fault> open_devices();
  std::optional<Fault> make_ids(TaskRecord& record);
  // early_ is told in the same fence, so that nobody waits for this task.
  std::optional<Fault> exchange_records();
  double patience() const;              // seconds, for the others in the exchange
  std::optional<Fault> read_records();  // rank 0
  std::optional<Fault> tell_digest();   // rank 0
  std::optional<Fault> hear_digest(const std::function<bool()>& over);

  const Options& options_;
  const ChosenWorker& worker_;
  World& world_;
  int number_;
  Changes changes_;
  Variables environment_;
  bool one_of_many_;
  Alarm alarm_;
  Crew crew_;

  std::vector<protocol::Ready> ready_;
  std::vector<TaskRecord> tasks_;
  Digest digest_;
  std::vector<std::string> log_files_;
  std::optional<Fault> early_;
  Times times_;
  Groups groups_;
  Memory memory_;
};

}  // namespace nccltune::bench
