// SPDX-License-Identifier: Apache-2.0
// Network interfaces; what they are is told by the kernel where it can, and by a well-known name only where it cannot.
#include <net/if.h>
#include <net/if_arp.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "base/text.h"
#include "node/readers.h"

namespace nccltune {
namespace {

constexpr int kIp6Gre = 823;  // ARPHRD_IP6GRE, which glibc's net/if_arp.h lacks
constexpr char kInterfaces[] = "/sys/class/net";

// DEVTYPE of the uevent, as the drivers name themselves (SET_NETDEV_DEVTYPE in drivers/net).
constexpr std::pair<std::string_view, NetKind> kDevtypes[] = {
    {"bond", NetKind::bond},       {"bridge", NetKind::bridge},   {"vlan", NetKind::vlan},
    {"macvlan", NetKind::macvlan}, {"macvtap", NetKind::macvlan}, {"ipvlan", NetKind::ipvlan},
    {"ipvtap", NetKind::ipvlan},   {"veth", NetKind::veth},       {"wireguard", NetKind::wireguard},
    {"vxlan", NetKind::tunnel},    {"geneve", NetKind::tunnel},   {"gre", NetKind::tunnel},
    {"gretap", NetKind::tunnel},   {"ip6gre", NetKind::tunnel},   {"ip6gretap", NetKind::tunnel},
    {"bareudp", NetKind::tunnel},  {"l2tpeth", NetKind::tunnel},  {"dummy", NetKind::dummy},
};

// The last resort, for virtual interfaces of which sysfs tells no more than that they are virtual.
constexpr std::pair<std::string_view, NetKind> kNamePrefixes[] = {
    {"docker", NetKind::bridge}, {"br-", NetKind::bridge},    {"virbr", NetKind::bridge},
    {"cni", NetKind::bridge},    {"veth", NetKind::veth},     {"cali", NetKind::veth},
    {"lxc", NetKind::veth},      {"cilium", NetKind::veth},   {"flannel", NetKind::tunnel},
    {"vxlan", NetKind::tunnel},  {"tailscale", NetKind::tun}, {"tun", NetKind::tun},
    {"tap", NetKind::tun},       {"wg", NetKind::wireguard},  {"macvtap", NetKind::macvlan},
    {"dummy", NetKind::dummy},   {"kube-", NetKind::dummy},   {"nodelocaldns", NetKind::dummy},
};

std::optional<int> to_int(const std::optional<std::string>& text, int64_t min, int64_t max) {
  const auto value = text ? parse_int(*text, min, max) : std::nullopt;
  return value ? std::optional(static_cast<int>(*value)) : std::nullopt;
}

std::string devtype(const std::string& uevent) {
  for (std::string_view line : split_lines(uevent))
    if (line.starts_with("DEVTYPE=")) return std::string(trim(line.substr(8)));
  return "";
}

template <size_t N>
std::optional<NetKind> lookup(const std::pair<std::string_view, NetKind> (&table)[N], std::string_view word,
                              bool by_prefix) {
  for (const auto& [key, kind] : table)
    if (by_prefix ? word.starts_with(key) : word == key) return kind;
  return std::nullopt;
}

bool is_tunnel_type(int arphrd) {
  return arphrd == ARPHRD_TUNNEL || arphrd == ARPHRD_TUNNEL6 || arphrd == ARPHRD_SIT || arphrd == ARPHRD_IPGRE ||
         arphrd == kIp6Gre;
}

// What the folder of an interface holds, gathered in one pass over its names.
struct Members {
  bool bonding = false, bridge = false, tun = false, device = false, master = false;
  std::vector<std::string> lowers;
};

Members read_members(const std::vector<std::string>& names) {
  Members members;
  for (const std::string& name : names) {
    members.bonding |= name == "bonding";
    members.bridge |= name == "bridge";
    members.tun |= name == "tun_flags";
    members.device |= name == "device";
    members.master |= name == "master";
    if (name.starts_with("lower_")) members.lowers.push_back(name.substr(6));
  }
  return members;
}

NetKind kind_of(const Root& root, const std::string& at, const NetInterface& net, const Members& members) {
  if (net.arphrd == ARPHRD_LOOPBACK) return NetKind::loopback;
  if (members.bonding) return NetKind::bond;
  if (members.bridge) return NetKind::bridge;
  if (members.tun) return NetKind::tun;
  if (net.arphrd == ARPHRD_INFINIBAND) return NetKind::ipoib;
  if (members.device || !net.bdf.empty() || net.usb) return NetKind::physical;
  if (const auto kind = lookup(kDevtypes, devtype(root.read(at + "/uevent").value_or("")), false)) return *kind;
  if (net.arphrd && is_tunnel_type(*net.arphrd)) return NetKind::tunnel;
  if (root.exists("/proc/net/vlan/" + net.name)) return NetKind::vlan;
  if (const auto kind = lookup(kNamePrefixes, net.name, true)) return *kind;
  // A link to another interface's index: macvlan and ipvlan sit on one that is here, veth has its twin elsewhere.
  const int iflink = to_int(root.read_line(at + "/iflink"), 1, INT32_MAX).value_or(net.index);
  if (iflink != net.index && !members.lowers.empty()) return NetKind::macvlan;
  return NetKind::virtual_other;
}

// Its driver: that of the PCI function where it sits on one directly, else (virtio, VMBus, USB) of its own device.
std::string driver_of(const Root& root, const std::string& at, const NetInterface& net, const Node& node) {
  const PciDevice* pci = node.find_pci(net.bdf);
  if (pci && !pci->driver.empty() && at.find(net.bdf + "/net/") != std::string::npos) return pci->driver;
  const auto driver = root.link(at + "/device/driver");
  return driver ? last_component(*driver) : "";
}

void read_state(const Root& root, const std::string& at, const ReadOptions& options, NetInterface& net) {
  const auto lines = root.read_lines(at, {"ifindex", "flags", "operstate", "type", "speed", "carrier"});
  net.index = to_int(lines[0], 0, INT32_MAX).value_or(0);
  const uint64_t flags = lines[1] ? parse_hex(*lines[1]).value_or(0) : 0;
  net.operstate = lines[2].value_or("");
  net.up = flags & IFF_UP;
  // The sysfs flags lack IFF_RUNNING (the kernel adds it only for SIOCGIFFLAGS and netlink); operstate tells the same.
  net.running = (flags & IFF_RUNNING) || (net.up && (net.operstate == "up" || net.operstate == "unknown"));
  net.arphrd = to_int(lines[3], 0, 65535);
  net.speed_mbps = to_int(lines[4], 1, INT32_MAX);  // -1 and 0: the driver does not know
  // Carrier (and speed) of an interface that is down cannot be read (EINVAL): unknown, not a missing cable.
  if (const auto carrier = to_int(lines[5], 0, 1)) net.carrier = *carrier == 1;
  if (!options.details) return;
  const auto more = root.read_lines(at, {"mtu", "address"});
  net.mtu = to_int(more[0], 1, INT32_MAX);
  net.mac = more[1].value_or("");
}

// Names that udev gives to USB network devices ("enp0s20f0u5u2c2"), where the device itself does not show.
bool is_usb_name(const std::string& name) {
  return name.starts_with("usb") || name.starts_with("enx") || glob_match("en*u[0-9]*", name);
}

NetInterface read_one(const Root& root, const std::string& name, const std::string& link, const ReadOptions& options,
                      const Node& node) {
  NetInterface net;
  net.name = name;
  net.bdf = last_bdf(link);
  net.usb =
      link.find("/usb") != std::string::npos || (link.find("/virtual/") != std::string::npos && is_usb_name(name));
  const std::string at = link.empty() ? std::string(kInterfaces) + "/" + name : join_link(kInterfaces, link);
  read_state(root, at, options, net);
  const Members members = read_members(root.list(at));
  if (members.device) net.driver = driver_of(root, at, net, node);
  if (members.master)
    if (const auto master = root.link(at + "/master")) net.master = last_component(*master);
  net.kind = kind_of(root, at, net, members);
  // A bond or a bridge has many below it; only a stacked interface has one that carries its traffic.
  if (members.lowers.size() == 1 && net.kind != NetKind::bond && net.kind != NetKind::bridge)
    net.lower = members.lowers.front();
  return net;
}

// "rail2.100  VID: 100 ..." and, further down, "Device: rail2".
void find_vlan_lower(const Root& root, NetInterface& net) {
  const auto text = root.read("/proc/net/vlan/" + net.name);
  if (!text) return;
  for (std::string_view line : split_lines(*text))
    if (line.starts_with("Device:")) net.lower = std::string(trim(line.substr(7)));
}

void mark_bond_members(const Root& root, Node& node) {
  for (const NetInterface& bond : node.net) {
    if (bond.kind != NetKind::bond) continue;
    const auto slaves = root.read_line(std::string(kInterfaces) + "/" + bond.name + "/bonding/slaves");
    if (!slaves) continue;
    for (std::string_view slave : split_words(*slaves))
      for (NetInterface& net : node.net)
        if (net.name == slave) net.master = bond.name;
  }
  for (NetInterface& net : node.net) {
    const NetInterface* master = net.master.empty() ? nullptr : node.find_net(net.master);
    net.bond_member = master && master->kind == NetKind::bond;
  }
}

}  // namespace

void read_interfaces(const Root& root, const ReadOptions& options, Node& node) {
  for (const auto& [name, link] : root.list_links(kInterfaces)) {
    if (link.empty() && !root.is_directory(std::string(kInterfaces) + "/" + name)) continue;  // bonding_masters: a file
    node.net.push_back(read_one(root, name, link, options, node));
    NetInterface& net = node.net.back();
    if (net.kind == NetKind::vlan && net.lower.empty()) find_vlan_lower(root, net);
  }
  mark_bond_members(root, node);
  std::stable_sort(node.net.begin(), node.net.end(),
                   [](const NetInterface& a, const NetInterface& b) { return a.index < b.index; });
}

}  // namespace nccltune
