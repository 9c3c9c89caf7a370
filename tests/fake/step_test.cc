// SPDX-License-Identifier: Apache-2.0
// Steps of a made-up machine under the fake slurmstepd: what the tasks start with.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>

#include "fake/fixture.h"

namespace fake {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kBothHcas = "=mlx5_0:1,mlx5_1:1";

class StepTest : public testing::TestWithParam<Release> {
 protected:
  void SetUp() override {
    if (machine_.cpus().size() < 2) GTEST_SKIP() << "needs two CPUs";
    policy_ = write_policy(machine_, "mode: on\n");
  }

  // Two tasks with a GPU each.
  StepRequest request(std::optional<std::string> argument = std::nullopt) const {
    StepRequest r;
    r.release = GetParam();
    r.words = {"root=" + machine_.path(), "policy=" + policy_};
    r.argument = std::move(argument);
    r.env = {{"PATH", "/bin"}, {"SLURMD_NODENAME", "n1"}, {"SLURM_STEP_GPUS", "0,1"}, {"CUDA_VISIBLE_DEVICES", "0,1"}};
    r.tasks.clear();
    for (const char* gpu : {"0", "1"})
      r.tasks.push_back({{"SLURM_LOCALID", gpu},
                         {"SLURM_STEP_GPUS", gpu},
                         {"CUDA_VISIBLE_DEVICES", gpu},
                         {"SLURMD_TRES_BIND", "gpu:per_task:1"}});
    return r;
  }

  StepOutcome run(const StepRequest& r) const {
    StepOutcome outcome = run_unstopped(plugin_, r);
    EXPECT_EQ(outcome.exit, 0);
    EXPECT_THAT(outcome.misuse, testing::IsEmpty());
    return outcome;
  }

  std::string cpu(int node) const { return std::to_string(machine_.cpus()[node]); }

  // The environment that a task would have without the plugin.
  static Environment bare(const StepRequest& r, int task) {
    Environment env = r.env;
    for (const auto& [name, value] : r.tasks[task]) env[name] = value;
    return env;
  }

