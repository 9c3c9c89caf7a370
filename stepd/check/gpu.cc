// SPDX-License-Identifier: Apache-2.0
// What the NVIDIA driver shows in files. Health that only the driver's library tells is nvidia-smi's and DCGM's to
// report.
#include <fmt/format.h>

#include <cstdint>

#include "base/text.h"
#include "check/finding.h"
#include "node/distance.h"

namespace nccltune::check {

namespace {

void driver(const Subject& subject, Report& report) {
  if (subject.node.gpus.empty()) return;
  if (subject.node.driver.version.empty())
    report.fail("nvidia", "no /proc/driver/nvidia/version", "the NVIDIA driver is loaded", "modprobe nvidia");
  else
    report.ok("nvidia",
              subject.node.driver.version + (subject.node.driver.open_modules ? ", open kernel modules" : ""));
}

// A 3D or display controller of NVIDIA's.
bool is_nvidia_gpu(const PciDevice& device) {
  const uint32_t kind = device.class_code.value_or(0) >> 8;
  return device.vendor == 0x10deu && (kind == 0x0302 || kind == 0x0300);
}

// A card that the driver lost, or never took, still has a PCI function but no entry of the driver.
void every_gpu_has_its_driver(const Subject& subject, Report& report) {
  if (subject.node.driver.version.empty()) return;
  for (const auto& [bdf, device] : subject.node.pci) {
    if (!is_nvidia_gpu(device)) continue;
    const Gpu* gpu = subject.node.find_gpu(bdf);
    if (gpu && gpu->minor)
      report.ok(bdf, "/dev/nvidia" + std::to_string(*gpu->minor));
    else if (device.driver == "vfio-pci")
      report.ok(bdf, "vfio-pci: given to a guest");
    else
      report.fail(bdf, "the driver does not list this card", "/proc/driver/nvidia/gpus/" + bdf,
                  "look for 'NVRM: Xid ... 79' in the kernel's log, then reset or drain the node");
  }
}

void gpudirect(const Subject& subject, Report& report) {
  if (subject.node.gpus.empty() || subject.node.rdma.empty() || subject.node.driver.version.empty()) return;
  const std::optional<bool> dma_buf = subject.node.dma_buf();
  if (subject.node.peermem == true)
    report.ok("nvidia_peermem", "loaded");
  else if (dma_buf == true)
    report.ok("DMA-BUF", "kernel " + subject.node.kernel_release + ", open kernel modules");
  else if (subject.node.peermem == false && dma_buf)
    report.fail("nvidia_peermem",
                "not loaded, and no DMA-BUF: kernel " + subject.node.kernel_release +
                    (subject.node.driver.open_modules ? "" : ", proprietary kernel modules"),
                "nvidia_peermem, or DMA-BUF (kernel 5.12, open kernel modules)", "modprobe nvidia-peermem");
  else
    report.skip("nvidia_peermem", "not recorded");
}

void nearest_nic(const Subject& subject, Report& report) {
  for (const Gpu& gpu : subject.node.gpus) {
    Distance used = Distance::unknown, down = Distance::unknown;
    std::string down_name, used_name;
    for (const RdmaDevice& device : subject.node.rdma)
      for (const RdmaPort& port : device.ports) {
        if (device.bdf.empty()) continue;
        const Distance d = distance(subject.node, gpu.bdf, device.bdf);
        const std::string label = fmt::format("{}:{}", device.name, port.number);
        if (subject.used(device.name, port.number) && d < used) {
          used = d;
          used_name = label;
        }
        if (!port.active() && d < down) {
          down = d;
          down_name = label;
        }
      }
    if (used == Distance::unknown) continue;
    if (down <= Distance::pxb && down < used)
      report.fail(gpu.bdf,
                  fmt::format("{} at {} is down; the nearest that is up is {} at {}", down_name, name(down), used_name,
                              name(used)),
                  "the nearest HCA is ACTIVE", "look at cable and switch port of " + down_name);
    else
      report.ok(gpu.bdf, fmt::format("{} at {}", used_name, name(used)));
  }
}

}  // namespace

const std::vector<Check>& gpu_checks() {
  static const std::vector<Check> kChecks{
      {"gpu.driver", "gpu", "without the driver no GPU can be used", "NVIDIA driver documentation", driver},
      {"gpu.present", "gpu", "a GPU that fell off the bus stops the job at its first CUDA call",
       "Azure NHC check_gpu_count", every_gpu_has_its_driver},
      {"gpu.gpudirect", "gpu", "without GPUDirect RDMA every message goes through host memory",
       "NVIDIA/nccl#897, #1343, #1676", gpudirect},
      {"gpu.nearest-hca", "gpu", "traffic of this GPU crosses the host bridge or the CPUs",
       "NCCL documentation, topology", nearest_nic},
  };
  return kChecks;
}

}  // namespace nccltune::check
