// SPDX-License-Identifier: Apache-2.0
// Trials: fresh workers with an environment of their own, one after the other, whatever became of the last. The worker
// is tests/fake/bench_worker.py, which misbehaves as FAKE_WORKER says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "bench/outcome.h"
#include "bench/trial.h"

namespace nccltune::bench {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using Kind = TrialFault::Kind;

class Trials : public testing::Test {
 protected:
  Trials() : world_(open_single_world()) {
    base_.warmup = 0;
    base_.timeout = 4;
    const fs::path worker = fs::path(NCCLTUNE_SOURCE_DIR) / "tests/fake/bench_worker.py";
    runner_.emplace(base_, own_environment(), *world_, ChosenWorker{"host", worker, ""}, -1);
  }
  TrialResult run(const std::string& manner, double seconds = 1e9) {
    Work work;
    work.sizes = {1024, 2048, 4096, 8192};
    return runner_->run({manner, {{"FAKE_WORKER", manner}}}, {work}, seconds);
  }

  Options base_;
  std::unique_ptr<World> world_;
  std::optional<TrialRunner> runner_;
};

TEST_F(Trials, GiveEverySizeOfEveryWork) {
  Work sum, max, gather;
  sum.sizes = {1024, 65536};
  max.sizes = {4096};
  max.op = protocol::Op::max;
  gather.collective = protocol::Collective::all_gather;
  gather.sizes = {2048};
  const TrialResult result = runner_->run({"plain", {}}, {sum, max, gather});
  ASSERT_FALSE(result.fault) << result.fault->text;
  ASSERT_EQ(result.rows.size(), 3u);
  EXPECT_EQ(result.rows[0].size(), 2u);
  EXPECT_EQ(result.rows[0][1].asked, 65536u);
  EXPECT_EQ(result.rows[1][0].op, "max");
  EXPECT_EQ(result.rows[2][0].asked, 2048u);
  EXPECT_GT(result.rows[0][0].out.seconds, 0);
  EXPECT_GT(result.rows[0][0].out.summary.count, 0u);
  EXPECT_TRUE(result.rows[0][0].out.samples.empty());
  EXPECT_EQ(result.library, "fake 1.0");
  EXPECT_GT(result.seconds, 0);
}

TEST_F(Trials, GoOnAfterEveryKindOfEnd) {
  const struct {
    const char* manner;
    Kind kind;
    const char* text;
    size_t rows;
  } cases[] = {
      {"crash", Kind::died, "killed by SIGSEGV", 2},
      {"killed:setup", Kind::died, "killed by SIGKILL", 0},
      {"leave:connect", Kind::died, "exited with status 3", 0},
      {"fail", Kind::failed, "ncclThing: it broke; mend it", 2},
      {"hang", Kind::hung, "no progress: timing", 2},
      {"garbage", Kind::died, "", 2},
      {"wrong", Kind::wrong_data, "all_reduce, 4 KiB float: 5 wrong elements, the first on rank 1, element 77", 4},
  };
  for (const auto& [manner, kind, text, rows] : cases) {
    const TrialResult bad = run(manner);
    ASSERT_TRUE(bad.fault) << manner;
    EXPECT_STREQ(name(bad.fault->kind), name(kind)) << manner << ": " << bad.fault->text;
    EXPECT_THAT(bad.fault->text, HasSubstr(text)) << manner;
    EXPECT_FALSE(bad.over()) << manner;
    EXPECT_EQ(bad.rows.empty() ? 0 : bad.rows[0].size(), rows) << manner;
    const TrialResult good = run("good");
    EXPECT_FALSE(good.fault) << "after " << manner << ": " << good.fault->text;
    EXPECT_EQ(good.rows[0].size(), 4u) << manner;
  }
  EXPECT_EQ(runner_->trials(), 14);
}

TEST_F(Trials, EndAtTheirOwnBound) {
  base_.timeout = 100;
  TrialRunner patient(base_, own_environment(), *world_,
                      {"host", fs::path(NCCLTUNE_SOURCE_DIR) / "tests/fake/bench_worker.py", ""}, -1);
  Work work;
  work.sizes = {1024, 2048, 4096};
  const TrialResult result = patient.run({"hang", {{"FAKE_WORKER", "hang"}}}, {work}, 2);
  ASSERT_TRUE(result.fault);
  EXPECT_EQ(result.fault->kind, Kind::hung);
  EXPECT_THAT(result.fault->text, HasSubstr("the trial's bound of 2 s is over"));
  EXPECT_LT(result.seconds, 20);
}

TEST_F(Trials, RefuseWhatCannotRun) {
  Work work;
  work.sizes = {1ull << 40};
  const TrialResult result = runner_->run({"plain", {}}, {work});
  ASSERT_TRUE(result.fault);
  EXPECT_EQ(result.fault->kind, Kind::refused);
  EXPECT_THAT(result.fault->text, HasSubstr("more than memory allows"));
}

TEST_F(Trials, UnsetWhatTheVariantUnsets) {
  setenv("FAKE_WORKER", "crash:setup", 1);
  Work work;
  work.sizes = {1024};
  const TrialResult with = runner_->run({"as it is", {}}, {work}),
                    without = runner_->run({"unset", {{"FAKE_WORKER", std::nullopt}}}, {work});
  unsetenv("FAKE_WORKER");
  EXPECT_TRUE(with.fault);
  EXPECT_FALSE(without.fault);
}

Outcome faulty(Kind kind, int rank, int order, const std::string& text, std::vector<size_t> rows) {
  Outcome outcome;
  outcome.rows = std::move(rows);
  outcome.fault = kind;
  outcome.cause = rank >= 0;
  outcome.rank = rank;
  outcome.order = order;
  outcome.text = text;
  outcome.state = "R\t" + std::to_string(rank) + "\ttiming\thost: timing for 3 s\n";
  if (outcome.cause) outcome.state += "C\t" + std::to_string(order) + "\t" + text + "\n";
  return outcome;
}

TEST(Outcomes, SurviveTheirJourney) {
  Outcome outcome = faulty(Kind::hung, 3, 2, "rank 3: no progress \xff", {4, 0});
  outcome.data_path = {"data path of rank 0: IB"};
  outcome.settings = {"NCCL_PROTO"};
  const auto back = unpack_outcome(pack(outcome));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->fault, Kind::hung);
  EXPECT_THAT(back->rows, ElementsAre(4, 0));
  EXPECT_EQ(back->data_path, outcome.data_path);
  EXPECT_EQ(back->settings, outcome.settings);
  EXPECT_FALSE(unpack_outcome("{}"));
  EXPECT_FALSE(unpack_outcome(""));
  EXPECT_FALSE(unpack_outcome(R"({"rows":"x"})"));
}

