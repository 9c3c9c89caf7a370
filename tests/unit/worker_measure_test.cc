// SPDX-License-Identifier: Apache-2.0
// The timing loop against a backend that writes down what it is asked for.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <utility>

#include "worker/common_io.h"
#include "worker/common_measure.h"
#include "worker/common_session.h"

namespace nccltune::worker {
namespace {

using testing::ElementsAre;

// One rank of `ranks`; all ranks answer alike.
class Recorder : public Transfer {
 public:
  explicit Recorder(uint32_t ranks) : ranks_(ranks) {}
  void fill(bool, uint64_t seed, Input input) override {
    steps.push_back(input == Input::rough ? "rough" : "fill");
    seeds.push_back(seed);
  }
  void start(bool in_place, uint64_t i) override { steps.push_back((in_place ? "in" : "out") + std::to_string(i)); }
  void finish() override { steps.push_back("finish"); }
  void barrier() override { steps.push_back("barrier"); }
  void begin_group() override { steps.push_back("("); }
  void end_group() override { steps.push_back(")"); }
  void begin_capture() override { steps.push_back("capture"); }
  void end_capture() override { steps.push_back("captured"); }
  void launch_graph() override { steps.push_back("launch"); }
  void drop_graph() override { steps.push_back("drop"); }
  void reserve_marks(uint32_t count) override { marks = count; }
  void mark(uint32_t i) override { steps.push_back("mark" + std::to_string(i)); }
  double seconds_between(uint32_t i, uint32_t j) override { return 1e-6 * (i + 100 * j); }
  Findings check(bool in_place, uint64_t) override {
    steps.push_back("check");
    return in_place ? bad : Findings{};
  }
  void keep(bool) override { steps.push_back("keep"); }
  Findings compare_with_kept(bool in_place, bool last) override {
    steps.push_back(last ? "compare last" : "compare");
    if (!in_place || unlike.empty()) return {};
    const int64_t elements = unlike.front();
    unlike.erase(unlike.begin());
    return elements ? Findings{elements, 9, "1", "2"} : Findings{};
  }
  void exchange(const void* mine, size_t bytes, void* all) override {
    for (uint32_t rank = 0; rank < ranks_; ++rank) std::memcpy(static_cast<char*>(all) + rank * bytes, mine, bytes);
  }

  std::vector<std::string> steps;
  std::vector<uint64_t> seeds;
  uint32_t marks = 0;
  Findings bad;
  std::vector<int64_t> unlike;  // elements in which each comparison in place finds a difference

 private:
  uint32_t ranks_;
};

class Measure : public testing::Test {
 protected:
  // Phases are announced on the protocol's descriptor, which here leads nowhere.
  void SetUp() override {
    saved_ = ::dup(protocol::kReplyFd);
    const int nowhere = ::open("/dev/null", O_WRONLY);
    ::dup2(nowhere, protocol::kReplyFd);
    if (nowhere != protocol::kReplyFd) ::close(nowhere);
    job_.iterations = 2;
    job_.check = 0;
    job_.max_bytes = job_.bytes = 1024;
  }
  void TearDown() override {
    if (saved_ >= 0) {
      ::dup2(saved_, protocol::kReplyFd);
      ::close(saved_);
    } else {
      ::close(protocol::kReplyFd);
    }
  }
  Outcome run() {
    const Shape shape = shape_of(job_.collective, job_.type, job_.bytes, seat_.ranks, {});
    return measure(job_, shape, seat_, 1, recorder_);
  }
  std::vector<std::string> first_half() {
    return {recorder_.steps.begin(), recorder_.steps.begin() + static_cast<long>(recorder_.steps.size() / 2)};
  }

