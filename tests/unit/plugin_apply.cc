// SPDX-License-Identifier: Apache-2.0
// From the plan to the task: what is exported, what is refused, and which value stands.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fake/spank.h"
#include "plugin/apply.h"
#include "plugin/mark.h"

namespace nccltune {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Apply : public ::testing::Test {
 protected:
  Apply() {
    fake::host() = fake::Host{};
    fake::host().hook = "slurm_spank_task_init";
  }
  ~Apply() override { fake::host() = fake::Host{}; }

  Applied apply(const std::set<std::string>& marked = {}) {
    Applied applied;
    export_env(reinterpret_cast<spank_t>(&fake::host()), plan, task, marked, applied);
    return applied;
  }

  fake::Environment& env = fake::host().env;
  Plan plan;
  TaskPlan task;
};

TEST_F(Apply, TheTasksValueBeatsTheNodes) {
  plan.env = {{"NCCL_A", "node", "r", "", ""}, {"NCCL_B", "node", "r", "", ""}};
  task.env = {{"NCCL_B", "task", "r", "", ""}};
  const Applied applied = apply();
  EXPECT_FALSE(applied.error);
  EXPECT_EQ(env, (fake::Environment{{"NCCL_A", "node"}, {"NCCL_B", "task"}, {kMark, "NCCL_A,NCCL_B"}}));
}

TEST_F(Apply, AValueThatStandsThereIsKeptAndSaid) {
  env = {{"NCCL_A", "theirs"}};
  plan.env = {{"NCCL_A", "ours", "r", "", ""}};
  const Applied applied = apply();
  EXPECT_EQ(env, (fake::Environment{{"NCCL_A", "theirs"}}));
  ASSERT_EQ(applied.notes.size(), 1u);
  EXPECT_EQ(applied.notes[0].object, "NCCL_A");
}

TEST_F(Apply, WhatAnotherStepLeftIsReplacedOrTakenAway) {
  env = {{"NCCL_A", "old"}, {"NCCL_B", "old"}, {kMark, "NCCL_A,NCCL_B"}};
  plan.env = {{"NCCL_A", "new", "r", "", ""}};
  apply({"NCCL_A", "NCCL_B"});
  EXPECT_EQ(env, (fake::Environment{{"NCCL_A", "new"}, {kMark, "NCCL_A"}}));
}

// A profile of the site may hold anything: exec would refuse it, or the task would see another variable.
TEST_F(Apply, WhatCannotBeAVariableIsRefusedAndTheRestStands) {
  const std::string long_value(size_t{128} * 1024, 'x');
  plan.env = {{"NCCL A", "1", "r1", "", ""},
              {"NCCL_B=x", "1", "r2", "", ""},
              {std::string(300, 'N'), "1", "r3", "", ""},
              {"NCCL_C", long_value, "r4", "", ""},
              {"NCCL_D", std::string("a\0b", 3), "r5", "", ""},
              {"NCCL_E", "", "r6", "", ""},
              {"NCCL_F", "1", "r7", "", ""}};
  const Applied applied = apply();
  EXPECT_EQ(env, (fake::Environment{{"NCCL_F", "1"}, {kMark, "NCCL_F"}}));
  ASSERT_TRUE(applied.error);
  EXPECT_THAT(applied.error->text(), HasSubstr("NCCL A: cannot be exported (rule r1)"));
  plan.env = {{std::string(300, 'N'), "1", "r3", "", ""}};
  EXPECT_LT(apply().error->text().size(), 200u);
}

TEST_F(Apply, WhatSlurmRefusesIsTheFault) {
  plan.env = {{"NCCL_A", "1", "r", "", ""}};
  fake::host().fails = "spank_setenv";
  const Applied applied = apply();
  ASSERT_TRUE(applied.error);
  EXPECT_THAT(applied.error->text(), HasSubstr("NCCL_A: cannot be exported"));
  EXPECT_THAT(applied.set, IsEmpty());
}

// srun --mem-bind: Slurm sets the policy before the last hook.
TEST_F(Apply, AMemoryPolicyOfTheTaskIsLeftAlone) {
  task.mem_node = 0;
  const pid_t child = fork();
  if (child == 0) {
    unsigned long node = 1;
    if (syscall(SYS_set_mempolicy, MPOL_BIND, &node, 8 * sizeof node) != 0) _exit(2);  // no NUMA support here
    Applied applied;
    pin(task, std::nullopt, applied);
    _exit(!applied.error && applied.notes.size() == 1 && applied.notes[0].text.find("--mem-bind") != std::string::npos
              ? 0
              : 1);
  }
  int status = 1;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 2) GTEST_SKIP() << "this kernel takes no memory policy";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace nccltune
