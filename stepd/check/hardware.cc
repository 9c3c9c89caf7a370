// SPDX-License-Identifier: Apache-2.0
#include "check/hardware.h"

namespace nccltune::check {

Hardware read_hardware(const Node& node, const Plan& plan) {
  Hardware hardware;
  if (node.gpus.empty()) {
    hardware.driver.error = hardware.log.error = "no NVIDIA GPU here";
  } else {
    hardware.driver = read_driver();
    hardware.log = read_kernel_log();
  }
  std::map<std::string, std::vector<int>> wanted;
  for (const HcaDecision& hca : plan.hcas)
    if (hca.used()) wanted[hca.name].push_back(hca.port);
  if (wanted.empty())
    hardware.verbs.error = "no HCA is used";
  else
    hardware.verbs = read_verbs(wanted);
  return hardware;
}

}  // namespace nccltune::check
