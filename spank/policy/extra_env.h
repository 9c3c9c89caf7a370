// SPDX-License-Identifier: Apache-2.0
// Variables beside NCCL's HCA list, GID and interface: those of UCX, Gloo, CUDA, torch, and the network plugin.
#pragma once

#include <string>
#include <vector>

#include "node/node.h"
#include "policy/gid.h"
#include "policy/plan.h"
#include "policy/step.h"

namespace nccltune {

// UCX_NET_DEVICES: the same devices as NCCL's, or the interface where there are none (and where the user's UCX_TLS is
// tcp alone). GLOO_SOCKET_IFNAME: one plain name (no '=').
void plan_peers(const Step& step, const std::vector<ChosenPort>& hcas, const std::string& interface,
                std::vector<EnvSetting>& env);

// CUDA_DEVICE_ORDER=PCI_BUS_ID: the indexes that Slurm gives count in PCI order, CUDA's default order is FASTEST_FIRST.
void plan_device_order(const Node& node, std::vector<EnvSetting>& env);

// NCCL_NET_PLUGIN=none: an image's HPC-X plugin otherwise takes the place of NCCL's own transport (NVIDIA/nccl#676).
// Only where our HCAs are used and nobody asks for a plugin.
void plan_net_plugin(const Node& node, const Step& step, bool uses_hcas, std::vector<EnvSetting>& env);

// With the opt-in keyword `torch`: MASTER_ADDR, MASTER_PORT, RANK, WORLD_SIZE, LOCAL_RANK from Slurm's variables.
void plan_torch(const Step& step, const Task& task, std::vector<EnvSetting>& env, std::vector<Note>& notes);

// The first host of a Slurm node list: "n[03-05,9],m1" gives "n03". "" when it is no such list.
std::string first_host(const std::string& nodelist);

}  // namespace nccltune
