// SPDX-License-Identifier: Apache-2.0
// Around the search for bad nodes: the command line, what tasks tell each other, node names, the report.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "bench/hostlist.h"
#include "bench/pairs_options.h"
#include "bench/pairs_report.h"
#include "bench/pairs_wire.h"
#include "bench/text.h"

namespace nccltune::bench {
namespace {

using testing::HasSubstr;

ParsedPairsOptions parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "pairs");
  return parse_pairs_options(static_cast<int>(arguments.size()), arguments.data());
}

TEST(PairsOptions, AreTakenAsGiven) {
  const auto parsed = parse({"all_reduce", "-b", "1M", "-n", "3", "-g", "8", "--pairs=full", "--threshold", "80%",
                             "--timeout", "2m", "--json", "x.jsonl", "--no-alone", "--worker", "host"});
  ASSERT_TRUE(parsed.options) << parsed.text;
  EXPECT_EQ(parsed.options->collective, protocol::Collective::all_reduce);
  EXPECT_EQ(parsed.options->bytes, 1u << 20);
  EXPECT_EQ(parsed.options->iterations, 3);
  EXPECT_EQ(parsed.options->gpus, 8);
  EXPECT_TRUE(parsed.options->full);
  EXPECT_FALSE(parsed.options->alone);
  EXPECT_DOUBLE_EQ(parsed.options->threshold, 0.8);
  EXPECT_DOUBLE_EQ(parsed.options->timeout, 120);
  EXPECT_EQ(parsed.options->json, "x.jsonl");
  EXPECT_EQ(parsed.options->worker, WorkerChoice::host);
  EXPECT_EQ(parse({}).options->collective, protocol::Collective::sendrecv);
}

TEST(PairsOptions, WrongValuesAreNamed) {
  const std::vector<std::pair<std::vector<const char*>, const char*>> cases = {
      {{"-b", "big"}, "'big' is not a size"},
      {{"-b", "0"}, "0 bytes"},
      {{"-n", "0"}, "'0' is not an integer of at least 1"},
      {{"-g", "2000"}, "from 1 to 1024"},
      {{"--pairs=some"}, "'some' is neither few nor full"},
      {{"--threshold", "1.5"}, "'1.5' is not a fraction"},
      {{"--timeout", "soon"}, "'soon' is not a duration"},
      {{"--timeout", "10ms"}, "shorter than a second"},
      {{"--worker", "tpu"}, "'tpu' is not a worker"},
      {{"sendrecieve"}, "unknown collective 'sendrecieve'"},
      {{"--inject-fault", "slow"}, "KIND:TASK"},
      {{"--frob"}, "--frob"},
  };
  for (const auto& [arguments, text] : cases) {
    const auto parsed = parse(arguments);
    EXPECT_FALSE(parsed.options) << text;
    EXPECT_EQ(parsed.status, 2);
    EXPECT_THAT(parsed.text, HasSubstr(text));
    EXPECT_TRUE(parsed.text.starts_with("nccl-tune: pairs: ")) << parsed.text;
  }
  EXPECT_EQ(parse({"--help"}).status, 0);
}

TEST(PairsOptions, WhatTasksMustShareLeavesOutFiles) {
  EXPECT_EQ(parse({"--json", "a"}).options->shared_text, parse({"--no-progress"}).options->shared_text);
  EXPECT_NE(parse({"-b", "1M"}).options->shared_text, parse({}).options->shared_text);
}

TEST(Hostlist, IsCompressedAsSlurmWritesIt) {
  EXPECT_EQ(compress_hosts({}), "");
  EXPECT_EQ(compress_hosts({"node1"}), "node1");
  EXPECT_EQ(compress_hosts({"node3", "node1", "node2", "node7", "node2"}), "node[1-3,7]");
  EXPECT_EQ(compress_hosts({"n08", "n09", "n10", "n11"}), "n[08-11]");
  EXPECT_EQ(compress_hosts({"n9", "n10", "n100", "n009"}), "n[9-10],n[009,100]");
  EXPECT_EQ(compress_hosts({"gpu-1-ib", "gpu-2-ib", "login"}), "gpu-[1-2]-ib,login");
  EXPECT_EQ(compress_hosts({"r1n1", "r1n2", "r2n1"}), "r1n[1-2],r2n1");
  EXPECT_EQ(compress_hosts({"n99999999999999999999"}), "n99999999999999999999");
}

