// SPDX-License-Identifier: Apache-2.0
#include "node/distance.h"

#include <algorithm>

namespace nccltune {
namespace {

// A NUMA node that a task can run on. One that the node does not list is unknown, not excluded.
bool has_cpus(const Node& node, int id) {
  const NumaNode* numa = node.find_numa(id);
  return numa && !numa->cpus.empty();
}

// Of the function, else of the nearest bridge that has one.
std::optional<int> numa_from_sysfs(const Node& node, const std::string& bdf) {
  const PciDevice* device = node.find_pci(bdf);
  if (!device) return std::nullopt;
  for (auto it = device->path.rbegin(); it != device->path.rend(); ++it) {
    const PciDevice* at = node.find_pci(*it);
    if (at && at->numa_node && has_cpus(node, *at->numa_node)) return at->numa_node;
  }
  return std::nullopt;
}

size_t common_prefix(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  const auto [end, ignored] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return static_cast<size_t>(end - a.begin());
}

// The same card: two functions of one device.
bool same_card(const std::string& a, const std::string& b) {
  return a.substr(0, a.rfind('.')) == b.substr(0, b.rfind('.'));
}

bool is_network(const PciDevice& device) { return device.class_code && (*device.class_code >> 16) == 0x02; }

const TopologyFile::Device* find_in_files(const Node& node, const std::string& bdf) {
  for (const TopologyFile& file : node.topology_files)
    for (const TopologyFile::Device& device : file.devices)
      if (device.bdf == bdf) return &device;
  return nullptr;
}

Distance by_file(const Node& node, const std::string& bdf_a, const std::string& bdf_b) {
  const TopologyFile::Device* a = find_in_files(node, bdf_a);
  const TopologyFile::Device* b = find_in_files(node, bdf_b);
  if (!a || !b) return Distance::unknown;
  if (!a->bridges.empty() && !b->bridges.empty() && a->bridges.back() == b->bridges.back()) return Distance::pix;
  if (common_prefix(a->bridges, b->bridges) > 0) return Distance::pxb;
  if (!a->numa || !b->numa) return Distance::unknown;
  return a->numa == b->numa ? Distance::node : Distance::sys;
}

}  // namespace

const char* name(Distance distance) {
  switch (distance) {
    case Distance::same:
      return "X";
    case Distance::pix:
      return "PIX";
    case Distance::pxb:
      return "PXB";
    case Distance::phb:
      return "PHB";
    case Distance::node:
      return "NODE";
    case Distance::sys:
      return "SYS";
    case Distance::unknown:
      break;
  }
  return "?";
}

bool is_flat(const Node& node) {
  if (node.gpus.empty()) return false;
  for (const Gpu& gpu : node.gpus) {
    const PciDevice* device = node.find_pci(gpu.bdf);
    if (!device) continue;
    if (numa_from_sysfs(node, gpu.bdf)) return false;
    if (device->path.size() < 3) continue;  // no bridge that it could share
    for (const auto& [bdf, other] : node.pci) {
      const bool peer = bdf != gpu.bdf && (is_network(other) || node.find_gpu(bdf));
      if (peer && !same_card(bdf, gpu.bdf) && common_prefix(device->path, other.path) > 1) return false;
    }
  }
  return true;
}

Distance distance(const Node& node, const std::string& bdf_a, const std::string& bdf_b) {
  if (bdf_a.empty() || bdf_b.empty()) return Distance::unknown;
  if (bdf_a == bdf_b) return Distance::same;
  const PciDevice* a = node.find_pci(bdf_a);
  const PciDevice* b = node.find_pci(bdf_b);
  if (!a || !b) return by_file(node, bdf_a, bdf_b);
  if (same_card(bdf_a, bdf_b)) return Distance::pix;
  const size_t common = common_prefix(a->path, b->path);
  if (common > 1) {
    // Bridges between each end and the nearest common one. A switch is an upstream port with downstream ports below it,
    // so two ends behind one switch have one bridge each, and two behind the same port none (nccl: graph/xml.cc goes up
    // two path components a switch for the same reason).
    const size_t hops = std::max(a->path.size(), b->path.size()) - 1 - common;
    return hops <= 1 ? Distance::pix : Distance::pxb;
  }
  if (is_flat(node)) return by_file(node, bdf_a, bdf_b);
  if (common == 1) return Distance::phb;
  const auto numa_a = numa_of(node, bdf_a), numa_b = numa_of(node, bdf_b);
  if (!numa_a || !numa_b) return by_file(node, bdf_a, bdf_b);
  return numa_a == numa_b ? Distance::node : Distance::sys;
}

std::optional<int> numa_of(const Node& node, const std::string& bdf) {
  if (const auto numa = numa_from_sysfs(node, bdf)) return numa;
  const TopologyFile::Device* device = find_in_files(node, bdf);
  if (device && device->numa && has_cpus(node, *device->numa)) return device->numa;
  return std::nullopt;
}

std::optional<CpuSet> cpus_near(const Node& node, const std::string& bdf) {
  const PciDevice* device = node.find_pci(bdf);
  const auto sysfs_numa = numa_from_sysfs(node, bdf);
  if (device && device->local_cpus) {
    const CpuSet local = *device->local_cpus & node.online_cpus;
    // Every CPU is what the kernel lists where it knows nothing; it is locality only when a NUMA node says so too.
    if (!local.empty() && (sysfs_numa || !(local == node.online_cpus))) return local;
  }
  if (sysfs_numa) return node.find_numa(*sysfs_numa)->cpus;
  if (const TopologyFile::Device* in_file = find_in_files(node, bdf)) {
    const CpuSet cpus = in_file->cpus & node.online_cpus;
    if (!cpus.empty()) return cpus;
  }
  const auto numa = numa_of(node, bdf);
  return numa ? std::optional(node.find_numa(*numa)->cpus) : std::nullopt;
}

}  // namespace nccltune
