// SPDX-License-Identifier: Apache-2.0
// The one interface of a node for NCCL's bootstrap and sockets.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "node/node.h"
#include "policy/gid.h"
#include "policy/plan.h"
#include "policy/policy.h"
#include "policy/step.h"

namespace nccltune {

struct InterfaceChoice {
  std::string name;
  std::string rule;  // "socket.node-address", ...
  std::string why;
};

// nullopt: no interface has a routable address. Notes: a policy's interface that is not there, two in one subnet.
// Source: nccl src/misc/socket.cc (ncclFindInterfaces), src/os/linux.cc.
std::optional<InterfaceChoice> choose_interface(const Node& node, const Policy& policy, const Step& step,
                                                const std::vector<ChosenPort>& hcas, std::vector<Note>& notes);

// Why NCCL should not, or cannot, use this interface even when it holds the node's address; "" when it can.
std::string fault_of_interface(const NetInterface& interface);

// Interfaces with addresses of one subnet: the kernel may answer from either (NVIDIA/nccl#1581).
void note_shared_subnets(const Node& node, std::vector<Note>& notes);

}  // namespace nccltune
