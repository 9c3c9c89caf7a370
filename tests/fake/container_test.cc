// SPDX-License-Identifier: Apache-2.0
// Steps in a container, with the plugin before and after pyxis: what the image has of its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fake/fixture.h"

namespace fake {
namespace {

using testing::HasSubstr;
using testing::Not;

class ContainerTest : public testing::Test {
 protected:
  void SetUp() override {
    if (machine_.cpus().size() < 2) GTEST_SKIP() << "needs two CPUs";
  }

  // Two tasks with a GPU each, in an image that sets `image`; `policy` is the site's.
  StepOutcome run(Environment image, const std::string& policy = "mode: on\n", Environment env = {}) {
    const std::string file = write_policy(machine_, policy);
    StepRequest r;
    r.words = {"root=" + machine_.path(), "policy=" + file};
    r.env = std::move(env);
    r.env.insert({{"PATH", "/bin"}, {"SLURMD_NODENAME", "n1"}, {"SLURM_STEP_GPUS", "0,1"}});
    r.only_init = only_init_;
    r.argument = argument_;
    r.with_option = with_option_;
    if (!with_option_) r.words.push_back("default=on");
    r.image = std::move(image);
    r.tasks = {{{"SLURM_LOCALID", "0"}}, {{"SLURM_LOCALID", "1"}}};
    StepOutcome outcome = run_step(plugin_, r);
    EXPECT_THAT(outcome.misuse, testing::IsEmpty());
    for (const TaskOutcome& task : outcome.tasks) EXPECT_EQ(task.rc, 0);
    return outcome;
  }

  static std::string told(const StepOutcome& outcome, int task) {
    return logged(outcome.tasks[task].log, Level::spank_log);
  }

  Machine machine_;
  Plugin plugin_;
  Environment only_init_ = {{"_SLURM_SPANK_OPTION_pyxis_container_image", "/images/a.sqsh"}};
  std::optional<std::string> argument_;
  bool with_option_ = true;
};

TEST_F(ContainerTest, ThePlanHoldsWhereTheImageSetsNothing) {
  const StepOutcome outcome = run({{"FOO", "bar"}});
  EXPECT_EQ(outcome.tasks[0].env.at("NCCL_IB_HCA"), "=mlx5_0:1,mlx5_1:1");
  EXPECT_THAT(told(outcome, 0), Not(HasSubstr("image")));
}

TEST_F(ContainerTest, TheImagesValueStaysIsToldByTheFirstTaskAndLosesTheMark) {
  const StepOutcome outcome = run({{"NCCL_IB_HCA", "mlx5_7"}});
  for (const TaskOutcome& task : outcome.tasks) {
    EXPECT_EQ(task.env.at("NCCL_IB_HCA"), "mlx5_7");
    EXPECT_THAT(task.env.at("NCCLTUNE_SET"), Not(HasSubstr("NCCL_IB_HCA")));
    EXPECT_THAT(task.env.at("NCCLTUNE_SET"), HasSubstr("CUDA_DEVICE_ORDER"));
  }
  EXPECT_THAT(told(outcome, 0),
              HasSubstr("nccl-tune: NCCL_IB_HCA: kept the image's 'mlx5_7'; the plan has '=mlx5_0:1,mlx5_1:1'; "
                        "--container-env=NCCL_IB_HCA keeps the plan's"));
  EXPECT_THAT(told(outcome, 1), Not(HasSubstr("NCCL_IB_HCA")));
}

TEST_F(ContainerTest, AJobThatDidNotAskHearsNothing) {
  with_option_ = false;
  const StepOutcome outcome = run({{"NCCL_IB_HCA", "mlx5_7"}});
  EXPECT_THAT(outcome.tasks[0].env.at("NCCLTUNE_SET"), Not(HasSubstr("NCCL_IB_HCA")));
  EXPECT_EQ(told(outcome, 0), "");
}

TEST_F(ContainerTest, AUsersValueThatTheImageHidesIsTold) {
  const StepOutcome outcome = run({{"NCCL_DEBUG", "INFO"}}, "mode: on\n", {{"NCCL_DEBUG", "WARN"}});
  EXPECT_THAT(told(outcome, 0), HasSubstr("nccl-tune: NCCL_DEBUG: the image's 'INFO' hides the user's 'WARN'"));
}

TEST_F(ContainerTest, WhatTheImageAddsIsForVerbose) {
  EXPECT_THAT(told(run({{"NCCL_VERSION", "2.26.3"}}), 0), Not(HasSubstr("NCCL_VERSION")));
  argument_ = "verbose";
  EXPECT_THAT(told(run({{"NCCL_VERSION", "2.26.3"}}), 0),
              HasSubstr("nccl-tune: NCCL_VERSION: '2.26.3' is the image's"));
}

TEST_F(ContainerTest, ThePlansTopologyFileThatIsNotInsideIsTakenBack) {
  machine_.folder().write("opt/made-up/topo.xml",
                          "<system version=\"1\"/>\n");  // the recorded machine's, not this one's
  const StepOutcome outcome =
      run({}, "profiles:\n  - name: mine\n    env:\n      NCCL_TOPO_FILE: /opt/made-up/topo.xml\n");
  for (const TaskOutcome& task : outcome.tasks) {
    EXPECT_EQ(task.env.count("NCCL_TOPO_FILE"), 0u);
    EXPECT_THAT(task.env.at("NCCLTUNE_SET"), Not(HasSubstr("NCCL_TOPO_FILE")));
  }
  EXPECT_THAT(told(outcome, 0),
              HasSubstr("nccl-tune: NCCL_TOPO_FILE: taken back: '/opt/made-up/topo.xml' cannot be read"));
}

TEST_F(ContainerTest, TheUsersTopologyFileThatIsNotInsideIsTold) {
  const std::string gone = "/nonexistent/nccl-tune/topo.xml";
  const StepOutcome outcome = run({{"NCCL_TOPO_FILE", gone}}, "mode: on\n", {{"NCCL_TOPO_FILE", gone}});
  // The user's own: told, but not ours to take.
  EXPECT_EQ(outcome.tasks[0].env.at("NCCL_TOPO_FILE"), gone);
  EXPECT_THAT(told(outcome, 0), HasSubstr("nccl-tune: NCCL_TOPO_FILE: '" + gone + "' cannot be read in the container"));
}

TEST_F(ContainerTest, AMissingPmixFolderIsTold) {
  const StepOutcome outcome = run({{"PMIX_SERVER_TMPDIR", "/nonexistent/pmix.1.0"}});
  EXPECT_THAT(told(outcome, 0), HasSubstr("nccl-tune: PMIx: '/nonexistent/pmix.1.0' is not in the container"));
  EXPECT_THAT(told(run({{"PMIX_SERVER_TMPDIR", machine_.path()}}), 0), Not(HasSubstr("PMIx")));
}

TEST_F(ContainerTest, OutsideAContainerTheSecondEntryDoesNothing) {
  only_init_.clear();
  const StepOutcome outcome = run({{"NCCL_IB_HCA", "mlx5_7"}, {"PMIX_SERVER_TMPDIR", "/nonexistent/pmix.1.0"}});
  EXPECT_THAT(outcome.tasks[0].env.at("NCCLTUNE_SET"), HasSubstr("NCCL_IB_HCA"));
  EXPECT_EQ(told(outcome, 0), "");
}

}  // namespace
}  // namespace fake
