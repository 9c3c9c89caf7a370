// SPDX-License-Identifier: Apache-2.0
#include "cli/hostlist.h"

#include <fmt/format.h>

#include <cstdint>
#include <optional>

#include "base/text.h"

namespace nccltune::cli {

namespace {

constexpr size_t kMostHosts = 65536;  // MAX_RANGE of Slurm's hostlist.c

// At commas outside brackets. nullopt: a bracket has no partner.
std::optional<std::vector<std::string_view>> split_outside_brackets(std::string_view list) {
  std::vector<std::string_view> parts;
  size_t begin = 0;
  bool inside = false;
  for (size_t i = 0; i < list.size(); ++i) {
    if (list[i] == '[' || list[i] == ']') {
      if (inside == (list[i] == '[')) return std::nullopt;
      inside = !inside;
    }
    if (list[i] != ',' || inside) continue;
    parts.push_back(list.substr(begin, i - begin));
    begin = i + 1;
  }
  if (inside) return std::nullopt;
  parts.push_back(list.substr(begin));
  return parts;
}

// "01-03" or "7" as its numbers, at most `most` of them. Empty: cannot be read.
std::vector<std::string> expand_range(std::string_view range, size_t most) {
  const size_t dash = range.find('-');
  const std::string_view first = range.substr(0, dash);
  const std::string_view last = dash == std::string_view::npos ? first : range.substr(dash + 1);
  const auto low = parse_int(first, 0, INT64_MAX - 1), high = parse_int(last, 0, INT64_MAX - 1);
  if (!low || !high || *high < *low || static_cast<uint64_t>(*high - *low) >= most || first.starts_with('+')) return {};
  std::vector<std::string> numbers;
  for (int64_t number = *low; number <= *high; ++number) numbers.push_back(fmt::format("{:0{}}", number, first.size()));
  return numbers;
}

// One name with any number of brackets. Empty: cannot be read, or too many.
std::vector<std::string> expand_name(std::string_view name) {
  std::vector<std::string> hosts{""};
  while (!name.empty()) {
    const size_t open = name.find('[');
    for (std::string& host : hosts) host += name.substr(0, open);
    if (open == std::string_view::npos) break;
    const size_t close = name.find(']');
    std::vector<std::string> longer;
    for (std::string_view range : split(name.substr(open + 1, close - open - 1), ',')) {
      const auto numbers = expand_range(range, kMostHosts);
      if (numbers.empty()) return {};
      longer.insert(longer.end(), numbers.begin(), numbers.end());
    }
    if (hosts.size() * longer.size() > kMostHosts) return {};
    std::vector<std::string> all;
    for (const std::string& host : hosts)
      for (const std::string& number : longer) all.push_back(host + number);
    hosts = std::move(all);
    name.remove_prefix(close + 1);
  }
  return hosts;
}

Error unreadable(std::string_view part) {
  return {.object = std::string(part), .what = "is no list of hosts such as 'node[01-03,7]-ib'"};
}

}  // namespace

Result<std::vector<std::string>> expand_hosts(std::string_view list) {
  const auto parts = split_outside_brackets(list);
  if (!parts) return unreadable(list);
  std::vector<std::string> hosts;
  for (std::string_view part : *parts) {
    const auto some = expand_name(part);
    if (part.empty() || some.empty()) return unreadable(part.empty() ? list : part);
    if (hosts.size() + some.size() > kMostHosts)
      return Error{.object = std::string(list), .what = fmt::format("names more than {} hosts", kMostHosts)};
    hosts.insert(hosts.end(), some.begin(), some.end());
  }
  return hosts;
}

std::vector<int> expand_counts(std::string_view counts) {
  std::vector<int> numbers;
  for (std::string_view part : split(counts, ',')) {
    const size_t open = part.find("(x");
    std::optional<int64_t> times = 1;
    if (open != std::string_view::npos)
      times =
          part.ends_with(')') ? parse_int(part.substr(open + 2, part.size() - open - 3), 1, kMostHosts) : std::nullopt;
    const auto number = parse_int(part.substr(0, open), 1, 1 << 20);
    if (!times || !number || numbers.size() + static_cast<size_t>(*times) > kMostHosts) return {};
    numbers.insert(numbers.end(), static_cast<size_t>(*times), static_cast<int>(*number));
  }
  return numbers;
}

}  // namespace nccltune::cli
