// SPDX-License-Identifier: Apache-2.0
// What should be the same on the nodes of a job, and where it is not: the minority is named. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "check/finding.h"

namespace nccltune::check {

struct NodeFacts {
  std::string host;
  std::map<std::string, std::string> values;  // "nvidia driver" -> "580.82.07"; what a node does not tell is absent
};

// Of one node: at most a few KiB.
NodeFacts facts_to_compare(const Subject& subject);

// The same for nodes with the same values, whatever their names.
uint64_t digest_of(const NodeFacts& facts);

std::string pack(const NodeFacts& facts);
// What is no pack() gives facts without a host.
NodeFacts unpack(std::string_view text);

// Nodes that told the same: the facts of one of them, and all their names.
struct AlikeNodes {
  NodeFacts facts;
  std::vector<std::string> hosts;
};

// One finding a value that differs; when all agree, one ok. Its object is the nodes of the minority: the fewer ones,
// and of equally many those that come later. Time is linear in the number of groups times values.
std::vector<Finding> differences(const std::vector<AlikeNodes>& groups);

// The time of day that a node read when it had left a fence of all.
struct NodeClock {
  std::string host;
  double seconds = 0;  // since 1970
};

// One finding for each node whose clock is more than two seconds from the median, or one ok. Two: by so much the nodes
// of a loaded cluster may leave a fence apart, and logs and Slurm's credentials suffer from more.
std::vector<Finding> clock_differences(std::vector<NodeClock> clocks);

// "n1 n2 n3 and 97 more".
std::string in_short(const std::vector<std::string>& hosts);

}  // namespace nccltune::check
