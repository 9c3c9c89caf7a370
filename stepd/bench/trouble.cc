// SPDX-License-Identifier: Apache-2.0
#include "bench/trouble.h"

#include <chrono>
#include <cstdlib>
#include <map>
#include <thread>

#include "bench/data_path.h"
#include "bench/text.h"

namespace nccltune::bench {
namespace {

constexpr size_t kMostNamed = 16, kLogLines = 5;

}  // namespace

int cause_order(const Launch& launch, const Fault& fault) {
  if (fault.kind == Fault::Kind::died || fault.kind == Fault::Kind::orphaned) return 0;
  if (fault.kind == Fault::Kind::failed)
    return fault.failure == protocol::FailureKind::transport || fault.failure == protocol::FailureKind::timeout ? 3 : 1;
  const int member = fault.rank - launch.first_rank();
  if (member < 0 || member >= launch.crew().size()) return 2;
  return launch.crew().state_of(member).find("(stopped)") != std::string::npos ? 0 : 2;
}

std::string describe_own_state(const Launch& launch, const Fault& fault, bool own) {
  const Crew& crew = launch.crew();
  const std::string& host = launch.world().place().hostname;
  std::string state;
  for (int i = 0; i < crew.size(); ++i) {
    const int rank = launch.first_rank() + i;
    const bool mine = own && fault.rank == rank;
    const std::string process = crew.state_of(i);
    const size_t odd = process.rfind('(');
    const bool fell = mine && fault.kind != Fault::Kind::hung;
    const std::string work = crew.work().empty() ? "" : " of " + crew.work();
    const std::string phase =
        fell ? "failed" : crew.phase_of(i) + work + (odd == std::string::npos ? "" : " " + process.substr(odd));
    const std::string text = host + ": " + (fell ? "failed in phase " + crew.phase_of(i) + work : process);
    state += print("R\t%d\t%s\t%s\n", rank, phase.c_str(), text.c_str());
    // A stopped worker is why the others hang, whoever of them was the first to find that out.
    if (!mine && process.ends_with("(stopped)"))
      state += print("C\t0\trank %d at %s: no progress: %s\n", rank, host.c_str(), process.c_str());
    if (!mine) continue;
    const std::string gpu = i < static_cast<int>(launch.ready().size()) ? text_of(launch.ready()[i].bdf) : "";
    state += print("C\t%d\t%s%s%s\n", cause_order(launch, fault), split(fault.text, '\n').front().c_str(),
                   gpu.empty() ? "" : ", GPU ", gpu.c_str());
    auto last = crew.last_lines(i);
    if (i < static_cast<int>(launch.log_files().size()))
      for (std::string& line : last_lines_of(launch.log_files()[i], kLogLines)) last.push_back(std::move(line));
    for (size_t l = last.size() > kLogLines ? last.size() - kLogLines : 0; l < last.size(); ++l)
      state += print("L\trank %d said: %s\n", rank, last[l].c_str());
  }
  if (own && fault.rank < 0) state += "C\t1\t" + split(fault.text, '\n').front() + "\n";
  return state;
}

std::vector<std::optional<std::string>> gather_states(World& world, const std::string& own) {
  const Deadline deadline = in_seconds(kGatherSeconds);
  std::vector<std::optional<std::string>> states;
  for (int task = 0; task < world.place().size; ++task) {
    if (task == world.place().rank) {
      states.emplace_back(own);
      continue;
    }
    auto got = world.get(task, kStateKey, std::min(deadline, in_seconds(3)));
    states.push_back(got ? *got : std::nullopt);
  }
  return states;
}

void release_others(World& world) {
  if (world.place().size == 1) return;
  // They ask every 50 ms.
  const auto moment = std::chrono::system_clock::now() + std::chrono::milliseconds(500 + world.place().size);
  if (!world.put(kDoneKey, std::to_string(moment.time_since_epoch() / std::chrono::milliseconds(1)))) world.commit();
  std::this_thread::sleep_until(moment);
}

bool wait_for_release(World& world, const std::string& key) {
  const auto told = world.get(0, key, in_seconds(kReportSeconds));
  if (!told || !*told) return false;
  const std::chrono::system_clock::time_point moment(std::chrono::milliseconds(std::atoll((*told)->c_str())));
  const auto bound = std::chrono::system_clock::now() + std::chrono::seconds(2);  // clocks of nodes differ
  std::this_thread::sleep_until(std::min(moment, bound));
  return true;
}

std::vector<std::string> hosts_of(const World& world) {
  std::vector<std::string> hosts;
  hosts.reserve(static_cast<size_t>(world.place().size));
  for (int task = 0; task < world.place().size; ++task) hosts.push_back(world.host_of(task));
  return hosts;
}

std::vector<std::string> tasks_without(World& world, const std::string& key) {
  std::vector<std::string> names;
  const Deadline deadline = in_seconds(kGatherSeconds);
  for (int task = 0; task < world.place().size; ++task) {
    const auto got = world.get(task, key, std::min(deadline, in_seconds(1)));
    if (got && *got) continue;
    const std::string host = world.host_of(task);
    names.push_back(print("task %d", task) + (host.empty() ? "" : " at " + host));
  }
  return names;
}

std::vector<std::string> speak_for_rank_0(World& world, const std::string& own, int per_task) {
  const Deadline deadline = in_seconds(kGatherSeconds);
  for (int task = 1; task < world.place().rank; ++task) {
    const auto state = world.get(task, kStateKey, std::min(deadline, in_seconds(1)));
    if (state && *state) return {};
  }
  return summarise_states(gather_states(world, own), per_task, hosts_of(world));
}

std::vector<std::string> summarise_states(const std::vector<std::optional<std::string>>& states, int per_task,
                                          const std::vector<std::string>& hosts) {
  std::map<std::string, std::vector<int>> ranks_in;  // by phase
  std::map<int, std::string> text_of_rank;
  std::vector<std::string> logs;
  std::pair<int, std::string> cause{9, ""};
  for (int task = 0; task < static_cast<int>(states.size()); ++task) {
    const std::optional<std::string>& state = states[task];
    if (!state)
      for (int i = 0; i < per_task; ++i) {
        const int rank = task * per_task + i;
        ranks_in["no answer"].push_back(rank);
        const std::string host = task < static_cast<int>(hosts.size()) ? hosts[task] + ": " : "";
        text_of_rank[rank] = host + "no answer: its supervisor is gone, or its node is cut off";
        cause = std::min(cause, {1, print("rank %d: %s", rank, text_of_rank[rank].c_str())});
      }
    for (const std::string& line : split(state.value_or(""), '\n')) {
      const auto parts = split(line, '\t');
      if (parts[0] == "R" && parts.size() == 4) {
        const int rank = std::atoi(parts[1].c_str());
        ranks_in[parts[2]].push_back(rank);
        text_of_rank[rank] = parts[3];
      } else if (parts[0] == "C" && parts.size() == 3) {
        const int order = std::atoi(parts[1].c_str());
        if (order < cause.first) cause = {order, parts[2]};
      } else if (parts[0] == "L" && logs.size() < kMostNamed) {
        logs.push_back(line.substr(2));
      }
    }
  }
  // Most of them cannot be gone at once: the one that asks is cut off.
  const auto none = ranks_in.find("no answer");
  if (const size_t silent = none == ranks_in.end() ? 0 : none->second.size();
      2 * silent > states.size() * per_task && states.size() > 2)
    for (int task = 0; task < static_cast<int>(states.size()); ++task)
      if (states[task]) {
        const std::string host = task < static_cast<int>(hosts.size()) ? " at " + hosts[task] : "";
        cause = {0, print("rank %d%s: its node is cut off: %zu of %zu ranks do not answer", task * per_task,
                          host.c_str(), silent, states.size() * per_task)};
        break;
      }
  std::string common;  // the phase of the most
  for (const auto& [phase, list] : ranks_in)
    if (common.empty() || list.size() > ranks_in[common].size()) common = phase;
  std::vector<std::string> lines, many;
  // A fault of its own is a cause. Waiting in vain is not: then the few that wait elsewhere than the rest come first.
  const bool certain = cause.first < 2;
  if (certain) lines.push_back(cause.second);
  for (const auto& [phase, list] : ranks_in) {
    const bool few = phase != common || ranks_in.size() == 1 ? list.size() <= kMostNamed : list.size() < 3;
    if (few)
      for (const int rank : list) lines.push_back(print("rank %d: %s", rank, text_of_rank[rank].c_str()));
    else
      many.push_back(print("%zu others, ranks %s: %s", list.size(), rank_list(list).c_str(), phase.c_str()));
  }
  lines.insert(lines.end(), many.begin(), many.end());
  if (!certain && !cause.second.empty()) lines.insert(many.empty() ? lines.begin() : lines.end(), cause.second);
  lines.insert(lines.end(), logs.begin(), logs.end());
  return lines;
}

}  // namespace nccltune::bench