TEST(Hostlist, IsExpandedAsSlurmWritesIt) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(expand_hosts("node[1-3,7],login"), (Names{"node1", "node2", "node3", "node7", "login"}));
  EXPECT_EQ(expand_hosts("n[08-10]"), (Names{"n08", "n09", "n10"}));
  EXPECT_EQ(expand_hosts("r[1-2]n[3-4]"), (Names{"r1n3", "r1n4", "r2n3", "r2n4"}));
  EXPECT_EQ(expand_hosts("a"), Names{"a"});
  EXPECT_EQ(expand_hosts(""), Names{});
  for (const char* wrong : {"n[1", "n[2-1]", "n[x]", "n[0-9999999]", "a[1-1000]b[1-1000]", "n[]"})
    EXPECT_EQ(expand_hosts(wrong), Names{}) << wrong;
}

TEST(PairsWire, RatesOfAnySizeArrive) {
  for (const double gbps : {2e-6, 3.25e-5, 0.0, 41.5, 2e6}) {
    const auto reports =
        unpack_reports(pack(std::vector<RailReport>{{0, gbps, RailReport::Blame::transport, true, ""}}));
    ASSERT_TRUE(reports) << gbps;
    EXPECT_DOUBLE_EQ(reports->front().gbps, gbps);
  }
}

TEST(PairsWire, CardsAndReportsComeBackAsTheyWere) {
  const NodeCard card{"n1",
                      "host1",
                      "s0.s1.n1",
                      "options",
                      {{3, "NVIDIA H200", "0000:3b:00.0", "GPU-x", "mlx5_0", "NCCL 2.28.3", ""},
                       {4, "", "", "", "", "", "no device\nat all"}}};
  const auto back = unpack_card(pack(card));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->topology, "s0.s1.n1");
  ASSERT_EQ(back->rails.size(), 2U);
  EXPECT_EQ(back->rails[0].uuid, "GPU-x");
  EXPECT_EQ(back->rails[1].failure, "no device at all");
  EXPECT_FALSE(unpack_card("NTP1 0.0.0\tn\th\t\t\n")) << "another version";
  EXPECT_FALSE(unpack_card(""));

  const auto reports = unpack_reports(pack(std::vector<RailReport>{
      {0, 41.5, RailReport::Blame::transport, true, ""}, {7, 0, RailReport::Blame::died, false, "killed\tby 9"}}));
  ASSERT_TRUE(reports);
  ASSERT_EQ(reports->size(), 2U);
  EXPECT_DOUBLE_EQ((*reports)[0].gbps, 41.5);
  EXPECT_TRUE((*reports)[0].reached);
  EXPECT_EQ((*reports)[1].failure, "killed by 9");
  EXPECT_EQ((*reports)[1].blame, RailReport::Blame::died);
  for (const char* wrong : {"x", "1\t2\t3\n", "1\tfast\t0\t1\t\n", "1\t1\t9\t1\t\n"})
    EXPECT_FALSE(unpack_reports(wrong)) << wrong;
}

TEST(PairsWire, PlansComeBackAsTheyWere) {
  RoundPlan plan;
  plan.pairs = {{0, 4}, {1, 5}, {2, 2}};
  plan.lost = {3};
  auto back = unpack_plan(pack(plan, std::nullopt), 8);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->pairs, plan.pairs);
  EXPECT_EQ(back->lost, plan.lost);
  EXPECT_EQ(back->pair_of(5), (NodePair{1, 5}));
  EXPECT_FALSE(back->pair_of(3));

  // A round of a full search takes no room, and leaves out the lost.
  const std::string text = pack(plan, 2);
  EXPECT_LT(text.size(), 24U);
  back = unpack_plan(text, 8);
  ASSERT_TRUE(back);
  std::vector<NodePair> wanted = circle_round(8, 2);
  std::erase_if(wanted, [](const NodePair& pair) { return pair.a == 3 || pair.b == 3; });
  EXPECT_EQ(back->pairs, wanted);

  RoundPlan over;
  over.over = true, over.status = 1, over.text = "done";
  back = unpack_plan(pack(over, std::nullopt), 8);
  ASSERT_TRUE(back);
  EXPECT_TRUE(back->over);
  EXPECT_EQ(back->status, 1);
  for (const char* wrong : {"", "pairs 0-9\nlost\n", "pairs 0\nlost\n", "over\tx\t\n", "circle\nlost\n", "pairs 0-1"})
    EXPECT_FALSE(unpack_plan(wrong, 8)) << wrong;
}

