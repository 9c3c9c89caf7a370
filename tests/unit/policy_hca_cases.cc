// SPDX-License-Identifier: Apache-2.0
// Public reports of wrong HCA lists, each with the answer that its reporter or a maintainer gave.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/hcas.h"
#include "unit/node_builder.h"

namespace nccltune {
namespace {

using ::testing::HasSubstr;
using namespace testing;  // NOLINT(google-build-using-namespace): the builder

std::string hcas_of(const NodeBuilder& machine) { return value_of(plan_of(machine).env, "NCCL_IB_HCA"); }

// Eight GPUs with a card each, as on an HGX board.
NodeBuilder hgx(const std::string& layer = "InfiniBand") {
  NodeBuilder machine;
  for (int i = 0; i < 8; ++i) {
    const int slot = i < 4 ? i : 12 + i;
    machine.gpu(slot);
    machine.hca({"mlx5_" + std::to_string(i), slot, layer, 400, 0x1021, "10." + std::to_string(i) + ".0.2/24"});
  }
  machine.net("eth0", "192.168.0.9/24");
  machine.default_route("eth0");
  return machine;
}

TEST(HcaCases, F01ListIsExactSoMlx5_1DoesNotTakeMlx5_10) {
  NodeBuilder machine;
  machine.gpu(0);
  machine.hca({"mlx5_1", 0});
  machine.hca({"mlx5_10", 5, "InfiniBand", 100});
  EXPECT_EQ(hcas_of(machine), "=mlx5_1:1");
}

TEST(HcaCases, F02FourInfiniBandAndOneRoceOfOneRate) {
  NodeBuilder machine;
  machine.gpus({0, 1, 16, 17});
  for (int i : {0, 1}) machine.hca({"mlx5_" + std::to_string(i), i, "InfiniBand", 100, 0x1017});
  machine.hca({"mlx5_2", 0, "Ethernet", 100, 0x1017, "10.1.0.2/24"});
  for (int i : {3, 4}) machine.hca({"mlx5_" + std::to_string(i), 13 + i, "InfiniBand", 100, 0x1017});
  EXPECT_EQ(hcas_of(machine), "=mlx5_0:1,mlx5_1:1,mlx5_3:1,mlx5_4:1");
  EXPECT_EQ(rule_of(plan_of(machine), "mlx5_2"), "hca.fabric-layer");
}

TEST(HcaCases, F05ExtraCardOfTheSameKindBesideNoGpu) {
  NodeBuilder machine = hgx();
  machine.hca({"mlx5_9", 8});
  EXPECT_EQ(use_of(plan_of(machine), "mlx5_9"), "storage");
  EXPECT_THAT(hcas_of(machine), ::testing::Not(HasSubstr("mlx5_9")));
}

TEST(HcaCases, F08SecondPortDisabled) {
  NodeBuilder machine;
  machine.gpu(0);
  machine.hca({"mlx5_0", 0, "InfiniBand", 200});
  machine.hca({"mlx5_1", 0, "InfiniBand", 10, 0x1021, "", "", 1, "DOWN"});
  EXPECT_EQ(hcas_of(machine), "=mlx5_0:1");
  EXPECT_EQ(plan_of(machine).hcas[1].why, "The port is DOWN (Disabled).");
}

TEST(HcaCases, F09VirtualFunctionsBesideTheirPhysicalOne) {
  NodeBuilder machine;
  machine.gpu(0);
  machine.hca({"mlx5_0", 0, "Ethernet", 200, 0x101b, "10.0.0.2/24"});
  for (int i = 1; i < 5; ++i) {
    machine.hca({"mlx5_" + std::to_string(i), 0, "Ethernet", 200, 0x101c, "10.0.0." + std::to_string(2 + i) + "/24"});
    machine.node.pci.at(machine.node.rdma.back().bdf).physfn = machine.node.rdma.front().bdf;
  }
  EXPECT_EQ(hcas_of(machine), "=mlx5_0:1");
  EXPECT_EQ(use_of(plan_of(machine), "mlx5_3"), "virtual");
}

// A container or an older kernel may hide the physfn links: then the device ids tell.
TEST(HcaCases, F09VirtualFunctionsWithoutTheLinkToTheirPhysicalOne) {
  NodeBuilder machine;
  machine.gpu(0);
  machine.hca({"mlx5_0", 0, "InfiniBand", 200, 0x101b});
  for (int i = 1; i < 5; ++i)
    machine.hca({.name = "mlx5_" + std::to_string(i), .rate = 200, .device = 0x101c, .function = i});
  EXPECT_EQ(hcas_of(machine), "=mlx5_0:1");
  EXPECT_EQ(use_of(plan_of(machine), "mlx5_3"), "virtual");
  machine.hca({"mlx5_5", 1, "InfiniBand", 200, 0x101c});  // of a card whose physical function this node does not have
  EXPECT_NE(use_of(plan_of(machine), "mlx5_5"), "virtual");
}

TEST(HcaCases, F09VirtualFunctionsAloneAreTheCards) {
  NodeBuilder machine;
  machine.gpu(0);
  machine.hca({"mlx5_0", 0, "InfiniBand", 200, 0x101c});
  machine.node.pci.at(machine.node.rdma.back().bdf).physfn = "0000:f0:00.0";  // the host's
  EXPECT_EQ(hcas_of(machine), "=mlx5_0:1");
}

TEST(HcaCases, Nccl224VirtualFunctionsForContainersHaveNoAddress) {
  NodeBuilder machine;
  machine.gpu(0);
  machine.hca({"mlx5_0", 1, "Ethernet", 100, 0x1017, "10.0.0.2/24"});
  for (int i = 2; i < 20; ++i) machine.hca({"mlx5_" + std::to_string(i), 1, "Ethernet", 100, 0x1018});
  EXPECT_EQ(hcas_of(machine), "=mlx5_0:1");
}

TEST(HcaCases, F11SameListForEveryTask) {
  NodeBuilder machine = hgx();
  Step step;
  for (int i = 0; i < 8; ++i) {
    Task task;
    task.local_id = i;
    task.env["CUDA_VISIBLE_DEVICES"] = std::to_string(i);
    step.tasks.push_back(task);
  }
  const Plan plan = make_plan(machine.node, {}, step);
  EXPECT_NE(value_of(plan.env, "NCCL_IB_HCA"), "(unset)");
  for (const TaskPlan& task : plan.tasks) EXPECT_EQ(value_of(task.env, "NCCL_IB_HCA"), "(unset)");
}

TEST(HcaCases, F12DeviceThatTheJobMayNotOpen) {
  NodeBuilder machine;
  machine.gpu(0);
  machine.hca({"erdma_0", 0, "Ethernet", 100, 0x107f, "10.0.0.2/24"});
  machine.hca({"erdma_1", 0, "Ethernet", 100, 0x107f, "10.0.1.2/24"});
  machine.node.rdma[1].openable = false;
  machine.node.rdma[1].uverbs = {"uverbs1"};
  EXPECT_EQ(hcas_of(machine), "=erdma_0:1");
  EXPECT_THAT(plan_of(machine).hcas[1].why, HasSubstr("/dev/infiniband/uverbs1"));
}

TEST(HcaCases, AzureAcceleratedNetworkingWithoutAnyGid) {
  NodeBuilder machine;
  machine.gpu(0);
  machine.hca({"mlx5_ib0", 0});
  machine.hca({"mlx5_an0", 4, "Ethernet", 40, 0x1016}).ports[0].gids.clear();
  machine.hca({"mlx5_ib1", 0}).ports[0].state = "INIT";
  EXPECT_EQ(hcas_of(machine), "=mlx5_ib0:1");
  EXPECT_EQ(use_of(plan_of(machine), "mlx5_an0"), "unconfigured");
  EXPECT_EQ(use_of(plan_of(machine), "mlx5_ib1"), "initializing");
}

TEST(HcaCases, Nccl1935NothingIsUp) {
  NodeBuilder machine;
  machine.gpu(0);
  machine.hca({"mlx5_0", 0, "InfiniBand", 10, 0x1021, "", "", 0, "DOWN"});
  machine.hca({"mlx5_2", 1, "Ethernet", 40, 0x1021, "", "", 0, "DOWN"});
  EXPECT_EQ(hcas_of(machine), "(unset)");
  EXPECT_THAT(notes_of(plan_of(machine).notes, "NCCL_IB_HCA"), HasSubstr("mlx5_0:1 and mlx5_2:1"));
  EXPECT_EQ(value_of(plan_of(machine).env, "NCCL_NET_PLUGIN"), "(unset)");
}

TEST(HcaCases, DpuInManagementWhereEveryPairIsSys) {
  NodeBuilder machine;
  machine.gpus({0, 16});
  machine.hca({"ibp3s0", 4});
  machine.hca({"ibP2p3s0", 5});
  machine.hca({"ibP16p3s0", 20});
  machine.hca({"ibP18p3s0", 21});
  machine.hca({"roceP6p3s0", 6, "Ethernet", 400, 0xa2dc, "10.66.0.17/24"});
  machine.hca({"roceP22p3s0", 22, "Ethernet", 400, 0xa2dc, "10.66.1.17/24"});
  machine.default_route("eth-roceP6p3s0");
  EXPECT_EQ(hcas_of(machine), "=ibp3s0:1,ibP2p3s0:1,ibP16p3s0:1,ibP18p3s0:1");
  EXPECT_EQ(use_of(plan_of(machine), "roceP6p3s0"), "management");
}

TEST(HcaCases, DpuAmongRoceRailsOfTheSameRate) {
  NodeBuilder machine;
  machine.gpus({0, 16});
  for (int i = 0; i < 4; ++i)
    machine.hca({"mlx5_" + std::to_string(i), 4 + i, "Ethernet", 400, 0x1021, "10.1." + std::to_string(i) + ".2/24"});
  machine.hca({"mlx5_4", 9, "Ethernet", 400, 0xa2dc, "10.66.1.17/24"});
  EXPECT_EQ(hcas_of(machine), "=mlx5_0:1,mlx5_1:1,mlx5_2:1,mlx5_3:1");
}

TEST(HcaCases, LoneCardStaysThoughItHoldsTheDefaultRoute) {
  NodeBuilder machine;
  machine.gpus({0, 1});
  machine.hca({"mlx5_0", 20, "Ethernet", 100, 0x101d, "10.70.0.31/24"});
  machine.default_route("eth-mlx5_0");
  EXPECT_EQ(hcas_of(machine), "=mlx5_0:1");
}

TEST(HcaCases, RailThatHoldsTheDefaultRouteStays) {
  NodeBuilder machine = hgx("Ethernet");
  machine.node.routes.clear();
  machine.default_route("eth-mlx5_3");
  EXPECT_THAT(hcas_of(machine), HasSubstr("mlx5_3:1"));
}

TEST(HcaCases, RailThatHoldsTheDefaultRouteInAFlatGuest) {
  NodeBuilder machine;
  machine.gpus({0, 1, 2, 3});
  for (int i = 1; i <= 4; ++i)
    machine.hca(
        {"mlx5_bond_" + std::to_string(i), 4 + i, "Ethernet", 200, 0x1021, "10." + std::to_string(i) + ".0.2/24"});
  machine.default_route("eth-mlx5_bond_1");
  EXPECT_THAT(hcas_of(machine), HasSubstr("mlx5_bond_1:1"));
  machine.hca({"mlx5_bond_5", 12, "Ethernet", 200, 0x1021, "10.5.0.2/24"});  // now it is one too many
  EXPECT_EQ(use_of(plan_of(machine), "mlx5_bond_1"), "management");
}

TEST(HcaCases, NodeAddressMakesAManagementCard) {
  NodeBuilder machine;
  machine.gpu(0);
  machine.hca({"mlx5_0", 5, "Ethernet", 100, 0x101d, "10.70.0.31/24"});
  machine.hca({"mlx5_1", 6, "Ethernet", 100, 0x101d, "10.80.0.31/24"});
  Step step;
  step.node_address = "10.70.0.31";
  EXPECT_EQ(use_of(plan_of(machine, {}, {}, step), "mlx5_0"), "management");
}

TEST(HcaCases, IpoibAsTheNodeAddressDoesNotMakeAManagementCard) {
  NodeBuilder machine;
  machine.gpus({0, 16});
  machine.hca({"mlx5_0", 4, "InfiniBand", 200});
  machine.hca({"mlx5_1", 20, "InfiniBand", 200});
  machine.net("ib0", "10.128.0.44/16", NetKind::ipoib).bdf = machine.node.rdma[0].bdf;
  machine.node.rdma[0].netdevs = {"ib0"};
  machine.default_route("ib0");
  EXPECT_EQ(hcas_of(machine), "=mlx5_0:1,mlx5_1:1");
  EXPECT_EQ(value_of(plan_of(machine).env, "NCCL_SOCKET_IFNAME"), "=ib0");
}

TEST(HcaCases, BondOfManagementCardsIsNotTheFabric) {
  NodeBuilder machine = hgx("Ethernet");
  machine.node.routes.clear();
  for (const char* name : {"mlx5_10", "mlx5_11"}) {
    RdmaDevice& hca = machine.hca({name, 6, "Ethernet", 100, 0x101d, ""});
    hca.ports[0].gids = usual_gids("10.73.175.137", "bond0");
  }
  machine.net("bond0", "10.73.175.137/29", NetKind::bond);
  machine.default_route("bond0");
  const Plan plan = plan_of(machine);
  EXPECT_EQ(use_of(plan, "mlx5_10"), "management");
  EXPECT_EQ(use_of(plan, "mlx5_11"), "management");
  EXPECT_EQ(value_of(plan.env, "NCCL_SOCKET_IFNAME"), "=bond0");
}

TEST(HcaCases, Cx8OnlySomePortsOfADeviceCarryData) {
  NodeBuilder machine;
  machine.gpu(0);
  RdmaDevice& hca = machine.hca({"mlx5_0", 0, "InfiniBand", 400});
  for (int number = 2; number <= 4; ++number) {
    RdmaPort port = hca.ports[0];
    port.number = number;
    if (number != 3) port.state = "DOWN";
    hca.ports.push_back(port);
  }
  EXPECT_EQ(hcas_of(machine), "=mlx5_0:1,mlx5_0:3");
}

TEST(HcaCases, InfiniBandWithoutASubnetManager) {
  NodeBuilder machine;
  machine.gpu(0);
  machine.hca({"mlx5_0", 0}).ports[0].lid = 0xffff;
  EXPECT_EQ(use_of(plan_of(machine), "mlx5_0"), "unconfigured");
}

TEST(HcaCases, RateBelowTheFabrics) {
  NodeBuilder machine = hgx();
  machine.node.rdma[2].ports[0].rate_gbps = 100;
  EXPECT_EQ(use_of(plan_of(machine), "mlx5_2"), "other-rate");
}

TEST(HcaCases, OneFastStorageCardDoesNotTurnTheRailsOut) {
  NodeBuilder machine;
  machine.gpus({0, 1, 2, 3});
  for (int i = 0; i < 4; ++i) machine.hca({"mlx5_" + std::to_string(i), i, "InfiniBand", 200});
  machine.hca({"mlx5_9", 0, "InfiniBand", 400});
  EXPECT_EQ(hcas_of(machine), "=mlx5_0:1,mlx5_1:1,mlx5_2:1,mlx5_3:1");
}

TEST(HcaCases, LinkLocalIpv4IsNotAnAddress) {
  NodeBuilder machine;
  machine.gpu(0);
  machine.hca({"rocep1s0f0", 0, "Ethernet", 200, 0x1021, "10.0.0.2/24"});
  machine.hca({"roceP2p1s0f0", 0, "Ethernet", 200, 0x1021, "169.254.21.7/16"});
  EXPECT_EQ(hcas_of(machine), "=rocep1s0f0:1");
  EXPECT_THAT(plan_of(machine).hcas[1].why, HasSubstr("link-local"));
}

TEST(HcaCases, TwoHalvesOfOneCardBothInTheFabricSubnet) {
  NodeBuilder machine;
  machine.gpu(0);
  machine.hca({"rocep1s0f1", 4, "Ethernet", 200, 0x1021, "10.100.0.13/24"});
  machine.hca({"roceP2p1s0f1", 5, "Ethernet", 200, 0x1021, "10.100.0.14/24"});
  machine.hca({"rocep1s0f0", 4, "Ethernet", 200, 0x1021, "10.0.0.2/24"});
  Policy policy;
  policy.fabric_subnet = Sourced{"10.100.0.0/24", "site.yaml:3"};
  const Plan plan = plan_of(machine, {}, policy);
  EXPECT_EQ(value_of(plan.env, "NCCL_IB_HCA"), "=rocep1s0f1:1,roceP2p1s0f1:1");
  EXPECT_THAT(plan.hcas[1].why, HasSubstr("site.yaml:3"));
}

TEST(HcaCases, PolicyExcludesByExactName) {
  NodeBuilder machine = hgx();
  Policy policy;
  policy.exclude_hcas = {{"mlx5_7", "site.yaml:2"}};
  const Plan plan = plan_of(machine, {}, policy);
  EXPECT_EQ(use_of(plan, "mlx5_7"), "excluded");
  EXPECT_THAT(plan.hcas.back().why, HasSubstr("site.yaml:2"));
}

TEST(HcaCases, SoftRdmaEfaAndIwarp) {
  NodeBuilder machine;
  machine.gpu(0);
  RdmaDevice rxe = machine.hca({"rxe0", 0, "Ethernet", 100, 0x1021, "10.0.0.2/24"});
  machine.node.rdma.back().bdf.clear();
  machine.hca({"rdmap1", 1, "Ethernet", 100, 0xefa1, "10.0.1.2/24"}).driver = "efa";
  machine.hca({"irdma0", 2, "Ethernet", 100, 0x1592, "10.0.2.2/24"}).node_type = "4: RNIC";
  const Plan plan = plan_of(machine);
  EXPECT_EQ(use_of(plan, "rxe0"), "software");
  EXPECT_EQ(use_of(plan, "rdmap1"), "other-fabric");
  EXPECT_EQ(use_of(plan, "irdma0"), "iwarp");
  EXPECT_EQ(value_of(plan.env, "NCCL_IB_HCA"), "(unset)");
}

TEST(HcaCases, MoreThan32PortsExportNothing) {
  NodeBuilder machine;
  machine.gpu(0);
  for (int i = 0; i < 33; ++i) machine.hca({"mlx5_" + std::to_string(i), 1 + i % 14, "InfiniBand", 100});
  const Plan plan = plan_of(machine);
  EXPECT_EQ(value_of(plan.env, "NCCL_IB_HCA"), "(unset)");
  EXPECT_THAT(notes_of(plan.notes, "NCCL_IB_HCA"), HasSubstr("33 ports"));
}

TEST(HcaCases, AnotherMakersAcceleratorsExportNothing) {
  NodeBuilder machine;
  machine.pci(0, 3, 0, 0x1002, 0x74a1, 0x120000);
  machine.hca({"mlx5_0", 0});
  const Plan plan = plan_of(machine);
  EXPECT_TRUE(plan.env.empty());
  EXPECT_EQ(use_of(plan, "mlx5_0"), "no-gpu");
  NodeBuilder console;  // a BMC's VGA and a hypervisor's display are no accelerators
  console.pci(0, 3, 0, 0x1a03, 0x2000, 0x030000);
  console.pci(1, 3, 0, 0x1af4, 0x1050, 0x038000);
  console.hca({"mlx5_0", 0});
  EXPECT_EQ(hcas_of(console), "=mlx5_0:1");
}

TEST(HcaCases, MissingRailIsTold) {
  NodeBuilder machine = hgx();
  machine.node.rdma[5].ports[0].state = "DOWN";
  EXPECT_THAT(notes_of(plan_of(machine).notes, "mlx5_5"), HasSubstr("would serve GPU"));
}

// ---- each rule earns its place: without it, the plan of some machine is another one

TEST(HcaRules, EachOneChangesSomePlan) {
  std::vector<NodeBuilder> machines;
  const auto machine = [&]() -> NodeBuilder& { return machines.emplace_back(hgx("Ethernet")); };
  machine().node.rdma[0].ports[0].state = "DOWN";
  machine().node.rdma[0].driver = "efa";
  machine().node.rdma[0].node_type = "4: RNIC";
  machine();
  machine().node.rdma[0].openable = false;
  machines.push_back(hgx());
  machines.back().node.rdma[0].ports[0].lid = 0;
  NodeBuilder& virtual_one = machine();
  virtual_one.hca({"vf", 0, "Ethernet", 400, 0x1021, "10.0.0.9/24"});
  virtual_one.node.pci.at(virtual_one.node.rdma.back().bdf).physfn = virtual_one.node.rdma[0].bdf;
  NodeBuilder& managed = machine();
  managed.hca({"mgmt", 0, "Ethernet", 400, 0x1021, "192.168.9.1/24"});
  managed.node.routes.clear();
  managed.default_route("eth-mgmt");
  machine().hca({"ib", 0});
  machine().hca({"far", 9, "Ethernet", 400, 0x1021, "10.77.0.1/24"});
  machine().node.rdma[0].ports[0].rate_gbps = 100;
  machine().node.rdma[0].ports[0].gids = usual_gids("fd00::1", "eth-mlx5_0");
  NodeBuilder& model = machine();  // below a bridge of its own in the same slot: PXB, and no GPU's nearest
  model.hca({"other", 0, "Ethernet", 400, 0xa2dc, "10.78.0.1/24"});
  PciDevice& deep = model.node.pci.at(model.node.rdma.back().bdf);
  deep.path.insert(deep.path.end() - 1, {"0000:07:00.0", "0000:07:01.0"});
  NodeBuilder groups;
  groups.gpu(0);
  groups.hca({"big0", 4});
  groups.hca({"big1", 5});
  groups.hca({"small", 6, "InfiniBand", 400, 0xa2dc});
  machines.push_back(groups);
  NodeBuilder lone;  // where no other rule would see the fault
  lone.gpu(0);
  lone.hca({"mlx5_0", 0, "Ethernet", 400, 0x1021, "10.0.0.2/24"});
  for (int i = 0; i < 3; ++i) machines.push_back(lone);
  machines.rbegin()[0].node.rdma[0].ports[0].link_layer = "Unknown";
  machines.rbegin()[0].node.rdma[0].ports[0].lid = 7;
  machines.rbegin()[1].node.rdma[0].bdf.clear();
  machines.rbegin()[2].node.rdma[0].ports[0].gids.resize(2);
  Policy policy;
  policy.exclude_hcas = {{"mlx5_1", "p:1"}};
  Policy subnet;
  subnet.fabric_subnet = Sourced{"10.1.0.0/16", "p:2"};

  for (const HcaRule& rule : hca_rules()) {
    bool matters = false;
    for (const NodeBuilder& m : machines) {
      for (const Policy& p : {Policy(), policy, subnet}) {
        const auto used = [&](const std::set<std::string>& without) {
          std::string text;
          for (const HcaDecision& hca : choose_hcas(m.node, p, {}, without)) text += hca.used() ? hca.name + " " : "";
          return text;
        };
        matters = matters || used({}) != used({rule.id});
      }
    }
    EXPECT_TRUE(matters) << rule.id << " can be left out without any test noticing";
  }
}

}  // namespace
}  // namespace nccltune
