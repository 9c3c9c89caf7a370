// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <set>

#include "base/text.h"
#include "node/readers.h"

namespace nccltune {
namespace {

constexpr char kDevices[] = "/sys/bus/pci/devices";

// What NCCL traffic starts, ends or passes at: network, display, co-processor and accelerator functions. A server has
// hundreds of others (memory controllers, NVMe, USB), whose attributes nobody asks for.
bool is_of_interest(uint32_t class_code) {
  const uint32_t base = class_code >> 16;
  return base == 0x02 || base == 0x03 || base == 0x0b || base == 0x12;
}

// "../../../devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0" from its host bridge on. Guests of Hyper-V and ARM hosts
// have more in front ("LNXSYSTM:00/.../pci0001:00", "platform/...").
std::vector<std::string> path_from_host_bridge(std::string_view link) {
  std::vector<std::string> path;
  for (std::string_view part : split(link, '/'))
    if (!path.empty() || (part.starts_with("pci") && part.find(':') != std::string_view::npos)) path.emplace_back(part);
  return path;
}

std::string directory_of(const PciDevice& device) { return std::string(kDevices) + "/" + device.bdf; }

// "DRIVER=mlx5_core\nPCI_CLASS=20700\nPCI_ID=15B3:1021\n..." : three files' worth in one.
void parse_uevent(const std::string& text, PciDevice& device) {
  for (std::string_view line : split_lines(text)) {
    if (line.starts_with("DRIVER=")) {
      device.driver = line.substr(7);
    } else if (line.starts_with("PCI_CLASS=")) {
      device.class_code = hex32(std::string(line.substr(10)));
    } else if (line.starts_with("PCI_ID=") && line.size() == 16) {
      device.vendor = hex32(std::string(line.substr(7, 4)));
      device.device = hex32(std::string(line.substr(12, 4)));
    }
  }
}

void read_identity(const Root& root, const std::string& at, PciDevice& device) {
  if (const auto uevent = root.read(at + "/uevent")) parse_uevent(*uevent, device);
  if (device.class_code && device.vendor && device.device) return;
  const auto lines = root.read_lines(at, {"class", "vendor", "device"});
  device.class_code = hex32(lines[0]);
  device.vendor = hex32(lines[1]);
  device.device = hex32(lines[2]);
}

void read_locality(const Root& root, const std::string& at, const Node& node, PciDevice& device) {
  const auto lines = root.read_lines(at, {"numa_node"});
  // -1: the firmware does not say. It must never be taken for node 0.
  const auto numa = lines[0] ? parse_int(*lines[0], 0, CpuSet::kMaxId) : std::nullopt;
  if (numa) device.numa_node = static_cast<int>(*numa);
  // For a device of a known NUMA node the kernel lists that node's CPUs: no need to ask again.
  const auto known = std::find_if(node.numa.begin(), node.numa.end(),
                                  [id = device.numa_node.value_or(-1)](const NumaNode& n) { return n.id == id; });
  if (known != node.numa.end() && !known->cpus.empty()) {
    device.local_cpus = known->cpus;
  } else if (const auto list = root.read_line(at + "/local_cpulist")) {
    device.local_cpus = CpuSet::from_list(*list);
    if (device.local_cpus && device.local_cpus->empty()) device.local_cpus.reset();
  }
}

void read_link(const Root& root, const std::string& at, PciDevice& device) {
  const auto lines =
      root.read_lines(at, {"current_link_speed", "max_link_speed", "current_link_width", "max_link_width"});
  device.current_link_speed = lines[0].value_or("");
  device.max_link_speed = lines[1].value_or("");
  device.current_link_width = lines[2].value_or("");
  device.max_link_width = lines[3].value_or("");
}

void read_drivers(const Root& root, const std::string& at, PciDevice& device) {
  if (device.driver.empty())
    if (const auto driver = root.link(at + "/driver")) device.driver = last_component(*driver);
  if (*device.class_code >> 16 != 0x02) return;
  if (const auto physfn = root.link(at + "/physfn")) device.physfn = last_component(*physfn);
}

// The nearest bridge that knows its NUMA node is enough.
void read_numa_of_bridges(const Root& root, Node& node, const PciDevice& device) {
  for (auto it = std::next(device.path.rbegin()); it != device.path.rend(); ++it) {
    const auto bridge = node.pci.find(*it);
    if (bridge == node.pci.end()) continue;
    if (!bridge->second.numa_node && !bridge->second.local_cpus)
      read_locality(root, directory_of(bridge->second), node, bridge->second);
    if (bridge->second.numa_node) return;
  }
}

}  // namespace

void read_pci(const Root& root, const ReadOptions& options, Node& node) {
  std::set<std::string> bridges;
  for (auto& [name, link] : root.list_links(kDevices)) {
    if (!is_bdf(name)) continue;
    PciDevice device;
    device.bdf = name;
    device.path = path_from_host_bridge(link);
    if (device.path.empty() || device.path.back() != name) {
      node.notes.push_back({name, "its place in the PCI tree cannot be read"});
      device.path = {name};
    }
    bridges.insert(device.path.begin(), std::prev(device.path.end()));
    node.pci.emplace(name, std::move(device));
  }
  std::set<std::string> above;  // bridges above a function of interest
  for (auto& [bdf, device] : node.pci) {
    const std::string at = directory_of(device);
    if (!options.details && bridges.contains(bdf)) continue;
    read_identity(root, at, device);
    if (!device.class_code || !is_of_interest(*device.class_code)) continue;
    above.insert(device.path.begin(), std::prev(device.path.end()));
    read_drivers(root, at, device);
    read_locality(root, at, node, device);
    if (!device.numa_node) read_numa_of_bridges(root, node, device);
    if (options.details) read_link(root, at, device);
  }
  if (!options.details) return;
  for (auto& [bdf, device] : node.pci) {
    if (!above.contains(bdf)) continue;
    if (!device.numa_node) read_locality(root, directory_of(device), node, device);
    read_link(root, directory_of(device), device);
  }
}

}  // namespace nccltune