  Case job_;
  Seat seat_{0, 2, {}};
  Recorder recorder_{2};
  int saved_ = -1;
};

TEST_F(Measure, EnqueuesBackToBackAfterOneUntimedOperationAndABarrier) {
  const Outcome outcome = run();
  EXPECT_THAT(first_half(), ElementsAre("out0", "finish", "barrier", "out0", "out1", "finish"));
  EXPECT_EQ(outcome.result.out_of_place.ran, 1);
  EXPECT_EQ(outcome.result.out_of_place.checked, 0);
  EXPECT_GT(outcome.result.in_place.seconds, 0);
  EXPECT_EQ(outcome.result.bytes, 1024u);
}

TEST_F(Measure, BlockingOneWaitsForAllAfterEachOperation) {
  job_.blocking = 1;
  run();
  EXPECT_THAT(first_half(),
              ElementsAre("out0", "finish", "barrier", "out0", "finish", "barrier", "out1", "finish", "barrier"));
}

TEST_F(Measure, AggregationGroupsAndCountsOn) {
  job_.aggregate = 2;
  run();
  EXPECT_THAT(first_half(),
              ElementsAre("out0", "finish", "barrier", "(", "out0", "out1", ")", "(", "out2", "out3", ")", "finish"));
}

TEST_F(Measure, AGraphIsRecordedOnceAndLaunched) {
  job_.graph = 3;
  run();
  EXPECT_THAT(first_half(), ElementsAre("out0", "finish", "barrier", "capture", "out0", "out1", "captured", "barrier",
                                        "launch", "launch", "launch", "finish", "drop"));
}

TEST_F(Measure, SamplesTakeAPassOfTheirOwn) {
  job_.per_iteration = 1;
  const Outcome outcome = run();
  // An iteration's whole lasts from the mark at the end of the one before; its own mark stands right before it.
  EXPECT_THAT(first_half(), ElementsAre("out0", "finish", "barrier", "out0", "out1", "finish", "barrier", "mark0",
                                        "mark1", "out0", "mark2", "mark3", "out1", "mark4", "finish"));
  EXPECT_EQ(recorder_.marks, 5u);
  ASSERT_EQ(outcome.samples.size(), 4u);
  EXPECT_EQ(outcome.result.out_of_place.samples, 2u);
  EXPECT_DOUBLE_EQ(outcome.samples[1].max_seconds, 402e-6);
  EXPECT_DOUBLE_EQ(outcome.samples[1].own_min_seconds, 403e-6);
  EXPECT_EQ(outcome.samples[1].own_min_rank, 0);
}

TEST_F(Measure, SamplesOfBlockingThreeLeaveTheBarrierOut) {
  job_.per_iteration = 1;
  job_.blocking = 3;
  const Outcome outcome = run();
  const auto steps = first_half();
  EXPECT_THAT(std::vector(steps.end() - 12, steps.end()),
              ElementsAre("mark1", "out0", "finish", "mark2", "barrier", "mark3", "mark4", "out1", "finish", "mark5",
                          "barrier", "finish"));
  EXPECT_EQ(recorder_.marks, 6u);
  EXPECT_DOUBLE_EQ(outcome.samples[1].max_seconds, 503e-6);
  EXPECT_DOUBLE_EQ(outcome.samples[1].own_min_seconds, 504e-6);
}

TEST_F(Measure, ChecksAfterTimingWithFreshDataAndStopsAtTheFirstWrong) {
  job_.check = 3;
  recorder_.bad = {2, 7, "1", "2"};
  const Outcome outcome = run();
  EXPECT_EQ(outcome.result.out_of_place.checked, 1);
  EXPECT_EQ(outcome.result.out_of_place.wrong.elements, 0);
  const protocol::WrongTotal& wrong = outcome.result.in_place.wrong;
  EXPECT_EQ(wrong.elements, 4);  // two ranks
  EXPECT_EQ(wrong.bad_ranks, 2);
  EXPECT_EQ(wrong.first.rank, 0);
  EXPECT_EQ(wrong.first.element, 7);
  EXPECT_STREQ(wrong.first.found, "2");
  EXPECT_EQ(std::count(recorder_.steps.begin(), recorder_.steps.end(), "check"), 3 + 1);
  std::sort(recorder_.seeds.begin(), recorder_.seeds.end());
  EXPECT_EQ(std::unique(recorder_.seeds.begin(), recorder_.seeds.end()), recorder_.seeds.end());
}

// One input for all runs; each has the same start, for in place the operation overwrites it.
TEST_F(Measure, RepeatsOneInputAndCompares) {
  job_.repeat = 3;
  const Outcome outcome = run();
  EXPECT_THAT(first_half(),
              ElementsAre("out0", "finish", "barrier", "out0", "out1", "finish", "rough", "out0", "finish", "keep",
                          "rough", "out0", "finish", "compare", "rough", "out0", "finish", "compare last"));
  ASSERT_EQ(recorder_.seeds.size(), 6u);
  EXPECT_EQ(recorder_.seeds[0], recorder_.seeds[2]);
  EXPECT_NE(recorder_.seeds[0], recorder_.seeds[3]);
  EXPECT_EQ(outcome.result.out_of_place.repeats.runs, 3);
  EXPECT_EQ(outcome.result.out_of_place.repeats.differing, 0);
}

TEST_F(Measure, TellsTheFirstRunThatDiffersAndHowManyDo) {
  job_.repeat = 6;
  recorder_.unlike = {0, 4, 0, 7};
  const Outcome outcome = run();
  EXPECT_EQ(outcome.result.out_of_place.repeats.differing, 0);
  const protocol::Repeats& repeats = outcome.result.in_place.repeats;
  EXPECT_EQ(repeats.runs, 6);
  EXPECT_EQ(repeats.differing, 2);
  EXPECT_EQ(repeats.run, 3);
  EXPECT_EQ(repeats.wrong.elements, 8);  // two ranks
  EXPECT_EQ(repeats.wrong.bad_ranks, 2);
  EXPECT_EQ(repeats.wrong.first.element, 9);
  EXPECT_STREQ(repeats.wrong.first.expected, "1");
  EXPECT_EQ(outcome.result.in_place.wrong.elements, 0) << "not repeatable is not wrong";
}

TEST_F(Measure, ComparesNoRunsWhereInputAndOutputOverlap) {
  job_.collective = Collective::sendrecv;
  job_.repeat = 2;
  const Outcome outcome = run();
  EXPECT_EQ(outcome.result.out_of_place.repeats.runs, 2);
  EXPECT_EQ(outcome.result.in_place.repeats.runs, 0);
}

TEST_F(Measure, WarmUpRunsOutOfPlaceOnly) {
  job_.warm_only = 1;
  job_.warmup = 2;
  const Outcome outcome = run();
  EXPECT_THAT(recorder_.steps, ElementsAre("out0", "out1", "finish", "barrier"));
  EXPECT_EQ(outcome.result.out_of_place.ran, 0);
}

// Rank 1 of four, in the second of two groups of neighbours: times and wrong elements of each group, data of its own.
TEST_F(Measure, SplitRanksTellOfEachGroup) {
  recorder_ = Recorder(4);
  protocol::Connect connect;
  connect.ranks = 4, connect.rank = 3, connect.groups = 2;
  seat_ = seat_of({}, connect, {0, 0, 1, 1});
  job_.check = 1;
  job_.per_iteration = 1;
  recorder_.bad.wrong = 3;
  const Outcome outcome = run();
  EXPECT_EQ(outcome.result.groups, 2u);
  ASSERT_EQ(outcome.groups.size(), 4u);  // out of place, then in place
  for (const auto& group : outcome.groups)
    EXPECT_DOUBLE_EQ(group.seconds, outcome.groups[&group < &outcome.groups[2] ? 0 : 2].seconds);
  EXPECT_EQ(outcome.groups[1].wrong, 0);
  EXPECT_EQ(outcome.groups[2].wrong, 6);
  EXPECT_EQ(outcome.groups[3].wrong, 6);
  EXPECT_EQ(outcome.result.in_place.wrong.elements, 12);
  EXPECT_EQ(outcome.result.in_place.wrong.bad_ranks, 4);
  const auto seeds = std::exchange(recorder_.seeds, {});
  connect.rank = 0;
  seat_ = seat_of({}, connect, {0, 0, 1, 1});
  run();
  ASSERT_EQ(recorder_.seeds.size(), seeds.size());
  EXPECT_NE(recorder_.seeds, seeds) << "the groups' data must differ";
}

TEST(MeasureParts, ReducesOverRanks) {
  const std::vector<double> values{2, 4, 9};
  EXPECT_DOUBLE_EQ(reduce_over_ranks(0, values), 2);
  EXPECT_DOUBLE_EQ(reduce_over_ranks(1, values), 5);
  EXPECT_DOUBLE_EQ(reduce_over_ranks(2, values), 2);
  EXPECT_DOUBLE_EQ(reduce_over_ranks(3, values), 9);
}

TEST(MeasureParts, ACorruptedAccountIsWrongDataOfItsRank) {
  std::vector<Account> accounts(3, account_of({}));
  accounts[2].wrong = 1000;  // a bit that turned over on the way
  protocol::WrongTotal total;
  merge(accounts, total);
  EXPECT_EQ(total.elements, 1);
  EXPECT_EQ(total.first.rank, 2);
  EXPECT_STREQ(total.first.found, "a corrupted one");
}

TEST(MeasureParts, FaultsCountFromEitherEnd) {
  Seat seat{1, 2, {}};
  seat.setup.fault = protocol::flip_element;
  seat.setup.fault_rank = 1;
  const std::vector<worker::Run> runs{{0, 100, 2, {}}};
  for (auto [asked, given] : {std::pair<int64_t, int64_t>{0, 0}, {7, 7}, {-1, 199}, {500, 199}, {-500, 0}}) {
    seat.setup.fault_element = asked;
    EXPECT_EQ(fault_element(seat, runs), given);
  }
  EXPECT_EQ(fault_element(seat, {}), -1);
  EXPECT_EQ(fault_element(seat, runs, protocol::waver), -1) << "each fault in its own place";
  seat.rank = 0;
  EXPECT_EQ(fault_element(seat, runs), -1);
}

TEST(MeasureParts, LatenessIsSpreadOverTheIterations) {
  for (const auto& [percent, times] : {std::pair(0, 20), {100, 20}, {60, 12}, {50, 10}, {5, 1}}) {
    int late = 0;
    for (int i = 0; i < 20; ++i) late += is_late_iteration(percent, i);
    EXPECT_EQ(late, times) << percent << " %";
  }
  EXPECT_FALSE(is_late_iteration(50, 0));
  EXPECT_TRUE(is_late_iteration(50, 1));
}

TEST(MeasureParts, InsaneCasesAreRefused) {
  const auto refused = [](auto change) {
    Case job;
    change(job);
    try {
      require_sane(job, 3);
    } catch (const Failed& failed) {
      return failed.kind == protocol::FailureKind::usage;
    }
    return false;
  };
  EXPECT_FALSE(refused([](Case&) {}));
  EXPECT_TRUE(refused([](Case& job) { job.iterations = 0; }));
  EXPECT_TRUE(refused([](Case& job) { job.graph = 1, job.blocking = 1; }));
  EXPECT_TRUE(refused([](Case& job) { job.collective = Collective::hypercube; }));
  EXPECT_TRUE(refused([](Case& job) { job.collective = Collective::broadcast, job.root = 3; }));
  EXPECT_TRUE(refused([](Case& job) { job.type = static_cast<DataType>(77); }));
}

}  // namespace
}  // namespace nccltune::worker
