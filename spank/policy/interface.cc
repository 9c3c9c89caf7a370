// SPDX-License-Identifier: Apache-2.0
#include "policy/interface.h"

#include <algorithm>
#include <map>
#include <set>

#include "policy/address.h"
#include "policy/facts.h"

namespace nccltune {
namespace {

bool is_routable(const IpAddress& address) { return !address.is_link_local() && !address.is_loopback(); }

bool has_routable_address(const NetInterface& interface) {
  return std::any_of(interface.addresses.begin(), interface.addresses.end(), is_routable);
}

// Kinds that are a node's way out only where the node's address or the default route says so: in a pod eth0 is a veth
// or a macvlan, on a hypervisor the address sits on a bridge; else they belong to containers (NVIDIA/nccl#913).
bool is_for_containers(const NetInterface& interface) {
  switch (interface.kind) {
    case NetKind::bridge:
    case NetKind::veth:
    case NetKind::macvlan:
    case NetKind::ipvlan:
    case NetKind::dummy:
    case NetKind::vlan:
      return true;
    default:
      return false;
  }
}

std::optional<InterfaceChoice> by_policy(const Node& node, const Policy& policy, std::vector<Note>& notes) {
  if (!policy.socket_ifname) return std::nullopt;
  const std::string& name = policy.socket_ifname->value;
  const NetInterface* interface = node.find_net(name);
  const std::string fault = interface == nullptr ? "is not on this node" : fault_of_interface(*interface);
  if (fault.empty())
    return InterfaceChoice{name, "socket.policy", "The site's policy names it (" + policy.socket_ifname->where + ")."};
  notes.push_back({name, "named by socket_ifname (" + policy.socket_ifname->where + ") but " + fault +
                             "; the rules choose instead"});
  return std::nullopt;
}

std::optional<InterfaceChoice> by_node_address(const Node& node, const Step& step, std::vector<Note>& notes) {
  const std::string name = interface_with_address(node, step.node_address);
  if (name.empty()) return std::nullopt;
  const NetInterface* interface = node.find_net(name);
  // A router's address on lo: NCCL would take 127.0.0.1, which the kernel lists first there (host scope before global,
  // linux net/ipv4/devinet.c). Whatever else has an address is better; by_loopback_address() is the last resort.
  if (interface->kind == NetKind::loopback) return std::nullopt;
  const std::string fault = fault_of_interface(*interface);
  if (fault.empty())
    return InterfaceChoice{name, "socket.node-address",
                           "It has the address that Slurm knows the node by, " + step.node_address + "."};
  notes.push_back({name, "has the node's address " + step.node_address + " but " + fault + "; not used"});
  return std::nullopt;
}

// The site tells the fabric's subnet and one interface alone lies in it: two hosts wired back to back (ainode#89).
std::optional<InterfaceChoice> by_fabric_subnet(const Node& node, const Policy& policy) {
  const auto subnet = policy.fabric_subnet ? parse_subnet(policy.fabric_subnet->value) : std::nullopt;
  if (!subnet) return std::nullopt;
  const NetInterface* only = nullptr;
  for (const NetInterface& interface : node.net) {
    if (!fault_of_interface(interface).empty()) continue;
    if (std::none_of(interface.addresses.begin(), interface.addresses.end(),
                     [&](const IpAddress& a) { return subnet->contains(a); }))
      continue;
    if (only != nullptr) return std::nullopt;
    only = &interface;
  }
  if (only == nullptr) return std::nullopt;
  return InterfaceChoice{
      only->name, "socket.fabric-subnet",
      "The only interface in the fabric's subnet that the site's policy tells (" + policy.fabric_subnet->where + ")."};
}

std::optional<InterfaceChoice> by_default_route(const Node& node) {
  const std::string name = default_route_interface(node);
  const NetInterface* interface = node.find_net(name);
  if (interface == nullptr || !fault_of_interface(*interface).empty()) return std::nullopt;
  return InterfaceChoice{name, "socket.default-route", "The node's default route leaves by it."};
}

// Without address and route to go by: 0 a plain interface, 1 a rail of the fabric, 2 IPoIB; nullopt: not at all.
std::optional<int> rank_of(const NetInterface& interface, const std::set<std::string>& rails) {
  if (!fault_of_interface(interface).empty() || is_for_containers(interface)) return std::nullopt;
  if (interface.kind == NetKind::ipoib || interface.arphrd == 32) return 2;
  return rails.count(interface.name) > 0 ? 1 : 0;
}

std::optional<InterfaceChoice> by_elimination(const Node& node, const std::vector<ChosenPort>& hcas) {
  std::set<std::string> rails;
  for (const ChosenPort& hca : hcas) rails.merge(interfaces_of(node, *hca.device, *hca.port));
  const NetInterface* best = nullptr;
  int best_rank = 0;
  for (const NetInterface& interface : node.net) {
    const auto rank = rank_of(interface, rails);
    if (!rank || (best != nullptr && std::make_pair(best_rank, best->index) <= std::make_pair(*rank, interface.index)))
      continue;
    best = &interface;
    best_rank = *rank;
  }
  if (best == nullptr) return std::nullopt;
  return InterfaceChoice{best->name, "socket.first",
                         "The first interface with a routable address; neither the node's address nor a default route "
                         "tells one apart."};
}

// Routing to the host (BGP unnumbered): the interfaces have link-local addresses alone and lo holds the node's
// (NVIDIA/nccl#1053).
std::optional<InterfaceChoice> by_loopback_address(const Node& node) {
  for (const NetInterface& interface : node.net)
    if (interface.kind == NetKind::loopback && has_routable_address(interface))
      return InterfaceChoice{interface.name, "socket.loopback-address",
                             "No other interface has a routable address, and it holds the node's own."};
  return std::nullopt;
}

std::optional<InterfaceChoice> choose(const Node& node, const Policy& policy, const Step& step,
                                      const std::vector<ChosenPort>& hcas, std::vector<Note>& notes) {
  if (auto choice = by_policy(node, policy, notes)) return choice;
  if (auto choice = by_node_address(node, step, notes)) return choice;
  if (auto choice = by_fabric_subnet(node, policy)) return choice;
  if (auto choice = by_default_route(node)) return choice;
  if (auto choice = by_elimination(node, hcas)) return choice;
  return by_loopback_address(node);
}

}  // namespace

std::string fault_of_interface(const NetInterface& interface) {
  if (interface.kind == NetKind::loopback) return "is the loopback interface";
  if (!interface.up) return "is down";
  if (!interface.running || interface.carrier == false) return "has no carrier";
  if (interface.bond_member) return "is a member of " + interface.master;
  if (interface.usb || interface.driver == "cdc_ether" || interface.driver == "rndis_host")
    return "is a USB interface, as of a BMC";
  if (interface.kind == NetKind::tun) return "is a tunnel or a virtual machine's tap";
  if (interface.kind == NetKind::wireguard || interface.kind == NetKind::tunnel) return "is a VPN or tunnel";
  if (interface.addresses.empty()) return "has no address";
  if (!has_routable_address(interface)) return "has link-local addresses only";
  return "";
}

std::optional<InterfaceChoice> choose_interface(const Node& node, const Policy& policy, const Step& step,
                                                const std::vector<ChosenPort>& hcas, std::vector<Note>& notes) {
  auto choice = choose(node, policy, step, hcas, notes);
  if (!choice) {
    if (!node.net.empty()) notes.push_back({"NCCL_SOCKET_IFNAME", "not set: no interface has a routable address"});
    return choice;
  }
  const NetInterface* interface = node.find_net(choice->name);
  if (interface != nullptr && interface->kind == NetKind::loopback)
    notes.push_back({choice->name,
                     "holds the node's address; NCCL takes the first address of an interface, so it must "
                     "come before 127.0.0.1 there"});
  return choice;
}

void note_shared_subnets(const Node& node, std::vector<Note>& notes) {
  std::map<std::string, std::vector<std::string>> members;
  for (const NetInterface& interface : node.net) {
    if (!fault_of_interface(interface).empty() || is_for_containers(interface)) continue;
    std::set<std::string> subnets;
    for (const IpAddress& address : interface.addresses)
      if (is_routable(address) && !address.v6 && address.prefix < 32)
        subnets.insert(subnet_text(subnet_of(address, address.prefix)));
    for (const std::string& subnet : subnets) members[subnet].push_back(interface.name);
  }
  for (const auto& [subnet, names] : members)
    if (names.size() > 1)
      notes.push_back({subnet, in_words(names) + " are in this one subnet, and the kernel may answer from either; "
                                                 "see that arp_ignore, rp_filter and the routes fit"});
}

}  // namespace nccltune
