// SPDX-License-Identifier: Apache-2.0
// What may be tried: the shipped space, files that are refused, what is left out on a step, and the profile that comes
// of it, read back by the policy's loader.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <iterator>

#include "bench/tune_space.h"
#include "bench/tune_state.h"
#include "cli/tune_files.h"
#include "cli/tune_profile.h"
#include "machines/machine.h"
#include "policy/profile.h"
#include "unit/node_builder.h"

namespace nccltune::cli {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;
using namespace nccltune::testing;  // NOLINT(google-build-using-namespace): the builder

bench::Space shipped() {
  std::ifstream file(NCCLTUNE_SOURCE_DIR "/etc/tune-space.yaml");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  auto space = parse_space(text, "tune-space.yaml");
  EXPECT_TRUE(space) << (space ? "" : space.error().text());
  return space ? *space : bench::Space{};
}

std::string error_of(const std::string& text) {
  const auto space = parse_space(text, "s.yaml");
  return space ? "" : space.error().text();
}

std::string value_error(const std::string& name, const std::string& value) {
  return error_of("variables: [{name: " + name + ", values: ['" + value + "']}]");
}

bench::StepFacts cluster() {
  bench::StepFacts facts;
  facts.nodes = 2, facts.ranks = 16, facts.ranks_per_node = 8, facts.hcas = 8;
  facts.link_layer = "InfiniBand";
  facts.gpus.assign(8, "10de:2330");
  facts.nccl = 22803;
  facts.worker = "nccl";
  facts.smallest = 1 << 20, facts.largest = 1 << 30;
  facts.collectives = {"all_reduce"};
  return facts;
}

std::vector<std::string> names_of(const bench::Space& space) {
  std::vector<std::string> names;
  for (const bench::Knob& knob : space.knobs) names.push_back(knob.name);
  return names;
}

TEST(TuneSpace, TheShippedOneIsAccepted) {
  const bench::Space space = shipped();
  EXPECT_GE(space.knobs.size(), 20u);
  for (const char* name :
       {"NCCL_IB_QPS_PER_CONNECTION", "NCCL_IB_SPLIT_DATA_ON_QPS", "NCCL_IB_ADAPTIVE_ROUTING", "NCCL_CROSS_NIC",
        "NCCL_PXN_DISABLE", "NCCL_MIN_CTAS", "NCCL_MIN_NCHANNELS", "NCCL_BUFFSIZE", "NCCL_P2P_NET_CHUNKSIZE",
        "NCCL_ALGO", "NCCL_PROTO", "NCCL_GDRCOPY_ENABLE", "NCCL_LOCAL_REGISTER"})
    EXPECT_THAT(names_of(space), Contains(name));
  for (const bench::Knob& knob : space.knobs) EXPECT_EQ(knob.when.worker, "nccl") << knob.name;
}

TEST(TuneSpace, UnsafeNamesAndValuesAreNeverTried) {
  EXPECT_THAT(value_error("NCCL_NET_FORCE_FLUSH", "0"),
              HasSubstr("s.yaml:1:51: NCCL_NET_FORCE_FLUSH is never tried: without the flush"));
  for (const auto& [name, why] : bench::refused_names())
    if (name.find('=') == std::string::npos) {
      EXPECT_THAT(value_error(name, "1"), HasSubstr("is never tried: " + why));
    }
  EXPECT_THAT(value_error("NCCL_PROTO", "allreduce:LL128"), HasSubstr("LL128"));
  EXPECT_THAT(value_error("NCCL_PROTO", "allreduce:Simple,LL128"), HasSubstr("never tried"));
  EXPECT_THAT(value_error("NCCL_PROTO", "allreduce:^LL"), HasSubstr("never tried"));  // asks for LL128
  EXPECT_EQ(value_error("NCCL_PROTO", "allreduce:^LL128"), "");
  EXPECT_THAT(value_error("NCCL_ALGO", "Tree"), HasSubstr("names no function"));
  EXPECT_THAT(value_error("NCCL_ALGO", "allreduce:Magic"), HasSubstr("is not one of Ring, Tree"));
  EXPECT_THAT(value_error("NCCL_IB_QPS_PER_CONECTION", "2"), HasSubstr("did you mean 'NCCL_IB_QPS_PER_CONNECTION'?"));
  EXPECT_THAT(value_error("PATH", "/tmp"), HasSubstr("is not a variable that can be tried"));
  EXPECT_THAT(value_error("NCCL_IB_QPS_PER_CONNECTION", "64"), HasSubstr("'64' is out of bounds: 1 to 16"));
  EXPECT_THAT(value_error("NCCL_BUFFSIZE", "3M"),
              HasSubstr("'3145728' is out of bounds: 1048576 to 67108864, powers of two"));
  EXPECT_THAT(value_error("NCCL_BUFFSIZE", "1G"), HasSubstr("out of bounds"));
  EXPECT_THAT(value_error("NCCL_MIN_CTAS", "-1"), HasSubstr("out of bounds"));
  EXPECT_THAT(value_error("NCCL_MIN_CTAS", "8; rm -rf"), HasSubstr("out of bounds"));
}

TEST(TuneSpace, BoundsOfTheFileNarrowOursAndNeverWidenThem) {
  EXPECT_THAT(error_of("variables: [{name: NCCL_MIN_CTAS, bounds: [1, 16], values: [32]}]"), HasSubstr("1 to 16"));
  EXPECT_THAT(error_of("variables: [{name: NCCL_MIN_CTAS, bounds: [1, 1000], values: [128]}]"), HasSubstr("1 to 64"));
}

TEST(TuneSpace, BrokenFiles) {
  EXPECT_THAT(error_of("variabels: []"), HasSubstr("did you mean 'variables'?"));
  EXPECT_THAT(error_of("variables: []"), HasSubstr("must be a list"));
  EXPECT_THAT(error_of(""), HasSubstr("must be a map"));
  EXPECT_THAT(error_of("variables: [{name: NCCL_MIN_CTAS}]"), HasSubstr("needs 1 to 16 values"));
  EXPECT_THAT(error_of("variables: [{name: NCCL_MIN_CTAS, values: [8, 8]}]"), HasSubstr("is there already"));
  EXPECT_THAT(error_of("variables: [{name: NCCL_MIN_CTAS, values: [8], when: {nccl: abc}}]"), HasSubstr("a version"));
  EXPECT_THAT(error_of("variables: [{name: NCCL_MIN_CTAS, values: [8], needs: NCCL_BUFFSIZE}]"),
              HasSubstr("no variable of its own"));
}

TEST(TuneSpace, OnAClusterOnlyWhatCanMatterThere) {
  std::vector<std::pair<std::string, std::string>> left_out;
  bench::StepFacts facts = cluster();
  bench::Space here = applicable(shipped(), facts, left_out);
  EXPECT_THAT(names_of(here), Contains("NCCL_CROSS_NIC"));
  EXPECT_THAT(names_of(here), Contains("NCCL_IB_SPLIT_DATA_ON_QPS"));
  EXPECT_THAT(left_out, Contains(Pair("NCCL_SOCKET_NTHREADS", "is for sockets, and HCAs are used")));
  EXPECT_THAT(left_out, Contains(Pair("NCCL_MIN_NCHANNELS", "is for NCCL before 2.17")));
  EXPECT_THAT(left_out, Contains(Pair("NCCL_P2P_NET_CHUNKSIZE", "is not for all_reduce")));
  EXPECT_THAT(left_out, Contains(Pair("NCCL_GDRCOPY_ENABLE", "/dev/gdrdrv is not there")));
  EXPECT_THAT(left_out, Contains(Pair("NCCL_LOCAL_REGISTER", "needs registered buffers (-R 1)")));
  int algorithms = 0;
  for (const bench::Knob& knob : here.knobs) algorithms += knob.name == "NCCL_ALGO";
  EXPECT_EQ(algorithms, 1);

  facts.smallest = 8;  // sizes of both classes: nothing may be forced on all of them
  left_out.clear();
  here = applicable(shipped(), facts, left_out);
  EXPECT_THAT(names_of(here), Not(Contains("NCCL_ALGO")));
  EXPECT_THAT(names_of(here), Not(Contains("NCCL_PROTO")));

  facts = cluster();
  facts.nodes = 1, facts.ranks = 8;
  here = applicable(shipped(), facts, left_out);
  for (const std::string& name : names_of(here)) EXPECT_THAT(name, Not(HasSubstr("NCCL_IB_")));
}

TEST(TuneSpace, WhatTheUserSetStaysAndWhatIsInForceIsNotTriedAgain) {
  std::vector<std::pair<std::string, std::string>> left_out;
  bench::StepFacts facts = cluster();
  facts.environment = {{"NCCL_CROSS_NIC", "1"}, {"NCCL_IB_QPS_PER_CONNECTION", "4"}, {"NCCL_IB_ADAPTIVE_ROUTING", "0"}};
  facts.users = {"NCCL_CROSS_NIC"};
  const bench::Space here = applicable(shipped(), facts, left_out);
  EXPECT_THAT(left_out, Contains(Pair("NCCL_CROSS_NIC", "is set by the user already, to '1'")));
  EXPECT_THAT(left_out, Contains(Pair("NCCL_IB_ADAPTIVE_ROUTING", "is '0' already")));
  for (const bench::Knob& knob : here.knobs) {
    if (knob.name == "NCCL_IB_QPS_PER_CONNECTION") {
      EXPECT_EQ(knob.values, (std::vector<std::string>{"2", "8"}));
    }
    if (knob.name == "NCCL_IB_SPLIT_DATA_ON_QPS") {
      EXPECT_EQ(knob.needs, "");  // there are four already
    }
  }
  facts.users.clear();
  facts.net_plugin = "efa";
  for (const std::string& name : names_of(applicable(shipped(), facts, left_out)))
    EXPECT_THAT(name, Not(HasSubstr("NCCL_IB_")));
}

TEST(TuneSpace, Versions) {
  EXPECT_EQ(bench::nccl_code("2.28.3"), 22803);
  EXPECT_EQ(bench::nccl_code("2.17"), 21700);
  EXPECT_EQ(bench::nccl_code("2.8.4"), 2804);
  EXPECT_EQ(bench::nccl_version(22803), "2.28.3");
  EXPECT_EQ(bench::nccl_version(21700), "2.17");
  for (const char* bad : {"", "2", "2.x", "2.1.2.3", "2.-1"}) EXPECT_FALSE(bench::nccl_code(bad)) << bad;
}

TEST(TuneWorkload, WeighsCollectivesAndSizes) {
  const auto workload = parse_workload(
      "work:\n  - {collective: all_reduce, sizes: [64M, 1M], calls: 40, type: bfloat16}\n"
      "  - {collective: all_gather, sizes: [16M], calls: 10}\n  - {collective: all_reduce, sizes: [1M], calls: 2, "
      "type: bfloat16}\n",
      "w.yaml");
  ASSERT_TRUE(workload) << workload.error().text();
  ASSERT_EQ(workload->works.size(), 2u);
  EXPECT_EQ(workload->works[0].sizes, (std::vector<uint64_t>{1 << 20, 64 << 20}));
  EXPECT_EQ(workload->works[0].type, protocol::DataType::bfloat16);
  EXPECT_EQ(workload->objective.weights, (std::vector<double>{42, 40, 10}));
  EXPECT_TRUE(workload->objective.by_calls);
  const auto error = [](const char* text) { return parse_workload(text, "w.yaml").error().text(); };
  EXPECT_THAT(error("work: [{collective: all_redcue, sizes: [1], calls: 1}]"), HasSubstr("unknown collective"));
  EXPECT_THAT(error("work: [{collective: all_reduce, sizes: [1]}]"), HasSubstr("needs calls"));
  EXPECT_THAT(error("work: [{collective: all_reduce, sizes: [1], calls: 0}]"), HasSubstr("above 0"));
  EXPECT_THAT(
      error("work: [{collective: all_reduce, sizes: [1], calls: 1}, {collective: reduce, sizes: [1], weight: 1}]"),
      HasSubstr("not both"));
}

// ---- the profile

TEST(TuneProfile, IsReadBackByTheLoaderAndMatchesThisNode) {
  NodeBuilder machine;
  machine.gpus({0, 1});
  machine.hca({"mlx5_0", 0, "Ethernet", 200, 0x1021, "10.1.0.2/24"});
  machine.node.dmi["product_name"] = "Weird [box] \"9*\"";
  const Policy site = *parse_policy("profiles: [{name: oci, env: {NCCL_IB_TC: 41}}]\n", "site.yaml");
  const Plan plan = plan_node(machine.node, site, {});
  Profile profile;
  profile.name = tuned_name(plan.profile, "20261129", site);
  EXPECT_EQ(profile.name, "oci-tuned-20261129");
  profile.when = condition_of(machine.node, plan);
  profile.extends = "oci";
  profile.why = "measured 2026-11-29: 1.08 times: \"quoted\" \\ # not a comment; nccl-tune tune --space 'a b'";
  profile.env = {{"NCCL_MIN_CTAS", "32", "", ""}, {"NCCL_ALGO", "allreduce:^NVLS", "", ""}};

  const std::string folder = temporary_folder();
  ASSERT_EQ(mkdir((folder + "/site.d").c_str(), 0755), 0);
  std::ofstream(folder + "/site.yaml") << "profiles: [{name: oci, env: {NCCL_IB_TC: 41}}]\n";
  std::ofstream(folder + "/site.d/50-tuned.yaml") << profile_text(profile, {"a comment", "with: [odd] text"});
  chmod((folder + "/site.yaml").c_str(), 0644);
  chmod((folder + "/site.d/50-tuned.yaml").c_str(), 0644);
  const auto policy = load_policy(folder + "/site.yaml", folder + "/site.d");
  ASSERT_TRUE(policy) << policy.error().text();
  ASSERT_THAT(policy->left_out, IsEmpty());
  const Plan tuned = plan_node(machine.node, *policy, {});
  EXPECT_EQ(tuned.profile, "oci-tuned-20261129");
  EXPECT_EQ(tuned.profile_why, profile.why);
  EXPECT_EQ(value_of(tuned.env, "NCCL_MIN_CTAS"), "32");
  EXPECT_EQ(value_of(tuned.env, "NCCL_ALGO"), "allreduce:^NVLS");
  EXPECT_EQ(value_of(tuned.env, "NCCL_IB_TC"), "41");  // of the profile that it extends
  machine.node.dmi["product_name"] = "Weird b \"9x\"";
  EXPECT_EQ(plan_node(machine.node, *policy, {}).profile, "oci");
}

TEST(TuneProfile, NamesAreNew) {
  const Policy policy = *parse_policy("profiles: [{name: oci-tuned-20261129}, {name: oci}]\n", "p.yaml");
  EXPECT_EQ(tuned_name("oci", "20261129", policy), "oci-tuned-20261129-2");
  EXPECT_EQ(tuned_name("oci-tuned-20261129", "20270101", policy), "oci-tuned-20270101");
}

// ---- the state file

TEST(TuneState, GoesThroughAFile) {
  const std::string file = temporary_folder() + "/state";
  const bench::Identity identity = {{"space", "A=1,2"}, {"machine", "16 ranks"}};
  EXPECT_FALSE(*bench::read_journal(file, identity));
  bench::Journal journal;
  journal.trials.emplace_back(bench::Setting{0, 1}, bench::Answer{{1.0 / 3, 2e-9}, "", false, 1.25});
  journal.trials.emplace_back(bench::Setting{2, 0}, bench::Answer{{}, "died: rank 3 \xff", true, 7});
  ASSERT_FALSE(bench::write_journal(file, identity, journal));
  ASSERT_FALSE(bench::write_journal(file, identity, journal));  // over the old one
  const auto back = bench::read_journal(file, identity);
  ASSERT_TRUE(back) << back.error().text();
  ASSERT_TRUE(*back);
  ASSERT_EQ((*back)->trials.size(), 2u);
  EXPECT_EQ((*back)->trials[0].second.times, journal.trials[0].second.times);  // to the last bit
  EXPECT_TRUE((*back)->trials[1].second.wrong_data);
  const auto other = bench::read_journal(file, {{"space", "A=1,3"}, {"machine", "16 ranks"}});
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().text(), HasSubstr("is of another search: its space was 'A=1,2', not 'A=1,3'; remove it"));
}

TEST(TuneState, BelievesNothing) {
  for (const char* text : {"", "{", "[]", "{\"kind\": 1}", "{\"kind\": \"nccl-tune tune: state 1\"}",
                           "{\"kind\": \"nccl-tune tune: state 1\", \"identity\": {}, \"trials\": [{}]}",
                           R"({"kind": "nccl-tune tune: state 1", "identity": {}, "trials": [
{"setting": [1], "times": [-1], "fault": "", "wrong_data": false, "seconds": 1}]})"})
    EXPECT_FALSE(bench::parse_journal(text, "s", {})) << text;
}

}  // namespace
}  // namespace nccltune::cli
