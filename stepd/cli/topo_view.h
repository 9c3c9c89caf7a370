// SPDX-License-Identifier: Apache-2.0
// What topo tells beside the plain facts: which of them the plan uses, and what follows from them for GPUDirect RDMA.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "node/node.h"
#include "policy/plan.h"

namespace nccltune::cli {

struct HcaRow {
  const RdmaDevice* device = nullptr;
  const RdmaPort* port = nullptr;
  const Gid* gid = nullptr;  // the row that connections of this port use; null: none, or not an Ethernet port
  std::string use, why;
};

struct InterfaceRow {
  const NetInterface* interface = nullptr;
  bool used = false;
  std::string why;
};

// Whether a NIC can move GPU memory by itself. Either way is enough from NCCL 2.13 on.
struct GpuDirect {
  std::optional<bool> peermem;  // nvidia_peermem is loaded; absent: not told
  std::optional<bool> dma_buf;  // kernel 5.12 or newer, open GPU kernel modules; absent: not told
  std::string text;             // for a person
};

std::vector<HcaRow> hca_rows(const Node& node, const Plan& plan);
std::vector<InterfaceRow> interface_rows(const Node& node, const Plan& plan);
GpuDirect gpu_direct(const Node& node);

// "bond", "vlan", ...
const char* name_of(NetKind kind);
const char* name_of(GidType type);

}  // namespace nccltune::cli
