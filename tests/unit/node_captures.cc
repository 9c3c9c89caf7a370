// SPDX-License-Identifier: Apache-2.0
// Trees that a real kernel (Linux 6.1) showed: soft-RoCE on a VLAN and a bond, RoCE v1 and v2 tables, InfiniBand ports.
#include <gtest/gtest.h>

#include "machines/machine.h"
#include "node/distance.h"
#include "node/read.h"

namespace nccltune {
namespace {

std::vector<std::string> rows(const Node& node, const std::string& device) {
  std::vector<std::string> out;
  for (const Gid& gid : node.find_rdma(device)->ports.at(0).gids)
    out.push_back(std::to_string(gid.index) + " " + gid.text() + " " + gid.netdev);
  return out;
}

TEST(Capture, SoftRoceHasNoPciFunctionAndTablesWithHoles) {
  for (const char* name : {"capture-rxe-4numa", "capture-rxe-4numa-fullgid"}) {
    const Node node = read_node(testing::machine(name), {});
    ASSERT_EQ(node.rdma.size(), 7u) << name;
    EXPECT_EQ(rows(node, "mlx5_2"),
              (std::vector<std::string>{"0 fe80::5054:ff:fe01:2 rail2", "1 10.0.2.1 rail2", "2 10.100.2.1 rail2.100",
                                        "3 fd00:100:2::1 rail2.100", "4 fe80::5054:ff:fe01:2 rail2.100"}));
    EXPECT_EQ(rows(node, "mlx5_bond_0"),
              (std::vector<std::string>{"1 10.0.4.1 bond0", "2 fe80::5054:ff:fe01:4 bond0"}));
    const RdmaDevice& device = *node.find_rdma("mlx5_2");
    EXPECT_EQ(device.bdf, "");
    EXPECT_EQ(device.parent_netdev, "rail2");
    EXPECT_EQ(device.ports[0].netdev, "rail2");
    EXPECT_EQ(device.ports[0].gids[1].type, GidType::roce_v2);
    EXPECT_EQ(device.uverbs.size(), 1u);
    EXPECT_EQ(node.find_rdma("mlx5_7")->ports[0].state, "DOWN");
    EXPECT_EQ(node.find_rdma("mlx5_7")->ports[0].phys_state, "Disabled");
  }
}

TEST(Capture, InterfacesAreToldByFactsOfTheKernel) {
  const Node node = read_node(testing::machine("capture-rxe-4numa"), {});
  EXPECT_EQ(node.find_net("bonding_masters"), nullptr);
  EXPECT_EQ(node.find_net("bond0")->kind, NetKind::bond);
  EXPECT_EQ(node.find_net("lo")->kind, NetKind::loopback);
  const NetInterface& vlan = *node.find_net("rail2.100");
  EXPECT_EQ(vlan.kind, NetKind::vlan);
  EXPECT_EQ(vlan.lower, "rail2");
  const NetInterface& member = *node.find_net("rail4");
  EXPECT_EQ(member.master, "bond0");
  EXPECT_TRUE(member.bond_member);
  // virtio has a device of its own between the interface and the PCI function.
  const NetInterface& virtio = *node.find_net("mgmt");
  EXPECT_EQ(virtio.bdf, "0000:00:06.0");
  EXPECT_EQ(virtio.driver, "virtio_net");
  EXPECT_EQ(virtio.kind, NetKind::physical);
  // Admin down: its carrier could not be read.
  EXPECT_FALSE(node.find_net("rail7")->up);
  EXPECT_EQ(node.find_net("rail7")->carrier, std::nullopt);
}

TEST(Capture, RoceTablesHaveBothVersions) {
  const Node node = read_node(testing::machine("capture-mlx5like-roce-gpu-4numa"), {});
  const RdmaPort& port = node.find_rdma("mlx5_0")->ports.at(0);
  ASSERT_GE(port.gids.size(), 4u);
  EXPECT_EQ(port.gids[2].type, GidType::roce_v1);
  EXPECT_EQ(port.gids[3].type, GidType::roce_v2);
  EXPECT_EQ(port.gids[3].text(), "10.0.0.1");
  EXPECT_EQ(port.netdev, "rail0");
  // Through virtio the device's function is still found.
  EXPECT_EQ(node.find_rdma("mlx5_6")->bdf, "0000:84:00.0");
  EXPECT_EQ(numa_of(node, node.find_rdma("mlx5_6")->bdf), 3);
}

TEST(Capture, GpusAreFoundByClassWithoutTheDriver) {
  const Node node = read_node(testing::machine("capture-ib-gpu-4numa"), {});
  ASSERT_EQ(node.gpus.size(), 8u);
  EXPECT_FALSE(node.gpus[0].minor);
  EXPECT_EQ(node.gpus[0].uuid, "");
  EXPECT_FALSE(node.notes.empty());
  ASSERT_EQ(node.rdma.size(), 12u);
  int active = 0;
  for (const RdmaDevice& device : node.rdma) {
    const RdmaPort& port = device.ports.at(0);
    active += port.active();
    EXPECT_EQ(port.link_layer, "InfiniBand");
    for (const Gid& gid : port.gids) EXPECT_EQ(gid.type, GidType::infiniband);
  }
  EXPECT_EQ(active, 8);
  // One GPU and one HCA behind one switch, and a GPU of another NUMA node.
  std::set<Distance> seen;
  for (const RdmaDevice& device : node.rdma) seen.insert(distance(node, node.gpus[0].bdf, device.bdf));
  EXPECT_EQ(seen, (std::set<Distance>{Distance::pix, Distance::phb, Distance::sys}));
}

}  // namespace
}  // namespace nccltune
