// SPDX-License-Identifier: Apache-2.0
// Questions to the facts that several decisions ask. Nothing here decides.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "node/distance.h"
#include "node/node.h"

namespace nccltune {

// The path, or a path that the glob matches, is there and can be read. Only of what ReadOptions::probe asked for.
bool has_file(const Node& node, const std::string& path_or_glob);

// The driver of an RDMA device: the kernel's word, else what its PCI ids tell ("efa" for 1d0f:efa*). "" when unknown.
// Source of the ids: aws-ofi-nccl; linux drivers/infiniband/hw/efa/efa_main.c.
std::string driver_of(const Node& node, const RdmaDevice& device);

// True when no NVIDIA GPU is visible and another maker's accelerator is: not a node for NCCL. A node without any
// accelerator in sight (a container that hides PCI) is not one of those.
bool has_only_other_accelerators(const Node& node);

// The interface that the default route of the lowest metric leaves by; "" when there is none.
std::string default_route_interface(const Node& node);

// The interface that carries this address (text, as Slurm gave it); "" when none does, or when it is a loopback
// address.
std::string interface_with_address(const Node& node, const std::string& address);

// Every interface that traffic through this port can be seen on: those of its GIDs and of its PCI function, and what
// lies above them (the bond that it is a member of, hv_netvsc over its VF, a VLAN).
std::set<std::string> interfaces_of(const Node& node, const RdmaDevice& device, const RdmaPort& port);

// Ordering of PCI addresses: "10000:..." (a VMD domain) comes after "ffff:...".
bool bdf_less(const std::string& a, const std::string& b);

inline bool is_close(Distance distance) { return distance <= Distance::pxb; }

// "mlx5_0:1"
std::string port_label(const std::string& device, int port);

// "a", "a and b", "a, b and c"
std::string in_words(const std::vector<std::string>& words);

}  // namespace nccltune
