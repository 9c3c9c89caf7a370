// SPDX-License-Identifier: Apache-2.0
#include "policy/facts.h"

#include <algorithm>

#include "base/text.h"
#include "policy/address.h"

namespace nccltune {
namespace {

constexpr uint32_t kNvidia = 0x10de, kAmd = 0x1002, kAmazon = 0x1d0f, kAlibaba = 0x1ded;

// Displays that a hypervisor or a BMC makes up can have the classes of accelerators: virtio, QXL, Bochs, VMware,
// Hyper-V, VirtualBox, Cirrus, ASPEED, Matrox.
bool is_console(uint32_t vendor) {
  static constexpr uint32_t kConsoles[] = {0x1af4, 0x1b36, 0x1234, 0x15ad, 0x1414, 0x80ee, 0x1013, 0x1a03, 0x102b};
  return std::find(std::begin(kConsoles), std::end(kConsoles), vendor) != std::end(kConsoles);
}

// 3D and display controllers and processing accelerators (Intel 0x0380, Habana 0x1200). VGA counts for AMD's cards
// alone, and not on a root bus, where qemu puts its imitation of one.
bool is_other_accelerator(const PciDevice& device) {
  if (!device.class_code || !device.vendor || *device.vendor == kNvidia || is_console(*device.vendor)) return false;
  const uint32_t kind = *device.class_code >> 8;
  if (kind == 0x0302 || kind == 0x0380 || kind == 0x1200) return true;
  return *device.vendor == kAmd && kind == 0x0300 && device.path.size() > 2;
}

// Its bond or bridge, its VLANs, and theirs: a VLAN of a bond, a bridge over it.
void add_above(const Node& node, const std::string& name, std::set<std::string>& names) {
  std::vector<std::string> above;
  const NetInterface* interface = node.find_net(name);
  if (interface != nullptr && !interface->master.empty()) above.push_back(interface->master);
  for (const NetInterface& other : node.net)
    if (other.kind == NetKind::vlan && other.lower == name) above.push_back(other.name);
  for (const std::string& next : above)
    if (names.insert(next).second) add_above(node, next, names);
}

}  // namespace

bool has_file(const Node& node, const std::string& path_or_glob) {
  const auto exact = node.files.find(path_or_glob);
  if (exact != node.files.end()) return exact->second;
  if (!is_glob(path_or_glob)) return false;
  return std::any_of(node.files.begin(), node.files.end(),
                     [&](const auto& file) { return file.second && glob_match(path_or_glob, file.first); });
}

std::string driver_of(const Node& node, const RdmaDevice& device) {
  if (!device.driver.empty()) return device.driver;
  const PciDevice* pci = node.find_pci(device.bdf);
  if (pci == nullptr) return "";
  if (pci->driver.empty() && pci->vendor == kAmazon && pci->device && (*pci->device >> 4) == 0xefa) return "efa";
  // linux drivers/infiniband/hw/erdma/erdma_hw.h
  if (pci->driver.empty() && pci->vendor == kAlibaba && pci->device == 0x107fu) return "erdma";
  return pci->driver;
}

bool has_only_other_accelerators(const Node& node) {
  if (!node.gpus.empty()) return false;
  return std::any_of(node.pci.begin(), node.pci.end(), [](const auto& p) { return is_other_accelerator(p.second); });
}

std::string default_route_interface(const Node& node) {
  const Route* best = nullptr;
  for (const Route& route : node.routes) {
    if (route.destination.prefix != 0) continue;
    const bool first = best == nullptr;
    // IPv4 before IPv6: Slurm's own traffic and NCCL's bootstrap prefer it.
    if (first || (best->destination.v6 && !route.destination.v6) ||
        (best->destination.v6 == route.destination.v6 && route.metric < best->metric))
      best = &route;
  }
  return best == nullptr ? "" : best->netdev;
}

std::string interface_with_address(const Node& node, const std::string& address) {
  const auto wanted = parse_address(std::string(trim(address)));
  if (!wanted || wanted->is_loopback()) return "";
  for (const NetInterface& interface : node.net)
    for (const IpAddress& own : interface.addresses)
      if (same_host(own, *wanted)) return interface.name;
  return "";
}

std::set<std::string> interfaces_of(const Node& node, const RdmaDevice& device, const RdmaPort& port) {
  std::set<std::string> names;
  for (const Gid& gid : port.gids) names.insert(gid.netdev);
  names.insert(port.netdev);
  // The interfaces of a function belong to all its ports alike; with several ports only the port's own are certain.
  if (device.ports.size() == 1) names.insert(device.netdevs.begin(), device.netdevs.end());
  names.erase("");
  const std::set<std::string> lower = names;
  for (const std::string& name : lower) add_above(node, name, names);
  return names;
}

bool bdf_less(const std::string& a, const std::string& b) { return a.size() != b.size() ? a.size() < b.size() : a < b; }

std::string port_label(const std::string& device, int port) { return device + ":" + std::to_string(port); }

std::string in_words(const std::vector<std::string>& words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i)
    text += (i == 0 ? "" : i + 1 == words.size() ? " and " : ", ") + words[i];
  return text;
}

}  // namespace nccltune
