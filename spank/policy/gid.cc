// SPDX-License-Identifier: Apache-2.0
#include "policy/gid.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>

#include "base/text.h"
#include "policy/address.h"
#include "policy/facts.h"

namespace nccltune {
namespace {

bool is_zero(const Gid& gid) {
  return std::all_of(gid.bytes.begin(), gid.bytes.end(), [](uint8_t byte) { return byte == 0; });
}

// 0: an interface of its own, 1: a VLAN's, 2: not named. Smaller is better.
int row_rank(const Node& node, const Gid& gid) {
  if (gid.netdev.empty()) return 2;
  const NetInterface* interface = node.find_net(gid.netdev);
  return interface != nullptr && interface->kind == NetKind::vlan ? 1 : 0;
}

std::optional<IpAddress> fabric_subnet_of(const Policy& policy) {
  return policy.fabric_subnet ? parse_subnet(policy.fabric_subnet->value) : std::nullopt;
}

std::vector<ChosenPort> roce_ports(const std::vector<ChosenPort>& ports) {
  std::vector<ChosenPort> roce;
  for (const ChosenPort& port : ports)
    if (port.port->link_layer == "Ethernet") roce.push_back(port);
  return roce;
}

std::string index_list(const std::vector<std::pair<ChosenPort, int>>& rows) {
  std::vector<std::string> words;
  words.reserve(rows.size());
  for (const auto& [port, index] : rows) words.push_back(port.label() + " has " + std::to_string(index));
  return in_words(words);
}

// For a NCCL before 2.21, which takes one number for all ports: the largest group that agrees; the lowest index on a
// tie.
std::string largest_uniform_group(const std::vector<std::pair<ChosenPort, int>>& rows) {
  std::map<int, std::vector<std::string>> groups;
  for (const auto& [port, index] : rows) groups[index].push_back(port.label());
  const auto best = std::max_element(groups.begin(), groups.end(),
                                     [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  return "NCCL_IB_HCA==" + join(best->second, ",") + " with NCCL_IB_GID_INDEX=" + std::to_string(best->first);
}

void plan_ipv4(const Node& node, const std::optional<IpAddress>& subnet, const std::vector<ChosenPort>& ports,
               std::vector<EnvSetting>& env, std::vector<Note>& notes) {
  std::vector<std::pair<ChosenPort, int>> rows;
  for (const ChosenPort& port : ports) {
    if (const Gid* gid = best_gid(node, *port.port, GidFamily::ipv4, subnet)) rows.emplace_back(port, gid->index);
  }
  if (rows.size() != ports.size() || rows.empty()) return;  // ports that the user named, not we
  std::set<int> indexes;
  for (const auto& row : rows) indexes.insert(row.second);
  if (indexes.size() == 1) {
    env.push_back({"NCCL_IB_GID_INDEX", std::to_string(*indexes.begin()), "gid.uniform",
                   "Row " + std::to_string(*indexes.begin()) +
                       " is the first routable IPv4 RoCE v2 row of every chosen "
                       "port; NCCL before 2.21 would take row 0."});
    return;
  }
  notes.push_back({"NCCL_IB_GID_INDEX",
                   "not set, since one number cannot serve all ports: " + index_list(rows) +
                       "; NCCL 2.21 and newer (2.26 in a container) picks a row for each; an older one needs " +
                       largest_uniform_group(rows)});
}

// The global IPv6 prefixes of this length that a port's usable rows lie in, in the order of the table.
std::vector<IpAddress> prefixes_of(const Node& node, const RdmaPort& port, int length) {
  std::vector<IpAddress> prefixes;
  for (const Gid& gid : port.gids) {
    if (gid.is_ipv4() || !fault_of_gid(node, gid).empty()) continue;
    const IpAddress prefix = subnet_of(address_of(gid), length);
    if (std::find(prefixes.begin(), prefixes.end(), prefix) == prefixes.end()) prefixes.push_back(prefix);
  }
  return prefixes;
}

bool is_unique_local(const IpAddress& address) { return (address.bytes[0] & 0xfe) == 0xfc; }

// The prefixes of this length that every port has a row in.
std::vector<IpAddress> shared_prefixes(const Node& node, const std::vector<ChosenPort>& ports, int length) {
  std::vector<IpAddress> shared = prefixes_of(node, *ports.front().port, length);
  for (const ChosenPort& port : ports) {
    const std::vector<IpAddress> own = prefixes_of(node, *port.port, length);
    shared.erase(std::remove_if(shared.begin(), shared.end(),
                                [&](const IpAddress& p) { return std::find(own.begin(), own.end(), p) == own.end(); }),
                 shared.end());
  }
  return shared;
}

// The shortest prefix that all ports share and that leaves a row out: the fabric's, as CoreWeave's fd02::/16. Of
// several, the one of private addresses (RFC 4193), which is what fabrics are built with.
std::optional<IpAddress> common_prefix(const Node& node, const std::vector<ChosenPort>& ports) {
  for (const int length : {16, 32, 48}) {
    const bool leaves_some_out = std::any_of(ports.begin(), ports.end(), [&](const ChosenPort& port) {
      return prefixes_of(node, *port.port, length).size() > 1;
    });
    if (!leaves_some_out) continue;
    std::vector<IpAddress> shared = shared_prefixes(node, ports, length);
    if (shared.size() > 1)
      shared.erase(std::remove_if(shared.begin(), shared.end(), [](const IpAddress& p) { return !is_unique_local(p); }),
                   shared.end());
    return shared.size() == 1 ? std::optional(shared.front()) : std::nullopt;
  }
  return std::nullopt;
}

void plan_ipv6(const Node& node, const Policy& policy, const std::vector<ChosenPort>& ports,
               std::vector<EnvSetting>& env, std::vector<Note>& notes) {
  env.push_back({"NCCL_IB_ADDR_FAMILY", "AF_INET6", "gid.ipv6",
                 "The chosen ports have IPv6 addresses alone; NCCL looks for IPv4 and would fall back to row 0."});
  const std::optional<IpAddress> subnet = fabric_subnet_of(policy);
  if (subnet && subnet->v6) {
    env.push_back({"NCCL_IB_ADDR_RANGE", subnet_text(*subnet), "gid.ipv6-range",
                   "The fabric's subnet as the site's policy tells it (" + policy.fabric_subnet->where + ")."});
    return;
  }
  bool several = false;
  for (const ChosenPort& port : ports) several = several || prefixes_of(node, *port.port, 64).size() > 1;
  if (!several) return;
  if (const auto prefix = common_prefix(node, ports)) {
    env.push_back({"NCCL_IB_ADDR_RANGE", subnet_text(*prefix), "gid.ipv6-range",
                   "Ports have addresses of several prefixes, and this is the one that all of them share."});
  } else {
    notes.push_back({"NCCL_IB_ADDR_RANGE",
                     "not set: the ports have addresses of several global prefixes and none tells itself apart as the "
                     "fabric's; give fabric_subnet in the policy"});
  }
}

}  // namespace

std::string ChosenPort::label() const { return port_label(device->name, port->number); }

std::string fault_of_gid(const Node& node, const Gid& gid) {
  if (is_zero(gid)) return "is unset";
  if (gid.type == GidType::roce_v1) return "is RoCE v1";
  if (gid.type != GidType::roce_v2) return "is not RoCE v2";
  if (gid.is_link_local()) return "is link-local";
  if (gid.netdev.empty()) return "";
  const NetInterface* interface = node.find_net(gid.netdev);
  if (interface == nullptr) return "belongs to '" + gid.netdev + "', an interface of another network namespace";
  if (!interface->up) return "belongs to '" + gid.netdev + "', which is down";
  return "";
}

const Gid* best_gid(const Node& node, const RdmaPort& port, GidFamily family,
                    const std::optional<IpAddress>& fabric_subnet) {
  const Gid* best = nullptr;
  for (const Gid& gid : port.gids) {
    if (gid.is_ipv4() != (family == GidFamily::ipv4) || !fault_of_gid(node, gid).empty()) continue;
    if (fabric_subnet && !fabric_subnet->contains(address_of(gid))) continue;
    const auto rank = [&](const Gid& g) { return std::make_pair(row_rank(node, g), g.index); };
    if (best == nullptr || rank(gid) < rank(*best)) best = &gid;
  }
  return best;
}

std::optional<GidFamily> common_family(const Node& node, const std::vector<ChosenPort>& ports,
                                       const std::optional<IpAddress>& fabric_subnet) {
  int v4 = 0, v6 = 0;
  for (const ChosenPort& port : ports) {
    v4 += best_gid(node, *port.port, GidFamily::ipv4, fabric_subnet) != nullptr ? 1 : 0;
    v6 += best_gid(node, *port.port, GidFamily::ipv6, fabric_subnet) != nullptr ? 1 : 0;
  }
  if (v4 == 0 && v6 == 0) return std::nullopt;
  return v4 >= v6 ? GidFamily::ipv4 : GidFamily::ipv6;
}

void plan_gid(const Node& node, const Policy& policy, const std::vector<ChosenPort>& ports,
              std::vector<EnvSetting>& env, std::vector<Note>& notes) {
  const std::vector<ChosenPort> roce = roce_ports(ports);
  if (roce.empty()) return;
  const std::optional<IpAddress> subnet = fabric_subnet_of(policy);
  const auto family = common_family(node, roce, subnet);
  if (!family) return;
  if (*family == GidFamily::ipv4)
    plan_ipv4(node, subnet, roce, env, notes);
  else
    plan_ipv6(node, policy, roce, env, notes);
}

}  // namespace nccltune
