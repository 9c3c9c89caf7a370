// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <tuple>

#include "base/text.h"
#include "node/readers.h"

namespace nccltune {
namespace {

constexpr char kDevices[] = "/sys/class/infiniband";
constexpr char kVerbs[] = "/sys/class/infiniband_verbs";

// "4: ACTIVE" -> "ACTIVE".
std::string word_after_number(const std::optional<std::string>& text) {
  if (!text) return "";
  const size_t colon = text->find(':');
  return std::string(
      trim(colon == std::string::npos ? std::string_view(*text) : std::string_view(*text).substr(colon + 1)));
}

// "400 Gb/sec (4X NDR)", "2.5 Gb/sec (1X SDR)".
std::optional<double> rate_gbps(const std::optional<std::string>& text) {
  if (!text) return std::nullopt;
  const std::string_view number = std::string_view(*text).substr(0, text->find(' '));
  const size_t point = number.find('.');
  const auto whole = parse_int(number.substr(0, point), 0, 1000000);
  if (!whole) return std::nullopt;
  double rate = static_cast<double>(*whole);
  if (point != std::string_view::npos)
    if (const auto tenth = parse_int(number.substr(point + 1, 1), 0, 9)) rate += static_cast<double>(*tenth) / 10;
  return rate;
}

// "fe80:0000:0000:0000:5054:00ff:fe01:0002": eight groups of four hex digits. nullopt also for an unset row, all zeros.
std::optional<std::array<uint8_t, 16>> parse_gid(const std::optional<std::string>& text) {
  if (!text || text->size() != 39) return std::nullopt;
  std::array<uint8_t, 16> bytes{};
  bool set = false;
  for (size_t group = 0; group < 8; ++group) {
    const auto value = parse_hex(std::string_view(*text).substr(group * 5, 4));
    if (!value || (group < 7 && (*text)[group * 5 + 4] != ':')) return std::nullopt;
    bytes[group * 2] = static_cast<uint8_t>(*value >> 8);
    bytes[group * 2 + 1] = static_cast<uint8_t>(*value);
    set |= *value != 0;
  }
  return set ? std::optional(bytes) : std::nullopt;
}

GidType parse_type(const std::optional<std::string>& text) {
  if (text == "RoCE v2") return GidType::roce_v2;
  if (text == "IB/RoCE v1") return GidType::roce_v1;
  return GidType::unknown;
}

// A read of 64 unset rows, once there is a routable RoCE v2 row, ends a reading for the plan alone: a table can have
// 1024 rows, of which a few at the start are set. Without such a row the reading goes on: in a container's network
// namespace the first row that can be seen may be a late one.
constexpr size_t kRowsAtOnce = 64;

void read_types(const Root& root, const std::string& port, std::vector<Gid>::iterator from,
                std::vector<Gid>::iterator to) {
  std::vector<std::string> names;
  for (auto gid = from; gid != to; ++gid) names.push_back("gid_attrs/types/" + std::to_string(gid->index));
  const auto types = root.read_lines(port, names);
  for (auto gid = from; gid != to; ++gid) gid->type = parse_type(types[static_cast<size_t>(gid - from)]);
  for (size_t i = 0; i < names.size(); ++i)
    names[i] = "gid_attrs/ndevs/" + std::to_string(from[static_cast<std::ptrdiff_t>(i)].index);
  const auto netdevs = root.read_lines(port, names);
  for (auto gid = from; gid != to; ++gid) gid->netdev = netdevs[static_cast<size_t>(gid - from)].value_or("");
}

// Only the rows that the kernel lists, each once, and the attributes of the set rows alone. An unset row reads zeros,
// and its attributes cannot be read (EINVAL); one of another network namespace likewise.
std::vector<Gid> read_gids(const Root& root, const std::string& port, const std::string& link_layer, bool details) {
  const bool infiniband = link_layer == "InfiniBand";
  std::vector<int> rows;
  for (const std::string& name : root.list(port + "/gids"))
    if (const auto index = parse_int(name, 0, 65535)) rows.push_back(static_cast<int>(*index));
  std::sort(rows.begin(), rows.end());

  std::vector<Gid> gids;
  bool routable = false;
  for (size_t first = 0; first < rows.size(); first += kRowsAtOnce) {
    const size_t end = std::min(first + kRowsAtOnce, rows.size());
    std::vector<std::string> names;
    for (size_t i = first; i < end; ++i) names.push_back(std::to_string(rows[i]));
    const auto texts = root.read_lines(port + "/gids", names);
    const auto known = static_cast<std::ptrdiff_t>(gids.size());
    for (size_t i = first; i < end; ++i)
      if (const auto bytes = parse_gid(texts[i - first]))
        gids.push_back({rows[i], *bytes, infiniband ? GidType::infiniband : GidType::unknown, ""});
    if (gids.begin() + known == gids.end()) {
      if (routable && !details) break;
      continue;
    }
    // On an InfiniBand port every type reads "IB/RoCE v1" and no row has an interface (EINVAL).
    if (!infiniband) read_types(root, port, gids.begin() + known, gids.end());
    routable |= std::any_of(gids.begin() + known, gids.end(),
                            [](const Gid& gid) { return gid.type == GidType::roce_v2 && !gid.is_link_local(); });
  }
  return gids;
}

RdmaPort read_port(const Root& root, const std::string& at, int number, bool details) {
  std::vector<std::string> names = {"state", "phys_state", "link_layer", "rate", "lid"};
  if (details) names.emplace_back("sm_lid");
  const auto lines = root.read_lines(at, names);
  RdmaPort port;
  port.number = number;
  port.state = word_after_number(lines[0]);
  port.phys_state = word_after_number(lines[1]);
  port.link_layer = lines[2].value_or("");
  port.rate_gbps = rate_gbps(lines[3]);
  port.lid = hex32(lines[4]);
  if (details) port.sm_lid = hex32(lines[5]);
  port.gids = read_gids(root, at, port.link_layer, details);
  return port;
}

// The interface that a port's addresses live on: the one that its GID rows name (untagged before VLAN), else the one of
// its function with its dev_port (dual-port cards with one function count ports there), else the function's only one.
std::string netdev_of_port(const Root& root, const Node& node, const RdmaDevice& device, const RdmaPort& port) {
  const NetInterface* named = nullptr;
  for (const Gid& gid : port.gids) {
    const NetInterface* net = gid.netdev.empty() ? nullptr : node.find_net(gid.netdev);
    if (!net || net->name == (named ? named->name : "")) continue;
    if (!named || (named->kind == NetKind::vlan && net->kind != NetKind::vlan)) named = net;
  }
  if (named) return named->name;
  if (!device.parent_netdev.empty()) return device.parent_netdev;
  if (device.netdevs.size() == 1 && device.ports.size() <= 1) return device.netdevs.front();
  for (const std::string& netdev : device.netdevs) {
    const auto dev_port = root.read_line("/sys/class/net/" + netdev + "/dev_port");
    if (dev_port == std::to_string(port.number - 1)) return netdev;
  }
  return device.netdevs.size() == 1 && port.number == 1 ? device.netdevs.front() : "";
}

void read_details(const Root& root, const std::string& at, RdmaDevice& device) {
  const auto lines = root.read_lines(at, {"fw_ver", "board_id", "node_guid", "node_desc"});
  device.fw_ver = lines[0].value_or("");
  device.board_id = lines[1].value_or("");
  device.node_guid = lines[2].value_or("");
  device.node_desc = lines[3].value_or("");
}

RdmaDevice read_device(const Root& root, const std::string& name, const std::string& link, const ReadOptions& options,
                       const Node& node) {
  const std::string at = link.empty() ? std::string(kDevices) + "/" + name : join_link(kDevices, link);
  const auto lines = root.read_lines(at, {"hca_type", "node_type"});
  RdmaDevice device;
  device.name = name;
  device.hca_type = lines[0].value_or("");
  device.node_type = lines[1].value_or("");
  if (options.details) read_details(root, at, device);
  device.bdf = last_bdf(link);
  if (device.bdf.empty()) device.bdf = last_bdf(root.link(at + "/device").value_or(""));
  if (device.bdf.empty()) device.parent_netdev = root.read_line(at + "/parent").value_or("");
  if (const PciDevice* pci = node.find_pci(device.bdf)) device.driver = pci->driver;
  if (!device.bdf.empty())
    for (const NetInterface& net : node.net)
      if (net.bdf == device.bdf) device.netdevs.push_back(net.name);

  for (const std::string& port : root.list(at + "/ports"))
    if (const auto number = parse_int(port, 1, 255))
      device.ports.push_back(read_port(root, at + "/ports/" + port, static_cast<int>(*number), options.details));
  std::sort(device.ports.begin(), device.ports.end(),
            [](const RdmaPort& a, const RdmaPort& b) { return a.number < b.number; });
  for (RdmaPort& port : device.ports) port.netdev = netdev_of_port(root, node, device, port);
  return device;
}

void read_verbs(const Root& root, const ReadOptions& options, Node& node) {
  for (const std::string& verbs : root.list(kVerbs)) {
    if (!verbs.starts_with("uverbs")) continue;
    const auto name = root.read_line(std::string(kVerbs) + "/" + verbs + "/ibdev");
    for (RdmaDevice& device : node.rdma) {
      if (device.name != name) continue;
      device.uverbs.push_back(verbs);
      if (!root.live() || !options.probe_access) continue;
      // As the effective user: the device cgroup of the step and the file's mode both count.
      const std::string path = "/dev/infiniband/" + verbs;
      const bool granted = ::faccessat(AT_FDCWD, path.c_str(), R_OK | W_OK, AT_EACCESS) == 0;
      device.openable = device.openable.value_or(false) || granted;
    }
  }
}

// "mlx5_10" after "mlx5_2".
std::pair<std::string, int64_t> natural_key(const std::string& name) {
  const size_t digits = name.find_last_not_of("0123456789") + 1;
  const auto number = parse_int(std::string_view(name).substr(digits), 0, INT64_MAX);
  return number ? std::pair(name.substr(0, digits), *number) : std::pair(name, int64_t{-1});
}

}  // namespace

void read_rdma(const Root& root, const ReadOptions& options, Node& node) {
  for (const auto& [name, link] : root.list_links(kDevices))
    if (!link.empty() || root.is_directory(std::string(kDevices) + "/" + name))
      node.rdma.push_back(read_device(root, name, link, options, node));
  std::sort(node.rdma.begin(), node.rdma.end(), [](const RdmaDevice& a, const RdmaDevice& b) {
    return std::tuple(a.bdf.empty(), a.bdf, natural_key(a.name)) <
           std::tuple(b.bdf.empty(), b.bdf, natural_key(b.name));
  });
  read_verbs(root, options, node);
}

}  // namespace nccltune
