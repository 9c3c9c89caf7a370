// SPDX-License-Identifier: Apache-2.0
// NVLink, NVSwitch and peer access between the GPUs of the node.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/text.h"
#include "check/finding.h"
#include "check/health.h"

namespace nccltune::check {

namespace {

// A board is held against its siblings: the same model has the same links, whatever its generation.
void links(const Subject& subject, Report& report) {
  const DriverFacts* facts = driver_facts(subject, report);
  if (!facts) return;
  std::map<std::string, int> most;  // model -> links that are active on the best of its kind
  for (const GpuHealth& gpu : facts->gpus) most[gpu.name] = std::max(most[gpu.name], gpu.active_links());
  for (const GpuHealth& gpu : facts->gpus) {
    if (gpu.all_links() == 0) continue;
    const int active = gpu.active_links();
    const std::string seen = fmt::format("{} of {} links active", active, gpu.all_links());
    if (active < most[gpu.name])
      report.fail(gpu.bdf, seen, fmt::format("{}, as on its siblings", most[gpu.name]),
                  "nvidia-smi nvlink -s -i " + gpu.bdf + "; reset the GPUs, else ask for a replacement");
    else if (active == 0)
      report.ok(gpu.bdf, seen + ": not bridged");
    else if (active < gpu.all_links())
      report.warn(gpu.bdf, seen, "all of them, where the server wires them all", "nvidia-smi nvlink -s -i " + gpu.bdf);
    else
      report.ok(gpu.bdf, seen);
  }
}

// nvmlGpuP2PStatus_t
constexpr int kOk = 0, kDisabled = 4;

void peer_access(const Subject& subject, Report& report) {
  const DriverFacts* facts = driver_facts(subject, report);
  if (!facts) return;
  size_t good = 0;
  for (const DriverFacts::Pair& pair : facts->pairs) {
    const int worst = std::max(pair.read, pair.write);
    if (worst == kOk) {
      ++good;
      continue;
    }
    const std::string object = facts->gpus[pair.a].bdf + " " + facts->gpus[pair.b].bdf;
    const std::string seen = fmt::format("read {}, write {}", p2p_text(pair.read), p2p_text(pair.write));
    report.warn(object, seen, "OK",
                worst == kDisabled        ? "look for NVreg_RegistryDwords in /etc/modprobe.d"
                : subject.node.hypervisor ? "ask the owner of the host for peer-to-peer between the GPUs of the guest"
                                          : "nvidia-smi topo -p2p r; check ACS and IOMMU, or the board's own limits");
  }
  if (good) report.ok(fmt::format("{} pairs", good), "read OK, write OK");
}

const char* state_text(int state) {
  constexpr const char* kTexts[] = {"not supported", "not started", "in progress", "completed"};
  return kTexts[state < 0 || state > 3 ? 0 : state];
}

void fabric(const Subject& subject, Report& report) {
  const DriverFacts* facts = driver_facts(subject, report);
  if (!facts) return;
  for (const GpuHealth& gpu : facts->gpus) {
    if (!gpu.fabric || gpu.fabric->state == 0) continue;  // no NVSwitch: nothing to register with
    std::string seen = state_text(gpu.fabric->state);
    if (gpu.fabric->state == 3 && gpu.fabric->status == 0) {
      if (gpu.fabric->cluster.find_first_not_of('0') != std::string::npos)
        seen += fmt::format(", cluster {} clique {}", gpu.fabric->cluster, gpu.fabric->clique);
      report.ok(gpu.bdf, seen);
    } else {
      if (gpu.fabric->state == 3) seen += fmt::format(" with error {}", gpu.fabric->status);
      report.fail(gpu.bdf, seen, "completed, status success",
                  "systemctl restart nvidia-fabricmanager, then reset all GPUs: nvidia-smi --gpu-reset");
    }
  }
}

// Bits 0 and 1 of the health mask: 1 is degraded bandwidth, 2 is not (NVML_GPU_FABRIC_HEALTH_MASK_DEGRADED_BW).
void degraded(const Subject& subject, Report& report) {
  const DriverFacts* facts = driver_facts(subject, report);
  if (!facts) return;
  for (const GpuHealth& gpu : facts->gpus) {
    if (!gpu.fabric || (gpu.fabric->health & 3) == 0) continue;
    if ((gpu.fabric->health & 3) == 1)
      report.fail(gpu.bdf, "the fabric runs at a degraded bandwidth", "full bandwidth",
                  "nvidia-smi -q -d FABRIC; look for failed NVLinks of the switches");
    else
      report.ok(gpu.bdf, "full bandwidth");
  }
}

}  // namespace

const std::vector<Check>& nvlink_checks() {
  static const std::vector<Check> kChecks{
      {"nvlink.links", "nvlink", "rings and trees run at the rate of the GPU with the fewest links",
       "NVIDIA health validation, NVLink; Azure NHC check_nvlink_status", links},
      {"nvlink.peer-access", "nvlink", "without it NCCL moves data between the GPUs through host memory",
       "NCCL documentation, troubleshooting; nvidia-smi topo -p2p", peer_access},
      {"nvlink.fabric", "nvlink", "CUDA error 802 or 401 at the first use of NVSwitch or NVLS",
       "pytorch/pytorch#177472, NVIDIA/nccl#1488, #1562", fabric},
      {"nvlink.degraded", "nvlink", "a switch with lost links slows all GPUs", "NVML documentation, fabric health",
       degraded},
  };
  return kChecks;
}

}  // namespace nccltune::check
