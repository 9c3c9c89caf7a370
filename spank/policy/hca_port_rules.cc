// SPDX-License-Identifier: Apache-2.0
// Rules that need one port and nothing else.
#include <algorithm>

#include "policy/address.h"
#include "policy/facts.h"
#include "policy/hcas.h"

namespace nccltune {

// NCCL takes ports in state ACTIVE alone (nccl src/transport/net_ib/init.cc); INIT waits for a subnet manager.
void drop_inactive(HcaSelection& selection) {
  for (HcaSelection::Port* port : selection.in()) {
    if (port->port().active()) continue;
    const std::string& state = port->port().state;
    if (state.empty()) {
      selection.drop(*port, "unknown", "The kernel does not tell the state of the port.");
      continue;
    }
    const std::string phys = port->port().phys_state.empty() ? "" : " (" + port->port().phys_state + ")";
    selection.drop(*port, state == "DOWN" ? "down" : "initializing", "The port is " + state + phys + ".");
  }
}

// nccl src/transport/net_ib/init.cc: InfiniBand and Ethernet, nothing else.
void drop_other_link_layers(HcaSelection& selection) {
  for (HcaSelection::Port* port : selection.in()) {
    const std::string& layer = port->port().link_layer;
    if (layer == "InfiniBand" || layer == "Ethernet") continue;
    selection.drop(
        *port, "unknown",
        layer.empty() ? "The kernel does not tell the link layer." : "NCCL has no use for a " + layer + " port.");
  }
}

// EFA is reached through aws-ofi-nccl, never through NCCL's own NET/IB (aws-ofi-nccl README).
void drop_plugin_fabrics(HcaSelection& selection) {
  for (HcaSelection::Port* port : selection.in())
    if (driver_of(selection.node, port->device()) == "efa")
      selection.drop(*port, "other-fabric", "EFA is driven by aws-ofi-nccl, not by NCCL's own InfiniBand transport.");
}

// NET/IB connects its queue pairs by LID and GID, without rdma_cm; iWARP and usNIC cannot (rdma-core, RNIC node type).
void drop_iwarp(HcaSelection& selection) {
  for (HcaSelection::Port* port : selection.in()) {
    const std::string& type = port->device().node_type;
    if (type.find("RNIC") != std::string::npos || type.find("usNIC") != std::string::npos)
      selection.drop(*port, "iwarp", "NCCL's InfiniBand transport cannot connect over " + type + ".");
  }
}

// rxe and siw: a CPU imitates the card; NCCL's socket transport is faster and safer.
void drop_software(HcaSelection& selection) {
  for (HcaSelection::Port* port : selection.in()) {
    if (!port->device().bdf.empty()) continue;
    const std::string over = port->device().parent_netdev.empty() ? "" : " over " + port->device().parent_netdev;
    selection.drop(*port, "software", "Soft RDMA" + over + " without a card of its own.");
  }
}

// The site's policy names it.
void drop_excluded(HcaSelection& selection) {
  for (HcaSelection::Port* port : selection.in())
    for (const Sourced& name : selection.policy.exclude_hcas)
      if (name.value == port->device().name)
        selection.drop(*port, "excluded", "The site's policy excludes it (" + name.where + ").");
}

// A device that a rank cannot open makes the counts of NICs unequal, and NCCL hangs (NVIDIA/nccl#2428).
void drop_unopenable(HcaSelection& selection) {
  for (HcaSelection::Port* port : selection.in())
    if (port->device().openable == false)
      selection.drop(*port, "not-openable",
                     "The job may not open /dev/infiniband/" +
                         (port->device().uverbs.empty() ? std::string("uverbs*") : port->device().uverbs.front()) +
                         " (device cgroup or file mode).");
}

// A RoCE port without a routable v2 GID has no address and is not in use: Azure's accelerated-networking VF
// (Azure/azhpc-diagnostics#59), unconfigured second ports, 169.254 autoconfiguration (ainode#89).
void drop_roce_without_address(HcaSelection& selection) {
  for (HcaSelection::Port* port : selection.in()) {
    if (!port->ethernet()) continue;
    if (best_gid(selection.node, port->port(), GidFamily::ipv4) ||
        best_gid(selection.node, port->port(), GidFamily::ipv6))
      continue;
    const std::vector<Gid>& gids = port->port().gids;
    const bool all_link_local =
        !gids.empty() && std::all_of(gids.begin(), gids.end(), [](const Gid& gid) { return gid.is_link_local(); });
    selection.drop(*port, "unconfigured",
                   gids.empty()     ? "A RoCE port without any GID: its interface has no address."
                   : all_link_local ? "A RoCE port with link-local addresses only."
                                    : "A RoCE port without a usable RoCE v2 address.");
  }
}

// A LID is what a subnet manager gives; without one no peer can be reached (0xffff is the permissive LID).
void drop_ib_without_lid(HcaSelection& selection) {
  for (HcaSelection::Port* port : selection.in()) {
    if (port->ethernet() || !port->port().lid) continue;
    if (*port->port().lid == 0 || *port->port().lid == 0xffff)
      selection.drop(*port, "unconfigured", "An InfiniBand port without a LID: no subnet manager has seen it.");
  }
}

namespace {

// The addresses that a port has in this namespace: of its usable GIDs and of its interfaces.
std::vector<IpAddress> addresses_of(const HcaSelection& selection, const HcaSelection::Port& port) {
  std::vector<IpAddress> addresses;
  for (const Gid& gid : port.port().gids)
    if (port.ethernet() && fault_of_gid(selection.node, gid).empty()) addresses.push_back(address_of(gid));
  for (const std::string& name : interfaces_of(selection.node, port.device(), port.port())) {
    const NetInterface* interface = selection.node.find_net(name);
    if (interface == nullptr) continue;
    addresses.insert(addresses.end(), interface->addresses.begin(), interface->addresses.end());
  }
  return addresses;
}

}  // namespace

// The site's policy tells the fabric's subnet: what no rule can know on a node with several RoCE networks (ainode#89).
void drop_outside_fabric_subnet(HcaSelection& selection) {
  if (!selection.policy.fabric_subnet) return;
  const auto subnet = parse_subnet(selection.policy.fabric_subnet->value);
  if (!subnet) return;
  for (HcaSelection::Port* port : selection.in()) {
    const std::vector<IpAddress> addresses = addresses_of(selection, *port);
    // InfiniBand without IPoIB has no addresses to go by and carries the fabric all the same.
    if (!port->ethernet() && addresses.empty()) continue;
    if (std::none_of(addresses.begin(), addresses.end(), [&](const IpAddress& a) { return subnet->contains(a); }))
      selection.drop(*port, "other-fabric",
                     "No address in the fabric's subnet " + selection.policy.fabric_subnet->value + " (" +
                         selection.policy.fabric_subnet->where + ").");
  }
}

}  // namespace nccltune
