// SPDX-License-Identifier: Apache-2.0
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

std::optional<uint32_t> hex32(const std::optional<std::string>& text) {
  const auto value = text ? parse_hex(*text) : std::nullopt;
  return value && *value <= UINT32_MAX ? std::optional(static_cast<uint32_t>(*value)) : std::nullopt;
}

void read_attributes(const Root& root, PciDevice& device) {
  const std::string at = std::string(kDevices) + "/" + device.bdf;
  static const std::vector<std::string> kNames = {
      "vendor",         "device",       "numa_node", "current_link_speed", "max_link_speed", "current_link_width",
      "max_link_width", "local_cpulist"};
  const auto lines = root.read_lines(at, kNames);
  device.vendor = hex32(lines[0]);
  device.device = hex32(lines[1]);
  // -1: the firmware does not say. It must never be taken for node 0.
  if (const auto numa = lines[2] ? parse_int(*lines[2], 0, CpuSet::kMaxId) : std::nullopt)
    device.numa_node = static_cast<int>(*numa);
  device.current_link_speed = lines[3].value_or("");
  device.max_link_speed = lines[4].value_or("");
  device.current_link_width = lines[5].value_or("");
  device.max_link_width = lines[6].value_or("");
  if (lines[7]) device.local_cpus = CpuSet::from_list(*lines[7]);
  if (device.local_cpus && device.local_cpus->empty()) device.local_cpus.reset();
  if (device.is_bridge()) return;
  if (const auto driver = root.link(at + "/driver")) device.driver = last_component(*driver);
  if (const auto physfn = root.link(at + "/physfn")) device.physfn = last_component(*physfn);
}

}  // namespace

void read_pci(const Root& root, Node& node) {
  std::set<std::string> wanted;
  for (const std::string& name : root.list(kDevices)) {
    if (!is_bdf(name)) continue;
    const std::string at = std::string(kDevices) + "/" + name;
    PciDevice device;
    device.bdf = name;
    device.class_code = hex32(root.read_line(at + "/class"));
    if (const auto link = root.link(at)) device.path = path_from_host_bridge(*link);
    if (device.path.empty() || device.path.back() != name) {
      node.notes.push_back({name, "its place in the PCI tree cannot be read"});
      device.path = {name};
    }
    if (device.class_code && is_of_interest(*device.class_code)) wanted.insert(device.path.begin(), device.path.end());
    node.pci.emplace(name, std::move(device));
  }
  for (auto& [bdf, device] : node.pci)
    if (wanted.contains(bdf)) read_attributes(root, device);
}

}  // namespace nccltune
