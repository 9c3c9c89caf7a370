// SPDX-License-Identifier: Apache-2.0
// Nodes that are slow or broken, and what changes on them while a step starts: the step starts all the same, in time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>

#include "fake/fixture.h"
#include "fake/mishap.h"

namespace fake {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

constexpr const char* kState = "/infiniband/mlx5_0/ports/1/state";

class SlowNodeTest : public RunningStep {
 protected:
  void TearDown() override {
    let_reads_go_wrong(Mishap::none, "");
    // No reader is left behind, dead or alive.
    EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
  }

  StepOutcome run(const StepRequest& r) const {
    const auto start = std::chrono::steady_clock::now();
    StepOutcome outcome = RunningStep::run(r);
    seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return outcome;
  }

  mutable double seconds_ = 0;  // of the last run
};

TEST_F(SlowNodeTest, AReadThatHangs) {
  let_reads_go_wrong(Mishap::hang, kState);
  StepRequest r = request();
  const StepOutcome outcome = run(r);
  EXPECT_GE(seconds_, 5);
  EXPECT_LT(seconds_, 20);
  EXPECT_THAT(stderr_of(outcome.tasks[0]),
              HasSubstr("/mlx5_0/ports/1/state: not read within 5000 ms: a driver or a file system hangs; "
                        "nothing is tuned\n"));
  EXPECT_EQ(stderr_of(outcome.tasks[1]), "");
  for (const TaskOutcome& task : outcome.tasks) EXPECT_EQ(task.env, r.env);
}

TEST_F(SlowNodeTest, AReadThatHangsUnderStrict) {
  let_reads_go_wrong(Mishap::hang, kState);
  for (const TaskOutcome& task : run(request("strict")).tasks) EXPECT_TRUE(task.ended);
  EXPECT_LT(seconds_, 20);
}

TEST_F(SlowNodeTest, AReaderThatCrashes) {
  let_reads_go_wrong(Mishap::crash, kState);
  StepRequest r = request();
  const StepOutcome outcome = run(r);
  EXPECT_LT(seconds_, 5);
  EXPECT_THAT(stderr_of(outcome.tasks[0]),
              HasSubstr("/mlx5_0/ports/1/state: the reader of this node's facts ended here: Segmentation fault; "
                        "nothing is tuned\n"));
  for (const TaskOutcome& task : outcome.tasks) EXPECT_EQ(task.env, r.env);
}

TEST_F(SlowNodeTest, AReadThatFails) {
  let_reads_go_wrong(Mishap::fail, kState);
  const StepOutcome outcome = run(request("verbose"));
  EXPECT_EQ(value(outcome.tasks[0].env, "NCCL_IB_HCA"), "=mlx5_1:1");
  EXPECT_THAT(stderr_of(outcome.tasks[0]), HasSubstr("nccl-tune: mlx5_0: port 1 left out"));
}

TEST_F(SlowNodeTest, EveryReadFails) {
  let_reads_go_wrong(Mishap::fail, "");
  StepRequest r = request();
  r.words.pop_back();  // nor could the policy be read
  for (const TaskOutcome& task : run(r).tasks) EXPECT_FALSE(task.ended);
}

TEST_F(SlowNodeTest, SlowReadsWithinTheDeadlineCount) {
  let_reads_go_wrong(Mishap::slow, "/numa_node");
  const StepOutcome outcome = run(request());
  EXPECT_GE(seconds_, 0.1);
  EXPECT_EQ(value(outcome.tasks[0].env, "NCCL_IB_HCA"), "=mlx5_0:1,mlx5_1:1");
  EXPECT_EQ(stderr_of(outcome.tasks[0]), "");
}

TEST_F(SlowNodeTest, TheWholeMachineGoesBeforeTheTasksStart) {
  StepRequest r = request();
  r.after_user_init = [&] {
    fs::remove_all(machine_.path() + "/sys");
    fs::remove_all(machine_.path() + "/proc");
  };
  for (const TaskOutcome& task : run(r).tasks) EXPECT_EQ(value(task.env, "NCCL_IB_HCA"), "=mlx5_0:1,mlx5_1:1");
}

TEST_F(SlowNodeTest, AGpuGoesBeforeTheTasksStart) {
  if (machine_.cpus().size() < 2) GTEST_SKIP() << "one CPU is no choice";
  for (const char* name : {"dev/nvidia0", "dev/nvidia1"}) machine_.folder().write(name, "");
  StepRequest r = request("verbose");
  r.tasks = {{{"CUDA_VISIBLE_DEVICES", "0"}}, {{"CUDA_VISIBLE_DEVICES", "1"}}};
  r.after_user_init = [&] { unlink((machine_.path() + "/dev/nvidia1").c_str()); };
  const StepOutcome outcome = run(r);
  for (const TaskOutcome& task : outcome.tasks) EXPECT_EQ(value(task.env, "NCCL_IB_HCA"), "=mlx5_0:1,mlx5_1:1");
  // The task that has its GPU is pinned beside it.
  EXPECT_EQ(outcome.tasks[0].cpus, std::to_string(machine_.cpus()[0]));
  EXPECT_EQ(value(outcome.tasks[1].env, "CUDA_VISIBLE_DEVICES"), "1");
}

// A process that does `change` over and over until it is destroyed.
class Busy {
 public:
  template <class Change>
  explicit Busy(Change change) : pid_(fork()) {
    if (pid_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int i = 0;; ++i) change(i);
  }
  ~Busy() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

 private:
  pid_t pid_;
};

TEST_F(SlowNodeTest, APolicyReplacedWhileStepsStartIsTheOldOrTheNew) {
  const std::string one = "exclude_hcas: [mlx5_0]\n", other = "exclude_hcas: [mlx5_1]\n";
  policy(one);
  const std::string next = machine_.path() + "/next.yaml";
  std::set<std::string> seen;
  {
    const Busy busy([&](int i) {
      std::ofstream(next) << (i % 2 ? one : other);
      chmod(next.c_str(), 0644);
      rename(next.c_str(), policy_.c_str());
    });
    for (int i = 0; i < 40; ++i) {
      const StepOutcome outcome = run(request());
      seen.insert(value(outcome.tasks[0].env, "NCCL_IB_HCA"));
      EXPECT_EQ(value(outcome.tasks[1].env, "NCCL_IB_HCA"), value(outcome.tasks[0].env, "NCCL_IB_HCA"));
      EXPECT_EQ(stderr_of(outcome.tasks[0]), "");
    }
  }
  EXPECT_EQ(seen, (std::set<std::string>{"=mlx5_0:1", "=mlx5_1:1"}));
}

// An editor that writes in place: a half of the file may be seen, and the step runs.
TEST_F(SlowNodeTest, APolicyWrittenInPlaceWhileStepsStart) {
  std::string text = "exclude_hcas: [mlx5_0]\nprofiles:\n";
  for (int i = 0; i < 300; ++i)
    text += "  - name: p" + std::to_string(i) +
            "\n    when: {gpu_count: 77}\n    why: a test\n    env: {NCCL_DEBUG: WARN}\n";
  policy(text);
  const Busy busy([&](int) {
    std::ofstream file(policy_);
    for (std::size_t at = 0; at < text.size(); at += 512) file << text.substr(at, 512) << std::flush;
  });
  for (int i = 0; i < 40; ++i) {
    const StepOutcome outcome = run(request());
    EXPECT_THAT(value(outcome.tasks[0].env, "NCCL_IB_HCA"), testing::AnyOf("=mlx5_1:1", "=mlx5_0:1,mlx5_1:1"));
  }
}

}  // namespace
}  // namespace fake
