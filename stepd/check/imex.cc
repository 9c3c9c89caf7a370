// SPDX-License-Identifier: Apache-2.0
// Multi-node NVLink: memory is shared between nodes through IMEX channels.
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

}  // namespace

const std::vector<Check>& imex_checks() {
  static const std::vector<Check> kChecks{
      {"imex.channel", "imex", "without a channel NCCL uses the network where NVLink could carry the data",
       "NVIDIA IMEX guide", channel},
  };
  return kChecks;
}

}  // namespace nccltune::check
