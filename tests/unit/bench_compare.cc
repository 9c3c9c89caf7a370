// SPDX-License-Identifier: Apache-2.0
// nccl-tune compare: which variants there are, what a comparison comes down to, and whole runs with
// tests/fake/bench_worker.py, whose speed and manners are the variants'.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "bench/compare.h"
#include "bench/compare_json.h"
#include "bench/comparison.h"
#include "bench/data_path.h"
#include "bench/text.h"
#include "unit/json_schema.h"
#include "unit/temporary.h"

namespace nccltune::bench {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::Pair;

std::vector<std::string> names_of(const std::vector<VariantSpec>& specs) {
  std::vector<std::string> names;
  for (const VariantSpec& spec : specs) names.push_back(spec.name);
  return names;
}

ParsedCompare parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "compare");
  return parse_compare_options(static_cast<int>(arguments.size()), arguments.data());
}

TEST(Variants, OfAGrid) {
  const auto specs = variants_of_grid({"NCCL_PROTO=Simple,", "NCCL_IB_HCA=a\\,b,c"});
  ASSERT_TRUE(specs.ok());
  EXPECT_THAT(names_of(*specs), ElementsAre("NCCL_PROTO=Simple NCCL_IB_HCA=a,b", "NCCL_PROTO=Simple NCCL_IB_HCA=c",
                                            "NCCL_PROTO unset NCCL_IB_HCA=a,b", "NCCL_PROTO unset NCCL_IB_HCA=c"));
  EXPECT_THAT((*specs)[2].environment, ElementsAre(Pair("NCCL_PROTO", std::nullopt), Pair("NCCL_IB_HCA", "a,b")));
  for (const char* wrong : {"NCCL_PROTO", "=1", "A B=1", "1A=2"}) EXPECT_FALSE(variants_of_grid({wrong}).ok()) << wrong;
  EXPECT_FALSE(variants_of_grid(std::vector<std::string>(9, "A=1,2")).ok());  // 512
}

TEST(Variants, OfAFile) {
  const auto specs =
      variants_of_file("variants:\n- {name: ring, env: {NCCL_ALGO: Ring, NCCL_PROTO: null}}\n- name: bare\n", "v.yaml");
  ASSERT_TRUE(specs.ok()) << specs.error().text();
  EXPECT_THAT((*specs)[0].environment, ElementsAre(Pair("NCCL_ALGO", "Ring"), Pair("NCCL_PROTO", std::nullopt)));
  EXPECT_TRUE((*specs)[1].environment.empty());
  const struct {
    const char *text, *error;
  } cases[] = {{"- a", "v.yaml:1:1: "},
               {"variants:\n- {nam: x}", "v.yaml:2:4: 'nam'"},
               {"variants:\n- {env: {A: 1}}", "v.yaml:2:3: a variant without a name"},
               {"variants:\n- {name: x, env: {A: [1]}}", "v.yaml:2:22: A: a value"},
               {"variants: [", "v.yaml:"}};
  for (const auto& [text, error] : cases) {
    const auto wrong = variants_of_file(text, "v.yaml");
    ASSERT_FALSE(wrong.ok()) << text;
    EXPECT_THAT(wrong.error().text(), HasSubstr(error)) << text;
  }
}

TEST(Variants, TheBaselineIsFirst) {
  const auto specs = *variants_of_grid({"A=1,2"});
  EXPECT_THAT(names_of(*with_baseline(specs, {})), ElementsAre("plan", "A=1", "A=2"));
  EXPECT_THAT(names_of(*with_baseline(specs, {"A=2", ""})), ElementsAre("A=2", "A=1"));
  EXPECT_THAT(names_of(*with_baseline({}, {"plan", "none"})), ElementsAre("plan", "none"));
  const auto over_none = *with_baseline(specs, {"none", ""});
  EXPECT_TRUE(over_none[1].without_plan);
  EXPECT_FALSE((*with_baseline(specs, {"plan", "none"}))[2].without_plan);
  EXPECT_FALSE(with_baseline(specs, {"B", ""}).ok());
  EXPECT_FALSE(with_baseline(specs, {"plan", "plan"}).ok());
  EXPECT_FALSE(with_baseline(specs, {"plan", "A=1"}).ok());
  EXPECT_FALSE(with_baseline({}, {}).ok());
}

