// SPDX-License-Identifier: Apache-2.0
// Multi-node NVLink: memory is shared between nodes through IMEX channels.
#include <fmt/format.h>

#include <set>

#include "check/finding.h"

namespace nccltune::check {

namespace {

// Grace-Blackwell GPUs; their NVLink domain spans nodes.
bool has_multi_node_nvlink(const Node& node) {
  for (const Gpu& gpu : node.gpus)
    for (const char* model : {"GB200", "GB300"})
      if (gpu.model.find(model) != std::string::npos) return true;
  return false;
}

void channel(const Subject& subject, Report& report) {
  if (subject.node.imex_channels)
    report.ok("/dev/nvidia-caps-imex-channels", "a channel is there");
  else if (has_multi_node_nvlink(subject.node) && subject.live())
    report.warn("/dev/nvidia-caps-imex-channels", "no channel", "a channel for each job",
                "SwitchType=switch/nvidia_imex in slurm.conf; systemctl status nvidia-imex");
}

void major(const Subject& subject, Report& report) {
  if (!has_multi_node_nvlink(subject.node)) return;
  auto devices = subject.root.read("/proc/devices");
  if (!devices) return;
  if (devices->find("nvidia-caps-imex-channels") != std::string::npos)
    report.ok("/proc/devices", "nvidia-caps-imex-channels is registered");
  else
    report.warn("/proc/devices", "nvidia-caps-imex-channels is not registered", "registered by the nvidia module",
                "a driver with IMEX support; modprobe nvidia");
}

// A domain of one node carries no memory of another.
void domain(const Subject& subject, Report& report) {
  if (!has_multi_node_nvlink(subject.node)) return;
  if (!subject.hardware || !subject.hardware->driver.error.empty())
    return report.skip("NVLink domain",
                       subject.hardware ? subject.hardware->driver.error : "not on a recorded machine");
  std::set<std::string> cliques;
  for (const GpuHealth& gpu : subject.hardware->driver.gpus)
    if (gpu.fabric) cliques.insert(fmt::format("cluster {} clique {}", gpu.fabric->cluster, gpu.fabric->clique));
  if (cliques.size() == 1) report.ok("NVLink domain", *cliques.begin());
  if (cliques.size() > 1)
    report.fail("NVLink domain", fmt::format("{} different cliques in one node", cliques.size()), "one",
                "nvidia-smi -q -d FABRIC; restart the fabric manager of the rack");
}

}  // namespace

const std::vector<Check>& imex_checks() {
  static const std::vector<Check> kChecks{
      {"imex.channel", "imex", "without a channel NCCL uses the network where NVLink could carry the data",
       "NVIDIA IMEX guide", channel},
      {"imex.driver", "imex", "without it no channel can be made", "NVIDIA IMEX guide", major},
      {"imex.domain", "imex", "GPUs of different cliques share no memory", "nccl src/mnnvl.cc", domain},
  };
  return kChecks;
}

}  // namespace nccltune::check
