// SPDX-License-Identifier: Apache-2.0
// The built tool as a user meets it: messages, exit status, and what exec makes of a process.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/text.h"
#include "cli/live_step.h"
#include "unit/cli_run.h"

namespace nccltune::test {
namespace {

using nlohmann::json;

class CliTool : public ::testing::Test {
 protected:
  void SetUp() override {
    if (tool_path().empty()) GTEST_SKIP() << "nccl-tune was not built";
    policy_.write("policy.yaml", "profiles: []\n");
  }

  std::string policy() const { return policy_.path() + "/policy.yaml"; }

 private:
  Tree policy_;
};

// Exit status 2, nothing on stdout, and one line on stderr that starts like this.
void expect_usage_error(const Ran& ran, const std::string& start) {
  EXPECT_EQ(ran.status, 2) << ran.err;
  EXPECT_EQ(ran.out, "");
  EXPECT_TRUE(ran.err.starts_with("nccl-tune: " + start)) << ran.err;
  EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
}

TEST_F(CliTool, HelpAndVersion) {
  const Ran help = run_tool({"--help"});
  EXPECT_EQ(help.status, 0);
  EXPECT_NE(help.out.find("Examples:"), std::string::npos);
  EXPECT_EQ(help.err, "");
  EXPECT_EQ(run_tool({"--version"}).out, "nccl-tune " NCCLTUNE_VERSION "\n");
  for (const char* command : {"topo", "plan", "env", "exec", "dump"}) {
    const Ran ran = run_tool({command, "--help"});
    EXPECT_EQ(ran.status, 0) << command;
    EXPECT_NE(ran.out.find("Examples:"), std::string::npos) << command;
  }
}

TEST_F(CliTool, UnknownWords) {
  expect_usage_error(run_tool({}), "command: none is given");
  EXPECT_EQ(run_tool({"plna"}).err, "nccl-tune: plna: unknown command; did you mean 'plan'?\n");
  EXPECT_EQ(run_tool({"plna"}).status, 2);
  expect_usage_error(run_tool({"xyzzyx"}), "xyzzyx: unknown command; see 'nccl-tune --help'");
  expect_usage_error(run_tool({"--jsn"}), "--jsn: unknown option");
  expect_usage_error(run_tool({"plan", "--rot", "/"}), "plan: ");
}

TEST_F(CliTool, WrongRoots) {
  Tree empty, broken;
  broken.write("dump", "nccl-tune dump 1\nrubbish\n");
  expect_usage_error(run_tool({"topo", "--root", "/nonexistent/x"}), "/nonexistent/x: ");
  expect_usage_error(run_tool({"topo", "--root", empty.path()}), empty.path() + ": ");
  expect_usage_error(run_tool({"topo", "--root", broken.path() + "/dump"}), broken.path() + "/dump");
}

TEST_F(CliTool, WrongNumbersAndLists) {
  Tree tree;
  lay_out_two_gpus(tree, {"0", "1"});
  auto plan = [&](std::vector<std::string> more) {
    std::vector<std::string> words{"plan", "--root", tree.path(), "--policy", policy()};
    words.insert(words.end(), more.begin(), more.end());
    return run_tool(words);
  };
  expect_usage_error(plan({"--tasks", "0"}), "--tasks: '0' is not a number of tasks from 1 to 4096");
  expect_usage_error(plan({"--tasks", "two"}), "--tasks: 'two' is not");
  expect_usage_error(plan({"--task-cpus", "0-"}), "--task-cpus: '0-' is not a list of CPUs");
  expect_usage_error(plan({"--task-cpus", ""}), "--task-cpus: '' is not a list of CPUs");
  expect_usage_error(plan({"--tasks", "1", "--task-cpus", "0", "--task-cpus", "1"}),
                     "--task-cpus: given 2 times for 1 tasks");
  expect_usage_error(plan({"--env", "=x"}), "--env: '=x' is not NAME=VALUE");
  expect_usage_error(plan({"--profile", "nope"}), "--profile: the policy has no profile 'nope'");
  expect_usage_error(run_tool({"plan", "--root", tree.path(), "--policy", "/nonexistent.yaml"}), "/nonexistent.yaml: ");
}

TEST_F(CliTool, ResultsThatCannotBeWritten) {
  Tree tree;
  lay_out_two_gpus(tree, {"0", "1"});
  const std::vector<std::string> words{"topo", "--root", tree.path(), "--policy", policy()};
  const Ran full = run_tool(words, {}, {true, "/dev/full"});
  EXPECT_EQ(full.status, 3);
  EXPECT_EQ(full.err, "nccl-tune: stdout: cannot write the result: No space left on device\n");
  const Ran closed = run_tool(words, {}, {true, ""});
  EXPECT_EQ(closed.status, 3);
  EXPECT_EQ(closed.err, "nccl-tune: stdout: cannot write the result: Bad file descriptor\n");
  // The reader is gone before the tool starts.
  const Ran pipe = run_tool({"exec", "--root", tree.path(), "--policy", policy(), "--", "bash", "-c",
                             "{ sleep 0.5; " + tool_path() + " topo --root " + tree.path() + " --policy " + policy() +
                                 "; } | true; exit ${PIPESTATUS[0]}"});
  EXPECT_EQ(pipe.status, 3) << pipe.err;
}

TEST_F(CliTool, DumpIsReadBackAndNeverOverwrites) {
  Tree tree, folder;
  lay_out_two_gpus(tree, {"0-3", "4-7"});
  const std::string file = folder.path() + "/node.dump";
  const Ran first = run_tool({"dump", file, "--root", tree.path(), "--policy", policy()});
  ASSERT_EQ(first.status, 0) << first.err;
  EXPECT_EQ(first.out, "");
  expect_usage_error(run_tool({"dump", file, "--root", tree.path(), "--policy", policy()}),
                     file + ": exists already and is not overwritten");
  expect_usage_error(run_tool({"dump", folder.path() + "/no/such", "--root", tree.path(), "--policy", policy()}),
                     folder.path() + "/no/such: cannot be created: No such file or directory");
  std::ifstream in(file);
  std::stringstream text;
  text << in.rdbuf();
  EXPECT_EQ(run_tool({"dump", "-", "--root", tree.path(), "--policy", policy()}).out, text.str());
  const json tasks =
      json::parse(run_tool({"plan", "--root", tree.path(), "--policy", policy(), "--json"}).out)["tasks"];
  const Ran again = run_tool({"plan", "--root", file, "--policy", policy(), "--json"});
  ASSERT_EQ(again.status, 0) << again.err;
  EXPECT_EQ(json::parse(again.out)["tasks"], tasks);
}

TEST_F(CliTool, CheckExitsWithOneForAFailure) {
  Tree tree;
  lay_out_two_gpus(tree, {"0-3", "4-7"});
  const std::vector<std::string> words{"check", "--root", tree.path(), "--policy", policy()};
  const Ran good = run_tool(words);
  EXPECT_EQ(good.status, 0) << good.out;
  std::filesystem::remove_all(tree.path() + "/proc/driver/nvidia/gpus/0000:81:00.0");
  const Ran bad = run_tool(words);
  EXPECT_EQ(bad.status, 1) << bad.out;
  EXPECT_NE(bad.out.find("fail  0000:81:00.0: the driver does not list this card"), std::string::npos) << bad.out;
  auto only = words;
  only.insert(only.end(), {"--only", "net"});
  EXPECT_EQ(run_tool(only).status, 0);
  expect_usage_error(run_tool({"check", "--only", "rmda"}), "--only: unknown family 'rmda'; did you mean 'rdma'?");
}

TEST_F(CliTool, ATaskForEachGpu) {
  Tree tree;
  lay_out_two_gpus(tree, {"0-3", "4-7"});
  const Ran ran = run_tool({"plan", "--root", tree.path(), "--policy", policy(), "--json"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  const json plan = json::parse(ran.out);
  ASSERT_EQ(plan["tasks"].size(), 2u);
  EXPECT_EQ(plan["tasks"][0]["gpus"], json({"0000:11:00.0"}));
  EXPECT_EQ(plan["tasks"][0]["cpus"], "0-3");
  EXPECT_EQ(plan["tasks"][1]["gpus"], json({"0000:81:00.0"}));
  EXPECT_EQ(plan["tasks"][1]["cpus"], "4-7");
  EXPECT_EQ(plan["tasks"][1]["mem_node"], 1);
}

TEST_F(CliTool, OneTaskTakesAll) {
  Tree tree;
  lay_out_two_gpus(tree, {"0-3", "4-7"});
  const Ran ran = run_tool({"plan", "--root", tree.path(), "--policy", policy(), "--tasks", "1", "--json"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  const json plan = json::parse(ran.out);
  ASSERT_EQ(plan["tasks"].size(), 1u);
  EXPECT_EQ(plan["tasks"][0]["gpus"].size(), 2u);
}

TEST_F(CliTool, TheUsersValueIsKept) {
  Tree tree;
  lay_out_two_gpus(tree, {"0-3", "4-7"});
  const Ran ran = run_tool(
      {"plan", "--root", tree.path(), "--policy", policy(), "--env", "CUDA_DEVICE_ORDER=FASTEST_FIRST", "--json"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  const json plan = json::parse(ran.out);
  for (const json& setting : plan["env"]) EXPECT_NE(setting["name"], "CUDA_DEVICE_ORDER");
}

TEST_F(CliTool, ExportLinesGoThroughAShell) {
  Tree tree;
  lay_out_two_gpus(tree, {"0-3", "4-7"});
  Tree odd;
  odd.write("p.yaml",
            "profiles:\n  - name: odd\n    why: a value that a shell would break\n    env:\n"
            "      NCCL_DEBUG_FILE: \"a'b $(x) \\\"c\"\n");
  const std::string command = "eval \"$(" + tool_path() + " env --root " + tree.path() + " --policy " + odd.path() +
                              "/p.yaml)\" && printf '%s|%s' \"$NCCL_DEBUG_FILE\" \"$NCCLTUNE_SET\"";
  const Ran ran = run_tool(
      {"exec", "--root", tree.path(), "--policy", policy(), "--", "bash", "-c", "unset NCCLTUNE_SET; " + command});
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(ran.out.substr(0, ran.out.find('|')), "a'b $(x) \"c");
  EXPECT_NE(ran.out.find("NCCL_DEBUG_FILE"), std::string::npos);
}

TEST_F(CliTool, ExecPinsToTheGpuOfTheLocalRank) {
  const auto mine = cli::own_cpus();
  ASSERT_TRUE(mine);
  if (mine->count() < 2) GTEST_SKIP() << "one CPU: nothing to choose from";
  const auto ids = mine->ids();
  Tree tree;
  lay_out_two_gpus(tree, {std::to_string(ids[0]), std::to_string(ids[1])});
  for (int rank = 0; rank < 2; ++rank) {
    const Ran ran =
        run_tool({"exec", "--root", tree.path(), "--policy", policy(), "--tasks", "2", "--env",
                  "LOCAL_RANK=" + std::to_string(rank), "--", "grep", "Cpus_allowed_list", "/proc/self/status"});
    ASSERT_EQ(ran.status, 0) << ran.err;
    EXPECT_EQ(std::string(trim(ran.out.substr(ran.out.find(':') + 1))), std::to_string(ids[static_cast<size_t>(rank)]));
  }
}

TEST_F(CliTool, ExecSaysWhyItCannotRun) {
  Tree tree;
  lay_out_two_gpus(tree, {"0", "1"});
  tree.write("not-a-program", "x");
  const std::vector<std::string> start{"exec", "--root", tree.path(), "--policy", policy(), "--task-cpus", "0", "--"};
  auto with = [&](const std::string& command) {
    std::vector<std::string> words = start;
    words.push_back(command);
    return run_tool(words);
  };
  const Ran absent = with("/nonexistent/program");
  EXPECT_EQ(absent.status, 127);
  EXPECT_NE(absent.err.find("nccl-tune: /nonexistent/program: cannot run: No such file or directory\n"),
            std::string::npos);
  const Ran forbidden = with(tree.path() + "/not-a-program");
  EXPECT_EQ(forbidden.status, 126);
  EXPECT_NE(forbidden.err.find("cannot run: Permission denied\n"), std::string::npos);
  expect_usage_error(run_tool({"exec", "--root", tree.path(), "--"}), "exec: no command is given");
}

TEST_F(CliTool, ExecGivesTheCommandsStatusAndArguments) {
  Tree tree;
  lay_out_two_gpus(tree, {"0", "1"});
  const Ran ran = run_tool(
      {"exec", "--root", tree.path(), "--policy", policy(), "sh", "-c", "echo \"$1\"; exit 7", "sh", "--json"});
  EXPECT_EQ(ran.status, 7) << ran.err;
  EXPECT_EQ(ran.out, "--json\n");
}

TEST_F(CliTool, ExecNeverOverwritesTheUsersValue) {
  Tree tree, policies;
  lay_out_two_gpus(tree, {"0", "1"});
  policies.write("p.yaml", "profiles:\n  - name: any\n    why: test\n    env:\n      NCCL_DEBUG: WARN\n");
  auto debug_with = [&](const std::map<std::string, std::string>& env) {
    std::vector<std::string> words{"exec", "--root", tree.path(), "--policy", policies.path() + "/p.yaml"};
    for (const auto& [name, value] : env) words.insert(words.end(), {"--env", name + "=" + value});
    words.insert(words.end(), {"--", "sh", "-c", "echo $NCCL_DEBUG"});
    return run_tool(words, env).out;
  };
  EXPECT_EQ(debug_with({}), "WARN\n");
  EXPECT_EQ(debug_with({{"NCCL_DEBUG", "INFO"}}), "INFO\n");
  // What an earlier plan of ours exported is not the user's.
  EXPECT_EQ(debug_with({{"NCCL_DEBUG", "INFO"}, {"NCCLTUNE_SET", "NCCL_DEBUG"}}), "WARN\n");
}

TEST_F(CliTool, LooksTheSameOnAnyMachine) {
  Tree tree;
  lay_out_two_gpus(tree, {"0-3", "4-7"});
  const std::vector<std::string> words{"topo", "--root", tree.path(), "--policy", policy()};
  const Ran plain = run_tool(words);
  EXPECT_EQ(plain.out.find('\033'), std::string::npos);  // a pipe is no terminal
  EXPECT_EQ(plain.out, run_tool(words, {{"LC_ALL", "C"}, {"COLUMNS", "40"}, {"NCCL_IB_HCA", "mlx5_9"}}).out);
}

}  // namespace
}  // namespace nccltune::test