TEST(Variants, NoneIsWithoutWhatThePlanSet) {
  const Variables environment = {
      {"NCCLTUNE_SET", "NCCL_IB_HCA,NCCL_NET_GDR_LEVEL"}, {"NCCL_IB_HCA", "=mlx5_0:1"}, {"MINE", "1"}};
  const Variables left = changed(environment, variant_of({"none", {}, true}, environment).environment);
  EXPECT_THAT(left, ElementsAre(Pair("MINE", "1")));
  EXPECT_TRUE(without_plan({{"NCCL_IB_HCA", "=mlx5_0:1"}}).empty());
}

TEST(CompareOptions, TakeBenchsOptionsToo) {
  const auto parsed = parse({"--env", "NCCL_PROTO=Simple,LL", "all_gather", "-b", "1M", "-e", "4G", "-n", "5", "--seed",
                             "7", "--launches", "4", "--timeout", "20s"});
  ASSERT_TRUE(parsed.options) << parsed.text;
  EXPECT_EQ(parsed.options->bench.collective, protocol::Collective::all_gather);
  EXPECT_EQ(parsed.options->bench.iterations, 5);
  EXPECT_EQ(parsed.options->bench.timeout, 20);
  EXPECT_EQ(parsed.options->bench.factor, 2);  // not 4,096 steps of 1M
  EXPECT_EQ(parsed.options->seed, 7u);
  EXPECT_EQ(parsed.options->launches, 4);
  EXPECT_EQ(parse({"--env", "A=1", "-b", "1M", "-e", "2M", "-i", "1M"}).options->bench.factor, 1);
  const struct {
    std::vector<const char*> arguments;
    const char* text;
  } wrong[] = {{{}, "nothing to compare"},
               {{"--env", "A"}, "--env: 'A' is not NAME=VALUE"},
               {{"--env", "A=1", "all_redcue"}, "unknown collective 'all_redcue'"},
               {{"--env", "A=1", "--launches", "2"}, "from 3 to 1000"},
               {{"--env", "A=1", "-N", "3"}, "-N: "},
               {{"--env", "A=1", "--frobnicate"}, "frobnicate"},
               {{"--env", "A=1", "--least", "7"}, "--least"}};
  for (const auto& [arguments, text] : wrong) {
    const auto refused = parse(arguments);
    EXPECT_FALSE(refused.options) << text;
    EXPECT_EQ(refused.status, 2) << text;
    EXPECT_THAT(refused.text, HasSubstr(text));
    EXPECT_THAT(refused.text, testing::StartsWith("nccl-tune: compare: "));
  }
}

TEST(CompareOrder, IsRandomAndTheSeedsOwn) {
  std::set<std::vector<size_t>> seen;
  for (int block = 0; block < 60; ++block) {
    auto order = order_of_block(3, 42, block);
    seen.insert(order);
    EXPECT_EQ(order, order_of_block(3, 42, block));
    std::sort(order.begin(), order.end());
    EXPECT_THAT(order, ElementsAre(0, 1, 2));
  }
  EXPECT_EQ(seen.size(), 6u);
}

// A setting that NCCL did not read cannot have made a difference, and one that took another way must show it.
TEST(Comparison, TellsWhatNcclDidNotRead) {
  const auto log = parse_data_path(
      "n1:7:7 [0] NCCL INFO NCCL_PROTO set by environment to Simple.\n"
      "n1:7:7 [0] NCCL INFO NCCL_IB_HCA set to =mlx5_0:1\n"
      "n1:7:7 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0/GDRDMA\n");
  EXPECT_THAT(log.settings, testing::ElementsAre("NCCL_IB_HCA", "NCCL_PROTO"));
  Comparison c;
  c.variants = {
      {"plan", {}},
      {"both",
       {{"NCCL_PROTO", "Simple"}, {"NCCL_GDRCOPY_ENABLE", "1"}, {"UCX_TLS", "rc"}, {"NCCL_ALGO", std::nullopt}}}};
  c.done.resize(2);
  c.done[1].variant = 1;
  c.done[1].result.settings.assign(log.settings.begin(), log.settings.end());
  c.done[1].result.data_path = {"data path of rank 0: IB, 16 of 16 channels with GPUDirect RDMA"};
  const auto verdicts = judge(c);
  EXPECT_THAT(verdicts[1].unread, ElementsAre("NCCL_GDRCOPY_ENABLE"));
  EXPECT_TRUE(verdicts[0].unread.empty());
  const std::string text = compare_text({}, c, verdicts, {});
  EXPECT_THAT(text, HasSubstr("#   data path of rank 0: IB, 16 of 16"));
  EXPECT_THAT(text, HasSubstr("#   NCCL_GDRCOPY_ENABLE: NCCL's log does not name it"));
}

