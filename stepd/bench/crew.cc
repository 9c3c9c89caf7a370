// SPDX-License-Identifier: Apache-2.0
#include "bench/crew.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

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
  return std::nullopt;
}

Fault Crew::fault_of(const Member& member, Fault::Kind kind, std::string text) const {
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

Crew::Answers Crew::ask_all(protocol::Kind kind, const std::string& payload, protocol::Kind expected, double patience) {
  return ask(kind, std::vector<std::optional<std::string>>(members_.size(), payload), expected, patience);
}

Crew::Answers Crew::ask(protocol::Kind kind, const std::vector<std::optional<std::string>>& payloads,
                        protocol::Kind expected, double patience) {
  ++sequence_;
  for (size_t i = 0; i < members_.size(); ++i) {
    Member& member = members_[i];
    member.answer.reset();
    member.since = Clock::now();
    member.asked = payloads[i].has_value();
    if (member.asked) member.process->send(kind, sequence_, *payloads[i], in_seconds(patience));
    // A worker that cannot be written to has ended or hangs: both are found below.
  }
  const auto began = Clock::now();
  Answers answers;
  for (;;) {
    bool all = true;
    for (const Member& member : members_) all &= !member.asked || member.answer.has_value();
    if (all || answers.fault) break;
    if (seconds_since(began) > kAloneBeforeAsking) alarm_.watch(true);
    answers.fault = wait_for_events(wanted_.empty() ? 200 : 1, expected);
    if (!answers.fault) serve_wanted_keys();
    if (!answers.fault) answers.fault = look_at_ends();
    if (!answers.fault) answers.fault = look_at_clock(patience);
  }
  alarm_.watch(false);
  for (Member& member : members_) answers.of.push_back(std::move(member.answer));
  return answers;
}

std::optional<Fault> Crew::wait_for_events(int milliseconds, protocol::Kind expected) {
  std::vector<pollfd> waits = {{signal_fd_, POLLIN, 0}, {alarm_.fd(), POLLIN, 0}};
  for (const Member& member : members_) {
    waits.push_back({member.process->reply_fd(), POLLIN, 0});
    waits.push_back({member.process->output_fd(), POLLIN, 0});
  }
  if (::poll(waits.data(), waits.size(), milliseconds) < 0) return std::nullopt;
  if (waits[0].revents & POLLIN) {
    signalfd_siginfo info;
    if (::read(signal_fd_, &info, sizeof info) == sizeof info) {
      Fault fault{Fault::Kind::signal, -1, print("ended by SIG%s", sigabbrev_np(static_cast<int>(info.ssi_signo))), ""};
      fault.signal = static_cast<int>(info.ssi_signo);
      return fault;
    }
  }
  // What a worker itself says goes before what others say about the run.
  for (size_t i = 0; i < members_.size(); ++i) {
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

std::optional<Fault> Crew::look_at_clock(double patience) {
  for (size_t i = 0; i < members_.size(); ++i) {
    const Member& member = members_[i];
    if (member.asked && !member.answer && seconds_since(member.since) > patience)
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

// Each key is asked for a moment; the others and the workers' pipes get their turn in between.
void Crew::serve_wanted_keys() {
  std::vector<WantedKey> still;
  for (WantedKey& wanted : std::exchange(wanted_, {})) {
    const auto owner = owner_of(wanted.key);
    const int task = owner ? static_cast<int>(*owner) / per_task_ : -1;
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
