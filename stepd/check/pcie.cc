// SPDX-License-Identifier: Apache-2.0
// Links that run below what they can, and settings of the bridges that turn peer-to-peer traffic back.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "base/text.h"
#include "check/finding.h"
#include "node/distance.h"

namespace nccltune::check {

namespace {

// The functions whose links carry the fabric's traffic: the used HCAs and every bridge above them and above the GPUs.
// The GPUs' own links are left out: they rest at a low speed when idle.
std::set<std::string> links_that_count(const Subject& subject) {
  std::set<std::string> links;
  auto add_path = [&](const std::string& bdf, bool itself) {
    const PciDevice* device = subject.node.find_pci(bdf);
    if (!device) return;
    for (const std::string& step : device->path)
      if (step != bdf || itself) links.insert(step);
  };
  for (const RdmaDevice& device : subject.node.rdma)
    for (const RdmaPort& port : device.ports)
      if (subject.used(device.name, port.number)) add_path(device.bdf, true);
  return links;
}

void link(const Subject& subject, Report& report) {
  for (const std::string& bdf : links_that_count(subject)) {
    const PciDevice* device = subject.node.find_pci(bdf);
    if (!device || device->current_link_speed.empty() || device->max_link_speed.empty()) continue;
    const std::string seen = device->current_link_speed + " x" + device->current_link_width;
    const std::string best = device->max_link_speed + " x" + device->max_link_width;
    // A bridge may be wider than what hangs below it: only an end point must run at its own best.
    if (device->is_bridge() || seen == best)
      report.ok(bdf, seen);
    else
      report.warn(bdf, seen, best,
                  "reseat the card; a slot of fewer lanes or an older generation cannot do better: lspci -vvs " + bdf);
  }
}

// ACS redirection: bits 2 (request), 3 (completion) and 0 (source validation) of the ACS control register.
constexpr uint32_t kAcsCapability = 0x000d;
constexpr uint32_t kRedirect = 0x0d;

// The ACS control word in a configuration space of 4096 bytes. Absent: no such capability, or only 64 bytes may be
// read.
std::optional<uint32_t> acs_control(const std::string& config) {
  auto word = [&](size_t at, size_t bytes) {
    uint32_t value = 0;
    for (size_t i = 0; i < bytes; ++i)
      value |= static_cast<uint32_t>(static_cast<unsigned char>(config[at + i])) << (8 * i);
    return value;
  };
  size_t at = 0x100;  // the first extended capability
  for (int hops = 0; hops < 64 && at >= 0x100 && at + 8 <= config.size(); ++hops) {
    const uint32_t header = word(at, 4);
    if ((header & 0xffff) == kAcsCapability) return word(at + 6, 2);
    at = header >> 20;
  }
  return std::nullopt;
}

void acs(const Subject& subject, Report& report) {
  if (subject.node.hypervisor) {
    report.skip("bridges", "a guest: there ACS with direct translation is right, and the host's to set");
    return;
  }
  if (!subject.live()) {
    report.skip("bridges", "not on a recorded machine");
    return;
  }
  if (geteuid() != 0) {
    report.skip("bridges", "needs root");
    return;
  }
  std::set<std::string> bridges;
  for (const Gpu& gpu : subject.node.gpus)
    if (const PciDevice* device = subject.node.find_pci(gpu.bdf))
      bridges.insert(device->path.begin(), device->path.end());
  for (const std::string& bdf : bridges) {
    const PciDevice* device = subject.node.find_pci(bdf);
    if (!device || !device->is_bridge()) continue;
    auto config = subject.root.read("/sys/bus/pci/devices/" + bdf + "/config");
    auto control = config ? acs_control(*config) : std::nullopt;
    if (!control) continue;
    if (*control & kRedirect)
      report.fail(bdf, fmt::format("ACS control 0x{:04x}: requests are redirected", *control),
                  "0x0000 on a host without guests",
                  "setpci -s " + bdf + " ECAP_ACS+0x6.w=0000, or switch ACS off in the BIOS");
    else
      report.ok(bdf, fmt::format("ACS control 0x{:04x}", *control));
  }
}

void iommu(const Subject& subject, Report& report) {
  if (subject.node.hypervisor) {
    report.skip("IOMMU", "a guest: it is the host's to set");
    return;
  }
  const auto groups = subject.root.list("/sys/kernel/iommu_groups");
  if (groups.empty()) {
    if (subject.root.is_directory("/sys/kernel")) report.ok("IOMMU", "off");
    return;
  }
  std::set<std::string> of_gpus;  // the types that groups of GPUs and used HCAs have
  auto look = [&](const std::string& bdf) {
    if (auto type = subject.root.read_line("/sys/bus/pci/devices/" + bdf + "/iommu_group/type")) of_gpus.insert(*type);
  };
  for (const Gpu& gpu : subject.node.gpus) look(gpu.bdf);
  for (const RdmaDevice& device : subject.node.rdma)
    if (!device.bdf.empty()) look(device.bdf);
  for (const std::string& type : of_gpus) {
    if (type == "identity")
      report.ok("IOMMU", type);
    else
      report.warn("IOMMU", type + ": addresses are translated", "identity, or off",
                  "add iommu=pt to the kernel's command line");
  }
}

// PCI Express capability 0x10; Device Control is its word at 8, bit 4 of it enables relaxed ordering.
std::optional<bool> relaxed_ordering(const std::string& config) {
  auto byte = [&](size_t at) { return static_cast<unsigned char>(config[at]); };
  if (config.size() < 256) return std::nullopt;  // what root alone may read is missing
  size_t at = byte(0x34);
  for (int hops = 0; hops < 48 && at >= 0x40 && at + 10 <= config.size(); ++hops) {
    if (byte(at) == 0x10) return (byte(at + 8) & 0x10) != 0;
    at = byte(at + 1);
  }
  return std::nullopt;
}

void ordering(const Subject& subject, Report& report) {
  std::set<std::string> devices;
  for (const RdmaDevice& device : subject.node.rdma)
    for (const RdmaPort& port : device.ports)
      if (subject.used(device.name, port.number) && !device.bdf.empty()) devices.insert(device.bdf);
  if (devices.empty()) return;
  if (!subject.live()) return report.skip("HCAs", "not on a recorded machine");
  if (geteuid() != 0) return report.skip("HCAs", "needs root");
  for (const std::string& bdf : devices) {
    auto config = subject.root.read("/sys/bus/pci/devices/" + bdf + "/config");
    auto on = config ? relaxed_ordering(*config) : std::nullopt;
    if (!on) continue;
    if (*on)
      report.ok(bdf, "enabled");
    else
      report.warn(bdf, "disabled", "enabled", "switch relaxed ordering on in the BIOS");
  }
}

// A hypervisor that puts every function below one root leaves NCCL no way to see what is near: it then keeps the NICs
// from GPU memory (its limit is PXB).
void flat_topology(const Subject& subject, Report& report) {
  if (!subject.node.hypervisor || subject.node.gpus.empty()) return;
  Distance nearest = Distance::unknown;  // and so it stays on a flat guest without a file
  bool any = false;
  for (const Gpu& gpu : subject.node.gpus)
    for (const RdmaDevice& device : subject.node.rdma)
      for (const RdmaPort& port : device.ports)
        if (subject.used(device.name, port.number) && !device.bdf.empty()) {
          any = true;
          nearest = std::min(nearest, distance(subject.node, gpu.bdf, device.bdf));
        }
  if (!any) return;
  const std::string seen = nearest == Distance::unknown ? "nothing tells which are near"
                                                        : std::string("the nearest pair is ") + name(nearest);
  const auto names_file = [](const auto& setting) { return setting.name == "NCCL_TOPO_FILE"; };
  const bool has_file = std::any_of(subject.plan.env.begin(), subject.plan.env.end(), names_file) ||
                        std::any_of(subject.plan.kept.begin(), subject.plan.kept.end(), names_file) ||
                        !subject.node.topology_files.empty();
  if (nearest <= Distance::pxb)
    report.ok("GPU to HCA", seen);
  else if (has_file)
    report.ok("GPU to HCA", seen + "; there is a topology file");
  else
    report.warn("GPU to HCA", seen + ": a flat guest", "PIX or PXB, or a topology file of the provider's",
                "ask the provider for its NCCL topology file and set NCCL_TOPO_FILE");
}

}  // namespace

const std::vector<Check>& pcie_checks() {
  static const std::vector<Check> kChecks{
      {"pcie.link", "pcie", "a link below its width or speed caps the bandwidth of all behind it",
       "Azure NHC, PCIe link checks", link},
      {"pcie.acs", "pcie", "ACS sends peer-to-peer traffic up to the root complex: slow, or hanging",
       "NVIDIA/nccl#304, #928, #2079", acs},
      {"pcie.iommu", "pcie", "a translating IOMMU slows or corrupts peer-to-peer traffic",
       "NCCL documentation, troubleshooting", iommu},
      {"pcie.relaxed-ordering", "pcie", "strict ordering costs bandwidth where GPU and NIC meet", "NCCL documentation",
       ordering},
      {"pcie.flat-guest", "pcie", "NCCL switches GPUDirect RDMA off between what looks far apart",
       "NVIDIA/nccl#1464, #1674, #1843", flat_topology},
  };
  return kChecks;
}

}  // namespace nccltune::check
