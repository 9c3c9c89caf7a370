// SPDX-License-Identifier: Apache-2.0
// Which ranks run together when the ranks of a step are split into groups that run the collective at the same time,
// each by itself: NCCL_TESTS_SPLIT and NCCL_TESTS_SPLIT_MASK of nccl-tests (2.19.6 common.cu:1496), and names for the
// two splits that people build from them (NVIDIA/nccl-tests#234).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace nccltune::bench {

struct Split {
  // The first four compute with the number of the task, as nccl-tests does with its process.
  enum class By { bit_and, bit_or, modulo, divide, node, rail } by = By::modulo;
  uint32_t value = 0;
  std::string text;  // as it was asked for
};

// "MOD 8", "%8", "AND 0x7", "&0b111", "OR", "|", "DIV", "/", any case; "node": the ranks of a node; "rail": those with
// the same place on their nodes. nullopt: none of these, or a division by 0.
std::optional<Split> parse_split(const std::string& text);

// What the environment asks for; the mask goes before the expression, as in nccl-tests. nullopt: nothing.
Result<std::optional<Split>> split_of_environment(const std::map<std::string, std::string>& environment);

struct Groups {
  std::vector<int> of;                    // group of each rank, numbered from 0 by color
  std::vector<int64_t> color;             // of each group: what the report calls "Group"
  std::vector<std::vector<int>> members;  // ranks of each group, ascending

  bool empty() const { return members.size() < 2; }  // all ranks run together
  size_t smallest() const;                           // ranks
};

// `node_of`: the node of each task, in rank order; `workers`: ranks in a task. Colors that are the same for all make
// one group.
Groups groups_of(const Split& split, const std::vector<int>& node_of, int workers);

}  // namespace nccltune::bench