TEST(PairsWire, TheEndThatBrokeIsNamed) {
  const RailReport good{0, 40, RailReport::Blame::transport, true, ""};
  const RailReport died{0, 0, RailReport::Blame::died, true, "killed by SIGSEGV"};
  const RailReport left{0, 0, RailReport::Blame::transport, true, "connection reset"};
  const auto merge = [](const RailReport* a, const RailReport* b) {
    return merge_reports({3, 7}, 0, a, b, "n3 rail 0", "n7 rail 0", "no answer");
  };
  EXPECT_EQ(merge(&good, &good).failure, "");
  EXPECT_DOUBLE_EQ(merge(&good, &good).gbps, 40);
  PairFigure figure = merge(&left, &died);
  EXPECT_EQ(figure.failure, "n7 rail 0: killed by SIGSEGV");
  EXPECT_EQ(figure.culprit, 7);
  EXPECT_TRUE(figure.reached);
  figure = merge(&left, &left);
  EXPECT_EQ(figure.culprit, -1);
  EXPECT_EQ(figure.gbps, 0);
  EXPECT_EQ(merge(&died, &died).culprit, -1) << "both broke: neither is the effect of the other";
  figure = merge(nullptr, &left);
  EXPECT_EQ(figure.failure, "n3 rail 0: no answer");
  EXPECT_EQ(figure.culprit, 3);
}

