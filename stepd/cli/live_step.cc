// SPDX-License-Identifier: Apache-2.0
#include "cli/live_step.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sched.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "policy/kept.h"

namespace nccltune::cli {

namespace {

struct RankVariable {
  const char* rank;
  const char* size;
};

constexpr RankVariable kSlurmRank{"SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE"};

// torchrun first: it starts its workers inside a task whose launcher has set the others.
constexpr std::array kRankVariables{
    RankVariable{"LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    kSlurmRank,
    RankVariable{"OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
    RankVariable{"MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    RankVariable{"MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE"},
    RankVariable{"PALS_LOCAL_RANKID", "PALS_LOCAL_SIZE"},
};

constexpr int kMostTasks = 4096;  // on a node

const std::string* find(const Environment& env, const char* name) {
  auto it = env.find(name);
  return it == env.end() ? nullptr : &it->second;
}

// SLURM_STEP_TASKS_PER_NODE is "4", "4(x2)" or "4,3(x2)" by node; SLURM_NODEID counts the nodes.
std::optional<int> tasks_of_node(std::string_view counts, int node) {
  for (std::string_view part : split(counts, ',')) {
    size_t open = part.find("(x");
    int64_t repeat = 1;
    if (open != std::string_view::npos && part.ends_with(')'))
      repeat = parse_int(part.substr(open + 2, part.size() - open - 3), 1, 1 << 20).value_or(1);
    if (node < repeat) {
      auto tasks = parse_int(part.substr(0, open), 1, kMostTasks);
      return tasks ? std::optional<int>(static_cast<int>(*tasks)) : std::nullopt;
    }
    node -= static_cast<int>(repeat);
  }
  return std::nullopt;
}

std::optional<int> size_of(const Environment& env, const RankVariable& variable) {
  const std::string* size = find(env, variable.size);
  if (!size) return std::nullopt;
  if (variable.size != std::string_view(kSlurmRank.size)) return tasks_of_node(*size, 0);  // a number, of this node
  const std::string* node = find(env, "SLURM_NODEID");
  return tasks_of_node(*size, node ? static_cast<int>(parse_int(*node, 0, 1 << 20).value_or(0)) : 0);
}

// As Slurm's own daemons find a node whose NodeAddr is its name. "" when the name does not resolve, or to loopback only
// (Debian writes "127.0.1.1 HOST" to /etc/hosts).
std::string address_of(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* raw = nullptr;
  if (host.empty() || getaddrinfo(host.c_str(), nullptr, &hints, &raw) != 0) return "";
  std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> found(raw, freeaddrinfo);
  for (const addrinfo* at = found.get(); at; at = at->ai_next) {
    char text[NI_MAXHOST];
    if (getnameinfo(at->ai_addr, at->ai_addrlen, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0) continue;
    if (std::string_view(text).starts_with("127.") || std::string_view(text) == "::1") continue;
    return text;
  }
  return "";
}

}  // namespace

Environment environment_of_process() {
  Environment env;
  for (char** entry = environ; *entry; ++entry) {
    const char* equals = std::strchr(*entry, '=');
    if (equals)
      env.emplace(std::string(*entry, static_cast<size_t>(equals - *entry)),
                  equals + 1);  // the first of a name wins, as for getenv
  }
  return env;
}

Environment without_ours(Environment env) {
  for (const std::string& name : names_set_by_us(env)) env.erase(name);
  env.erase("NCCLTUNE_SET");
  return env;
}

Result<LocalRank> local_rank(const Environment& env) {
  for (const RankVariable& variable : kRankVariables) {
    const std::string* text = find(env, variable.rank);
    if (!text) continue;
    auto rank = parse_int(*text, 0, kMostTasks - 1);
    if (!rank) return Error{.object = variable.rank, .what = "'" + *text + "' is not a local rank"};
    return LocalRank{static_cast<int>(*rank), size_of(env, variable), variable.rank};
  }
  return LocalRank{};
}

bool in_slurm_task(const Environment& env) {
  const std::string* task = find(env, "SLURM_LOCALID");
  const std::string* step = find(env, "SLURM_STEP_ID");
  // A batch script has SLURM_LOCALID too, but no step of its own; SLURMD_NODENAME tells a task from a shell that
  // sourced a job's variables on a login node.
  return task && step && find(env, "SLURMD_NODENAME");
}

Step slurm_step(const Environment& env, const Node& node) {
  Step step;
  step.env = without_ours(env);
  if (const std::string* name = find(env, "SLURMD_NODENAME")) step.node_name = *name;
  step.node_address = address_of(step.node_name);
  if (const std::string* gpus = find(env, "SLURM_STEP_GPUS")) step.step_gpus = *gpus;
  Task task;
  if (const std::string* id = find(env, "SLURM_LOCALID"))
    task.local_id = static_cast<int>(parse_int(*id, 0, kMostTasks - 1).value_or(0));
  step.local_tasks = size_of(env, kSlurmRank).value_or(1);
  task.mask = own_cpus();
  task.env = step.env;
  task.openable_minors = openable_minors(node);
  step.tasks.push_back(std::move(task));
  return step;
}

std::optional<CpuSet> own_cpus() {
  const int most = CpuSet::kMaxId + 1;
  std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(CPU_ALLOC(most), [](cpu_set_t* s) { CPU_FREE(s); });
  const size_t bytes = CPU_ALLOC_SIZE(most);
  if (!set || sched_getaffinity(0, bytes, set.get()) != 0) return std::nullopt;
  CpuSet cpus;
  for (int cpu = 0; cpu < most; ++cpu)
    if (CPU_ISSET_S(cpu, bytes, set.get())) cpus.add(cpu);
  return cpus;
}

std::optional<std::set<int>> openable_minors(const Node& node) {
  std::set<int> minors;
  bool asked = false;
  for (const Gpu& gpu : node.gpus) {
    if (!gpu.minor) continue;
    if (access(("/dev/nvidia" + std::to_string(*gpu.minor)).c_str(), R_OK | W_OK) == 0)
      minors.insert(*gpu.minor);
    else if (errno == ENOENT)
      continue;
    asked = true;
  }
  return asked ? std::optional(minors) : std::nullopt;
}

}  // namespace nccltune::cli
