// SPDX-License-Identifier: Apache-2.0
// Whatever goes wrong, the step runs and one line says so; under strict the task ends. And what a user can send.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <random>

#include "fake/fixture.h"

namespace fake {
namespace {

using testing::HasSubstr;

class TroubleTest : public RunningStep {
 protected:
  // The step runs, the first task alone says one line with `text`; under strict all its tasks end, and it says the
  // same.
  void expect_told(StepRequest r, const std::string& text) const {
    StepOutcome outcome = run(r);
    for (const TaskOutcome& task : outcome.tasks) EXPECT_FALSE(task.ended);
    const std::string said = stderr_of(outcome.tasks[0]);
    EXPECT_THAT(said, HasSubstr(text));
    EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
    EXPECT_EQ(stderr_of(outcome.tasks[1]), "");
    r.argument = r.argument ? *r.argument + ",strict" : "strict";
    outcome = run(r);
    for (const TaskOutcome& task : outcome.tasks) EXPECT_TRUE(task.ended);
    EXPECT_THAT(stderr_of(outcome.tasks[0]), HasSubstr(text));
    EXPECT_EQ(stderr_of(outcome.tasks[1]), "");
  }
};

TEST_F(TroubleTest, NoExceptionLeavesAHook) {
  struct Case {
    const char *hook, *function;
  };
  for (const Case& c : {Case{"slurm_spank_init", "spank_context"}, Case{"slurm_spank_init", "spank_option_register"},
                        Case{"slurm_spank_init", "spank_getenv"}, Case{"slurm_spank_user_init", "spank_get_item"},
                        Case{"slurm_spank_user_init", "slurm_verbose"}, Case{"slurm_spank_task_init", "spank_get_item"},
                        Case{"slurm_spank_task_init", "spank_setenv"}, Case{"slurm_spank_task_init", "slurm_verbose"},
                        Case{"slurm_spank_task_init", "slurm_error"}}) {
    for (bool with_int : {false, true}) {
      StepRequest r = request();
      r.in_hook = c.hook;
      (with_int ? r.throws_int : r.throws) = c.function;
      run(r);
    }
  }
}

TEST_F(TroubleTest, AnExceptionOfUserInitIsToldByTheFirstTask) {
  StepRequest r = request();
  r.in_hook = "slurm_spank_user_init";
  r.throws = "spank_get_item";
  expect_told(r, "nccl-tune: slurm_spank_user_init: spank_get_item threw\n");
  r.throws.clear();
  r.throws_int = "spank_get_item";
  expect_told(r, "nccl-tune: slurm_spank_user_init: an exception of unknown type\n");
}

TEST_F(TroubleTest, AnExceptionOfATaskIsToldByThatTask) {
  StepRequest r = request();
  r.in_hook = "slurm_spank_task_init";
  r.throws = "spank_setenv";
  StepOutcome outcome = run(r);
  for (const TaskOutcome& task : outcome.tasks)
    EXPECT_EQ(stderr_of(task), "nccl-tune: slurm_spank_task_init: spank_setenv threw\n");
  r.argument = "strict";
  for (const TaskOutcome& task : run(r).tasks) EXPECT_TRUE(task.ended);
}

TEST_F(TroubleTest, AVariableThatSlurmRefusesIsTold) {
  StepRequest r = request();
  r.in_hook = "slurm_spank_task_init";
  r.fails = "spank_setenv";
  const StepOutcome outcome = run(r);
  EXPECT_THAT(stderr_of(outcome.tasks[0]), HasSubstr(": cannot be exported: Generic error\n"));
}

TEST_F(TroubleTest, StrictIsQuietWhenAllIsWell) {
  const StepOutcome outcome = run(request("strict"));
  for (const TaskOutcome& task : outcome.tasks) {
    EXPECT_FALSE(task.ended);
    EXPECT_EQ(value(task.env, "NCCL_IB_HCA"), "=mlx5_0:1,mlx5_1:1");
  }
}

TEST_F(TroubleTest, AMissingPolicy) {
  StepRequest r = request();
  r.words[1] += ".none";
  expect_told(r, policy_ + ".none: ");
  EXPECT_EQ(value(run(r).tasks[0].env, "NCCL_IB_HCA"), "=mlx5_0:1,mlx5_1:1");
}

TEST_F(TroubleTest, TheDefaultPolicyMayBeMissing) {
  if (access("/etc/nccl-tune.yaml", F_OK) == 0) GTEST_SKIP() << "this host has one";
  StepRequest r = request();
  r.words.pop_back();
  const StepOutcome outcome = run(r);
  EXPECT_EQ(stderr_of(outcome.tasks[0]), "");
  EXPECT_EQ(logged(outcome.tasks[0].log, Level::info),
            "nccl-tune: /etc/nccl-tune.yaml: not there; the built-in rules alone make the plan\n");
  EXPECT_EQ(logged(outcome.tasks[1].log, Level::info), "");
}

TEST_F(TroubleTest, ABrokenPolicy) {
  policy("exclud_hcas: [mlx5_0]\n");
  expect_told(request(), policy_ + ":1:1: unknown key 'exclud_hcas'; did you mean 'exclude_hcas'?");
  policy("mode: [\n");
  expect_told(request(), policy_ + ":");
  policy("profiles: 3\n");
  expect_told(request(), policy_ + ":1:");
  EXPECT_EQ(value(run(request()).tasks[0].env, "NCCL_IB_HCA"), "=mlx5_0:1,mlx5_1:1");
}

TEST_F(TroubleTest, APolicyThatOthersMayWrite) {
  chmod(policy_.c_str(), 0666);
  expect_told(request(), policy_ + ": ");
}

TEST_F(TroubleTest, ARecordedMachineThatIsNotThere) {
  StepRequest r = request();
  r.words[0] = "root=/nonexistent/machine";
  expect_told(r, "nccl-tune: /nonexistent/machine: ");
  EXPECT_EQ(run(r).tasks[0].env, r.env);
}

TEST_F(TroubleTest, AnEmptyMachine) {
  const Folder empty;
  empty.write("sys/x", "");
  StepRequest r = request();
  r.words[0] = "root=" + empty.path();
  const StepOutcome outcome = run(r);
  EXPECT_THAT(stderr_of(outcome.tasks[0]), HasSubstr("/sys: no GPU, HCA or interface to be seen; nothing is tuned\n"));
  EXPECT_EQ(outcome.tasks[0].env, r.env);
}

TEST_F(TroubleTest, ABadPlugstackArgument) {
  StepRequest r = request();
  r.words.push_back("fast");
  expect_told(r, "nccl-tune: plugstack.conf: unknown argument 'fast'; known: ");
}

TEST_F(TroubleTest, AnUnknownProfile) {
  expect_told(request("profile=nosuch"), "--nccl-tune: no profile 'nosuch' on this node");
}

TEST_F(TroubleTest, AKeyOfANewerClientIsToldAndTheRestCounts) {
  StepRequest r = request("env,turbo");
  const StepOutcome outcome = run(r);
  EXPECT_EQ(value(outcome.tasks[0].env, "NCCL_IB_HCA"), "=mlx5_0:1,mlx5_1:1");
  EXPECT_THAT(stderr_of(outcome.tasks[0]), HasSubstr("unknown key 'turbo'"));
}

TEST_F(TroubleTest, AJobThatDidNotAskIsNotBothered) {
  StepRequest r = request();
  r.with_option = false;
  r.words = {"root=" + machine_.path(), "policy=/nonexistent.yaml", "default=on"};
  const StepOutcome outcome = run(r);
  EXPECT_EQ(stderr_of(outcome.tasks[0]), "");
  EXPECT_THAT(logged(outcome.tasks[0].log, Level::info), HasSubstr("nccl-tune: /nonexistent.yaml: "));
  EXPECT_EQ(value(outcome.tasks[0].env, "NCCL_IB_HCA"), "=mlx5_0:1,mlx5_1:1");
}

TEST_F(TroubleTest, HostileOptions) {
  std::mt19937 random(20240607);
  const std::string alphabet = "onfshwevbidtrcpl=,,,.-_/%\\'\"\n\x01\x7f\xff 0123";
  for (int i = 0; i < 300; ++i) {
    std::string text;
    for (int n = random() % 1200; n > 0; --n) text += alphabet[random() % alphabet.size()];
    StepRequest r = request(text);
    r.tasks = {{}};
    const StepOutcome outcome = run(r);
    for (const LogLine& line : outcome.tasks[0].log)
      EXPECT_EQ(line.text.find_first_of("\v\x01\x7f"), std::string::npos);
  }
}

TEST_F(TroubleTest, HostileEnvironment) {
  std::string marks;
  for (int i = 0; i < 20000; ++i) marks += "V" + std::to_string(i) + ",";
  const std::string big(200000, 'x');
  for (const Environment& env : std::vector<Environment>{
           {{"NCCLTUNE_SET", marks}},
           {{"NCCLTUNE_SET", "PATH,SLURM_PROCID,,=,\n"}, {"SLURM_PROCID", "0"}},
           {{"SLURM_STEP_GPUS", "-1,99999999999999999999,0-7,,"}, {"CUDA_VISIBLE_DEVICES", "MIG-x,GPU-,9999999999"}},
           {{"SLURMD_TRES_BIND", "gpu:%n%s"}, {"SLURM_LOCALID", "-5"}, {"SLURM_NTASKS", "0"}},
           {{"NCCL_IB_HCA", "\n%s%n^^==,,:,:99999999999"}, {"NCCL_IB_GID_INDEX", ""}, {"NCCL_SOCKET_IFNAME", big}},
           {{"HOME", big}, {"NCCL_CONF_FILE", "/dev/zero"}},
           {{"HOME", "/proc/self/root/../.."}, {"NCCL_CONF_FILE", "/proc/self/mem"}},
           {{"SLURMD_NODENAME", big}, {"SLURM_TOPOLOGY_ADDR", "...."}, {"SLURM_STEP_NODELIST", "n[1-99999999999]"}}}) {
    StepRequest r = request("verbose,torch,sharp");
    for (const auto& [name, value] : env) r.env[name] = value;
    const StepOutcome outcome = run(r);
    EXPECT_EQ(value(outcome.tasks[0].env, "PATH"), "/bin");
    for (const LogLine& line : outcome.tasks[0].log) EXPECT_EQ(line.text.find('\v'), std::string::npos) << line.text;
  }
}

TEST_F(TroubleTest, AFifoAsConfFileDoesNotBlock) {
  const std::string fifo = machine_.path() + "/fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0644), 0);
  StepRequest r = request();
  r.words.erase(r.words.begin());  // the live machine's paths
  r.env["NCCL_CONF_FILE"] = fifo;
  alarm(10);
  run(r);
  alarm(0);
}

TEST_F(TroubleTest, ManyTasks) {
  StepRequest r = request();
  r.tasks.assign(64, {});
  for (const TaskOutcome& task : run(r).tasks) EXPECT_EQ(value(task.env, "NCCL_IB_HCA"), "=mlx5_0:1,mlx5_1:1");
}

}  // namespace
}  // namespace fake