  Machine machine_;
  std::string policy_;
  Plugin plugin_;
};

INSTANTIATE_TEST_SUITE_P(Releases, StepTest, testing::Values(Release::v22_05, Release::v24_11),
                         [](const auto& info) { return info.param == Release::v22_05 ? "v22_05" : "v24_11"; });

TEST_P(StepTest, EveryFormOfTheBareOptionTunes) {
  for (const std::optional<std::string>& form :
       {std::optional<std::string>(), std::optional<std::string>(""), std::optional<std::string>("(null)")}) {
    const StepOutcome outcome = run(request(form));
    for (const TaskOutcome& task : outcome.tasks) {
      EXPECT_EQ(value(task.env, "NCCL_IB_HCA"), kBothHcas);
      EXPECT_EQ(value(task.env, "NCCL_SOCKET_IFNAME"), "=eth0");
      EXPECT_THAT(value(task.env, "NCCLTUNE_SET"), HasSubstr("NCCL_IB_HCA,"));
      EXPECT_EQ(stderr_of(task), "");
    }
  }
}

TEST_P(StepTest, TheMarkNamesExactlyWhatWasSet) {
  const StepRequest r = request();
  const StepOutcome outcome = run(r);
  for (int task : {0, 1}) {
    const Environment before = bare(r, task);
    std::string names;
    for (const auto& [name, value] : outcome.tasks[task].env)
      if (before.count(name) == 0 && name != "NCCLTUNE_SET") names += (names.empty() ? "" : ",") + name;
    EXPECT_EQ(value(outcome.tasks[task].env, "NCCLTUNE_SET"), names);
  }
}

TEST_P(StepTest, NothingIsSetBeforeTheTasks) {
  const StepRequest r = request();
  EXPECT_EQ(run(r).env, r.env);  // user_init's is also the environment that pyxis copies
}

TEST_P(StepTest, EachTaskIsPinnedBesideItsGpu) {
  const StepOutcome outcome = run(request());
  EXPECT_EQ(outcome.tasks[0].cpus, cpu(0));
  EXPECT_EQ(outcome.tasks[1].cpus, cpu(1));
  // NUMA node 0 is there on every host; where there is no NUMA support the policy stays.
  EXPECT_TRUE(outcome.tasks[0].memory_mode == 1 || outcome.tasks[0].memory_mode == -1) << outcome.tasks[0].memory_mode;
}

TEST_P(StepTest, OffLeavesAllAlone) {
  const StepRequest r = request("off");
  const StepOutcome outcome = run(r);
  for (int task : {0, 1}) {
    EXPECT_EQ(outcome.tasks[task].env, bare(r, task));
    EXPECT_NE(outcome.tasks[task].cpus, cpu(task));
    EXPECT_TRUE(outcome.tasks[task].log.empty());
  }
}

TEST_P(StepTest, NoOptionAndNoDefaultIsOff) {
  StepRequest r = request();
  r.with_option = false;
  EXPECT_EQ(run(r).tasks[0].env, bare(r, 0));
}

TEST_P(StepTest, TheSitesDefaultTunesAndGivesWayToTheUser) {
  StepRequest r = request("off");
  r.words.push_back("default=on");
  EXPECT_EQ(run(r).tasks[0].env, bare(r, 0));
  r.with_option = false;
  EXPECT_EQ(value(run(r).tasks[0].env, "NCCL_IB_HCA"), kBothHcas);
}

TEST_P(StepTest, EnvExportsOnly) {
  const StepOutcome outcome = run(request("env"));
  EXPECT_EQ(value(outcome.tasks[0].env, "NCCL_IB_HCA"), kBothHcas);
  EXPECT_NE(outcome.tasks[0].cpus, cpu(0));
  EXPECT_LE(outcome.tasks[0].memory_mode, 0);
}

TEST_P(StepTest, BindPinsOnly) {
  const StepRequest r = request("bind");
  const StepOutcome outcome = run(r);
  EXPECT_EQ(outcome.tasks[1].env, bare(r, 1));
  EXPECT_EQ(outcome.tasks[1].cpus, cpu(1));
}

TEST_P(StepTest, ShowTellsAndAppliesNothing) {
  const StepRequest r = request("show");
  const StepOutcome outcome = run(r);
  EXPECT_EQ(outcome.tasks[0].env, bare(r, 0));
  EXPECT_NE(outcome.tasks[0].cpus, cpu(0));
  EXPECT_THAT(stderr_of(outcome.tasks[0]), HasSubstr("nccl-tune: n1: profile "));
  EXPECT_THAT(stderr_of(outcome.tasks[0]),
              HasSubstr("nccl-tune: task 0: GPU 0000:03:00.0, HCA mlx5_0, CPUs " + cpu(0)));
  EXPECT_THAT(stderr_of(outcome.tasks[1]),
              HasSubstr("nccl-tune: task 1: GPU 0000:83:00.0, HCA mlx5_1, CPUs " + cpu(1)));
  EXPECT_THAT(stderr_of(outcome.tasks[1]), Not(HasSubstr("profile ")));
}

TEST_P(StepTest, VerboseGivesTheReasonsOnceANode) {
  const StepOutcome outcome = run(request("verbose"));
  EXPECT_EQ(value(outcome.tasks[0].env, "NCCL_IB_HCA"), kBothHcas);
  EXPECT_THAT(stderr_of(outcome.tasks[0]), HasSubstr("nccl-tune: NCCL_IB_HCA: '=mlx5_0:1,mlx5_1:1' (hca."));
  EXPECT_THAT(stderr_of(outcome.tasks[1]), Not(HasSubstr("NCCL_IB_HCA: ")));
}

TEST_P(StepTest, TheReasonsAreInTheDaemonsLogAtVerbose) {
  const StepOutcome outcome = run(request());
  EXPECT_THAT(logged(outcome.log, Level::verbose), HasSubstr("nccl-tune: n1: profile "));
  EXPECT_THAT(logged(outcome.log, Level::verbose), HasSubstr("nccl-tune: NCCL_IB_HCA: '"));
  EXPECT_THAT(logged(outcome.tasks[1].log, Level::verbose), HasSubstr("nccl-tune: task 1: "));
}

TEST_P(StepTest, BatchInteractiveAndExternStepsAreLeftAlone) {
  for (uint32_t id : {0xfffffffau, 0xfffffffbu, 0xfffffffcu}) {
    StepRequest r = request();
    r.step_id = id;
    r.env["NCCLTUNE_SET"] = "NCCL_DEBUG";
    r.env["NCCL_DEBUG"] = "INFO";
    const StepOutcome outcome = run(r);
    EXPECT_EQ(outcome.tasks[0].env, bare(r, 0)) << id;
    EXPECT_NE(outcome.tasks[0].cpus, cpu(0)) << id;
    EXPECT_TRUE(outcome.tasks[0].log.empty()) << id;
  }
}

TEST_P(StepTest, TheUsersValueIsKeptAndSaidOnceAStep) {
  StepRequest r = request();
  r.env["NCCL_IB_HCA"] = "mlx5_1";
  StepOutcome outcome = run(r);
  EXPECT_EQ(value(outcome.tasks[0].env, "NCCL_IB_HCA"), "mlx5_1");
  EXPECT_EQ(value(outcome.tasks[0].env, "NCCL_SOCKET_IFNAME"), "=eth0");
  EXPECT_THAT(value(outcome.tasks[0].env, "NCCLTUNE_SET"), Not(HasSubstr("NCCL_IB_HCA")));
  const std::string line = "nccl-tune: NCCL_IB_HCA: kept the user's 'mlx5_1'; the plan has '=mlx5_0:1,mlx5_1:1'\n";
  EXPECT_THAT(stderr_of(outcome.tasks[0]), HasSubstr(line));
  EXPECT_EQ(stderr_of(outcome.tasks[1]), "");
  r.node_id = 1;
  outcome = run(r);
  EXPECT_EQ(stderr_of(outcome.tasks[0]), "");
}

TEST_P(StepTest, AValueThatAppearsAfterUserInitIsKept) {
  StepRequest r = request();
  r.tasks[1]["NCCL_IB_HCA"] = "mlx5_9";  // another plugin's, in its task_init before ours
  const StepOutcome outcome = run(r);
  EXPECT_EQ(value(outcome.tasks[0].env, "NCCL_IB_HCA"), kBothHcas);
  EXPECT_EQ(value(outcome.tasks[1].env, "NCCL_IB_HCA"), "mlx5_9");
}

TEST_P(StepTest, AnotherNodesPlanIsReplaced) {
  StepRequest r = request();
  r.env["NCCL_IB_HCA"] = "=bnxt_re0:1";
  r.env["NCCL_IB_GID_INDEX"] = "3";
  r.env["NCCL_DEBUG"] = "INFO";
  r.env["NCCLTUNE_SET"] = "NCCL_IB_GID_INDEX,NCCL_IB_HCA";
  const StepOutcome outcome = run(r);
  for (const TaskOutcome& task : outcome.tasks) {
    EXPECT_EQ(value(task.env, "NCCL_IB_HCA"), kBothHcas);
    EXPECT_EQ(value(task.env, "NCCL_IB_GID_INDEX"), "(unset)");  // InfiniBand: the plan has none
    EXPECT_EQ(value(task.env, "NCCL_DEBUG"), "INFO");
    EXPECT_EQ(stderr_of(task), "");
  }
}

TEST_P(StepTest, OffTakesAnotherStepsPlanAway) {
  for (const char* how : {"off", "bind"}) {
    StepRequest r = request(how);
    r.env["NCCL_DEBUG"] = "INFO";
    StepRequest inherited = r;
    inherited.env["NCCL_IB_HCA"] = "=bnxt_re0:1";
    inherited.env["NCCLTUNE_SET"] = "NCCL_IB_HCA,PATH";
    EXPECT_EQ(run(inherited).tasks[0].env, bare(r, 0)) << how;
  }
}

TEST_P(StepTest, ShowLeavesAnotherStepsPlan) {
  StepRequest r = request("show");
  r.env["NCCL_IB_HCA"] = "=bnxt_re0:1";
  r.env["NCCLTUNE_SET"] = "NCCL_IB_HCA";
  EXPECT_EQ(run(r).tasks[0].env, bare(r, 0));
}

TEST_P(StepTest, TheSamePlanGivesTheSameBytes) {
  const StepRequest r = request();
  EXPECT_EQ(run(r).tasks[0].env, run(r).tasks[0].env);
}

TEST_P(StepTest, APolicyOfTheSiteCounts) {
  machine_.folder().write("policy.yaml", "exclude_hcas: [mlx5_1]\n");
  EXPECT_EQ(value(run(request()).tasks[0].env, "NCCL_IB_HCA"), "=mlx5_0:1");
}

TEST_P(StepTest, ModeInThePolicyIsTheSitesSwitch) {
  machine_.folder().write("policy.yaml", "mode: off\n");
  StepRequest r = request();
  StepOutcome outcome = run(r);
  EXPECT_EQ(outcome.tasks[0].env, bare(r, 0));
  EXPECT_EQ(stderr_of(outcome.tasks[0]), "nccl-tune: the site's policy says 'mode: off'; nothing is tuned\n");
  EXPECT_EQ(stderr_of(outcome.tasks[1]), "");
  machine_.folder().write("policy.yaml", "mode: show\n");
  outcome = run(r);
  EXPECT_EQ(outcome.tasks[0].env, bare(r, 0));
  EXPECT_THAT(stderr_of(outcome.tasks[0]), HasSubstr("profile "));
}

}  // namespace
}  // namespace fake
