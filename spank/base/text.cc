// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"

#include <algorithm>
#include <charconv>
#include <cstdint>

namespace nccltune {
namespace {

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
char to_lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// Power of two of a unit: "" and "b" 0, "k", "kb", "kib" 10 ...; -1: no such unit.
int unit_shift(std::string_view unit) {
  const std::string u = lower(unit);
  if (u.empty() || u == "b") return 0;
  const size_t at = std::string_view("kmgt").find(u[0]);
  if (at == std::string_view::npos) return -1;
  const std::string_view rest = std::string_view(u).substr(1);
  if (!rest.empty() && rest != "b" && rest != "ib") return -1;
  return 10 * (static_cast<int>(at) + 1);
}

// One character class at pattern[at] == '['. Returns the index after it, or 0 when it is not closed.
size_t match_set(std::string_view pattern, size_t at, char c, bool& matched) {
  size_t i = at + 1;
  const bool negated = i < pattern.size() && (pattern[i] == '!' || pattern[i] == '^');
  if (negated) ++i;
  const size_t first = i;
  bool found = false;
  for (; i < pattern.size() && (pattern[i] != ']' || i == first); ++i) {
    char low = pattern[i];
    if (low == '\\' && i + 1 < pattern.size()) low = pattern[++i];
    char high = low;
    if (i + 2 < pattern.size() && pattern[i + 1] == '-' && pattern[i + 2] != ']') {
      high = pattern[i + 2];
      i += 2;
    }
    if (low <= c && c <= high) found = true;
  }
  if (i >= pattern.size()) return 0;
  matched = found != negated;
  return i + 1;
}

// Does the single-character element at pattern[at] (not '*') take c? next: the index after the element.
bool match_one(std::string_view pattern, size_t at, char c, size_t& next) {
  next = at + 1;
  switch (pattern[at]) {
    case '?':
      return true;
    case '\\':
      if (at + 1 == pattern.size()) return c == '\\';
      next = at + 2;
      return pattern[at + 1] == c;
    case '[': {
      bool matched = false;
      if (const size_t end = match_set(pattern, at, c, matched)) {
        next = end;
        return matched;
      }
      return c == '[';
    }
    default:
      return pattern[at] == c;
  }
}

}  // namespace

std::string_view trim(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (size_t at; (at = text.find(separator)) != std::string_view::npos; text.remove_prefix(at + 1))
    parts.push_back(text.substr(0, at));
  parts.push_back(text);
  return parts;
}

std::vector<std::string_view> split_words(std::string_view text) {
  std::vector<std::string_view> words;
  for (size_t i = 0; i < text.size();) {
    while (i < text.size() && is_space(text[i])) ++i;
    const size_t begin = i;
    while (i < text.size() && !is_space(text[i])) ++i;
    if (i > begin) words.push_back(text.substr(begin, i - begin));
  }
  return words;
}

std::vector<std::string_view> split_lines(std::string_view text) {
  std::vector<std::string_view> lines = split(text, '\n');
  if (lines.back().empty()) lines.pop_back();
  return lines;
}

std::string_view first_line(std::string_view text) {
  text = text.substr(0, text.find('\n'));
  while (!text.empty() && (is_space(text.back()) || text.back() == '\0')) text.remove_suffix(1);
  return text;
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string out;
  for (const std::string& part : parts) {
    if (&part != parts.data()) out += separator;
    out += part;
  }
  return out;
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), to_lower);
  return out;
}

std::optional<int64_t> parse_int(std::string_view text, int64_t min, int64_t max) {
  // from_chars knows no plus sign; "+-1" must stay wrong.
  if (text.size() > 1 && text[0] == '+' && is_digit(text[1])) text.remove_prefix(1);
  int64_t value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault != std::errc() || end != text.data() + text.size() || value < min || value > max) return std::nullopt;
  return value;
}

std::optional<uint64_t> parse_hex(std::string_view text) {
  if (text.size() > 2 && text[0] == '0' && to_lower(text[1]) == 'x') text.remove_prefix(2);
  uint64_t value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (fault != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<uint64_t> parse_size(std::string_view text) {
  constexpr uint64_t kMax = INT64_MAX;
  size_t i = 0;
  uint64_t whole = 0;
  for (; i < text.size() && is_digit(text[i]); ++i) {
    whole = whole * 10 + static_cast<uint64_t>(text[i] - '0');
    if (whole > kMax) return std::nullopt;
  }
  if (i == 0) return std::nullopt;
  uint64_t fraction = 0, scale = 1;
  if (i < text.size() && text[i] == '.') {
    const size_t begin = ++i;
    // Six digits are enough for any size that a person writes, and keep fraction << 40 inside 64 bits.
    for (; i < text.size() && is_digit(text[i]); ++i, scale *= 10) {
      if (i - begin == 6) return std::nullopt;
      fraction = fraction * 10 + static_cast<uint64_t>(text[i] - '0');
    }
    if (i == begin) return std::nullopt;
  }
  const int shift = unit_shift(text.substr(i));
  if (shift < 0 || whole > (kMax >> shift) || (shift == 0 && scale > 1)) return std::nullopt;
  const uint64_t bytes = (whole << shift) + (fraction << shift) / scale;
  if (bytes > kMax) return std::nullopt;
  return bytes;
}

bool is_variable_name(std::string_view text) {
  constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_";
  constexpr std::string_view kAllowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";
  return !text.empty() && kLetters.find(text[0]) != std::string_view::npos &&
         text.find_first_not_of(kAllowed) == std::string_view::npos;
}

bool glob_match(std::string_view pattern, std::string_view text) {
  size_t p = 0, t = 0;
  size_t star = std::string_view::npos, star_text = 0;
  while (t < text.size()) {
    size_t next = 0;
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      star_text = t;
    } else if (p < pattern.size() && match_one(pattern, p, text[t], next)) {
      p = next;
      ++t;
    } else if (star != std::string_view::npos) {
      // Only the last star is tried again: what an earlier one took is already the shortest that fits.
      p = star + 1;
      t = ++star_text;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

bool is_glob(std::string_view text) { return text.find_first_of("*?[") != std::string_view::npos; }

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> two_back, back(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) back[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({back[j] + 1, row[j - 1] + 1, back[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], two_back[j - 2] + 1);
    }
    two_back = back;
    std::swap(back, row);
  }
  return back[b.size()];
}

std::string nearest_word(std::string_view word, const std::vector<std::string>& known) {
  std::string best;
  if (word.size() > 64) return best;  // no misspelling of a word of ours, and the table would grow with it
  size_t best_distance = 0;
  for (const std::string& candidate : known) {
    const size_t d = edit_distance(lower(word), lower(candidate));
    if (d > std::max<size_t>(1, candidate.size() / 3)) continue;
    if (best.empty() || d < best_distance) {
      best = candidate;
      best_distance = d;
    }
  }
  return best;
}

}  // namespace nccltune