class CompareRuns : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_symlink(fs::path(NCCLTUNE_SOURCE_DIR) / "tests/fake/bench_worker.py", folder_ / "nccl-tune-worker-host");
  }

  int run(std::vector<const char*> arguments, int kill_after_launches = 0) {
    const pid_t pid = fork();
    if (pid == 0) {
      for (const char* name : {"SLURM_NTASKS", "SLURM_STEP_NUM_TASKS", "SLURM_JOB_ID", "PMIX_RANK", "PMI_SIZE"})
        unsetenv(name);
      setenv("NCCLTUNE_WORKER_DIR", folder_.c_str(), 1);
      if (chdir(folder_.c_str()) != 0) _exit(99);
      dup2(open("out", O_CREAT | O_WRONLY, 0600), 1);
      dup2(open("err", O_CREAT | O_WRONLY, 0600), 2);
      for (const char* word : {"--worker", "host", "-b", "1K", "-e", "4K", "-w", "0", "--timeout", "5s", "--seed", "1",
                               "--json", "c.json", "--csv", "c.csv"})
        arguments.push_back(word);
      const auto parsed = parse(arguments);
      if (!parsed.options) std::fputs(parsed.text.c_str(), stderr);
      _exit(parsed.options ? run_compare(*parsed.options) : 98);
    }
    for (int i = 0; kill_after_launches && i < 1000; ++i) {
      const auto so_far = nlohmann::json::parse(read_file(folder_ / "c.json"), nullptr, false);
      if (so_far.is_object() && so_far["launches"].size() >= static_cast<size_t>(kill_after_launches)) break;
      usleep(10000);
    }
    if (kill_after_launches) kill(pid, SIGINT);
    int status = 0;
    waitpid(pid, &status, 0);
    out_ = read_file(folder_ / "out");
    err_ = read_file(folder_ / "err");
    json_ = nlohmann::json::parse(read_file(folder_ / "c.json"), nullptr, false);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  const TemporaryFolder temporary_;
  const fs::path& folder_ = temporary_.path();
  std::string out_, err_;
  nlohmann::json json_;
};

TEST_F(CompareRuns, FindWhatIsPlanted) {
  EXPECT_EQ(run({"--env", "FAKE_SPEED=1.0,0.8", "--launches", "4"}), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("FAKE_SPEED=0.8 is better than plan at 3 of 3 sizes (1 KiB to 4 KiB, "));
  EXPECT_THAT(out_, HasSubstr("# baseline: plan, the environment as it is"));
  EXPECT_THAT(out_, HasSubstr("no difference\n"));
  const auto schema =
      nlohmann::json::parse(read_file(fs::path(NCCLTUNE_SOURCE_DIR) / "etc/nccl-tune-compare.schema.json"));
  expect_valid(schema, json_, "document");
  EXPECT_EQ(json_["complete"], true);
  EXPECT_EQ(json_["launches"].size(), 12u);
  for (const auto& size : json_["verdicts"][1]["sizes"]) EXPECT_EQ(size["verdict"], "no difference");
  for (const auto& size : json_["verdicts"][2]["sizes"]) EXPECT_EQ(size["verdict"], "better");
  const auto lines = split(read_file(folder_ / "c.csv"), '\n');
  ASSERT_EQ(lines.size(), 1u + 6 + 1);
  for (const std::string& line : lines)
    EXPECT_EQ(line.empty() ? split(lines[0], ',').size() : split(line, ',').size(), split(lines[0], ',').size())
        << line;
}