TEST(PairsWire, NodesOfOneSwitchStandTogether) {
  EXPECT_EQ(fabric_order({"s0.b.n0", "s0.a.n1", "s0.b.n2", "s0.a.n3"}), (std::vector<int>{1, 3, 0, 2}));
  EXPECT_EQ(fabric_order({"", "", ""}), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(fabric_order({"n0", "n1"}), (std::vector<int>{0, 1})) << "topology/none gives the name alone";
}

// Eight nodes of two rails: node 5 slow on rail 1, the path 2-6 bad, node 7 gone after the first round.
struct Sample {
  PairsRun run;
  PairSearch search;

  explicit Sample(bool full = false) : search(8, 2, {.full = full}) {
    run.options.full = full;
    run.rails = 2, run.worker = "nccl", run.complete = true, run.seconds = 3.5;
    for (int node = 0; node < 8; ++node) {
      NodeCard card;
      card.name = print("node%d", node + 1), card.host = card.name;
      for (int rail = 0; rail < 2; ++rail)
        card.rails.push_back({rail, "NVIDIA H200", print("0000:%d%d:00.0", node, rail), print("GPU-%d%d", node, rail),
                              print("mlx5_%d", rail), "NCCL 2.28.3", ""});
      run.nodes.push_back(card);
    }
    for (;;) {
      const auto pairs = search.next_round();
      if (pairs.empty()) break;
      std::vector<PairFigure> figures;
      for (const NodePair& pair : pairs)
        for (int rail = 0; rail < 2; ++rail) {
          PairFigure figure{pair, rail, pair.a == pair.b ? 200.0 : 45.0, "", 0};
          if (pair.a != pair.b && (pair.a == 5 || pair.b == 5) && rail == 1) figure.gbps = 22;
          if (pair == NodePair{2, 6}) figure.gbps = 30;
          if (pair.a != pair.b) figure.gbps -= 0.01 * ((7 * pair.a + 3 * pair.b + rail) % 60);  // no two are alike
          if (pair.a == 7 || pair.b == 7) figure.gbps = 0, figure.failure = "node8: no answer";
          figures.push_back(figure);
        }
      if (search.rounds() == 1) search.lose(7, "no answer from its tasks in round 2");
      search.record(figures);
    }
  }
};

TEST(PairsReport, TableListsAndCommandsNameWhatIsBad) {
  const Sample sample;
  const std::string text = pairs_text(sample.run, sample.search);
  EXPECT_THAT(
      text, testing::ContainsRegex("node6 +1 +0000:51:00.0 +- +21.[0-9]+ +4[0-9] +rail +slow in [0-9] of [0-9] pairs"));
  EXPECT_THAT(text, HasSubstr("NIC mlx5_1"));
  EXPECT_THAT(text, testing::ContainsRegex("node3 +all +- +node7 +29.[0-9]+ +6[0-9] +path "));
  EXPECT_THAT(text, testing::ContainsRegex("node8 +all +- +- .*unreachable +no answer from its tasks in round 2"));
  // Node 1 with 5, 2 with 6, 3 with 7; 4 with 8 failed.
  EXPECT_THAT(text, testing::ContainsRegex("# bisection, .*: 215.[67] GB/s each way\n"));
  EXPECT_THAT(text, HasSubstr("# good        : node[1-5,7] (6)\n"));
  EXPECT_THAT(text, HasSubstr("# bad         : node6 (1)\n"));
  EXPECT_THAT(text, HasSubstr("# unreachable : node8 (1)\n"));
  EXPECT_THAT(text,
              testing::ContainsRegex("scontrol update nodename=node6 state=drain reason=\"nccl-tune pairs: rail 1 "
                                     "\\(GPU 0000:51:00.0\\) at 4[0-9] % of the median\"\n"));
  EXPECT_EQ(drain_commands(sample.run, sample.search).size(), 2U) << "a path drains nobody";
  EXPECT_EQ(pairs_status(sample.search), 1);
}

// What `report` is tested with (tests/report) is what is written here.
TEST(PairsReport, SampleOfThePageIsUpToDate) {
  const Sample sample(true);
  const std::string text =
      json_start(sample.run) + json_figures(sample.run, sample.search, 0) + json_end(sample.run, sample.search, 1);
  const std::string path = NCCLTUNE_SOURCE_DIR "/tests/report/pairs.jsonl";
  if (std::getenv("NCCLTUNE_WRITE_SAMPLES")) std::ofstream(path) << text;
  std::ifstream file(path);
  std::stringstream there;
  there << file.rdbuf();
  EXPECT_EQ(there.str(), text) << "write it anew with NCCLTUNE_WRITE_SAMPLES=1 and review the diff";
}

TEST(PairsReport, LinesAreJsonAndCarryTheEvidence) {
  const Sample sample;
  const std::string text =
      json_start(sample.run) + json_figures(sample.run, sample.search, 0) + json_end(sample.run, sample.search, 1);
  std::map<std::string, int> kinds;
  for (const std::string& line : split(text, '\n')) {
    if (line.empty()) continue;
    const auto json = nlohmann::json::parse(line);
    ++kinds[json.at("kind")];
    if (json["kind"] == "pair") {
      for (const char* key :
           {"round", "rail", "node", "host", "bdf", "uuid", "nics", "peer", "gbps", "percent", "verdict"})
        EXPECT_TRUE(json.contains(key)) << key;
      EXPECT_TRUE(json["peer"]["uuid"].get<std::string>().starts_with("GPU-"));
    }
    if (json["kind"] == "finding" && json["verdict"] == "rail") {
      EXPECT_EQ(json["node"], "node6");
      EXPECT_EQ(json["rails"][0]["bdf"], "0000:51:00.0");
      EXPECT_GE(json["evidence"].size(), 2U);
      EXPECT_TRUE(json["evidence"][0]["peer"].is_string());
    }
    if (json["kind"] == "end") {
      EXPECT_EQ(json["bad"], "node6");
      EXPECT_EQ(json["exit_status"], 1);
    }
  }
  EXPECT_EQ(kinds["start"], 1);
  EXPECT_EQ(kinds["end"], 1);
  EXPECT_EQ(kinds["finding"], 3);
  EXPECT_EQ(kinds["alone"] + kinds["pair"], static_cast<int>(sample.search.figures().size()));
}

}  // namespace
}  // namespace nccltune::bench
