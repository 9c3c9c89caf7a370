// SPDX-License-Identifier: Apache-2.0
// What tests of a step share: a machine with a policy, and two tasks on it.
#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <optional>
#include <string>

#include "fake/machine.h"
#include "fake/walk.h"

namespace fake {

inline std::string value(const Environment& env, const std::string& name) {
  const auto found = env.find(name);
  return found == env.end() ? "(unset)" : found->second;
}

// What a user sees on the task's stderr.
inline std::string stderr_of(const TaskOutcome& task) {
  return logged(task.log, Level::spank_log) + logged(task.log, Level::error);
}

// The site's policy, readable as the plugin wants it; gives its path.
inline std::string write_policy(const Machine& machine, const std::string& text) {
  const std::string path = machine.folder().write("policy.yaml", text);
  chmod(path.c_str(), 0644);
  return path;
}

// Runs a step that the plugin must not stop.
inline StepOutcome run_unstopped(const Plugin& plugin, const StepRequest& request) {
  StepOutcome outcome = run_step(plugin, request);
  EXPECT_EQ(outcome.init, 0);
  EXPECT_EQ(outcome.option, 0);
  EXPECT_EQ(outcome.user_init, 0);
  for (const TaskOutcome& task : outcome.tasks) EXPECT_FALSE(task.died);
  return outcome;
}

// Whatever goes wrong on the node, the step runs.
class RunningStep : public testing::Test {
 protected:
  void SetUp() override { policy("mode: on\n"); }

  void policy(const std::string& text) { policy_ = write_policy(machine_, text); }

  StepRequest request(std::optional<std::string> argument = std::nullopt) const {
    StepRequest r;
    r.words = {"root=" + machine_.path(), "policy=" + policy_};
    r.argument = std::move(argument);
    r.env = {{"PATH", "/bin"}, {"SLURMD_NODENAME", "n1"}};
    r.tasks = {{}, {}};
    return r;
  }

  StepOutcome run(const StepRequest& r) const {
    StepOutcome outcome = run_unstopped(plugin_, r);
    for (const TaskOutcome& task : outcome.tasks) EXPECT_EQ(task.rc, 0);
    return outcome;
  }

  Machine machine_;
  std::string policy_;
  Plugin plugin_;
};

}  // namespace fake
