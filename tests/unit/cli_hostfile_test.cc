// SPDX-License-Identifier: Apache-2.0
// Slurm's lists of nodes, and the hostfiles that are made of them.
#include <gtest/gtest.h>

#include "base/text.h"
#include "bench/hostlist.h"
#include "unit/cli_run.h"

namespace nccltune::test {
namespace {

std::string expand(const char* list) { return join(bench::expand_hosts(list), " "); }

TEST(CliHostlist, Forms) {
  EXPECT_EQ(expand("a"), "a");
  EXPECT_EQ(expand("a,b"), "a b");
  EXPECT_EQ(expand("node[01-03,7]-ib"), "node01-ib node02-ib node03-ib node7-ib");
  EXPECT_EQ(expand("node[08-11]"), "node08 node09 node10 node11");
  EXPECT_EQ(expand("node[9-10]"), "node9 node10");
  EXPECT_EQ(expand("r[1-2]n[1-2],login"), "r1n1 r1n2 r2n1 r2n2 login");
  EXPECT_EQ(expand("n[003]"), "n003");
  EXPECT_EQ(expand("b2,a[2,1]"), "b2 a2 a1");  // Slurm's order, which ranks follow
}

TEST(CliHostlist, WhatIsNoList) {
  for (const char* bad : {"", ",", "a[", "a[1", "a[1-]", "a[-1]", "a[2-1]", "a[x]", "a[1-2", "a[[1]]", "a[]", "a[+1]",
                          "a[1-99999999]", "a[0-65535],b", "a[0-999][0-999]"})
    EXPECT_EQ(expand(bad), "") << bad;
  EXPECT_EQ(bench::expand_hosts("a[0-65535]").size(), 65536u);
}

class CliHostfile : public ::testing::Test {
 protected:
  void SetUp() override {
    if (tool_path().empty()) GTEST_SKIP() << "nccl-tune was not built";
  }
  std::map<std::string, std::string> job_{
      {"SLURM_JOB_NODELIST", "gpu[01-03]-ib"}, {"SLURM_TASKS_PER_NODE", "2(x2),1"}, {"SLURM_GPUS_PER_NODE", "a100:8"}};
};

TEST_F(CliHostfile, EachForm) {
  const Ran plain = run_tool({"hostfile"}, job_);
  EXPECT_EQ(plain.status, 0) << plain.err;
  EXPECT_EQ(plain.err, "");
  EXPECT_EQ(plain.out, "gpu01-ib slots=8\ngpu02-ib slots=8\ngpu03-ib slots=8\n");
  EXPECT_EQ(run_tool({"hostfile", "--format", "deepspeed"}, job_).out, plain.out);
  EXPECT_EQ(run_tool({"hostfile", "--format", "openmpi", "--slots", "tasks"}, job_).out,
            "gpu01-ib slots=2\ngpu02-ib slots=2\ngpu03-ib slots=1\n");
  EXPECT_EQ(run_tool({"hostfile", "--format", "mpich", "--slots", "4"}, job_).out,
            "gpu01-ib:4\ngpu02-ib:4\ngpu03-ib:4\n");
  EXPECT_EQ(run_tool({"hostfile", "--nodes", "a,b", "--slots", "1"}).out, "a slots=1\nb slots=1\n");
}

TEST_F(CliHostfile, CountsThatCannotBeRead) {
  job_.erase("SLURM_GPUS_PER_NODE");
  for (const char* bad : {"", "x", "4(x", "4(x)", "4(x0)", "0", "4(x2", "1(x999999)", "4,", "4(x2)"}) {
    job_["SLURM_TASKS_PER_NODE"] = bad;
    EXPECT_EQ(run_tool({"hostfile"}, job_).status, 2) << bad;
  }
  job_["SLURM_TASKS_PER_NODE"] = "4(x3)";
  EXPECT_EQ(run_tool({"hostfile"}, job_).out, "gpu01-ib slots=4\ngpu02-ib slots=4\ngpu03-ib slots=4\n");
}

TEST_F(CliHostfile, WhereTheGpusComeFrom) {
  job_.erase("SLURM_GPUS_PER_NODE");
  EXPECT_EQ(run_tool({"hostfile"}, job_).out, "gpu01-ib slots=2\ngpu02-ib slots=2\ngpu03-ib slots=1\n");
  job_["SLURM_GPUS_ON_NODE"] = "4";
  EXPECT_EQ(run_tool({"hostfile"}, job_).out, "gpu01-ib slots=4\ngpu02-ib slots=4\ngpu03-ib slots=4\n");
  job_["SLURM_GPUS"] = "h100:12";
  EXPECT_EQ(run_tool({"hostfile"}, job_).status, 0);
  job_["SLURM_GPUS"] = "10";
  const Ran unlike = run_tool({"hostfile"}, job_);
  EXPECT_EQ(unlike.status, 2);
  EXPECT_EQ(unlike.err,
            "nccl-tune: SLURM_GPUS: 10 GPUs on 3 nodes, 4 of them here: the nodes differ; ask for --gpus-per-node, or "
            "give --slots\n");
}

TEST_F(CliHostfile, WhatCannotBeSaid) {
  const Ran outside = run_tool({"hostfile"});
  EXPECT_EQ(outside.status, 3);
  EXPECT_EQ(outside.err,
            "nccl-tune: SLURM_JOB_NODELIST: is not set: this is no job of Slurm; run it in sbatch or salloc, or give "
            "--nodes and --slots\n");
  EXPECT_EQ(run_tool({"hostfile", "--format", "pbs"}, job_).status, 2);
  for (const char* bad : {"0", "-1", "x", "gpu"})
    EXPECT_EQ(run_tool({"hostfile", "--slots", bad}, job_).status, 2) << bad;
  job_["SLURM_JOB_NODELIST"] = "gpu[01-";
  EXPECT_EQ(run_tool({"hostfile"}, job_).status, 2);
  EXPECT_EQ(run_tool({"hostfile", "--nodes", "a,b"}).err,
            "nccl-tune: --slots: Slurm's environment tells neither GPUs nor tasks of 2 nodes; give a number\n");
  EXPECT_EQ(run_tool({"hostfile", "--nodes", "a", "--slots", "gpus"}).status, 2);
}

}  // namespace
}  // namespace nccltune::test
