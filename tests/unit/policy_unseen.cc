// SPDX-License-Identifier: Apache-2.0
// Machines that differ from the recorded ones in one respect: a card more, an interface stacked otherwise, a GPU that
// the driver does not have. What an administrator would set is the same for each, or differs as said.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/node_builder.h"
#include "unit/policy_shipped.h"

namespace nccltune {
namespace {

using ::testing::ElementsAre;
using namespace testing;  // NOLINT(google-build-using-namespace): the builder

std::string hcas_of(const NodeBuilder& machine, const Step& step = {}) {
  return value_of(plan_node(machine.node, {}, step).env, "NCCL_IB_HCA");
}
std::string interface_of(const NodeBuilder& machine, const Step& step = {}) {
  return value_of(plan_node(machine.node, {}, step).env, "NCCL_SOCKET_IFNAME");
}

// Eight GPUs with a card each on a switch, and a plain card for the node's own traffic.
NodeBuilder hgx(const std::string& layer, double rate = 400) {
  NodeBuilder machine;
  for (int i = 0; i < 8; ++i) {
    const int slot = i < 4 ? i : 12 + i;
    machine.gpu(slot);
    machine.hca({"rail" + std::to_string(i), slot, layer, rate, 0x1021, "10." + std::to_string(i) + ".0.2/24"});
  }
  machine.net("eth0", "192.168.0.9/24");
  machine.default_route("eth0");
  return machine;
}

const char* const kRails = "=rail0:1,rail1:1,rail2:1,rail3:1,rail4:1,rail5:1,rail6:1,rail7:1";

// ---- storage cards on the switches of the rails

TEST(UnseenStorage, AnotherModelAtPixOfTheSameRate) {
  for (const char* layer : {"Ethernet", "InfiniBand"}) {
    NodeBuilder machine = hgx(layer);
    machine.hca({"storage0", 0, layer, 400, 0xa2dc, "10.90.0.2/24"});
    machine.hca({"storage1", 17, layer, 400, 0xa2dc, "10.91.0.2/24"});
    EXPECT_EQ(hcas_of(machine), kRails) << layer;
    EXPECT_EQ(use_of(plan_node(machine.node, {}, {}), "storage0"), "storage");
  }
}

TEST(UnseenStorage, AnotherModelAtPixOfAnotherRate) {
  for (const double rate : {100.0, 200.0, 800.0}) {
    NodeBuilder machine = hgx("Ethernet");
    for (int i = 0; i < 4; ++i)
      machine.hca({"storage" + std::to_string(i), i, "Ethernet", rate, 0x101d, "10.9" + std::to_string(i) + ".0.2/24"});
    EXPECT_EQ(hcas_of(machine), kRails) << rate;
  }
}

// Two cards of 400 Gb/s for storage carry as much as four rails of 200 Gb/s for eight GPUs.
TEST(UnseenStorage, FasterCardsBesideFewerGpus) {
  NodeBuilder machine;
  for (int i = 0; i < 4; ++i) {
    const int slot = i < 2 ? i : 14 + i;
    machine.gpu(slot);
    machine.hca({"rail" + std::to_string(i), slot, "InfiniBand", 200, 0x101b});
  }
  machine.hca({"storage0", 0, "InfiniBand", 400, 0x1021});
  machine.hca({"storage1", 16, "InfiniBand", 400, 0x1021});
  EXPECT_EQ(hcas_of(machine), "=rail0:1,rail1:1,rail2:1,rail3:1");
}

TEST(UnseenStorage, ARailThatWasReplacedByAnotherModelStays) {
  NodeBuilder machine = hgx("InfiniBand");
  machine.node.pci.at(machine.node.rdma[5].bdf).device = 0x1023;
  EXPECT_EQ(hcas_of(machine), kRails);
}

TEST(UnseenStorage, HalfTheRailsOfAnotherModelStay) {
  NodeBuilder machine = hgx("InfiniBand");
  for (int i = 4; i < 8; ++i) machine.node.pci.at(machine.node.rdma[i].bdf).device = 0x1023;
  EXPECT_EQ(hcas_of(machine), kRails);
}

// NVIDIA/nccl#1591: four cards beside every other GPU, two more of the kind at NODE.
TEST(UnseenStorage, SameModelThatIsNoNearerThanTheRailsOfTheNeighbours) {
  NodeBuilder machine;
  machine.gpus({0, 1, 2, 3, 16, 17, 18, 19});
  for (int slot : {0, 2, 16, 18}) machine.hca({"rail" + std::to_string(slot), slot});
  machine.hca({"storage0", 8});
  machine.hca({"storage1", 9});
  EXPECT_EQ(hcas_of(machine), "=rail0:1,rail2:1,rail16:1,rail18:1");
}

// ---- link layers

TEST(UnseenLayer, ASlowEthernetCardOnAGpusSwitchIsNoFabric) {
  NodeBuilder machine;  // a PCIe server: InfiniBand in slots of their own
  machine.gpus({0, 1, 16, 17});
  machine.hca({"eth", 0, "Ethernet", 25, 0x1015, "10.3.0.2/24"});
  machine.hca({"ib0", 5, "InfiniBand", 200, 0x101b});
  machine.hca({"ib1", 20, "InfiniBand", 200, 0x101b});
  EXPECT_EQ(hcas_of(machine), "=ib0:1,ib1:1");
  NodeBuilder two;
  two.gpus({0, 16});
  two.hca({"eth", 0, "Ethernet", 25, 0x1015, "10.3.0.2/24"});
  two.hca({"ib0", 5, "InfiniBand", 200, 0x101b});
  EXPECT_EQ(hcas_of(two), "=ib0:1");
}

TEST(UnseenLayer, RoceRailsBesideInfiniBandForStorage) {
  NodeBuilder machine = hgx("Ethernet", 100);
  for (int i = 0; i < 4; ++i) machine.hca({"ib" + std::to_string(i), 8 + i, "InfiniBand", 200, 0x101b});
  EXPECT_EQ(hcas_of(machine), kRails);
}

TEST(UnseenLayer, ABlueFieldThatCarriesAsMuchAsTheConnectX) {
  NodeBuilder machine;
  machine.gpus({0, 1, 16, 17});
  machine.hca({"cx0", 4, "Ethernet", 200, 0x1021, "10.1.0.2/24"});
  machine.hca({"cx1", 20, "Ethernet", 200, 0x1021, "10.2.0.2/24"});
  machine.hca({"bf0", 5, "Ethernet", 200, 0xa2dc, "10.66.0.2/24"});
  machine.hca({"bf1", 21, "Ethernet", 200, 0xa2dc, "10.67.0.2/24"});
  EXPECT_EQ(hcas_of(machine), "=cx0:1,cx1:1");
}

// ---- interfaces stacked over a card

NodeBuilder with_bonded_card(NodeBuilder machine) {
  machine.hca({"front0", 8, "Ethernet", 400, 0x1021, "", "ens1f0"});
  machine.hca({"front1", 9, "Ethernet", 400, 0x1021, "", "ens2f0"});
  for (RdmaDevice& hca : machine.node.rdma)
    if (hca.name.rfind("front", 0) == 0) hca.ports[0].gids = usual_gids("10.44.0.9", hca.netdevs[0]);
  for (NetInterface& net : machine.node.net)
    if (net.name == "ens1f0" || net.name == "ens2f0") net.master = "bond0", net.bond_member = true;
  machine.net("bond0", "", NetKind::bond);
  machine.node.routes.clear();
  return machine;
}

// Rails in slots of their own, so that nothing but the traffic tells the front cards apart.
NodeBuilder rails_apart() {
  NodeBuilder machine;
  machine.gpus({0, 16});
  machine.hca({"rail0", 4, "Ethernet", 400, 0x1021, "10.1.0.2/24"});
  machine.hca({"rail1", 20, "Ethernet", 400, 0x1021, "10.2.0.2/24"});
  return machine;
}

TEST(UnseenStack, DefaultRouteOnAVlanOfABond) {
  NodeBuilder machine = with_bonded_card(rails_apart());
  machine.net("bond0.100", "10.44.0.9/24", NetKind::vlan).lower = "bond0";
  machine.default_route("bond0.100");
  EXPECT_EQ(hcas_of(machine), "=rail0:1,rail1:1");
  EXPECT_EQ(interface_of(machine), "=bond0.100");
}

TEST(UnseenStack, NodeAddressOnABridgeOverABond) {
  NodeBuilder machine = with_bonded_card(rails_apart());
  for (NetInterface& net : machine.node.net)
    if (net.name == "bond0") net.master = "br0";
  machine.net("br0", "10.44.0.9/24", NetKind::bridge);
  Step step;
  step.node_address = "10.44.0.9";
  EXPECT_EQ(hcas_of(machine, step), "=rail0:1,rail1:1");
  EXPECT_EQ(interface_of(machine, step), "=br0");
}

// ---- a rail's VLAN, virtual functions, what containers leave behind

TEST(UnseenGid, RailsWithAddressesOnVlansAlone) {
  NodeBuilder machine = hgx("Ethernet");
  for (RdmaDevice& hca : machine.node.rdma) {
    const std::string vlan = hca.netdevs[0] + ".7";
    machine.net(vlan, "10.7.0.2/24", NetKind::vlan).lower = hca.netdevs[0];
    hca.ports[0].gids = usual_gids("", hca.netdevs[0]);
    add_pair(hca.ports[0].gids, 2, "fe80::ba3f:d2ff:fe40:1", vlan);
    add_pair(hca.ports[0].gids, 4, "10.7.0.2", vlan);
  }
  const Plan plan = plan_node(machine.node, {}, {});
  EXPECT_EQ(value_of(plan.env, "NCCL_IB_HCA"), kRails);
  EXPECT_EQ(value_of(plan.env, "NCCL_IB_GID_INDEX"), "5");
}

TEST(UnseenInterface, NoiseOfContainersAndVpnsChangesNothing) {
  NodeBuilder machine = hgx("InfiniBand");
  machine.net("docker0", "172.17.0.1/16", NetKind::bridge);
  machine.net("cni0", "10.244.1.1/24", NetKind::bridge);
  machine.net("flannel.1", "10.244.1.0/32", NetKind::tunnel);
  machine.net("tailscale0", "100.101.1.2/32", NetKind::tun);
  machine.net("wg0", "10.200.0.2/24", NetKind::wireguard);
  machine.net("virbr0", "192.168.122.1/24", NetKind::bridge);
  machine.net("veth1a", "169.254.9.1/16", NetKind::veth);
  EXPECT_EQ(interface_of(machine), "=eth0");
  machine.node.routes.clear();
  EXPECT_EQ(interface_of(machine), "=eth0");
  machine.default_route("wg0");
  EXPECT_EQ(interface_of(machine), "=eth0");
}

// ---- platforms

TEST(UnseenPlatform, ElasticRdmaIsKnownByItsPciIdWhereNoDriverIsSeen) {
  NodeBuilder machine;
  machine.node.dmi["sys_vendor"] = "Alibaba Cloud";
  for (int i = 0; i < 8; ++i) machine.gpu(i < 4 ? i : 12 + i);
  machine.hca({"erdma_0", 5, "Ethernet", 100, 0x107f, "172.16.0.9/24"}).driver.clear();
  PciDevice& pci = machine.node.pci.at(machine.node.rdma[0].bdf);
  pci.vendor = 0x1ded;
  pci.driver.clear();
  EXPECT_EQ(plan_node(machine.node, shipped_policy(), {}).profile, "alibaba-erdma");
}

// ---- tasks

std::vector<std::string> gpus_of(const NodeBuilder& machine, const Step& step, const Task& task) {
  return plan_task(machine.node, plan_node(machine.node, {}, step), {}, step, task).gpus;
}

Task bound_to(const std::string& index) {
  Task task;
  task.env = {{"CUDA_VISIBLE_DEVICES", index}, {"SLURM_STEP_GPUS", index}, {"SLURMD_TRES_BIND", "gres/gpu:per_task:1"}};
  return task;
}

// NVML and CUDA do not count it, and so index 1 is the third card of the machine.
TEST(UnseenTask, AGpuThatTheDriverDoesNotHaveIsNotCounted) {
  NodeBuilder machine;
  machine.gpus({0, 1, 2, 3});
  machine.node.gpus[1].minor.reset();
  for (int i : {2, 3}) machine.node.gpus[i].minor = i - 1;
  Step step;
  step.local_tasks = 3;
  step.step_gpus = "0,1,2";
  EXPECT_THAT(gpus_of(machine, step, bound_to("1")), ElementsAre(machine.node.gpus[2].bdf));
  Task constrained = bound_to("0");
  constrained.openable_minors = std::set<int>{2};
  EXPECT_THAT(gpus_of(machine, step, constrained), ElementsAre(machine.node.gpus[3].bdf));
}

// Grace: two GPUs a socket. A task with both is at home on the socket; with one of each it is not confined.
TEST(UnseenTask, TwoGpusOfOneSocket) {
  NodeBuilder machine;
  machine.gpus({0, 1, 16, 17});
  Step step;
  step.local_tasks = 2;
  step.step_gpus = "0,1,2,3";
  const auto pin = [&](const std::string& gpus) {
    Task task = bound_to(gpus);
    task.mask = CpuSet::from_list("0-63");
    const auto cpus = plan_task(machine.node, plan_node(machine.node, {}, step), {}, step, task).cpus;
    return cpus ? cpus->list() : "(as it is)";
  };
  EXPECT_EQ(pin("2,3"), "32-63");
  EXPECT_EQ(pin("1,2"), "(as it is)");
}

}  // namespace
}  // namespace nccltune
