// SPDX-License-Identifier: Apache-2.0
// A YAML document as a plain tree in which everything knows the place it was written at. yaml-cpp's parser feeds it;
// its own node graph is not used: that one shares aliased nodes, so a small file can stand for a huge tree.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace nccltune {

struct YamlNode {
  enum class Kind { null, scalar, list, map };
  Kind kind = Kind::null;
  int line = 0, column = 0;  // from 1
  std::string scalar;
  std::vector<YamlNode> items;                         // of a list
  std::vector<std::pair<YamlNode, YamlNode>> entries;  // of a map, in the order of the file; keys are scalars

  // Out of line: clang 14 would make them here, where a pair of this type is not complete.
  YamlNode();
  YamlNode(const YamlNode&);
  YamlNode(YamlNode&&) noexcept;
  YamlNode& operator=(const YamlNode&);
  YamlNode& operator=(YamlNode&&) noexcept;
  ~YamlNode();

  const YamlNode* find(const std::string& key) const;  // in a map
};

constexpr std::size_t kMaxPolicyBytes = std::size_t{256} * 1024;
constexpr int kMaxYamlDepth = 16;  // the policy needs 5; yaml-cpp recurses, and a stack is finite

// One document. An Error's object is "FILE:line:column". Refused: anchors and aliases, more than one document, keys
// that are not scalars, a key twice in one map, more than kMaxYamlDepth levels, more than kMaxPolicyBytes. yaml-cpp's
// exceptions end here. An empty text is a null node.
Result<YamlNode> parse_yaml(const std::string& text, const std::string& file);

// An Error about one place of the file.
Error yaml_error(const std::string& file, const YamlNode& at, std::string what, std::string remedy = "");

}  // namespace nccltune
