// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "fake/spank.h"
#include "plugin/report.h"

namespace nccltune {
namespace {

Plan example() {
  Plan plan;
  plan.host = "host7";
  plan.profile = "azure-ndv4";
  plan.env = {{"NCCL_IB_HCA", "=mlx5_0:1", "hca.compute", "one port carries the fabric"}};
  plan.kept = {{"NCCL_SOCKET_IFNAME", "eth1", "environment", "=eth0"},
               {"NCCL_DEBUG", "INFO", "environment", ""},
               {"NCCL_IB_TIMEOUT", "20", "/etc/nccl.conf:3", "22"}};
  plan.hcas = {{"mlx5_0", 1, "compute", "hca.compute", "active InfiniBand"},
               {"mlx5_4", 1, "management", "hca.management", "it has the default route"}};
  plan.notes = {{"mlx5_9", "port 1 is DOWN (Polling); left out of NCCL_IB_HCA"}, {"NCCL_DEBUG", "is odd"}};
  return plan;
}

TEST(Report, Summary) {
  Node node;
  node.gpus.resize(8);
  Step step;
  step.node_name = "n1";
  step.local_tasks = 4;
  EXPECT_EQ(summary_line(example(), node, step),
            "n1: profile azure-ndv4: 8 GPUs, 1 of 2 HCA ports, 4 tasks; NCCL_IB_HCA='=mlx5_0:1'");
  step.node_name.clear();
  step.local_tasks = 1;
  node.gpus.resize(1);
  Plan bare;
  bare.host = "host7";
  bare.profile = "generic";
  EXPECT_EQ(summary_line(bare, node, step), "host7: profile generic: 1 GPU, 0 of 0 HCA ports, 1 task");
}

TEST(Report, ReasonsSayEverythingOnce) {
  EXPECT_EQ(
      reason_lines(example()),
      (Lines{"NCCL_IB_HCA: '=mlx5_0:1' (hca.compute): one port carries the fabric",
             "NCCL_SOCKET_IFNAME: kept the user's 'eth1'; the plan has '=eth0'", "NCCL_DEBUG: kept the user's 'INFO'",
             "NCCL_IB_TIMEOUT: kept '20' of /etc/nccl.conf:3; the plan has '22'",
             "mlx5_4: port 1 left out (management): it has the default route",
             "mlx5_9: port 1 is DOWN (Polling); left out of NCCL_IB_HCA", "NCCL_DEBUG: is odd"}));
}

TEST(Report, UnaskedOnlyWhatIsInTheWay) {
  Step step;
  step.env = {{"NCCL_DEBUG", "INFO"}, {"NCCL_SOCKET_IFNAME", "eth1"}};
  EXPECT_EQ(kept_lines(example(), step),
            (Lines{"NCCL_SOCKET_IFNAME: kept the user's 'eth1'; the plan has '=eth0'", "NCCL_DEBUG: is odd"}));
}

TEST(Report, Task) {
  TaskPlan task;
  task.local_id = 1;
  task.gpus = {"0000:07:00.0", "0000:0b:00.0"};
  task.hcas = {"mlx5_0"};
  task.cpus = CpuSet::from_list("48-63");
  task.mem_node = 3;
  task.why = "beside the GPU";
  task.env = {{"UCX_NET_DEVICES", "mlx5_0:1", "ucx.near", "as NCCL"}};
  task.notes = {{"task", "two CPUs only"}};
  EXPECT_EQ(
      task_lines(task),
      (Lines{"task 1: GPU 0000:07:00.0, 0000:0b:00.0, HCA mlx5_0, CPUs 48-63, memory of NUMA node 3: beside the GPU",
             "UCX_NET_DEVICES: 'mlx5_0:1' (ucx.near): as NCCL", "task: two CPUs only"}));
  EXPECT_EQ(task_lines(TaskPlan{}), (Lines{"task 0: no GPU of its own, CPUs as Slurm gave them"}));
}

TEST(Report, OneLineWhateverIsQuoted) {
  EXPECT_EQ(one_line("a\nb\tc\x1b[0m\x7f"), "a?b?c?[0m?");
  EXPECT_EQ(one_line(std::string(10000, 'x')).size(), 4096u + 3);
  EXPECT_EQ(one_line("größe"), "größe");
}

TEST(Report, APercentSignIsNoFormat) {
  fake::host() = fake::Host{};
  tell_user("%s%n%d");
  tell_error("a");
  tell_admin("b");
  tell_detail("c");
  EXPECT_EQ(fake::logged(fake::host().log, fake::Level::spank_log), "nccl-tune: %s%n%d\n");
  EXPECT_EQ(fake::logged(fake::host().log, fake::Level::error), "nccl-tune: a\n");
  EXPECT_EQ(fake::logged(fake::host().log, fake::Level::info), "nccl-tune: b\n");
  EXPECT_EQ(fake::logged(fake::host().log, fake::Level::verbose), "nccl-tune: c\n");
}

}  // namespace
}  // namespace nccltune