TEST_F(CompareRuns, GoOnPastVariantsThatFailOrHang) {
  EXPECT_EQ(run({"--env", "FAKE_WORKER=crash,hang:connect,fail:setup,", "--launches", "3"}), 0) << err_;
  const auto& verdicts = json_["verdicts"];
  EXPECT_EQ(verdicts[1]["fault"]["kind"], "died");
  EXPECT_EQ(verdicts[1]["launches"], 2);  // once may be chance
  EXPECT_EQ(verdicts[2]["fault"]["kind"], "hung");
  EXPECT_EQ(verdicts[2]["launches"], 1);  // each costs its whole timeout
  EXPECT_THAT(verdicts[3]["fault"]["text"].get<std::string>(), HasSubstr(": ncclThing: it broke; mend it"));
  EXPECT_EQ(verdicts[4]["launches"], 3);
  EXPECT_EQ(verdicts[4]["fault"], nullptr);
  for (const auto& size : verdicts[4]["sizes"]) EXPECT_EQ(size["verdict"], "no difference");
  EXPECT_THAT(out_, HasSubstr("FAKE_WORKER=hang:connect failed (hung)"));
  EXPECT_THAT(read_file(folder_ / "c.csv"), HasSubstr("FAKE_WORKER=hang:connect,plan,"));
}

TEST_F(CompareRuns, WrongDataIsNoVictory) {
  EXPECT_EQ(run({"--file", "v.yaml", "--launches", "3"}), 2);
  std::ofstream(folder_ / "v.yaml") << "variants: [{name: quick, env: {FAKE_WORKER: wrong, FAKE_SPEED: 0.5}}]";
  EXPECT_EQ(run({"--file", "v.yaml", "--launches", "3"}), 4);
  EXPECT_EQ(json_["verdicts"][1]["fault"]["kind"], "wrong data");
  EXPECT_THAT(out_, Not(HasSubstr("quick is better")));
  EXPECT_EQ(json_["exit_status"], 4);
}

TEST_F(CompareRuns, ABaselineThatCannotRunEndsIt) {
  setenv("FAKE_WORKER", "crash:connect", 1);
  EXPECT_EQ(run({"--env", "A=1", "--launches", "3"}), 5);
  setenv("FAKE_WORKER", "no-device:setup", 1);
  EXPECT_EQ(run({"--env", "A=1", "--launches", "3"}), 3);
  unsetenv("FAKE_WORKER");
  EXPECT_THAT(err_, HasSubstr("nccl-tune: baseline: "));
  EXPECT_EQ(json_["launches"].size(), 0u);
}

TEST_F(CompareRuns, WithoutAPlanThereIsNothingToLeaveOut) {
  EXPECT_EQ(run({"--against", "none"}), 2);
  EXPECT_THAT(err_, HasSubstr("NCCLTUNE_SET is empty"));
  setenv("NCCLTUNE_SET", "FAKE_SPEED", 1);
  setenv("FAKE_SPEED", "0.5", 1);
  EXPECT_EQ(run({"--baseline", "plan", "--against", "none", "--launches", "3"}), 0) << err_;
  unsetenv("NCCLTUNE_SET");
  unsetenv("FAKE_SPEED");
  EXPECT_THAT(out_, HasSubstr("keep plan: nothing is better, and none is worse at 3 of 3 sizes"));
}

TEST_F(CompareRuns, AnInterruptedOneTellsWhatItHas) {
  EXPECT_EQ(run({"--env", "FAKE_SPEED=1.3", "--launches", "500"}, 8), 5);
  EXPECT_EQ(json_["complete"], false);
  EXPECT_GE(json_["launches"].size(), 8u);
  EXPECT_THAT(out_, HasSubstr("ended early"));
  EXPECT_THAT(out_, HasSubstr("FAKE_SPEED=1.3 is worse at 3 of 3 sizes"));
}

}  // namespace
}  // namespace nccltune::bench