TEST(Outcomes, NameTheCauseAndKeepTheRowsThatAllHave) {
  TrialResult result;
  result.rows = {std::vector<Row>(5), std::vector<Row>(3)};
  Outcome heard = faulty(Kind::failed, -1, 9, "rank 2 at b: it broke", {5, 2});
  heard.cause = false;
  combine({heard, faulty(Kind::hung, 1, 2, "rank 1 at a: no progress", {5, 3}),
           faulty(Kind::died, 2, 0, "rank 2 at b: the worker killed by SIGSEGV", {5, 1})},
          1, result);
  ASSERT_TRUE(result.fault);
  EXPECT_EQ(result.fault->kind, Kind::died);
  EXPECT_EQ(result.fault->rank, 2);
  EXPECT_EQ(result.fault->text, "rank 2 at b: the worker killed by SIGSEGV");
  EXPECT_EQ(result.rows[0].size(), 5u);
  EXPECT_EQ(result.rows[1].size(), 1u);
}

TEST(Outcomes, PutTheUsersWordFirst) {
  TrialResult result;
  combine(
      {faulty(Kind::died, 0, 0, "rank 0: the worker ended", {}), faulty(Kind::signal, -1, 9, "ended by SIGINT", {})}, 1,
      result);
  EXPECT_EQ(result.fault->kind, Kind::signal);
  EXPECT_TRUE(result.over());
}

}  // namespace
}  // namespace nccltune::bench
