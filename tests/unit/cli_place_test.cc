// SPDX-License-Identifier: Apache-2.0
// Which of a node's processes this one is, from what launchers export.
#include <gtest/gtest.h>

#include "cli/live_step.h"
#include "cli/settings.h"
#include "cli/topo_view.h"

namespace nccltune::cli {
namespace {

TEST(CliPlace, NoLauncher) {
  auto place = local_rank({{"HOME", "/root"}});
  ASSERT_TRUE(place);
  EXPECT_EQ(place->rank, 0);
  EXPECT_EQ(place->variable, "");
  EXPECT_FALSE(place->size);
}

TEST(CliPlace, TorchrunInsideASlurmTaskCounts) {
  auto place = local_rank(
      {{"LOCAL_RANK", "3"}, {"LOCAL_WORLD_SIZE", "8"}, {"SLURM_LOCALID", "0"}, {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"}});
  ASSERT_TRUE(place);
  EXPECT_EQ(place->rank, 3);
  EXPECT_EQ(place->size, 8);
  EXPECT_EQ(place->variable, "LOCAL_RANK");
}

// LOCAL_WORLD_SIZE is of the node itself, whichever that is; SLURM_STEP_TASKS_PER_NODE lists the nodes.
TEST(CliPlace, TorchrunOnAnyNode) {
  for (const char* node : {"0", "1", "7"}) {
    auto place = local_rank({{"LOCAL_RANK", "0"},
                             {"LOCAL_WORLD_SIZE", "8"},
                             {"SLURM_LOCALID", "0"},
                             {"SLURM_NODEID", node},
                             {"SLURM_STEP_TASKS_PER_NODE", "1(x8)"}});
    ASSERT_TRUE(place);
    EXPECT_EQ(place->size, 8) << node;
  }
}

TEST(CliPlace, EveryLauncher) {
  for (const auto& [rank, size] : {std::pair{"OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
                                   std::pair{"MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
                                   std::pair{"MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE"},
                                   std::pair{"PALS_LOCAL_RANKID", "PALS_LOCAL_SIZE"}}) {
    auto place = local_rank({{rank, "2"}, {size, "4"}});
    ASSERT_TRUE(place);
    EXPECT_EQ(place->rank, 2) << rank;
    EXPECT_EQ(place->size, 4) << rank;
  }
}

TEST(CliPlace, SlurmsTaskCountsByNode) {
  auto size_at = [](const char* counts, const char* node) {
    auto place = local_rank({{"SLURM_LOCALID", "0"}, {"SLURM_STEP_TASKS_PER_NODE", counts}, {"SLURM_NODEID", node}});
    return place->size;
  };
  EXPECT_EQ(size_at("4", "0"), 4);
  EXPECT_EQ(size_at("4(x2)", "1"), 4);
  EXPECT_EQ(size_at("4(x2),3", "2"), 3);
  EXPECT_EQ(size_at("4(x2),3", "3"), std::nullopt);
  EXPECT_EQ(size_at("no", "0"), std::nullopt);
}

TEST(CliPlace, ARankThatIsNoNumberIsAnError) {
  for (const char* bad : {"", "-1", "x", "1 ", "99999999999"}) {
    auto place = local_rank({{"LOCAL_RANK", bad}});
    ASSERT_FALSE(place) << bad;
    EXPECT_EQ(place.error().text(), "LOCAL_RANK: '" + std::string(bad) + "' is not a local rank");
  }
}

TEST(CliPlace, OnlyTheUsersOwnValuesAreLeft) {
  EXPECT_EQ(
      without_ours(
          {{"NCCLTUNE_SET", "NCCL_IB_HCA,NCCL_SOCKET_IFNAME"}, {"NCCL_IB_HCA", "=mlx5_0:1"}, {"NCCL_DEBUG", "INFO"}}),
      (Environment{{"NCCL_DEBUG", "INFO"}}));
}

TEST(CliPlace, ABatchScriptIsNoTask) {
  EXPECT_FALSE(in_slurm_task({{"SLURM_JOB_ID", "7"}, {"SLURM_LOCALID", "0"}, {"SLURMD_NODENAME", "n1"}}));
  EXPECT_TRUE(in_slurm_task({{"SLURM_LOCALID", "0"}, {"SLURM_STEP_ID", "0"}, {"SLURMD_NODENAME", "n1"}}));
}

TEST(CliSettings, MarkIsSortedAndBadNamesAreLeftOut) {
  Plan plan;
  plan.env = {{"NCCL_SOCKET_IFNAME", "=eth0", "r", "w"}, {"BAD NAME", "x", "r", "w"}, {"2X", "x", "r", "w"}};
  plan.tasks.emplace_back();
  plan.tasks[0].env = {{"CUDA_DEVICE_ORDER", "PCI_BUS_ID", "r", "w"}};
  auto settings = settings_of_task(plan);
  ASSERT_EQ(settings.size(), 2u);
  EXPECT_EQ(mark_of(settings), "CUDA_DEVICE_ORDER,NCCL_SOCKET_IFNAME");
}

TEST(CliTopoView, KernelVersions) {
  EXPECT_EQ(kernel_version("5.15.0-1042-azure"), std::pair(5, 15));
  EXPECT_EQ(kernel_version("6.1-rc3"), std::pair(6, 1));
  EXPECT_EQ(kernel_version("linux"), std::nullopt);
  EXPECT_EQ(kernel_version(""), std::nullopt);
}

TEST(CliTopoView, GpuDirectIsToldOnlyWhereItIsKnown) {
  Node node;
  EXPECT_EQ(gpu_direct(node).dma_buf, std::nullopt);
  node.gpus.push_back({"0000:3b:00.0"});
  EXPECT_EQ(gpu_direct(node).dma_buf, std::nullopt);  // no driver: nothing is known
  node.driver = {"580.82.07", true};
  node.kernel_release = "5.11.0";
  EXPECT_EQ(gpu_direct(node).dma_buf, false);  // DMA-BUF export came with 5.12
  node.kernel_release = "5.12.0";
  EXPECT_EQ(gpu_direct(node).dma_buf, true);
  node.driver.open_modules = false;
  EXPECT_EQ(gpu_direct(node).dma_buf, false);
  node.peermem = true;
  EXPECT_EQ(gpu_direct(node).text, "ready: nvidia_peermem is loaded");
}

// The automatic choice of NCCL where the plan exports no index; the exported index's row where it does.
TEST(CliTopoView, GidOfAPort) {
  Node node;
  node.net.push_back({.name = "eth1", .up = true, .running = true, .operstate = "up"});
  RdmaDevice device{.name = "mlx5_0", .bdf = "0000:3b:00.0"};
  RdmaPort port{.number = 1, .state = "ACTIVE", .link_layer = "Ethernet"};
  auto row = [](int index, bool v4, GidType type) {
    Gid gid{.index = index, .type = type, .netdev = "eth1"};
    if (v4)
      gid.bytes = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1};
    else
      gid.bytes = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
    return gid;
  };
  port.gids = {row(0, false, GidType::roce_v1), row(1, false, GidType::roce_v2), row(2, true, GidType::roce_v1),
               row(3, true, GidType::roce_v2), row(5, true, GidType::roce_v2)};
  device.ports.push_back(port);
  node.rdma.push_back(device);
  Plan plan;
  EXPECT_EQ(hca_rows(node, plan).at(0).gid->index, 3);
  plan.env = {{"NCCL_IB_GID_INDEX", "5", "gid.uniform", "w"}};
  EXPECT_EQ(hca_rows(node, plan).at(0).gid->index, 5);
  plan.kept = {{"NCCL_IB_GID_INDEX", "7", "environment", "5"}};  // the user's wins, and that row is unset
  EXPECT_EQ(hca_rows(node, plan).at(0).gid, nullptr);
  node.rdma[0].ports[0].link_layer = "InfiniBand";
  EXPECT_EQ(hca_rows(node, Plan{}).at(0).gid, nullptr);
}

TEST(CliTopoView, InterfacesByNameAsNcclSelectsThem) {
  Node node;
  for (const char* name : {"eth1", "eth10", "lo"}) node.net.push_back({.name = name, .up = true});
  auto used = [&](const char* value) {
    Plan plan;
    plan.env = {{"NCCL_SOCKET_IFNAME", value, "r", "w"}};
    std::string names;
    for (const InterfaceRow& row : interface_rows(node, plan))
      if (row.used) names += row.interface->name + " ";
    return names;
  };
  EXPECT_EQ(used("=eth1"), "eth1 ");
  EXPECT_EQ(used("eth1"), "eth1 eth10 ");
  EXPECT_EQ(used("^lo"), "eth1 eth10 ");
  EXPECT_EQ(used("^=eth1,lo"), "eth10 ");
}

}  // namespace
}  // namespace nccltune::cli
