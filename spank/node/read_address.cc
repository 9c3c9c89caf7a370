// SPDX-License-Identifier: Apache-2.0
// The addresses of the interfaces. The live machine is asked (getifaddrs). A recorded one has no such call: /proc lists
// the host's IPv4 addresses without their interfaces, so the connected routes and the GID tables say which is whose.
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <map>
#include <set>

#include "base/text.h"
#include "node/readers.h"

namespace nccltune {
namespace {

NetInterface* find_interface(Node& node, std::string_view name) {
  const auto it = std::find_if(node.net.begin(), node.net.end(), [&](const NetInterface& n) { return n.name == name; });
  return it == node.net.end() ? nullptr : &*it;
}

void add_address(NetInterface& net, const IpAddress& address) {
  if (std::find(net.addresses.begin(), net.addresses.end(), address) == net.addresses.end())
    net.addresses.push_back(address);
}

std::optional<IpAddress> from_socket(const sockaddr* socket) {
  if (!socket) return std::nullopt;
  IpAddress address;
  if (socket->sa_family == AF_INET) {
    std::memcpy(address.bytes.data(), &reinterpret_cast<const sockaddr_in*>(socket)->sin_addr, 4);
  } else if (socket->sa_family == AF_INET6) {
    address.v6 = true;
    std::memcpy(address.bytes.data(), &reinterpret_cast<const sockaddr_in6*>(socket)->sin6_addr, 16);
  } else {
    return std::nullopt;
  }
  return address;
}

void ask_kernel(Node& node) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) {
    node.notes.push_back({"interfaces", "the kernel does not tell their addresses (getifaddrs)"});
    return;
  }
  for (const ifaddrs* entry = list; entry; entry = entry->ifa_next) {
    auto address = from_socket(entry->ifa_addr);
    if (!address) continue;
    if (const auto mask = from_socket(entry->ifa_netmask))
      for (uint8_t byte : mask->bytes) address->prefix += std::popcount(byte);
    // An alias label ("eth0:1") belongs to its interface.
    const std::string_view label = entry->ifa_name;
    if (NetInterface* net = find_interface(node, label.substr(0, label.find(':')))) add_address(*net, *address);
  }
  ::freeifaddrs(list);
}

bool read_dumped(const Root& root, Node& node) {
  const auto text = root.read(kDumpedAddresses);
  if (!text) return false;
  for (std::string_view line : split_lines(*text)) {
    const auto words = split_words(line);
    if (words.size() != 2) continue;
    const auto address = parse_address(words[1]);
    NetInterface* net = find_interface(node, words[0]);
    if (address && net) add_address(*net, *address);
  }
  return true;
}

// "fe80...  02 40 20 80     eth0": address, index, prefix length, scope, flags (hex), interface.
void read_ipv6(const Root& root, Node& node) {
  const auto text = root.read("/proc/net/if_inet6");
  if (!text) return;
  for (std::string_view line : split_lines(*text)) {
    const auto f = split_words(line);
    NetInterface* net = f.size() == 6 && f[0].size() == 32 ? find_interface(node, f[5]) : nullptr;
    const auto prefix = net ? parse_hex(f[2]) : std::nullopt;
    if (!prefix || *prefix > 128) continue;
    IpAddress address;
    address.v6 = true;
    address.prefix = static_cast<int>(*prefix);
    bool whole = true;
    for (size_t i = 0; i < 16; ++i) {
      const auto byte = parse_hex(f[0].substr(2 * i, 2));
      whole &= byte.has_value();
      address.bytes[i] = static_cast<uint8_t>(byte.value_or(0));
    }
    if (whole) add_address(*net, address);
  }
}

// The local addresses of /proc/net/fib_trie: "|-- 10.0.0.1" followed by "/32 host LOCAL". Ascending.
std::vector<IpAddress> local_ipv4(const Root& root) {
  std::map<std::array<uint8_t, 16>, IpAddress> found;
  std::optional<IpAddress> last;
  const std::string text = root.read("/proc/net/fib_trie").value_or("");
  for (std::string_view line : split_lines(text)) {
    line = trim(line);
    if (line.starts_with("|-- ")) {
      last = parse_address(line.substr(4));
    } else if (last && line == "/32 host LOCAL") {
      found.emplace(last->bytes, *last);
    }
  }
  std::vector<IpAddress> addresses;
  addresses.reserve(found.size());
  for (auto& [bytes, address] : found) addresses.push_back(address);
  return addresses;
}

// Interface by IPv4 address, as the RoCE GID tables tell it.
std::map<std::array<uint8_t, 16>, std::string> owners_by_gid(const Node& node) {
  std::map<std::array<uint8_t, 16>, std::string> owners;
  for (const RdmaDevice& device : node.rdma)
    for (const RdmaPort& port : device.ports)
      for (const Gid& gid : port.gids) {
        if (!gid.is_ipv4() || gid.netdev.empty()) continue;
        std::array<uint8_t, 16> bytes{};
        std::copy(gid.bytes.begin() + 12, gid.bytes.end(), bytes.begin());
        owners.emplace(bytes, gid.netdev);
      }
  return owners;
}

struct Subnet {
  int prefix = -1;
  std::vector<std::string> netdevs;  // those with a connected route to it, in the order of the table
};

// The smallest connected subnet around an address.
Subnet subnet_of(const Node& node, const IpAddress& address) {
  Subnet subnet;
  for (const Route& route : node.routes) {
    if (route.destination.v6 || route.gateway || route.destination.prefix == 0 || !route.destination.contains(address))
      continue;
    if (route.destination.prefix > subnet.prefix) subnet = {route.destination.prefix, {}};
    if (route.destination.prefix == subnet.prefix &&
        std::find(subnet.netdevs.begin(), subnet.netdevs.end(), route.netdev) == subnet.netdevs.end())
      subnet.netdevs.push_back(route.netdev);
  }
  return subnet;
}

