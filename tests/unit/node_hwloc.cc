// SPDX-License-Identifier: Apache-2.0
// hwloc as the judge of NUMA nodes, CPUs and PCI locality: on this machine, and on every recorded tree that it can
// read. The records made from JSON hold no sys/devices/system/cpu/cpuN/topology, without which hwloc's Linux backend
// gives up.
#include <gtest/gtest.h>
#include <hwloc.h>

#include <cstdio>
#include <cstdlib>
#include <memory>

#include "machines/machine.h"
#include "node/distance.h"
#include "node/read.h"

namespace nccltune {
namespace {

using Topology = std::unique_ptr<hwloc_topology, decltype(&hwloc_topology_destroy)>;

// Empty where hwloc cannot read it. folder "": this machine. hwloc takes another root by its environment alone.
Topology load(const std::string& folder) {
  setenv("HWLOC_HIDE_ERRORS", "2", 1);
  setenv("HWLOC_COMPONENTS", "linux,stop", 1);  // not the CPUID of the machine that the test runs on
  if (!folder.empty()) setenv("HWLOC_FSROOT", folder.c_str(), 1);
  hwloc_topology_t topology = nullptr;
  hwloc_topology_init(&topology);
  hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_ALL);
  // A cgroup may bar CPUs and memory; they are facts of the node all the same.
  hwloc_topology_set_flags(topology, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
  const int failed = hwloc_topology_load(topology);
  unsetenv("HWLOC_FSROOT");
  unsetenv("HWLOC_COMPONENTS");
  if (!failed) return {topology, hwloc_topology_destroy};
  hwloc_topology_destroy(topology);
  return {nullptr, hwloc_topology_destroy};
}

CpuSet cpus_of(hwloc_const_bitmap_t bitmap) {
  CpuSet cpus;
  for (int cpu = hwloc_bitmap_first(bitmap); cpu >= 0; cpu = hwloc_bitmap_next(bitmap, cpu)) cpus.add(cpu);
  return cpus;
}

std::string bdf_of(const hwloc_obj_attr_u::hwloc_pcidev_attr_s& pci) {
  char text[32];
  std::snprintf(text, sizeof text, "%04x:%02x:%02x.%x", pci.domain, pci.bus, pci.dev, pci.func);
  return text;
}

void expect_same_numa(const Node& node, hwloc_topology_t topology) {
  EXPECT_EQ(node.online_cpus.list(), cpus_of(hwloc_get_root_obj(topology)->cpuset).list());
  ASSERT_EQ(node.numa.size(), static_cast<size_t>(hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_NUMANODE)));
  for (const NumaNode& numa : node.numa) {
    const hwloc_obj* want = hwloc_get_numanode_obj_by_os_index(topology, static_cast<unsigned>(numa.id));
    ASSERT_NE(want, nullptr) << numa.id;
    EXPECT_EQ(numa.cpus.list(), cpus_of(want->cpuset).list()) << numa.id;
    if (numa.memory_kb) {
      EXPECT_EQ(*numa.memory_kb * 1024, want->attr->numanode.local_memory) << numa.id;
    }
  }
}

void expect_same_distances(const Node& node, hwloc_topology_t topology) {
  unsigned count = 1;
  hwloc_distances_s* distances = nullptr;
  hwloc_distances_get_by_type(topology, HWLOC_OBJ_NUMANODE, &count, &distances, HWLOC_DISTANCES_KIND_FROM_OS, 0);
  if (count == 0) return;  // one NUMA node
  for (unsigned from = 0; from < distances->nbobjs; ++from) {
    std::vector<int> want;
    for (unsigned to = 0; to < distances->nbobjs; ++to)
      want.push_back(static_cast<int>(distances->values[from * distances->nbobjs + to]));
    EXPECT_EQ(node.numa.at(from).distances, want) << from;
  }
  hwloc_distances_release(topology, distances);
}

// Returns how many functions were compared. hwloc puts a function of unknown locality below the whole machine.
int expect_same_locality(const Node& node, hwloc_topology_t topology) {
  int functions = 0;
  for (hwloc_obj_t pci = hwloc_get_next_pcidev(topology, nullptr); pci; pci = hwloc_get_next_pcidev(topology, pci)) {
    const std::string bdf = bdf_of(pci->attr->pcidev);
    const PciDevice* have = node.find_pci(bdf);
    if (!have) {
      ADD_FAILURE() << bdf << ": not among the node's functions";
      continue;
    }
    ++functions;
    EXPECT_EQ(have->vendor, pci->attr->pcidev.vendor_id) << bdf;
    EXPECT_EQ(have->device, pci->attr->pcidev.device_id) << bdf;
    const CpuSet want = cpus_of(hwloc_get_non_io_ancestor_obj(topology, pci)->cpuset);
    EXPECT_EQ(cpus_near(node, bdf).value_or(node.online_cpus).list(), want.list()) << bdf;
  }
  return functions;
}

int expect_same(const Node& node, hwloc_topology_t topology) {
  expect_same_numa(node, topology);
  expect_same_distances(node, topology);
  return expect_same_locality(node, topology);
}

TEST(Hwloc, ThisMachine) {
  const Topology topology = load("");
  if (!topology) GTEST_SKIP() << "hwloc cannot read this machine";
  expect_same(read_node(Root(), {}), topology.get());
}

TEST(Hwloc, Captures) {
  const std::pair<const char*, int> kCaptures[] = {{"capture-rxe-4numa", 20},
                                                   {"capture-rxe-4numa-fullgid", 20},
                                                   {"capture-mlx5like-roce-gpu-4numa", 30},
                                                   {"capture-ib-gpu-4numa", 40}};
  for (const auto& [name, functions] : kCaptures) {
    SCOPED_TRACE(name);
    const Topology topology = load(testing::machine_folder(name));
    ASSERT_TRUE(topology);
    EXPECT_GE(expect_same(read_node(testing::machine(name), {}), topology.get()), functions);
  }
}

TEST(Hwloc, RecordsThatHoldACpuTopology) {
  std::string unread;
  for (const std::string& name : testing::machine_names()) {
    SCOPED_TRACE(name);
    if (const Topology topology = load(testing::machine_folder(name)))
      expect_same(read_node(testing::machine(name), {}), topology.get());
    else
      unread += " " + name;
  }
  if (!unread.empty()) GTEST_SKIP() << "hwloc cannot read, for want of sys/devices/system/cpu/cpuN/topology:" << unread;
}

}  // namespace
}  // namespace nccltune
