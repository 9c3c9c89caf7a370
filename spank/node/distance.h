// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "node/node.h"

namespace nccltune {

// nvidia-smi's words, nearest first. unknown: the tree does not tell (a flat guest without a topology file).
enum class Distance { same, pix, pxb, phb, node, sys, unknown };

const char* name(Distance distance);  // "X", "PIX", "PXB", "PHB", "NODE", "SYS", "?"

// Between two PCI functions, from their paths and NUMA nodes, or from the vendor's topology file where the node is
// flat.
Distance distance(const Node& node, const std::string& bdf_a, const std::string& bdf_b);

// True when sysfs tells no locality: every GPU sits alone on a root bus and no NUMA node is known.
bool is_flat(const Node& node);

// The NUMA node and the CPUs beside a function: sysfs first, then its bridges, then the topology file.
// A NUMA node without CPUs (GPU memory) is never returned. Absent: unknown, do not pin.
std::optional<int> numa_of(const Node& node, const std::string& bdf);
std::optional<CpuSet> cpus_near(const Node& node, const std::string& bdf);

}  // namespace nccltune
