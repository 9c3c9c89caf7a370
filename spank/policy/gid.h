// SPDX-License-Identifier: Apache-2.0
// Which row of a RoCE port's GID table carries the fabric.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "node/node.h"
#include "policy/plan.h"
#include "policy/policy.h"

namespace nccltune {

struct ChosenPort {
  const RdmaDevice* device = nullptr;
  const RdmaPort* port = nullptr;

  std::string label() const;  // "mlx5_0:1"
};

enum class GidFamily { ipv4, ipv6 };

// The first row that is RoCE v2, not link-local, of this family, and whose interface is up in this namespace; a row of
// an interface of its own goes before one of a VLAN, and with a fabric subnet only rows inside it count. A row whose
// interface the kernel does not name is taken when no better one is there. nullptr: the table has none.
// Source: nccl src/transport/net_ib/connect.cc (ncclIbGetGidIndex); NVIDIA/nccl#1573, #769, #551.
const Gid* best_gid(const Node& node, const RdmaPort& port, GidFamily family,
                    const std::optional<IpAddress>& fabric_subnet = std::nullopt);

// Why a given row would not carry the fabric: "is RoCE v1", "is link-local", ...; "" when it is fine.
std::string fault_of_gid(const Node& node, const Gid& gid);

// The family that the ports of a RoCE fabric have in common; IPv4 on a tie. nullopt: no port has a usable row.
std::optional<GidFamily> common_family(const Node& node, const std::vector<ChosenPort>& ports,
                                       const std::optional<IpAddress>& fabric_subnet);

// NCCL_IB_GID_INDEX where all agree, NCCL_IB_ADDR_FAMILY and NCCL_IB_ADDR_RANGE where only IPv6 is there, or a note.
// Nothing for InfiniBand ports: NCCL ignores the index there.
void plan_gid(const Node& node, const Policy& policy, const std::vector<ChosenPort>& ports,
              std::vector<EnvSetting>& env, std::vector<Note>& notes);

}  // namespace nccltune