// Several interfaces on one subnet, and nothing that says which has which address: in order, to each its share.
void share_out(Node& node, const std::vector<std::string>& netdevs, const std::vector<IpAddress>& addresses,
               std::map<std::string, size_t>& given) {
  size_t known = 0;
  for (const std::string& netdev : netdevs) known += given[netdev];
  const size_t share = (known + addresses.size() + netdevs.size() - 1) / netdevs.size();
  size_t next = 0;
  for (const std::string& netdev : netdevs) {
    NetInterface* net = find_interface(node, netdev);
    while (net && next < addresses.size() && given[netdev] < share) {
      add_address(*net, addresses[next++]);
      ++given[netdev];
    }
  }
  if (netdevs.size() > 1)
    node.notes.push_back({join(netdevs, ","),
                          "share one subnet, and the record does not tell which address is whose; "
                          "given out in order"});
}

int common_bits(const IpAddress& a, const IpAddress& b) {
  int bits = 0;
  for (size_t i = 0; i < 4; ++i) {
    const int same = std::countl_zero(static_cast<uint8_t>(a.bytes[i] ^ b.bytes[i]));
    bits += same;
    if (same < 8) break;
  }
  return bits;
}

// Clouds (GCP) give each interface a /32 that no connected route names. The default route's interface takes the address
// nearest its gateway (at least 8 bits in common; a routed host's address on lo has no such gateway), and where as many
// interfaces of PCI functions are left as addresses, those follow in order. What remains is lo's.
void assign_unrouted(Node& node, std::vector<IpAddress> addresses) {
  const auto by_default = std::find_if(node.routes.begin(), node.routes.end(), [](const Route& route) {
    return !route.destination.v6 && route.destination.prefix == 0 && route.gateway;
  });
  NetInterface* first = by_default == node.routes.end() ? nullptr : find_interface(node, by_default->netdev);
  const auto has_ipv4 = [](const NetInterface& net) {
    return std::any_of(net.addresses.begin(), net.addresses.end(), [](const IpAddress& a) { return !a.v6; });
  };
  if (first && !has_ipv4(*first)) {
    const auto bits = [&](const IpAddress& address) { return common_bits(address, *by_default->gateway); };
    const auto nearest = std::max_element(addresses.begin(), addresses.end(),
                                          [&](const auto& a, const auto& b) { return bits(a) < bits(b); });
    if (nearest != addresses.end() && bits(*nearest) >= 8) {
      add_address(*first, *nearest);
      addresses.erase(nearest);
      std::vector<NetInterface*> bare;
      for (NetInterface& net : node.net)
        if (net.up && !net.bdf.empty() && !net.bond_member && !has_ipv4(net)) bare.push_back(&net);
      if (!addresses.empty() && bare.size() == addresses.size()) {
        for (size_t i = 0; i < bare.size(); ++i) add_address(*bare[i], addresses[i]);
        addresses.clear();
        node.notes.push_back({"interfaces", "no route tells whose the /32 addresses are; given out in order"});
      }
    }
  }
  if (NetInterface* lo = find_interface(node, "lo"))
    for (const IpAddress& address : addresses) add_address(*lo, address);
}

void assign_ipv4(const Root& root, Node& node) {
  const auto owners = owners_by_gid(node);
  std::map<std::vector<std::string>, std::vector<IpAddress>> open;  // by the interfaces that could have them
  std::map<std::string, size_t> given;
  std::vector<IpAddress> unrouted;
  for (IpAddress address : local_ipv4(root)) {
    const Subnet subnet = subnet_of(node, address);
    address.prefix = address.is_loopback() ? 8 : subnet.prefix >= 0 ? subnet.prefix : 32;
    const auto owner = owners.find(address.bytes);
    NetInterface* net = nullptr;
    if (owner != owners.end()) net = find_interface(node, owner->second);
    if (!net && subnet.netdevs.size() == 1) net = find_interface(node, subnet.netdevs.front());
    if (!net && address.is_loopback()) net = find_interface(node, "lo");
    if (net) {
      add_address(*net, address);
      ++given[net->name];
    } else if (!subnet.netdevs.empty()) {
      open[subnet.netdevs].push_back(address);
    } else if (address.is_link_local()) {
      node.notes.push_back({address.text(), "no route tells whose this address is; left out"});
    } else {
      unrouted.push_back(address);
    }
  }
  for (const auto& [netdevs, addresses] : open) share_out(node, netdevs, addresses, given);
  if (!unrouted.empty()) assign_unrouted(node, std::move(unrouted));
}

}  // namespace

std::optional<IpAddress> parse_address(std::string_view text) {
  const size_t slash = text.find('/');
  const std::string number(text.substr(0, slash));
  IpAddress address;
  address.v6 = number.find(':') != std::string::npos;
  if (::inet_pton(address.v6 ? AF_INET6 : AF_INET, number.c_str(), address.bytes.data()) != 1) return std::nullopt;
  const int longest = address.v6 ? 128 : 32;
  address.prefix = longest;
  if (slash == std::string_view::npos) return address;
  const auto prefix = parse_int(text.substr(slash + 1), 0, longest);
  if (!prefix) return std::nullopt;
  address.prefix = static_cast<int>(*prefix);
  return address;
}

void read_addresses(const Root& root, Node& node) {
  if (root.live()) return ask_kernel(node);
  if (read_dumped(root, node)) return;
  read_ipv6(root, node);
  assign_ipv4(root, node);
}

}  // namespace nccltune
