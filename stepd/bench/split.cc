// SPDX-License-Identifier: Apache-2.0
#include "bench/split.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "bench/text.h"

namespace nccltune::bench {
namespace {

constexpr const char* kMask = "NCCL_TESTS_SPLIT_MASK";
constexpr const char* kExpression = "NCCL_TESTS_SPLIT";

std::optional<uint32_t> number(std::string_view text, int base) {
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// "12", "0x1f", "0b101", "017" as strtoul(..., 0) reads it, all of the text.
std::optional<uint32_t> parse_number(std::string_view text) {
  if (text.starts_with("0x")) return number(text.substr(2), 16);
  if (text.starts_with("0b")) return number(text.substr(2), 2);
  if (text.size() > 1 && text.front() == '0') return number(text.substr(1), 8);
  return number(text, 10);
}

std::string_view trimmed(std::string_view text) {
  const size_t from = text.find_first_not_of(" \t");
  if (from == std::string_view::npos) return {};
  return text.substr(from, text.find_last_not_of(" \t") - from + 1);
}

int64_t color_of(const Split& split, uint32_t task, int node, int place) {
  switch (split.by) {
    case Split::By::bit_and:
      return task & split.value;
    case Split::By::bit_or:
      return task | split.value;
    case Split::By::modulo:
      return task % split.value;
    case Split::By::divide:
      return task / split.value;
    case Split::By::node:
      return node;
    case Split::By::rail:
      break;
  }
  return place;
}

}  // namespace

std::optional<Split> parse_split(const std::string& text) {
  const std::string small = lower(text);
  const std::string_view word = trimmed(small);
  if (word == "node") return Split{Split::By::node, 0, text};
  if (word == "rail") return Split{Split::By::rail, 0, text};
  static constexpr struct {
    std::string_view name;
    Split::By by;
  } kOperators[] = {{"and", Split::By::bit_and}, {"&", Split::By::bit_and},  {"or", Split::By::bit_or},
                    {"|", Split::By::bit_or},    {"mod", Split::By::modulo}, {"%", Split::By::modulo},
                    {"div", Split::By::divide},  {"/", Split::By::divide}};
  for (const auto& [name, by] : kOperators) {
    if (!word.starts_with(name)) continue;
    const auto value = parse_number(trimmed(word.substr(name.size())));
    const bool divides = by == Split::By::modulo || by == Split::By::divide;
    if (!value || (divides && *value == 0)) return std::nullopt;
    return Split{by, *value, text};
  }
  return std::nullopt;
}

Result<std::optional<Split>> split_of_environment(const std::map<std::string, std::string>& environment) {
  if (const auto at = environment.find(kMask); at != environment.end()) {
    const std::string small = lower(at->second);
    const auto value = number(small.starts_with("0x") ? std::string_view(small).substr(2) : small, 16);
    if (!value) return Error{kMask, "'" + at->second + "' is no hexadecimal number", "", "write a mask such as 0x7"};
    return std::optional(Split{Split::By::bit_and, *value, "AND 0x" + print("%x", *value)});
  }
  if (const auto at = environment.find(kExpression); at != environment.end()) {
    auto split = parse_split(at->second);
    if (!split)
      return Error{kExpression, "'" + at->second + "' is no split", "",
                   "write AND, OR, MOD or DIV and a number, such as 'MOD 8'"};
    return split;
  }
  return std::optional<Split>();
}

size_t Groups::smallest() const {
  size_t least = SIZE_MAX;
  for (const auto& ranks : members) least = std::min(least, ranks.size());
  return least;
}

Groups groups_of(const Split& split, const std::vector<int>& node_of, int workers) {
  std::map<int, int> tasks_on;  // so far
  std::map<int64_t, std::vector<int>> ranks_of;
  int rank = 0;
  for (size_t task = 0; task < node_of.size(); ++task) {
    const int local = tasks_on[node_of[task]]++;
    for (int i = 0; i < workers; ++i)
      ranks_of[color_of(split, static_cast<uint32_t>(task), node_of[task], local * workers + i)].push_back(rank++);
  }
  Groups groups;
  groups.of.resize(static_cast<size_t>(rank));
  for (auto& [color, ranks] : ranks_of) {
    for (const int r : ranks) groups.of[static_cast<size_t>(r)] = static_cast<int>(groups.members.size());
    groups.color.push_back(color);
    groups.members.push_back(std::move(ranks));
  }
  return groups;
}

}  // namespace nccltune::bench
