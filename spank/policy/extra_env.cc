// SPDX-License-Identifier: Apache-2.0
#include "policy/extra_env.h"

#include <algorithm>
#include <cstdint>

#include "base/text.h"
#include "policy/facts.h"
#include "policy/kept.h"

namespace nccltune {
namespace {

// "tcp", "tcp,self,sm": no transport that an HCA could carry. "^x" excludes and leaves the rest.
bool is_tcp_only(const std::string& ucx_tls) {
  if (ucx_tls.empty() || ucx_tls[0] == '^') return false;
  const auto words = split(ucx_tls, ',');
  return std::find(words.begin(), words.end(), "tcp") != words.end() &&
         std::all_of(words.begin(), words.end(), [](std::string_view word) {
           return word == "tcp" || word == "self" || word == "sm" || word == "shm" || word.rfind("cuda", 0) == 0 ||
                  word == "posix" || word == "sysv" || word == "cma";
         });
}

std::string labels(const std::vector<ChosenPort>& hcas) {
  std::vector<std::string> words;
  words.reserve(hcas.size());
  for (const ChosenPort& hca : hcas) words.push_back(hca.label());
  return join(words, ",");
}

}  // namespace

void plan_peers(const Step& step, const std::vector<ChosenPort>& hcas, const std::string& interface,
                std::vector<EnvSetting>& env) {
  if (!hcas.empty() && !is_tcp_only(value_of(step.env, "UCX_TLS")))
    env.push_back({"UCX_NET_DEVICES", labels(hcas), "peers.ucx", "MPI over UCX uses the same HCAs as NCCL."});
  else if (!interface.empty())
    env.push_back({"UCX_NET_DEVICES", interface, "peers.ucx", "MPI over UCX uses the same interface as NCCL."});
  if (!interface.empty())
    env.push_back({"GLOO_SOCKET_IFNAME", interface, "peers.gloo",
                   "Gloo (PyTorch's CPU collectives) uses the same interface as NCCL."});
}

void plan_device_order(const Node& node, std::vector<EnvSetting>& env) {
  if (node.gpus.size() < 2) return;
  env.push_back({"CUDA_DEVICE_ORDER", "PCI_BUS_ID", "cuda.order",
                 "Slurm's GPU indexes count in PCI order; CUDA's default order is by speed."});
}

void plan_net_plugin(const Node& node, const Step& step, bool uses_hcas, std::vector<EnvSetting>& env) {
  if (!uses_hcas) return;
  const auto value_of = [&](const char* name) {
    const auto existing = existing_value(node, step.env, name);
    return existing ? existing->value : std::string();
  };
  const bool wants_plugin = step.sharp || !value_of("NCCL_NET").empty() || value_of("NCCL_COLLNET_ENABLE") == "1" ||
                            !value_of("NCCL_TUNER_PLUGIN").empty();
  if (wants_plugin) return;
  env.push_back(
      {"NCCL_NET_PLUGIN", "none", "plugin.none",
       "NCCL's own InfiniBand transport drives these HCAs; a plugin that an image happens to hold would take its "
       "place."});
}

std::string first_host(const std::string& nodelist) {
  const std::size_t bracket = nodelist.find('[');
  const std::size_t comma = nodelist.find(',');
  if (bracket == std::string::npos || comma < bracket) return nodelist.substr(0, comma);
  const std::size_t end = nodelist.find(']', bracket);
  if (end == std::string::npos) return "";
  const std::string range = nodelist.substr(bracket + 1, end - bracket - 1);
  const std::string number = range.substr(0, range.find_first_of(",-"));
  const std::size_t rest = nodelist.find_first_of(",[", end);
  const std::string tail = rest != std::string::npos && nodelist[rest] == '['
                               ? ""
                               : nodelist.substr(end + 1, rest == std::string::npos ? rest : rest - end - 1);
  return number.empty() ? "" : nodelist.substr(0, bracket) + number + tail;
}

void plan_torch(const Step& step, const Task& task, std::vector<EnvSetting>& env, std::vector<Note>& notes) {
  if (!step.torch) return;
  const auto number = [&](const char* name) { return parse_int(value_of(task.env, name), 0, INT32_MAX); };
  const auto rank = number("SLURM_PROCID");
  auto world = number("SLURM_STEP_NUM_TASKS");
  if (!world) world = number("SLURM_NTASKS");
  std::string list = value_of(task.env, "SLURM_STEP_NODELIST");
  if (list.empty()) list = value_of(task.env, "SLURM_JOB_NODELIST");
  const std::string host = first_host(list);
  if (!rank || !world || host.empty()) {
    notes.push_back({"torch", "asked for, but Slurm does not tell the task's rank, their number or the step's nodes"});
    return;
  }
  // Below the kernel's ephemeral ports (32768 on), and two steps of one node do not meet.
  const int64_t job = number("SLURM_JOB_ID").value_or(0);
  const int64_t port = 15000 + (job * 16 + number("SLURM_STEP_ID").value_or(0) % 16) % 16384;
  const std::string why = "Asked for by the keyword torch; ";
  env.push_back({"MASTER_ADDR", host, "torch.master", why + "the step's first node."});
  env.push_back({"MASTER_PORT", std::to_string(port), "torch.master", why + "from the numbers of job and step."});
  env.push_back({"RANK", std::to_string(*rank), "torch.rank", why + "SLURM_PROCID."});
  env.push_back({"WORLD_SIZE", std::to_string(*world), "torch.rank", why + "the step's number of tasks."});
  env.push_back({"LOCAL_RANK", std::to_string(task.local_id), "torch.rank", why + "SLURM_LOCALID."});
}

}  // namespace nccltune
