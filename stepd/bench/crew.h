// SPDX-License-Identifier: Apache-2.0
// The workers of this task, and the one place where the supervisor waits: for their answers, their output, their end,
// other tasks' alarms, and signals; never without a deadline.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/alarm.h"
#include "bench/worker_process.h"
#include "bench/world.h"

namespace nccltune::bench {

struct Fault {
  enum class Kind { died, failed, hung, alarm, signal, orphaned } kind{};
  int rank = -1;     // of the worker; -1: none of ours
  std::string text;  // one line
  std::string remedy;
  protocol::FailureKind failure = protocol::FailureKind::internal;  // for Kind::failed
  int signal = 0;
};

class Crew {
 public:
  // `first_rank` is that of the first worker; `per_task` workers in each task of the world. `signal_fd`: a signalfd, or
  // -1. `store`: before the keys that the workers set for each other; a step that has several crews, one after the
  // other, gives each its own.
  Crew(World& world, Alarm& alarm, int signal_fd, int first_rank, int per_task, std::string store = "s/");

  std::optional<Fault> start(const std::vector<WorkerProcess::Start>& workers);

  // Sends `kind` with payload i to worker i, and waits for an answer of kind `expected` from each of those that were
  // asked (absent payload: not asked). `patience`: seconds that each phase of a worker may last.
  struct Answers {
    std::vector<std::optional<Message>> of;
    std::optional<Fault> fault;
  };
  Answers ask(protocol::Kind kind, const std::vector<std::optional<std::string>>& payloads, protocol::Kind expected,
              double patience);
  Answers ask_all(protocol::Kind kind, const std::string& payload, protocol::Kind expected, double patience);

  // As ask, for workers of unlike communicators: what befalls one is told beside it, ends it and leaves the others at
  // work. `given_up`: asked about each worker that waits, once a second; a text ends that worker, for its peer is gone
  // (Fault::Kind::alarm). A signal ends all (`interrupted`).
  struct Own {
    std::optional<Message> answer;
    std::optional<Fault> fault;
  };
  using GivenUp = std::function<std::optional<std::string>(int)>;
  std::vector<Own> ask_each(protocol::Kind kind, const std::vector<std::optional<std::string>>& payloads,
                            protocol::Kind expected, double patience, const GivenUp& given_up,
                            std::optional<Fault>& interrupted);
  // A fault of ask_each has ended worker i.
  bool ended(int i) const { return members_[i].fault.has_value(); }
  // A fresh process in the place of worker i, which is ended.
  std::optional<Fault> replace(int i, const WorkerProcess::Start& start);
  // The tasks that hold rank 0, 1, ... of worker i's communicator, to find the owners of the keys it wants; without it
  // ranks are those of the world.
  void seat(int i, std::vector<int> tasks) { members_[i].tasks = std::move(tasks); }

  // Lets the workers end by themselves for so long, then ends them.
  void dismiss(double seconds);
  void kill_all();

  int size() const { return static_cast<int>(members_.size()); }
  // "timing for 12 s (stopped)": where worker i is.
  std::string state_of(int i) const;
  std::string phase_of(int i) const { return members_[i].phase; }
  std::vector<std::string> last_lines(int i) const { return members_[i].process->last_lines(); }
  const std::string& work() const { return work_; }
  void describe_work(const std::string& work);  // "all_reduce 1 GiB": for messages

 private:
  struct Member {
    std::unique_ptr<WorkerProcess> process;
    int rank = 0;
    std::string phase = "start";
    Clock::time_point since;
    std::optional<Message> answer;
    bool asked = false;
    std::vector<int> tasks;      // see seat
    std::optional<Fault> fault;  // of ask_each
  };
  struct WantedKey {
    int member;
    std::string key;
    Deadline deadline;
  };

  std::optional<Fault> take_messages(Member& member, int index, protocol::Kind expected);
  std::optional<Fault> look_at_ends();
  std::optional<Fault> find_death();
  std::optional<Fault> look_at_clock(double patience);
  void hand_out(protocol::Kind kind, const std::vector<std::optional<std::string>>& payloads, double patience);
  std::optional<Fault> attend(protocol::Kind expected, double patience);
  std::optional<Fault> wait_for_events(int milliseconds, protocol::Kind expected);
  void serve_store_set(const Message& message);
  void serve_wanted_keys();
  int task_of(const WantedKey& wanted) const;
  void give_up_on(int i, Fault fault);
  void note_state();
  Fault fault_of(const Member& member, Fault::Kind kind, const std::string& text) const;

  World& world_;
  Alarm& alarm_;
  int signal_fd_, first_rank_, per_task_;
  uint32_t sequence_ = 0;
  std::vector<Member> members_;
  std::vector<WantedKey> wanted_;
  std::map<std::string, std::string> own_keys_;
  std::string work_, store_;
};

}  // namespace nccltune::bench
