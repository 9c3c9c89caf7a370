// SPDX-License-Identifier: Apache-2.0
// srun, sbatch, salloc, and slurmd itself: the option, NCCLTUNE, plugstack arguments, identity.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "fake/walk.h"

namespace fake {
namespace {

using testing::HasSubstr;

constexpr const char* kOptionVariable = "SLURM_SPANK__SLURM_SPANK_OPTION_nccl_tune_nccl_tune";

class ClientTest : public testing::TestWithParam<spank_context_t> {
 protected:
  void SetUp() override { clear(); }
  void TearDown() override { clear(); }
  static void clear() {
    unsetenv("NCCLTUNE");
    unsetenv(kOptionVariable);
  }
  ClientOutcome run(const std::vector<std::optional<std::string>>& arguments = {}) {
    ClientOutcome outcome = run_client(plugin_, GetParam(), arguments);
    EXPECT_EQ(outcome.init, 0);
    return outcome;
  }
  Plugin plugin_;
};

INSTANTIATE_TEST_SUITE_P(Contexts, ClientTest, testing::Values(S_CTX_LOCAL, S_CTX_ALLOCATOR),
                         [](const auto& info) { return info.param == S_CTX_LOCAL ? "srun" : "sbatch"; });

TEST_P(ClientTest, KnownKeysPassInSilence) {
  const ClientOutcome outcome = run({std::nullopt, "", "(null)", "off", "on,verbose,strict,sharp,torch,profile=x"});
  EXPECT_EQ(outcome.option, 0);
  EXPECT_TRUE(outcome.log.empty());
}

TEST_P(ClientTest, AnUnknownKeyIsRefusedWithTheKnownOnes) {
  const ClientOutcome outcome = run({"on,fast"});
  EXPECT_LT(outcome.option, 0);
  EXPECT_EQ(
      logged(outcome.log, Level::error),
      "nccl-tune: --nccl-tune: unknown key 'fast'; known: on, off, show, env, bind, strict, verbose, profile=NAME, "
      "sharp, torch\n");
}

TEST_P(ClientTest, TheVariableIsForwardedAsTheOption) {
  EXPECT_EQ(run().forwarded, "");
  setenv("NCCLTUNE", "verbose", 1);
  const ClientOutcome outcome = run();
  EXPECT_EQ(outcome.forwarded, "from-NCCLTUNE,verbose");
  EXPECT_EQ(outcome.option, 0);
}

TEST_P(ClientTest, AnEmptyVariableSaysNothing) {
  setenv("NCCLTUNE", "", 1);
  run();
  EXPECT_EQ(std::getenv(kOptionVariable), nullptr);
}

TEST_P(ClientTest, TheJobsOptionBeatsTheVariable) {
  setenv("NCCLTUNE", "verbose", 1);
  setenv(kOptionVariable, "off", 1);
  EXPECT_EQ(run().forwarded, "off");
}

TEST_P(ClientTest, ALaterVariableBeatsAnEarlierOne) {
  setenv("NCCLTUNE", "off", 1);
  setenv(kOptionVariable, "from-NCCLTUNE,verbose", 1);
  EXPECT_EQ(run().forwarded, "from-NCCLTUNE,off");
  unsetenv("NCCLTUNE");
  EXPECT_EQ(run().forwarded, "from-NCCLTUNE,off");
}

TEST_P(ClientTest, ABadVariableIsRefusedToo) {
  setenv("NCCLTUNE", "fast", 1);
  const ClientOutcome outcome = run();
  EXPECT_LT(outcome.option, 0);
  EXPECT_THAT(logged(outcome.log, Level::error), HasSubstr("nccl-tune: NCCLTUNE: unknown key 'fast'"));
}

TEST(Identity, OnlyTheHooksThatDoSomething) {
  const Plugin plugin;
  for (const char* hook : {"slurm_spank_init", "slurm_spank_user_init", "slurm_spank_task_init", "slurm_spank_exit"})
    EXPECT_TRUE(plugin.has(hook)) << hook;
  // task_init_privileged races with the binding; prolog and epilog run as root for every job; a static table is not
  // read by sbatch and salloc.
  for (const char* hook : {"slurm_spank_task_init_privileged", "slurm_spank_task_post_fork", "slurm_spank_job_prolog",
                           "slurm_spank_job_epilog", "slurm_spank_slurmd_exit", "spank_options"})
    EXPECT_FALSE(plugin.has(hook)) << hook;
}

TEST(Identity, TheOptionIsWhatThePeopleType) {
  const Plugin plugin;
  host() = Host{};
  plugin.call("slurm_spank_init", {});
  ASSERT_EQ(host().options.size(), 1u);
  EXPECT_STREQ(host().options[0].name, "nccl-tune");
  EXPECT_EQ(host().options[0].has_arg, 2);
  plugin.call("slurm_spank_exit", {});
}

TEST(Daemon, SlurmdIsToldOfABadPlugstackAndNothingElseHappens) {
  const Plugin plugin;
  host() = Host{};
  host().context = S_CTX_SLURMD;
  EXPECT_EQ(plugin.call("slurm_spank_init", {"default=on", "fast"}), 0);
  EXPECT_TRUE(host().options.empty());
  EXPECT_EQ(
      logged(host().log, Level::error),
      "nccl-tune: plugstack.conf: unknown argument 'fast'; known: default=on|off, policy=FILE, gpu_order=pci|minor, "
      "root=DIR\n");
  EXPECT_EQ(plugin.call("slurm_spank_exit", {}), 0);
}

TEST(Daemon, HooksWithoutInitDoNothing) {
  const Plugin plugin;
  host() = Host{};
  for (const char* hook : {"slurm_spank_user_init", "slurm_spank_task_init", "slurm_spank_exit", "slurm_spank_exit"})
    EXPECT_EQ(plugin.call(hook, {}), 0) << hook;
  EXPECT_TRUE(host().log.empty());
}

TEST(Daemon, TheOptionsCallbackMayComeAfterExit) {
  const Plugin plugin;
  host() = Host{};
  plugin.call("slurm_spank_init", {});
  plugin.call("slurm_spank_exit", {});
  EXPECT_EQ(plugin.call_option("fast", false), 0);
}

TEST(Daemon, AnUnknownContextIsNoSession) {
  const Plugin plugin;
  for (spank_context_t context : {S_CTX_ERROR, S_CTX_JOB_SCRIPT}) {
    host() = Host{};
    host().context = context;
    EXPECT_EQ(plugin.call("slurm_spank_init", {}), 0);
    EXPECT_TRUE(host().options.empty());
  }
}

}  // namespace
}  // namespace fake
