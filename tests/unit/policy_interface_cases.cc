// SPDX-License-Identifier: Apache-2.0
// The interface for NCCL's sockets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/node_builder.h"

namespace nccltune {
namespace {

using ::testing::HasSubstr;
using namespace testing;  // NOLINT(google-build-using-namespace): the builder

std::string interface_of(const NodeBuilder& machine, Step step = {}, Policy policy = {}) {
  return value_of(plan_of(machine, {}, std::move(policy), std::move(step)).env, "NCCL_SOCKET_IFNAME");
}

TEST(InterfaceCases, F23ExactNameDoesNotTakeTheVlans) {
  NodeBuilder machine = one_gpu();
  machine.net("bond0", "10.0.0.5/24", NetKind::bond);
  machine.net("bond0.2973", "10.29.0.5/24", NetKind::vlan).lower = "bond0";
  machine.net("bond0.2973.1", "fe80::1/64", NetKind::vlan).lower = "bond0.2973";
  EXPECT_EQ(interface_of(machine), "=bond0");
}

TEST(InterfaceCases, VlanThatCarriesTheNodeAddress) {
  NodeBuilder machine = one_gpu();
  machine.net("bond0", "10.0.0.5/24", NetKind::bond);
  machine.net("bond0.2973", "10.29.0.5/24", NetKind::vlan).lower = "bond0";
  Step step;
  step.node_address = "10.29.0.5";
  EXPECT_EQ(interface_of(machine, step), "=bond0.2973");
}

TEST(InterfaceCases, F26VethOfAContainerIsNeverChosen) {
  NodeBuilder machine = one_gpu();
  machine.net("veth1a2b", "172.18.0.1/16", NetKind::veth);
  machine.net("eth0", "192.168.1.23/24");
  EXPECT_EQ(interface_of(machine), "=eth0");
}

TEST(InterfaceCases, F28DockerBridgeIsNeverChosen) {
  NodeBuilder machine = one_gpu();
  machine.net("docker0", "172.17.0.1/16", NetKind::bridge);
  machine.net("enp159s0", "10.3.0.4/24");
  EXPECT_EQ(interface_of(machine), "=enp159s0");
}

TEST(InterfaceCases, VethThatIsAPodsWayOut) {
  NodeBuilder machine = one_gpu();
  machine.net("eth0", "10.244.3.7/24", NetKind::veth);
  machine.net("net1", "10.152.0.12/24", NetKind::macvlan);
  machine.default_route("eth0");
  EXPECT_EQ(interface_of(machine), "=eth0");
}

TEST(InterfaceCases, BridgeThatHasTheNodeAddress) {
  NodeBuilder machine = one_gpu();
  machine.net("eno1", "").master = "br0";
  machine.net("br0", "10.0.0.7/24", NetKind::bridge);
  Step step;
  step.node_address = "10.0.0.7";
  EXPECT_EQ(interface_of(machine, step), "=br0");
}

TEST(InterfaceCases, NeverVpnUsbTapSlaveCarrierlessOrLinkLocal) {
  NodeBuilder machine = one_gpu();
  machine.net("wg0", "10.200.0.1/24", NetKind::wireguard);
  machine.net("tailscale0", "100.64.0.9/32", NetKind::tun);
  machine.net("enx0", "192.168.100.2/24").usb = true;
  machine.net("tap0", "10.201.0.1/24", NetKind::tun);
  machine.net("bmc0", "169.254.0.2/16");
  NetInterface& slave = machine.net("eno1", "10.202.0.1/24");
  slave.bond_member = true;
  slave.master = "bond0";
  machine.net("eno2", "10.203.0.1/24").carrier = false;
  machine.default_route("tailscale0");
  EXPECT_EQ(interface_of(machine), "(unset)");
  machine.net("eno3", "10.204.0.1/24");
  EXPECT_EQ(interface_of(machine), "=eno3");
}

TEST(InterfaceCases, DefaultRouteOfTheLowestMetric) {
  NodeBuilder machine = one_gpu();
  machine.net("eth0", "10.0.0.5/24");
  machine.net("eth1", "10.1.0.5/24");
  machine.default_route("eth0", 200);
  machine.default_route("eth1", 100);
  EXPECT_EQ(interface_of(machine), "=eth1");
}

TEST(InterfaceCases, SlurmsAddressBeforeTheDefaultRoute) {
  NodeBuilder machine = one_gpu();
  machine.net("eth0", "10.0.0.5/24");
  machine.net("eth1", "10.1.0.5/24");
  machine.default_route("eth0");
  Step step;
  step.node_address = "10.1.0.5";
  EXPECT_EQ(interface_of(machine, step), "=eth1");
  step.node_address = "127.0.1.1";  // Debian's /etc/hosts
  EXPECT_EQ(interface_of(machine, step), "=eth0");
}

TEST(InterfaceCases, IpoibOnlyWhereNothingElseHasAnAddress) {
  NodeBuilder machine = one_gpu();
  machine.net("ib0", "10.128.0.44/16", NetKind::ipoib);
  machine.net("eth0", "10.0.0.5/24");
  EXPECT_EQ(interface_of(machine), "=eth0");
  machine.node.net.pop_back();
  EXPECT_EQ(interface_of(machine), "=ib0");
}

TEST(InterfaceCases, RailOfTheFabricOnlyWhereNothingElseHasAnAddress) {
  NodeBuilder machine = one_gpu();
  machine.hca({"mlx5_0", 0, "Ethernet", 400, 0x1021, "10.1.0.2/24", "rail0"});
  EXPECT_EQ(interface_of(machine), "=rail0");
  machine.net("eth0", "10.0.0.5/24");
  EXPECT_EQ(interface_of(machine), "=eth0");
}

TEST(InterfaceCases, NodeAddressOnAnInterfaceThatIsDown) {
  NodeBuilder machine = one_gpu();
  machine.net("eth0", "10.0.0.5/24").up = false;
  machine.net("eth1", "10.1.0.5/24");
  Step step;
  step.node_address = "10.0.0.5";
  EXPECT_EQ(interface_of(machine, step), "=eth1");
  EXPECT_THAT(notes_of(plan_of(machine, {}, {}, step).notes, "eth0"), HasSubstr("10.0.0.5 but is down; not used"));
}

TEST(InterfaceCases, F31NodeAddressOnLo) {
  NodeBuilder machine = one_gpu();
  machine.node.net[0].addresses.push_back(ip("10.255.3.7/32"));
  machine.net("swp1", "fe80::1/64");
  EXPECT_EQ(interface_of(machine), "=lo");
  EXPECT_THAT(notes_of(plan_of(machine).notes, "lo"), HasSubstr("127.0.0.1"));
  Step step;
  step.node_address = "10.255.3.7";
  EXPECT_EQ(interface_of(machine, step), "=lo");
  machine.net("eth9", "10.9.0.1/24");  // lo would give 127.0.0.1 to the peers
  EXPECT_EQ(interface_of(machine, step), "=eth9");
}

TEST(InterfaceCases, NothingButLoIsNotChosen) { EXPECT_EQ(interface_of(one_gpu()), "(unset)"); }

TEST(InterfaceCases, F30TwoInterfacesInOneSubnet) {
  NodeBuilder machine = one_gpu();
  machine.net("eth0", "10.0.1.5/20");
  machine.net("eth1", "10.0.2.5/20");
  EXPECT_THAT(notes_of(plan_of(machine).notes, "10.0.0.0/20"), HasSubstr("eth0 and eth1"));
}

TEST(InterfaceCases, PolicyNamesTheInterface) {
  NodeBuilder machine = one_gpu();
  machine.net("eth0", "10.0.0.5/24");
  machine.net("eth1", "10.1.0.5/24");
  machine.default_route("eth0");
  Policy policy;
  policy.socket_ifname = Sourced{"eth1", "site.yaml:7"};
  const Plan plan = plan_of(machine, {}, policy);
  EXPECT_EQ(value_of(plan.env, "NCCL_SOCKET_IFNAME"), "=eth1");
  EXPECT_EQ(value_of(plan.env, "GLOO_SOCKET_IFNAME"), "eth1");
  EXPECT_THAT(plan.env[0].why, HasSubstr("site.yaml:7"));
  policy.socket_ifname->value = "eth7";
  EXPECT_EQ(interface_of(machine, {}, policy), "=eth0");
  EXPECT_THAT(notes_of(plan_of(machine, {}, policy).notes, "eth7"), HasSubstr("is not on this node"));
}

TEST(InterfaceCases, PrivateNetworkNamespaceIsLeftAlone) {
  NodeBuilder machine = one_gpu();
  machine.hca({"mlx5_0", 0});
  machine.net("eth0", "10.0.0.5/24");
  Step step;
  step.private_network = true;
  const Plan plan = plan_of(machine, {}, {}, step);
  EXPECT_EQ(value_of(plan.env, "NCCL_IB_HCA"), "(unset)");
  EXPECT_EQ(value_of(plan.env, "NCCL_SOCKET_IFNAME"), "(unset)");
  EXPECT_NE(notes_of(plan.notes, "network"), "");
}

}  // namespace
}  // namespace nccltune
