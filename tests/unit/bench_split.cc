// SPDX-License-Identifier: Apache-2.0
// Which ranks run together: nccl-tests' grammar, and what it lets through that is an error here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/split.h"

namespace nccltune::bench {
namespace {

using testing::ElementsAre;

std::vector<int> groups(const char* text, const std::vector<int>& node_of, int workers = 1) {
  const auto split = parse_split(text);
  return split ? groups_of(*split, node_of, workers).of : std::vector<int>{-1};
}

const std::vector<int> kTwoNodes = {0, 0, 0, 0, 1, 1, 1, 1};

TEST(BenchSplit, OperatorsOfNcclTests) {
  for (const char* text : {"MOD 4", "mod4", "%4", "% 0x4", "Mod 0b100", " mod 04 "})
    EXPECT_THAT(groups(text, kTwoNodes), ElementsAre(0, 1, 2, 3, 0, 1, 2, 3)) << text;
  for (const char* text : {"DIV 4", "/4", "AND 0xfc", "& 4"})
    EXPECT_THAT(groups(text, kTwoNodes), ElementsAre(0, 0, 0, 0, 1, 1, 1, 1)) << text;
  for (const char* text : {"OR 3", "|3"})
    EXPECT_THAT(groups(text, kTwoNodes), ElementsAre(0, 0, 0, 0, 1, 1, 1, 1)) << text;
}

TEST(BenchSplit, ColorsAreTheResultsAndGroupsAreNumbered) {
  const Groups g = groups_of(*parse_split("OR 3"), kTwoNodes, 1);
  EXPECT_THAT(g.color, ElementsAre(3, 7));
  EXPECT_THAT(g.members, ElementsAre(ElementsAre(0, 1, 2, 3), ElementsAre(4, 5, 6, 7)));
}

// Three nodes whose tasks were dealt out in turn.
TEST(BenchSplit, NodesAndRailsByNameWhateverTheOrderOfTasks) {
  const std::vector<int> node_of = {0, 1, 2, 0, 1, 2};
  EXPECT_THAT(groups("node", node_of), ElementsAre(0, 1, 2, 0, 1, 2));
  EXPECT_THAT(groups("rail", node_of), ElementsAre(0, 0, 0, 1, 1, 1));
}

TEST(BenchSplit, SeveralWorkersInATask) {
  EXPECT_THAT(groups("MOD 2", {0, 1}, 2), ElementsAre(0, 0, 1, 1)) << "nccl-tests splits processes";
  EXPECT_THAT(groups("rail", {0, 1}, 2), ElementsAre(0, 1, 0, 1));
}

TEST(BenchSplit, UnequalGroups) {
  const Groups g = groups_of(*parse_split("MOD 3"), {0, 0, 0, 0}, 1);
  EXPECT_EQ(g.smallest(), 1u);
  EXPECT_THAT(g.members, ElementsAre(ElementsAre(0, 3), ElementsAre(1), ElementsAre(2)));
}

TEST(BenchSplit, OneColorIsNoSplit) { EXPECT_TRUE(groups_of(*parse_split("AND 0"), kTwoNodes, 1).empty()); }

TEST(BenchSplit, NonsenseIsRefused) {
  for (const char* text :
       {"", "8", "MOD", "MOD 0", "/0", "MOD 8x", "MOD -1", "AND 0x", "AND 0b2", "XOR 1", "nodes", "MOD 4294967296"}) {
    EXPECT_FALSE(parse_split(text)) << text;
  }
}

TEST(BenchSplit, TheEnvironmentsMaskGoesFirst) {
  const auto both = split_of_environment({{"NCCL_TESTS_SPLIT_MASK", "1"}, {"NCCL_TESTS_SPLIT", "nonsense"}});
  ASSERT_TRUE(both && *both);
  EXPECT_EQ((*both)->by, Split::By::bit_and);
  EXPECT_EQ((*both)->value, 1u);
  EXPECT_EQ((*split_of_environment({{"NCCL_TESTS_SPLIT_MASK", "0x1F"}}))->value, 0x1fu);
  EXPECT_FALSE(split_of_environment({{"NCCL_TESTS_SPLIT_MASK", "0x1g"}}));
  EXPECT_FALSE(split_of_environment({{"NCCL_TESTS_SPLIT", "DIV 0"}}));
  EXPECT_FALSE((*split_of_environment({})).has_value());
}

}  // namespace
}  // namespace nccltune::bench
