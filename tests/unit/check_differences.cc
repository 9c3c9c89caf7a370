// SPDX-License-Identifier: Apache-2.0
// What nodes of a job differ in, and that a thousand of them take no time.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>

#include "check/differences.h"

namespace nccltune::check {
namespace {

NodeFacts node(int number) {
  return {"n" + std::to_string(number),
          {{"nvidia driver", "580.82.07 open"}, {"HCA count", "8"}, {"HCA rate", "400 Gb/s"}, {"kernel", "5.15.0"}}};
}

// As rank 0 has them: by digest, facts of one node of each kind.
std::vector<AlikeNodes> grouped(const std::vector<NodeFacts>& nodes) {
  std::map<uint64_t, AlikeNodes> kinds;
  for (const NodeFacts& facts : nodes) {
    AlikeNodes& kind = kinds[digest_of(facts)];
    if (kind.hosts.empty()) kind.facts = unpack(pack(facts));
    kind.hosts.push_back(facts.host);
  }
  std::vector<AlikeNodes> groups;
  for (auto& [digest, kind] : kinds) groups.push_back(std::move(kind));
  std::stable_sort(groups.begin(), groups.end(),
                   [](const auto& a, const auto& b) { return a.hosts.size() > b.hosts.size(); });
  return groups;
}

TEST(Differences, NodesThatAgreeAreOneOk) {
  const auto findings = differences(grouped({node(1), node(2), node(3)}));
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].status, Status::ok);
}

TEST(Differences, TheMinorityIsNamed) {
  std::vector<NodeFacts> nodes;
  for (int i = 0; i < 6; ++i) nodes.push_back(node(i));
  nodes[2].values["nvidia driver"] = "550.54.15";
  nodes[4].values["HCA count"] = "7";
  nodes[5].values.erase("kernel");
  std::map<std::string, Finding> found;
  for (const Finding& f : differences(grouped(nodes))) found.emplace(f.object, f);
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found["n2"].observed, "nvidia driver: 550.54.15");
  EXPECT_EQ(found["n2"].wanted, "580.82.07 open, as on 5 of 6 nodes");
  EXPECT_EQ(found["n2"].status, Status::warn);
  EXPECT_EQ(found["n4"].status, Status::fail) << "an HCA less hangs or slows the job";
  EXPECT_EQ(found["n5"].observed, "kernel: not told");
}

TEST(Differences, OfTwoNodesTheSecondIsNamed) {
  std::vector<NodeFacts> nodes{node(1), node(2)};
  nodes[1].values["HCA rate"] = "200 Gb/s";
  std::vector<AlikeNodes> groups{{nodes[0], {"n1"}}, {nodes[1], {"n2"}}};
  const auto findings = differences(groups);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].object, "n2");
}

TEST(Differences, TravelAsText) {
  NodeFacts facts = node(7);
  facts.values["odd\tname"] = "two\nlines";
  const NodeFacts back = unpack(pack(facts));
  EXPECT_EQ(back.host, "n7");
  EXPECT_EQ(back.values.at("odd name"), "two lines");
  EXPECT_EQ(back.values.size(), 5u);
  EXPECT_TRUE(unpack("").values.empty());
}

TEST(ClockDifferences, NameTheNodesThatAreFarFromTheMedian) {
  const auto findings =
      clock_differences({{"n1", 1000.2}, {"n2", 940.0}, {"n3", 1000.0}, {"n4", 1001.9}, {"n5", 1007.1}});
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_EQ(findings[0].object, "n2");
  EXPECT_EQ(findings[0].observed, "60.2 s behind the median");
  EXPECT_EQ(findings[1].object, "n5");
  EXPECT_EQ(findings[1].observed, "6.9 s ahead of the median");
  EXPECT_EQ(findings[1].status, Status::warn);
}

TEST(ClockDifferences, OfTwoTheOneBehindIsNamed) {
  const auto findings = clock_differences({{"n1", 5000}, {"n2", 3}});
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].object, "n2");
}

TEST(ClockDifferences, AreOneOkWithinWhatAFenceTakes) {
  const auto findings = clock_differences({{"n1", 10.0}, {"n2", 11.5}});
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].status, Status::ok);
  EXPECT_EQ(findings[0].observed, "within 1.5 s");
  EXPECT_TRUE(clock_differences({{"n1", 10.0}}).empty());
}

TEST(Differences, AThousandNodesAreComparedAtOnce) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<NodeFacts> nodes;
  for (int i = 0; i < 1000; ++i) {
    nodes.push_back(node(i));
    for (int k = 0; k < 30; ++k) nodes.back().values["firmware of board " + std::to_string(k)] = "28.39.1002";
  }
  nodes[17].values["firmware of board 3"] = "28.38.1900";
  nodes[999].values["HCA rate"] = "200 Gb/s";
  for (int i = 100; i < 140; ++i) nodes[static_cast<size_t>(i)].values["kernel"] = "6.8.0";
  const auto groups = grouped(nodes);
  EXPECT_EQ(groups.size(), 4u) << "whole facts are asked of so many nodes, not of a thousand";
  const auto findings = differences(groups);
  ASSERT_EQ(findings.size(), 3u);
  for (const Finding& f : findings)
    if (f.observed == "kernel: 6.8.0") {
      EXPECT_EQ(f.object, "n100 n101 n102 n103 n104 n105 n106 n107 and 32 more");
    }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

}  // namespace
}  // namespace nccltune::check
