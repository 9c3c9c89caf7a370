// SPDX-License-Identifier: Apache-2.0
// Numbers and sizes as text, both ways. Parsers take the whole string or nothing: a typing error never becomes a
// default.
#pragma once

#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nccltune::bench {

// printf into a string.
[[gnu::format(printf, 1, 2)]] std::string print(const char* format, ...);

// nccl-tests' number column (2.19.6 util.cu:487): the most decimals, of two, one and none, with which the number fits
// `width`, else an exponent; right-aligned.
std::string fit_number(double value, int width);

// "8", "1.5M", "8G", "16 KiB", "2T": bytes, binary units in either case. nullopt: not a size, negative, or above
// 2^63-1.
std::optional<uint64_t> parse_size(std::string_view text);

// The other way, for people: "8 B", "64 KiB", "1.50 GiB".
std::string human_size(uint64_t bytes);

// "90", "90s", "10m", "2h", "500ms": seconds. nullopt: not a duration, or negative.
std::optional<double> parse_duration(std::string_view text);

// "1%" or "0.01", as a fraction. nullopt: neither, or not within (0, 1).
std::optional<double> parse_fraction(std::string_view text);

// A decimal integer within [low, high], nothing around it.
std::optional<int64_t> parse_integer(std::string_view text, int64_t low, int64_t high);

std::optional<double> parse_real(std::string_view text);

std::vector<std::string> split(std::string_view text, char separator);
std::string join(const std::vector<std::string>& parts, std::string_view separator);
std::string lower(std::string_view text);

// "2026-03-01T12:00:00Z", for programs.
std::string utc_text(std::time_t when);
// "2026-03-01 13:00:00" of the machine's zone, as nccl-tests prints it; or as strftime's `format` has it, of at most 31
// letters.
std::string local_time_text(std::time_t when, const char* format = "%Y-%m-%d %H:%M:%S");

// A field of a CSV line, in quotes where it must be (RFC 4180).
std::string csv_field(const std::string& text);

// "0-3,8": ascending ranks in the kernel's list form; the first `most` ranges, then "...".
std::string rank_list(std::vector<int> ranks, size_t most = 16);

// One line for a comment that programs read by pattern (SuperBench, cloudai, Azure NHC, GCP's cluster validation): the
// words by which they find the table and its footer must not turn up in our comments.
std::string neutral_comment(std::string text);

}  // namespace nccltune::bench
