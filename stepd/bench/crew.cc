// SPDX-License-Identifier: Apache-2.0
#include "bench/crew.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <thread>

#include "bench/keeper.h"
#include "bench/text.h"

namespace nccltune::bench {
namespace {

constexpr double kAloneBeforeAsking = 1;  // seconds of waiting before other tasks are asked for an alarm
constexpr double kKeyPatience = 120;      // seconds that a worker waits for a peer's key

// The rank that sets a key, from the key's front: "3/mesh", and "rank_3/mesh", for Gloo names its keys "rank_3".
std::optional<int64_t> owner_of(const std::string& key) {
  std::string front = key.substr(0, key.find('/'));
  if (front.starts_with("rank_")) front.erase(0, 5);
  return parse_integer(front, 0, 1 << 30);
}

// The process state of Linux, where it tells something: SIGSTOP, or a wait in the kernel that nothing interrupts.
std::string process_state(pid_t pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(stat, text);
  const size_t at = text.rfind(") ");
  if (at == std::string::npos || at + 2 >= text.size()) return "gone";
  switch (text[at + 2]) {
    case 'T':
    case 't':
      return "stopped";
    case 'D':
      return "blocked in the kernel";
    case 'Z':
      return "dead";
    default:
      break;
  }
  // Where its main thread sleeps in the kernel: a rank that sits elsewhere than all others is the one to look at.
  std::ifstream channel("/proc/" + std::to_string(pid) + "/wchan");
  std::string where;
  std::getline(channel, where);
  return where.empty() || where == "0" ? "" : "in " + where;
}

bool is_effect(const Fault& fault) {
  return fault.kind == Fault::Kind::failed &&
         (fault.failure == protocol::FailureKind::transport || fault.failure == protocol::FailureKind::timeout);
}

}  // namespace

Crew::Crew(World& world, Alarm& alarm, int signal_fd, int first_rank, int per_task, std::string store)
    : world_(world),
      alarm_(alarm),
      signal_fd_(signal_fd),
      first_rank_(first_rank),
      per_task_(per_task),
      store_(std::move(store)) {}

std::optional<Fault> Crew::start(const std::vector<WorkerProcess::Start>& workers) {
  for (const WorkerProcess::Start& start : workers) {
    auto process = WorkerProcess::start(start);
    const int rank = first_rank_ + static_cast<int>(members_.size());
    if (!process) return Fault{Fault::Kind::failed, rank, process.error().text(), ""};
    Member member;
    member.process = std::move(*process);
    member.rank = rank;
    member.since = Clock::now();
    members_.push_back(std::move(member));
  }
  note_state();
  return std::nullopt;
}

Fault Crew::fault_of(const Member& member, Fault::Kind kind, const std::string& text) const {
  std::string where = print("rank %d", member.rank);
  if (per_task_ >= 1) where += " at " + world_.place().hostname;
  return Fault{kind, member.rank, where + ": " + text, ""};
}

std::string Crew::state_of(int i) const {
  const Member& member = members_[i];
  std::string text = member.phase;
  if (!work_.empty()) text += " of " + work_;
  text += print(" for %.0f s", seconds_since(member.since));
  const std::string process = process_state(member.process->pid());
  return process.empty() ? text : text + " (" + process + ")";
}

// For who tells it in our place.
void Crew::note_state() {
  std::string text;
  for (const Member& member : members_)
    text += print("R\t%d\t%s\t%s: %s%s%s\n", member.rank, member.phase.c_str(), world_.place().hostname.c_str(),
                  member.phase.c_str(), work_.empty() ? "" : " of ", work_.c_str());
  world_.slate().write(Slate::state, text);
}

void Crew::describe_work(const std::string& work) {
  work_ = work;
  note_state();
}

Crew::Answers Crew::ask_all(protocol::Kind kind, const std::string& payload, protocol::Kind expected, double patience) {
  return ask(kind, std::vector<std::optional<std::string>>(members_.size(), payload), expected, patience);
}

// A worker that cannot be written to has ended or hangs: both are found by who waits for the answer.
void Crew::hand_out(protocol::Kind kind, const std::vector<std::optional<std::string>>& payloads, double patience) {
  ++sequence_;
  for (size_t i = 0; i < members_.size(); ++i) {
    Member& member = members_[i];
    member.answer.reset();
    member.since = Clock::now();
    member.asked = payloads[i].has_value();
    if (member.asked && !member.fault) member.process->send(kind, sequence_, *payloads[i], in_seconds(patience));
  }
}

// One turn of waiting for answers.
std::optional<Fault> Crew::attend(protocol::Kind expected, double patience) {
  auto fault = wait_for_events(wanted_.empty() ? 200 : 1, expected);
  if (!fault) serve_wanted_keys();
  if (!fault) fault = look_at_ends();
  if (!fault) fault = look_at_clock(patience);
  return fault;
}

Crew::Answers Crew::ask(protocol::Kind kind, const std::vector<std::optional<std::string>>& payloads,
                        protocol::Kind expected, double patience) {
  hand_out(kind, payloads, patience);
  const auto began = Clock::now();
  Answers answers;
  for (;;) {
    bool all = true;
    for (const Member& member : members_) all &= !member.asked || member.answer.has_value();
    if (all || answers.fault) break;
    if (seconds_since(began) > kAloneBeforeAsking) alarm_.watch(true);
    answers.fault = attend(expected, patience);
  }
  if (answers.fault && is_effect(*answers.fault))
    if (auto death = find_death()) answers.fault = std::move(death);
  alarm_.watch(false);
  for (Member& member : members_) answers.of.push_back(std::move(member.answer));
  return answers;
}

std::vector<Crew::Own> Crew::ask_each(protocol::Kind kind, const std::vector<std::optional<std::string>>& payloads,
                                      protocol::Kind expected, double patience, const GivenUp& given_up,
                                      std::optional<Fault>& interrupted) {
  hand_out(kind, payloads, patience);
  const auto waits = [](const Member& member) { return member.asked && !member.answer && !member.fault; };
  Deadline next_question = in_seconds(kAloneBeforeAsking);
  while (!interrupted && std::any_of(members_.begin(), members_.end(), waits)) {
    auto fault = attend(expected, patience);
    if (fault && fault->rank >= 0)
      give_up_on(fault->rank - first_rank_, std::move(*fault));
    else if (fault)
      interrupted = std::move(fault);
    if (interrupted || !passed(next_question)) continue;
    for (size_t i = 0; i < members_.size(); ++i)
      if (waits(members_[i]))
        if (auto why = given_up(static_cast<int>(i)))
          give_up_on(static_cast<int>(i), fault_of(members_[i], Fault::Kind::alarm, *why));
    next_question = in_seconds(kAloneBeforeAsking);
  }
  std::vector<Own> own;
  for (Member& member : members_) {
    // Who was not asked tells nothing, not even an earlier fault.
    own.push_back({std::move(member.answer), member.asked ? member.fault : std::nullopt});
    member.answer.reset();
  }
  return own;
}

void Crew::give_up_on(int i, Fault fault) {
  members_[i].fault = std::move(fault);
  members_[i].process->kill_now();
  std::erase_if(wanted_, [i](const WantedKey& wanted) { return wanted.member == i; });
}

std::optional<Fault> Crew::replace(int i, const WorkerProcess::Start& start) {
  Member& member = members_[i];
  std::erase_if(wanted_, [i](const WantedKey& wanted) { return wanted.member == i; });
  member.process->kill_now();
  auto process = WorkerProcess::start(start);
  if (!process) return member.fault = fault_of(member, Fault::Kind::failed, process.error().text());
  member.process = std::move(*process);
  member.phase = "start";
  member.since = Clock::now();
  member.fault.reset();
  return std::nullopt;
}

std::optional<Fault> Crew::wait_for_events(int milliseconds, protocol::Kind expected) {
  std::vector<pollfd> waits = {{signal_fd_, POLLIN, 0}, {alarm_.fd(), POLLIN, 0}};
  for (const Member& member : members_) {
    if (member.fault) continue;
    waits.push_back({member.process->reply_fd(), POLLIN, 0});
    waits.push_back({member.process->output_fd(), POLLIN, 0});
  }
  world_.slate().beat();
  if (::poll(waits.data(), waits.size(), milliseconds) < 0) return std::nullopt;
  if (waits[0].revents & POLLIN) {
    signalfd_siginfo info;
    if (::read(signal_fd_, &info, sizeof info) == sizeof info) {
      if (static_cast<int>(info.ssi_signo) == keeper_gone_signal())
        return fault_of(members_.front(), Fault::Kind::orphaned, "the task's own process is gone: killed from outside");
      Fault fault{Fault::Kind::signal, -1, print("ended by SIG%s", sigabbrev_np(static_cast<int>(info.ssi_signo))), ""};
      fault.signal = static_cast<int>(info.ssi_signo);
      return fault;
    }
  }
  // What a worker itself says goes before what others say about the run.
  for (size_t i = 0; i < members_.size(); ++i) {
    if (members_[i].fault) continue;
    members_[i].process->read_output();
    if (auto fault = take_messages(members_[i], static_cast<int>(i), expected)) return fault;
  }
  if (auto text = alarm_.heard()) return Fault{Fault::Kind::alarm, -1, *text, ""};
  return std::nullopt;
}

std::optional<Fault> Crew::take_messages(Member& member, int index, protocol::Kind expected) {
  auto messages = member.process->read_replies();
  if (!messages) return fault_of(member, Fault::Kind::died, messages.error().text());
  for (Message& message : *messages) {
    switch (message.kind) {
      case protocol::Kind::phase:
        if (const auto phase = message.as<protocol::Phase>()) {
          member.phase = bench::text_of(phase->text);
          member.since = Clock::now();
          note_state();
        }
        break;
      case protocol::Kind::store_set:
        serve_store_set(message);
        break;
      case protocol::Kind::store_get:
        wanted_.push_back({index, message.payload, in_seconds(kKeyPatience)});
        break;
      case protocol::Kind::failure: {
        const auto failure = message.as<protocol::Failure>();
        Fault fault =
            fault_of(member, Fault::Kind::failed, failure ? bench::text_of(failure->text) : "failed without a word");
        if (failure) {
          fault.remedy = bench::text_of(failure->remedy);
          fault.failure = failure->kind;
        }
        return fault;
      }
      default:
        if (message.kind != expected || message.sequence != sequence_ || member.answer)
          return fault_of(member, Fault::Kind::died,
                          print("the worker answered out of turn (message %u)", static_cast<unsigned>(message.kind)));
        member.answer = std::move(message);
    }
  }
  return std::nullopt;
}

std::optional<Fault> Crew::look_at_ends() {
  for (Member& member : members_) {
    if (member.fault) continue;
    // Its last words are read first: the end of the pipe comes with the end of the process.
    if (member.process->reply_fd() >= 0) {
      if (!member.process->ended(Clock::now())) continue;
      member.process->read_output();
      if (auto fault = take_messages(member, member.rank - first_rank_, protocol::Kind::failure)) return fault;
    }
    const auto end = member.process->ended(in_seconds(2));
    member.process->read_output();
    return fault_of(member, Fault::Kind::died,
                    print("the worker %s, in phase %s%s%s", end ? end->c_str() : "closed its pipe",
                          member.phase.c_str(), work_.empty() ? "" : " of ", work_.c_str()));
  }
  return std::nullopt;
}

// A peer's connection broke, which may be the peer's end: that of another worker here too, a moment before.
std::optional<Fault> Crew::find_death() {
  const Deadline deadline = in_seconds(members_.size() > 1 ? 0.3 : 0);
  do {
    for (const Member& member : members_) {
      const auto end = member.process->ended(Clock::now());
      if (!end || !end->starts_with("killed")) continue;
      return fault_of(member, Fault::Kind::died,
                      print("the worker %s, in phase %s%s%s", end->c_str(), member.phase.c_str(),
                            work_.empty() ? "" : " of ", work_.c_str()));
    }
    if (members_.size() > 1) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  } while (!passed(deadline));
  return std::nullopt;
}

std::optional<Fault> Crew::look_at_clock(double patience) {
  for (size_t i = 0; i < members_.size(); ++i) {
    const Member& member = members_[i];
    if (member.asked && !member.fault && !member.answer && seconds_since(member.since) > patience)
      return fault_of(member, Fault::Kind::hung, "no progress: " + state_of(static_cast<int>(i)));
  }
  return std::nullopt;
}

void Crew::serve_store_set(const Message& message) {
  const size_t end = message.payload.find('\0');
  if (end == std::string::npos) return;
  const std::string key = message.payload.substr(0, end), value = message.payload.substr(end + 1);
  own_keys_[key] = value;
  if (world_.place().size > 1 && !world_.put(store_ + key, value)) world_.commit();
}

// -1: nobody.
int Crew::task_of(const WantedKey& wanted) const {
  const auto owner = owner_of(wanted.key);
  if (!owner) return -1;
  const auto& tasks = members_[wanted.member].tasks;
  if (tasks.empty()) return static_cast<int>(*owner) / per_task_;
  return *owner < static_cast<int64_t>(tasks.size()) ? tasks[*owner] : -1;
}

// Each key is asked for a moment; the others and the workers' pipes get their turn in between.
void Crew::serve_wanted_keys() {
  std::vector<WantedKey> still;
  for (WantedKey& wanted : std::exchange(wanted_, {})) {
    const int task = task_of(wanted);
    std::optional<std::string> value;
    if (task == world_.place().rank) {
      const auto at = own_keys_.find(wanted.key);
      if (at != own_keys_.end()) value = at->second;
    } else if (task >= 0 && task < world_.place().size) {
      auto got = world_.get(task, store_ + wanted.key, in_seconds(0.02));
      if (got && *got) value = std::move(*got);
    } else {
      wanted.deadline = Clock::now();  // nobody owns it
    }
    if (!value && !passed(wanted.deadline)) {
      still.push_back(std::move(wanted));
      continue;
    }
    protocol::StoreReply reply;
    reply.found = value.has_value();
    reply.length = value ? static_cast<uint32_t>(value->size()) : 0;
    const std::string payload = std::string(bytes_of(reply)) + value.value_or("");
    members_[wanted.member].process->send(protocol::Kind::store_reply, 0, payload, in_seconds(5));
  }
  wanted_ = std::move(still);
}

void Crew::dismiss(double seconds) {
  for (Member& member : members_) member.process->send(protocol::Kind::quit, ++sequence_, "", in_seconds(1));
  const Deadline deadline = in_seconds(seconds);
  for (Member& member : members_) {
    while (!member.process->ended(in_seconds(0.02)) && !passed(deadline)) member.process->read_output();
    member.process->read_output();
  }
  kill_all();
}

void Crew::kill_all() {
  for (Member& member : members_) member.process->kill_now();
  for (Member& member : members_) {
    member.process->ended(in_seconds(2));
    member.process->read_output();
  }
}

}  // namespace nccltune::bench
