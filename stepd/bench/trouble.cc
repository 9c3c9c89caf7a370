// SPDX-License-Identifier: Apache-2.0
#include "bench/trouble.h"

#include <cstdlib>
#include <map>

#include "bench/data_path.h"
#include "bench/text.h"

namespace nccltune::bench {
namespace {

constexpr size_t kMostNamed = 16, kLogLines = 5;

}  // namespace

int cause_order(const Launch& launch, const Fault& fault) {
  if (fault.kind == Fault::Kind::died) return 0;
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
    const std::string phase =
        fell ? "failed" : crew.phase_of(i) + (odd == std::string::npos ? "" : " " + process.substr(odd));
    const std::string text = host + ": " + (fell ? "failed in phase " + crew.phase_of(i) : process);
    state += print("R\t%d\t%s\t%s\n", rank, phase.c_str(), text.c_str());
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
  return state;
}

std::vector<std::string> summarise_states(const std::vector<std::optional<std::string>>& states, int per_task) {
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
        text_of_rank[rank] = "no answer: its supervisor is gone or cut off";
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
