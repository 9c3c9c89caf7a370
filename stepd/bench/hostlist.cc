// SPDX-License-Identifier: Apache-2.0
#include "bench/hostlist.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "bench/text.h"

namespace nccltune::bench {
namespace {

constexpr size_t kMostHosts = 65536;  // MAX_SLURM_NODES of slurm.h is 64 Ki
constexpr size_t kMostDigits = 15;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

struct Name {  // "node007-ib": "node", "007", "-ib"
  std::string front, digits, back;
};

Name cut(const std::string& name) {
  size_t end = name.size();
  while (end > 0 && !is_digit(name[end - 1])) --end;
  size_t begin = end;
  while (begin > 0 && is_digit(name[begin - 1]) && end - begin < kMostDigits) --begin;
  return {name.substr(0, begin), name.substr(begin, end - begin), name.substr(end)};
}

// Numbers as Slurm writes them keep their leading zeros: width 0 stands for a number without any.
size_t width_of(const std::string& digits) { return digits.size() > 1 && digits[0] == '0' ? digits.size() : 0; }

std::string padded(int64_t number, size_t width) {
  std::string text = std::to_string(number);
  return text.size() < width ? std::string(width - text.size(), '0') + text : text;
}

std::string ranges(const std::vector<int64_t>& numbers, size_t width) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < numbers.size();) {
    size_t j = i;
    while (j + 1 < numbers.size() && numbers[j + 1] == numbers[j] + 1) ++j;
    parts.push_back(padded(numbers[i], width) + (j > i ? "-" + padded(numbers[j], width) : ""));
    i = j + 1;
  }
  return join(parts, ",");
}

// "1-3,07" -> "1", "2", "3", "07".
std::optional<std::vector<std::string>> expand_ranges(std::string_view text) {
  std::vector<std::string> numbers;
  for (const std::string& part : split(text, ',')) {
    const size_t dash = part.find('-');
    const std::string from = part.substr(0, dash), to = dash == std::string::npos ? from : part.substr(dash + 1);
    const auto low = parse_integer(from, 0, INT64_MAX), high = parse_integer(to, 0, INT64_MAX);
    if (!low || !high || *high < *low || *high - *low >= static_cast<int64_t>(kMostHosts)) return std::nullopt;
    for (int64_t i = *low; i <= *high; ++i) numbers.push_back(padded(i, width_of(from)));
    if (numbers.size() > kMostHosts) return std::nullopt;
  }
  return numbers;
}

// One item of the list, which may hold several brackets.
bool expand_item(std::string_view item, std::vector<std::string>& names) {
  std::vector<std::string> fronts = {""};
  while (!item.empty()) {
    const size_t open = item.find('[');
    for (std::string& front : fronts) front += item.substr(0, open);
    if (open == std::string_view::npos) break;
    const size_t close = item.find(']', open);
    if (close == std::string_view::npos) return false;
    const auto numbers = expand_ranges(item.substr(open + 1, close - open - 1));
    if (!numbers || numbers->size() * fronts.size() > kMostHosts) return false;
    std::vector<std::string> longer;
    for (const std::string& front : fronts)
      for (const std::string& number : *numbers) longer.push_back(front + number);
    fronts = std::move(longer);
    item.remove_prefix(close + 1);
  }
  names.insert(names.end(), fronts.begin(), fronts.end());
  return names.size() <= kMostHosts;
}

}  // namespace

std::string compress_hosts(const std::vector<std::string>& names) {
  std::vector<Name> parts;
  std::vector<std::string> plain;
  std::set<std::tuple<std::string, size_t, std::string>> padded_widths;
  for (const std::string& name : names) {
    const Name cut_up = cut(name);
    if (cut_up.digits.empty()) {
      plain.push_back(name);
      continue;
    }
    if (const size_t width = width_of(cut_up.digits)) padded_widths.insert({cut_up.front, width, cut_up.back});
    parts.push_back(cut_up);
  }
  // front, width, back -> numbers; a map, so that the text does not depend on the order of the names. "10" goes with
  // "09", not with "9".
  std::map<std::tuple<std::string, size_t, std::string>, std::vector<int64_t>> groups;
  for (const auto& [front, digits, back] : parts) {
    const size_t width = padded_widths.contains({front, digits.size(), back}) ? digits.size() : 0;
    groups[{front, width, back}].push_back(std::stoll(digits));
  }
  std::vector<std::string> items;
  for (auto& [key, numbers] : groups) {
    const auto& [front, width, back] = key;
    std::sort(numbers.begin(), numbers.end());
    numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
    items.push_back(numbers.size() == 1 ? front + padded(numbers[0], width) + back
                                        : front + "[" + ranges(numbers, width) + "]" + back);
  }
  std::sort(plain.begin(), plain.end());
  plain.erase(std::unique(plain.begin(), plain.end()), plain.end());
  items.insert(items.end(), plain.begin(), plain.end());
  return join(items, ",");
}

std::vector<std::string> expand_hosts(std::string_view list) {
  std::vector<std::string> names;
  size_t begin = 0, depth = 0;
  for (size_t i = 0; i <= list.size(); ++i) {
    const char c = i < list.size() ? list[i] : ',';
    if (c == '[') ++depth;
    if (c == ']') depth -= depth > 0;
    if (c != ',' || (depth > 0 && i < list.size())) continue;
    if (i > begin && !expand_item(list.substr(begin, i - begin), names)) return {};
    begin = i + 1;
  }
  return names;
}

}  // namespace nccltune::bench
