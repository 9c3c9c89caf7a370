// SPDX-License-Identifier: Apache-2.0
// Beside HCAs and interfaces: what is set already, what is odd in it, and the variables of plugins, peers and
// launchers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/extra_env.h"
#include "policy/kept.h"
#include "unit/node_builder.h"
#include "unit/policy_shipped.h"

namespace nccltune {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using namespace testing;  // NOLINT(google-build-using-namespace): the builder

// ---- what is set already

NodeBuilder fabric() {
  NodeBuilder machine;
  machine.gpus({0, 16});
  machine.hca({"mlx5_1", 0, "Ethernet", 200, 0x1021, "10.1.0.2/24", "rail0"});
  machine.hca({"mlx5_10", 16, "Ethernet", 200, 0x1021, "10.2.0.2/24", "rail1"});
  machine.net("eth0", "192.168.0.9/24");
  machine.default_route("eth0");
  return machine;
}

TEST(Kept, TheUsersValueWinsAndIsTold) {
  const Plan plan = plan_of(fabric(), {{"NCCL_IB_HCA", "=mlx5_1:1"}, {"NCCL_SOCKET_IFNAME", ""}});
  EXPECT_EQ(value_of(plan.env, "NCCL_IB_HCA"), "(unset)");
  ASSERT_EQ(plan.kept.size(), 2u);
  EXPECT_EQ(plan.kept[0].name, "NCCL_IB_HCA");
  EXPECT_EQ(plan.kept[0].value, "=mlx5_1:1");
  EXPECT_EQ(plan.kept[0].source, "environment");
  EXPECT_EQ(plan.kept[0].planned, "=mlx5_1:1,mlx5_10:1");
  EXPECT_EQ(plan.kept[1].name, "NCCL_SOCKET_IFNAME");  // even an empty value is the user's
}

TEST(Kept, WhatAnOuterStepSetIsNotTheUsers) {
  const Plan plan = plan_of(fabric(), {{"NCCL_IB_HCA", "=mlx5_77:1"}, {"NCCLTUNE_SET", "NCCL_IB_HCA,NCCL_IB_TC"}});
  EXPECT_EQ(value_of(plan.env, "NCCL_IB_HCA"), "=mlx5_1:1,mlx5_10:1");
  EXPECT_TRUE(plan.kept.empty());
}

TEST(Kept, ConfFilesCountAsSetAndTheEnvironmentGoesFirst) {
  NodeBuilder machine = fabric();
  machine.node.nccl_conf = {{"NCCL_IB_HCA", "=mlx5_1", "/home/u/.nccl.conf", 2},
                            {"NCCL_IB_HCA", "=mlx5_9", "/etc/nccl.conf", 3},
                            {"NCCL_DEBUG", "INFO", "/etc/nccl.conf", 4}};
  Plan plan = plan_of(machine);
  ASSERT_EQ(plan.kept.size(), 1u);
  EXPECT_EQ(plan.kept[0].source, "/home/u/.nccl.conf:2");
  EXPECT_EQ(plan.kept[0].value, "=mlx5_1");
  plan = plan_of(machine, {{"NCCL_IB_HCA", "=mlx5_10"}});
  EXPECT_EQ(plan.kept[0].source, "environment");
}

TEST(Kept, AContainerDoesNotSeeTheHostsConfFiles) {
  NodeBuilder machine = fabric();
  machine.node.nccl_conf = {{"NCCL_IB_HCA", "=mlx5_1", "/etc/nccl.conf", 3},
                            {"NCCL_DEBUG", "INFO", "/etc/nccl.conf", 4},
                            {" NCCL_BLANK", "1", "/etc/nccl.conf", 5}};
  Step step;
  step.container = true;
  const Plan plan = plan_of(machine, {{"NCCL_DEBUG", "WARN"}}, {}, step);
  EXPECT_EQ(value_of(plan.env, "NCCL_IB_HCA"), "=mlx5_1");
  EXPECT_EQ(value_of(plan.env, "NCCL_DEBUG"), "(unset)");
  EXPECT_EQ(value_of(plan.env, " NCCL_BLANK"), "(unset)");
  for (const EnvSetting& setting : plan.env) {
    if (setting.name != "NCCL_IB_HCA") continue;
    EXPECT_THAT(setting.why, HasSubstr("/etc/nccl.conf:3"));
  }
}

TEST(Kept, NothingIsExportedTwice) {
  Step step;
  step.container = true;
  step.sharp = true;
  NodeBuilder machine = fabric();
  machine.node.nccl_conf = {{"UCX_NET_DEVICES", "mlx5_1:1", "/etc/nccl.conf", 1}};
  const Plan plan = plan_of(machine, {}, shipped_policy(), step);
  std::set<std::string> names;
  for (const EnvSetting& setting : plan.env) EXPECT_TRUE(names.insert(setting.name).second) << setting.name;
}

// An empty NCCL_IB_HCA means something else to NCCL than none.
TEST(Kept, NothingIsExportedEmpty) {
  std::vector<KeptSetting> kept;
  const Node node = fabric().node;
  EXPECT_THAT(without_kept(node, {}, {}, {{"NCCL_IB_HCA", "", "a.rule", "why"}}, kept), ::testing::IsEmpty());
}

// ---- lint

std::string lint(const NodeBuilder& machine, const std::string& name, const std::string& value) {
  return notes_of(plan_of(machine, {{name, value}}).notes, name);
}

TEST(Lint, F01PrefixTakesMore) {
  EXPECT_THAT(lint(fabric(), "NCCL_IB_HCA", "mlx5_1"), HasSubstr("also takes mlx5_10"));
  EXPECT_EQ(lint(fabric(), "NCCL_IB_HCA", "=mlx5_1"), "");
  EXPECT_EQ(lint(fabric(), "NCCL_IB_HCA", "mlx5"), "");  // meant so
}

TEST(Lint, F03CaretsAndEqualsInsideTheList) {
  EXPECT_THAT(lint(fabric(), "NCCL_IB_HCA", "^mlx5_1,^mlx5_10"), HasSubstr("'^=mlx5_1,mlx5_10'"));
  EXPECT_THAT(lint(fabric(), "NCCL_IB_HCA", "^=mlx5_1,^=mlx5_10"), HasSubstr("'^=mlx5_1,mlx5_10'"));
  EXPECT_THAT(lint(fabric(), "NCCL_IB_HCA", "=^mlx5_1"), HasSubstr("in this order"));
  EXPECT_EQ(lint(fabric(), "NCCL_IB_HCA", "^=mlx5_1"), "");
}

TEST(Lint, PortNumberOutOfRange) {
  EXPECT_THAT(lint(fabric(), "NCCL_IB_HCA", "=mlx5_1:18446744073709551615"), HasSubstr("not a number from 1 to 254"));
  EXPECT_THAT(lint(fabric(), "NCCL_IB_HCA", "=mlx5_1:2"), HasSubstr("has no port 2"));
}

TEST(Lint, DeviceThatIsNotThereAndEmptyLists) {
  EXPECT_THAT(lint(fabric(), "NCCL_IB_HCA", "=mlx5_5"), HasSubstr("no device of this node"));
  EXPECT_THAT(lint(fabric(), "NCCL_IB_HCA", ""), HasSubstr("every device"));
  EXPECT_THAT(lint(fabric(), "NCCL_IB_HCA", "^"), HasSubstr("no device at all"));
}

TEST(Lint, MoreEntriesThanNcclTakes) {
  std::string list = "=mlx5_1:1";
  for (int i = 1; i < 32; ++i) list += ",mlx5_1:1";
  EXPECT_EQ(lint(fabric(), "NCCL_IB_HCA", list), "");
  EXPECT_THAT(lint(fabric(), "NCCL_IB_HCA", list + ",mlx5_1:1"), HasSubstr("takes 32 entries and ignores the rest"));
}

TEST(Lint, TopologyFileThatCannotBeRead) {
  NodeBuilder machine = fabric();
  machine.node.files["/etc/topo.xml"] = false;
  EXPECT_THAT(lint(machine, "NCCL_TOPO_FILE", "/etc/topo.xml"), HasSubstr("cannot be read here"));
  machine.node.files["/etc/topo.xml"] = true;
  EXPECT_THAT(lint(machine, "NCCL_TOPO_FILE", "/etc/topo.xml"), Not(HasSubstr("cannot be read here")));
}

TEST(Lint, MixedLinkLayers) {
  NodeBuilder machine = fabric();
  machine.hca({"mlx5_2", 3});
  EXPECT_THAT(lint(machine, "NCCL_IB_HCA", "=mlx5_1,mlx5_2"), HasSubstr("mixes InfiniBand"));
}

TEST(Lint, F17UsersRowIsRoceV1) {
  EXPECT_THAT(lint(fabric(), "NCCL_IB_GID_INDEX", "2"), HasSubstr("row 2 is RoCE v1 on mlx5_1:1 (3 is right)"));
  EXPECT_THAT(lint(fabric(), "NCCL_IB_GID_INDEX", "1"), HasSubstr("is link-local"));
  EXPECT_THAT(lint(fabric(), "NCCL_IB_GID_INDEX", "9"), HasSubstr("is unset"));
  EXPECT_EQ(lint(fabric(), "NCCL_IB_GID_INDEX", "3"), "");
}

TEST(Lint, EmptyGidIndexReadsAsZero) { EXPECT_THAT(lint(fabric(), "NCCL_IB_GID_INDEX", ""), HasSubstr("reads as 0")); }

TEST(Lint, F25InterfaceThatDoesNotExist) {
  EXPECT_THAT(lint(fabric(), "NCCL_SOCKET_IFNAME", "eth2"), HasSubstr("NCCL will fail"));
  EXPECT_THAT(lint(fabric(), "NCCL_SOCKET_IFNAME", "=rail"), HasSubstr("NCCL will fail"));
  EXPECT_EQ(lint(fabric(), "NCCL_SOCKET_IFNAME", "eth"), "");
}

TEST(Lint, InterfacePrefixAndLostExclusions) {
  NodeBuilder machine = fabric();
  machine.net("eth0.5", "10.55.0.1/24", NetKind::vlan);
  EXPECT_THAT(lint(machine, "NCCL_SOCKET_IFNAME", "eth0"), HasSubstr("also takes eth0.5"));
  EXPECT_THAT(lint(machine, "NCCL_SOCKET_IFNAME", "^docker0"), HasSubstr("add lo"));
  EXPECT_EQ(lint(machine, "NCCL_SOCKET_IFNAME", "^docker0,lo"), "");
}

TEST(Lint, ConfFileBlanks) {
  NodeBuilder machine = fabric();
  machine.node.nccl_conf = {{" NCCL_IB_HCA", "=mlx5_1", "/etc/nccl.conf", 3},
                            {"NCCL_DEBUG", "INFO ", "/etc/nccl.conf", 4}};
  const Plan plan = plan_of(machine);
  EXPECT_THAT(notes_of(plan.notes, "/etc/nccl.conf:3"), HasSubstr("holds a blank"));
  EXPECT_THAT(notes_of(plan.notes, "/etc/nccl.conf:4"), HasSubstr("holds a blank"));
}

// ---- plugin, peers, sharp, torch

TEST(ExtraEnv, F39NoPluginUnlessOneIsWanted) {
  EXPECT_EQ(value_of(plan_of(fabric()).env, "NCCL_NET_PLUGIN"), "none");
  EXPECT_EQ(value_of(plan_of(fabric(), {{"NCCL_COLLNET_ENABLE", "1"}}).env, "NCCL_NET_PLUGIN"), "(unset)");
  EXPECT_EQ(value_of(plan_of(one_gpu()).env, "NCCL_NET_PLUGIN"), "(unset)");
}

TEST(ExtraEnv, PeersFollowTheFabric) {
  EXPECT_EQ(value_of(plan_of(fabric()).env, "UCX_NET_DEVICES"), "mlx5_1:1,mlx5_10:1");
  EXPECT_EQ(value_of(plan_of(fabric(), {{"UCX_TLS", "tcp,self,sm"}}).env, "UCX_NET_DEVICES"), "eth0");
  EXPECT_EQ(value_of(plan_of(fabric()).env, "CUDA_DEVICE_ORDER"), "PCI_BUS_ID");
}

TEST(ExtraEnv, SharpNeedsInfiniBandAndAPlugin) {
  NodeBuilder machine;
  machine.gpu(0);
  machine.hca({"mlx5_0", 0});
  Step step;
  step.sharp = true;
  EXPECT_THAT(notes_of(plan_of(machine, {}, {}, step).notes, "sharp"), HasSubstr("no libnccl-net.so"));
  machine.node.files["/opt/hpcx/nccl_rdma_sharp_plugin/lib/libnccl-net.so"] = true;
  const Plan plan = plan_of(machine, {}, {}, step);
  EXPECT_EQ(value_of(plan.env, "NCCL_COLLNET_ENABLE"), "1");
  EXPECT_EQ(value_of(plan.env, "SHARP_COLL_ENABLE_PCI_RELAXED_ORDERING"), "1");
  EXPECT_EQ(value_of(plan.env, "NCCL_NET_PLUGIN"), "(unset)");
  EXPECT_THAT(notes_of(plan_of(fabric(), {}, {}, step).notes, "sharp"), HasSubstr("not InfiniBand"));
}

TEST(ExtraEnv, ImexChannelsAreTold) {
  NodeBuilder machine = one_gpu();
  EXPECT_EQ(notes_of(plan_of(machine).notes, "NVLink"), "");
  machine.node.imex_channels = true;
  EXPECT_THAT(notes_of(plan_of(machine).notes, "NVLink"), HasSubstr("IMEX channels are here"));
  Step step;
  step.container = true;
  EXPECT_THAT(notes_of(plan_of(machine, {}, {}, step).notes, "NVLink"), HasSubstr("needs NVIDIA_IMEX_CHANNELS=0"));
}

TEST(ExtraEnv, TorchFromSlurm) {
  Step step;
  step.torch = true;
  Task task;
  task.local_id = 1;
  task.env = {{"SLURM_PROCID", "5"},  {"SLURM_STEP_NUM_TASKS", "8"}, {"SLURM_STEP_NODELIST", "gpu[03-04],m1"},
              {"SLURM_JOB_ID", "77"}, {"CUDA_VISIBLE_DEVICES", "0"}, {"MASTER_PORT", "29500"}};
  const NodeBuilder machine = one_gpu();
  const TaskPlan plan = plan_task(machine.node, Plan{}, {}, step, task);
  EXPECT_EQ(value_of(plan.env, "MASTER_ADDR"), "gpu03");
  EXPECT_EQ(value_of(plan.env, "RANK"), "5");
  EXPECT_EQ(value_of(plan.env, "WORLD_SIZE"), "8");
  EXPECT_EQ(value_of(plan.env, "LOCAL_RANK"), "1");
  EXPECT_EQ(value_of(plan.env, "MASTER_PORT"), "(unset)");  // the user's
  EXPECT_EQ(first_host("n1"), "n1");
  EXPECT_EQ(first_host("n1,n2"), "n1");
  EXPECT_EQ(first_host("n[7,9]-ib"), "n7-ib");
  EXPECT_EQ(first_host("n[7"), "");
}

}  // namespace
}  // namespace nccltune
