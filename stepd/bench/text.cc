// SPDX-License-Identifier: Apache-2.0
#include "bench/text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdarg>
#include <cstdint>
#include <cstdio>

namespace nccltune::bench {
namespace {

std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// The number at the front of `text`, which is cut off; nullopt when there is none. No sign, no exponent, no "inf".
std::optional<double> take_number(std::string_view& text) {
  size_t length = 0;
  while (length < text.size() && ((text[length] >= '0' && text[length] <= '9') || text[length] == '.')) ++length;
  double value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + length, value, std::chars_format::fixed);
  if (length == 0 || fault != std::errc() || end != text.data() + length) return std::nullopt;
  text.remove_prefix(length);
  return value;
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

}  // namespace

std::string print(const char* format, ...) {
  va_list list;
  va_start(list, format);
  va_list again;
  va_copy(again, list);
  const int length = std::vsnprintf(nullptr, 0, format, list);
  va_end(list);
  std::string text(length > 0 ? length : 0, '\0');
  if (length > 0) std::vsnprintf(text.data(), text.size() + 1, format, again);
  va_end(again);
  return text;
}

std::string fit_number(double value, int width) {
  for (int decimals = 2; decimals >= 0; --decimals) {
    std::string text = print("%*.*f", width, decimals, value);
    if (static_cast<int>(text.size()) <= width) return text;
  }
  return print("%*.*e", width, width >= 7 ? 1 : 0, value);
}

std::optional<uint64_t> parse_size(std::string_view text) {
  text = trim(text);
  const auto number = take_number(text);
  if (!number) return std::nullopt;
  const std::string unit = lower(trim(text));
  int shift = 0;
  if (!unit.empty()) {
    static constexpr std::string_view kUnits = "bkmgt";
    const size_t at = kUnits.find(unit[0]);
    if (at == std::string_view::npos) return std::nullopt;
    const std::string_view rest = std::string_view(unit).substr(1);
    if (!rest.empty() && (at == 0 || (rest != "b" && rest != "ib"))) return std::nullopt;
    shift = static_cast<int>(at) * 10;
  }
  const double bytes = std::ldexp(*number, shift);
  if (bytes >= 0x1p63) return std::nullopt;
  return static_cast<uint64_t>(bytes);
}

std::string human_size(uint64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  int unit = 0;
  double value = static_cast<double>(bytes);
  for (; value >= 1024 && unit < 6; ++unit) value /= 1024;
  return value == std::floor(value) ? print("%.0f %s", value, kUnits[unit]) : print("%.2f %s", value, kUnits[unit]);
}

std::optional<double> parse_duration(std::string_view text) {
  text = trim(text);
  const auto number = take_number(text);
  if (!number) return std::nullopt;
  const std::string unit = lower(trim(text));
  if (unit.empty() || unit == "s") return number;
  if (unit == "ms") return *number / 1000;
  if (unit == "m" || unit == "min") return *number * 60;
  if (unit == "h") return *number * 3600;
  if (unit == "d") return *number * 86400;
  return std::nullopt;
}

std::optional<double> parse_fraction(std::string_view text) {
  text = trim(text);
  auto number = take_number(text);
  if (!number) return std::nullopt;
  if (trim(text) == "%")
    *number /= 100;
  else if (!text.empty())
    return std::nullopt;
  if (!(*number > 0) || !(*number < 1)) return std::nullopt;
  return number;
}

std::optional<int64_t> parse_integer(std::string_view text, int64_t low, int64_t high) {
  int64_t value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault != std::errc() || end != text.data() + text.size() || value < low || value > high) return std::nullopt;
  return value;
}

std::optional<double> parse_real(std::string_view text) {
  const auto number = take_number(text);
  return number && text.empty() ? number : std::nullopt;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (size_t from = 0;;) {
    const size_t to = text.find(separator, from);
    parts.emplace_back(text.substr(from, to == std::string_view::npos ? to : to - from));
    if (to == std::string_view::npos) return parts;
    from = to + 1;
  }
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string text;
  for (size_t i = 0; i < parts.size(); ++i) (text += i ? separator : std::string_view()) += parts[i];
  return text;
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result)
    if (c >= 'A' && c <= 'Z') c += 'a' - 'A';
  return result;
}

std::string rank_list(std::vector<int> ranks, size_t most) {
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  std::string text;
  size_t ranges = 0;
  for (size_t i = 0; i < ranks.size();) {
    size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (ranges++ == most) return text + ",...";
    if (!text.empty()) text += ',';
    text += std::to_string(ranks[i]);
    if (last > i) text += '-' + std::to_string(ranks[last]);
    i = last + 1;
  }
  return text;
}

static std::string time_text(const std::tm& time, const char* format) {
  char text[32];
  return std::string(text, std::strftime(text, sizeof text, format, &time));
}

std::string utc_text(std::time_t when) {
  std::tm time{};
  gmtime_r(&when, &time);
  return time_text(time, "%Y-%m-%dT%H:%M:%SZ");
}

std::string local_time_text(std::time_t when, const char* format) {
  std::tm time{};
  localtime_r(&when, &time);
  return time_text(time, format);
}

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string result = "\"";
  for (const char c : text) result += c == '"' ? std::string("\"\"") : std::string(1, c);
  return result + "\"";
}

std::string neutral_comment(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  static constexpr struct {
    std::string_view word, instead;
  } kWords[] = {{"bandwidth", "band-width"},         {"FAILED", "failed"},    {"out-of-place", "out of place"},
                {"Out of bounds values", "wrong"},   {"Avg bus", "mean bus"}, {"Test failure", "test fault"},
                {"Test NCCL failure", "NCCL fault"}, {" on ", " at "},        {"Rank", "rank"}};
  for (const auto& [word, instead] : kWords) replace_all(text, word, instead);
  return text;
}

}  // namespace nccltune::bench
