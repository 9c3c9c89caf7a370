// SPDX-License-Identifier: Apache-2.0
// Public reports of wrong GID indexes, each with the answer that its reporter or a maintainer gave.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/node_builder.h"

namespace nccltune {
namespace {

using ::testing::HasSubstr;
using namespace testing;  // NOLINT(google-build-using-namespace): the builder

std::string gid_of(const NodeBuilder& machine) { return value_of(plan_of(machine).env, "NCCL_IB_GID_INDEX"); }

NodeBuilder two_rails(std::vector<Gid> first, std::vector<Gid> second) {
  NodeBuilder machine;
  machine.gpus({0, 1});
  machine.hca({"mlx5_0", 0, "Ethernet", 200, 0x1021, "10.1.0.2/24", "eth0"}).ports[0].gids = std::move(first);
  machine.hca({"mlx5_1", 1, "Ethernet", 200, 0x1021, "10.1.4.2/24", "eth1"}).ports[0].gids = std::move(second);
  return machine;
}

TEST(GidCases, F13LinkLocalRowsAreNotRouted) {
  EXPECT_EQ(gid_of(two_rails(usual_gids("10.1.0.2", "eth0"), usual_gids("10.1.4.2", "eth1"))), "3");
}

TEST(GidCases, F15TableThatBeginsAt4) {
  std::vector<Gid> a, b;
  add_pair(a, 4, "fe80::1", "eth0");
  add_pair(a, 6, "10.152.0.12", "eth0");
  add_pair(b, 4, "fe80::2", "eth1");
  add_pair(b, 6, "10.152.4.12", "eth1");
  EXPECT_EQ(gid_of(two_rails(a, b)), "7");
}

TEST(GidCases, Nccl551TableThatBeginsAt12) {
  std::vector<Gid> a, b;
  add_pair(a, 12, "192.168.188.22", "eth0");
  add_pair(b, 12, "192.168.189.22", "eth1");
  EXPECT_EQ(gid_of(two_rails(a, b)), "13");
}

TEST(GidCases, LinkLocalLastAndV2RowsAlone) {
  const std::vector<Gid> a = {gid(0, "10.1.0.2", GidType::roce_v2, "eth0"),
                              gid(1, "fe80::1", GidType::roce_v2, "eth0")};
  const std::vector<Gid> b = {gid(0, "10.1.4.2", GidType::roce_v2, "eth1"),
                              gid(1, "fe80::2", GidType::roce_v2, "eth1")};
  EXPECT_EQ(gid_of(two_rails(a, b)), "0");
}

TEST(GidCases, RowsOfAnotherNamespaceAreNotOurs) {
  std::vector<Gid> a = usual_gids("10.9.0.1", "net7"), b = usual_gids("10.1.4.2", "eth1");
  add_pair(a, 4, "10.1.0.2", "eth0");
  add_pair(b, 4, "10.1.4.3", "eth1");
  NodeBuilder machine = two_rails(a, b);
  EXPECT_EQ(gid_of(machine), "(unset)");  // 5 and 3
  machine.node.rdma.pop_back();
  EXPECT_EQ(gid_of(machine), "5");
}

TEST(GidCases, InterfaceOfItsOwnBeforeAVlan) {
  std::vector<Gid> a = usual_gids("", "eth0");
  add_pair(a, 2, "10.5.0.2", "eth0.5");
  add_pair(a, 4, "10.1.0.2", "eth0");
  NodeBuilder machine = two_rails(a, usual_gids("10.1.4.2", "eth1"));
  machine.node.rdma.pop_back();
  machine.net("eth0.5", "10.5.0.2/24", NetKind::vlan).lower = "eth0";
  EXPECT_EQ(gid_of(machine), "5");
  machine.node.rdma[0].ports[0].gids.resize(4);  // the VLAN's row alone is left
  EXPECT_EQ(gid_of(machine), "3");
}

TEST(GidCases, RowOfAnInterfaceThatIsDown) {
  std::vector<Gid> a = usual_gids("", "eth0");
  add_pair(a, 2, "10.5.0.2", "eth0b");
  add_pair(a, 4, "10.1.0.2", "eth0");
  NodeBuilder machine = two_rails(a, usual_gids("10.1.4.2", "eth1"));
  machine.node.rdma.pop_back();
  machine.net("eth0b", "10.5.0.2/24");
  EXPECT_EQ(gid_of(machine), "3");
  machine.node.net.back().up = false;
  EXPECT_EQ(gid_of(machine), "5");
}

TEST(GidCases, RowOfTheFabricsSubnet) {
  std::vector<Gid> a = usual_gids("10.5.0.2", "eth0");
  add_pair(a, 4, "10.1.0.2", "eth0");
  NodeBuilder machine = two_rails(a, usual_gids("10.1.4.2", "eth1"));
  machine.node.rdma.pop_back();
  EXPECT_EQ(gid_of(machine), "3");
  Policy policy;
  policy.fabric_subnet = Sourced{"10.1.0.0/16", "site.yaml:3"};
  EXPECT_EQ(value_of(plan_of(machine, {}, policy).env, "NCCL_IB_GID_INDEX"), "5");
}

TEST(GidCases, Ipv6RangeOfThePolicy) {
  const NodeBuilder machine = two_rails(usual_gids("fd02:0:0:1::1", "eth0"), usual_gids("fd02:0:0:2::1", "eth1"));
  EXPECT_EQ(value_of(plan_of(machine).env, "NCCL_IB_ADDR_RANGE"), "(unset)");  // no second prefix to leave out
  Policy policy;
  policy.fabric_subnet = Sourced{"fd02::/32", "site.yaml:3"};
  EXPECT_EQ(value_of(plan_of(machine, {}, policy).env, "NCCL_IB_ADDR_RANGE"), "fd02::/32");
}

TEST(GidCases, F19IndexesThatDifferAreLeftToNccl) {
  std::vector<Gid> b = usual_gids("", "eth1");
  add_pair(b, 5, "10.1.4.2", "eth1");
  const NodeBuilder machine = two_rails(usual_gids("10.1.0.2", "eth0"), b);
  EXPECT_EQ(gid_of(machine), "(unset)");
  const std::string note = notes_of(plan_of(machine).notes, "NCCL_IB_GID_INDEX");
  EXPECT_THAT(note, HasSubstr("mlx5_0:1 has 3 and mlx5_1:1 has 6"));
  EXPECT_THAT(note, HasSubstr("2.21"));
  EXPECT_THAT(note, HasSubstr("NCCL_IB_HCA==mlx5_0:1 with NCCL_IB_GID_INDEX=3"));
}

TEST(GidCases, F20RegularTableIs3WhateverTheFabricDoes) {
  EXPECT_EQ(gid_of(two_rails(usual_gids("11.0.0.72", "eth0"), usual_gids("11.0.0.73", "eth1"))), "3");
}

TEST(GidCases, JuniperIpv6RowsAfterTheIpv4Ones) {
  std::vector<Gid> a = usual_gids("10.200.1.10", "eth0"), b = usual_gids("10.200.2.10", "eth1");
  add_pair(a, 4, "fc00:200::1", "eth0");
  add_pair(b, 4, "fc00:200::2", "eth1");
  EXPECT_EQ(gid_of(two_rails(a, b)), "3");
}

TEST(GidCases, F21Ipv6OnlyFabric) {
  std::vector<Gid> a = usual_gids("fd93:16:d309:7602::1", "eth0"), b = usual_gids("fd93:16:d309:7603::1", "eth1");
  Plan plan = plan_of(two_rails(a, b));
  EXPECT_EQ(value_of(plan.env, "NCCL_IB_ADDR_FAMILY"), "AF_INET6");
  EXPECT_EQ(value_of(plan.env, "NCCL_IB_ADDR_RANGE"), "(unset)");
  EXPECT_EQ(value_of(plan.env, "NCCL_IB_GID_INDEX"), "(unset)");
  // CoreWeave's GB300: the fabric's fd02::/16 beside another prefix that one port alone has.
  a = usual_gids("2001:db8:1::1", "eth0");
  add_pair(a, 4, "fd02:0:0:1::1", "eth0");
  b = usual_gids("fd02:0:0:2::1", "eth1");
  plan = plan_of(two_rails(a, b));
  EXPECT_EQ(value_of(plan.env, "NCCL_IB_ADDR_RANGE"), "fd02::/16");
  add_pair(b, 4, "2001:db8:1::2", "eth1");  // now both share both
  EXPECT_EQ(value_of(plan_of(two_rails(a, b)).env, "NCCL_IB_ADDR_RANGE"), "fd02::/16");
}

TEST(GidCases, Ipv6PrefixesThatTellNoFabric) {
  const auto check = [](const NodeBuilder& machine) {
    const Plan plan = plan_of(machine);
    EXPECT_EQ(value_of(plan.env, "NCCL_IB_ADDR_RANGE"), "(unset)");
    EXPECT_THAT(notes_of(plan.notes, "NCCL_IB_ADDR_RANGE"), HasSubstr("give fabric_subnet in the policy"));
  };
  std::vector<Gid> a = usual_gids("2001:db8:1::1", "eth0");
  add_pair(a, 4, "fd02:0:0:1::1", "eth0");
  check(two_rails(a, usual_gids("2a00:1::1", "eth1")));  // none that both ports have
  a = usual_gids("fd02:0:0:1::1", "eth0");
  add_pair(a, 4, "fd02:0:0:9::1", "eth0");
  check(two_rails(a, usual_gids("fd02:0:0:2::1", "eth1")));  // no length up to /48 leaves a row out
}

TEST(GidCases, OneFamilyForAllPorts) {
  NodeBuilder machine = two_rails(usual_gids("10.1.0.2", "eth0"), usual_gids("fd93::2", "eth1"));
  EXPECT_EQ(use_of(plan_of(machine), "mlx5_1"), "other-fabric");
  EXPECT_EQ(value_of(plan_of(machine).env, "NCCL_IB_HCA"), "=mlx5_0:1");
}

TEST(GidCases, NothingOnInfiniBand) {
  NodeBuilder machine;
  machine.gpu(0);
  machine.hca({"mlx5_0", 0});
  EXPECT_EQ(gid_of(machine), "(unset)");
}

TEST(GidCases, OfTheHcasThatTheUserChose) {
  std::vector<Gid> b = usual_gids("", "eth1");
  add_pair(b, 5, "10.1.4.2", "eth1");
  const NodeBuilder machine = two_rails(usual_gids("10.1.0.2", "eth0"), b);
  const Plan plan = plan_of(machine, {{"NCCL_IB_HCA", "=mlx5_1:1"}});
  EXPECT_EQ(value_of(plan.env, "NCCL_IB_GID_INDEX"), "6");
}

}  // namespace
}  // namespace nccltune
