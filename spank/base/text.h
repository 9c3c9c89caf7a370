// SPDX-License-Identifier: Apache-2.0
// Small parsers of text. None throws, none depends on the locale.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nccltune {

// Without white space (space, \t, \r, \n, \v, \f) at both ends.
std::string_view trim(std::string_view text);

// At every separator; empty parts are kept, so "" gives one empty part and "a,,b" three parts.
std::vector<std::string_view> split(std::string_view text, char separator);

// At runs of white space; no empty parts.
std::vector<std::string_view> split_words(std::string_view text);

// At newlines; a last empty line is left out.
std::vector<std::string_view> split_lines(std::string_view text);

// Up to the first newline, without white space and NUL bytes at its end.
std::string_view first_line(std::string_view text);

std::string join(const std::vector<std::string>& parts, std::string_view separator);

std::string lower(std::string_view text);  // ASCII only

// A whole decimal number inside [min, max]; a sign is allowed, white space and trailing text are not.
std::optional<int64_t> parse_int(std::string_view text, int64_t min, int64_t max);

// A whole hexadecimal number of at most 64 bits, with or without 0x.
std::optional<uint64_t> parse_hex(std::string_view text);

// Bytes: "512", "8M", "1.5G", "64KiB", "8g". Units are binary (K = 1024 ... T = 2^40) in upper or lower case, with an
// optional B or iB; a fraction needs a unit and is rounded down to bytes. nullopt: not such a text, or above 2^63 - 1.
std::optional<uint64_t> parse_size(std::string_view text);

// What a shell takes for a variable's name: letters, digits and _, no digit first. ASCII only.
bool is_variable_name(std::string_view text);

// Shell wildcards over the whole text: * and ? match any character, [a-z] and [!a-z] a set, \ takes the next as it is.
// An unclosed [ matches itself. Time is bounded by pattern length times text length.
bool glob_match(std::string_view pattern, std::string_view text);

// True when the text has an active wildcard.
bool is_glob(std::string_view text);

// Insertions, deletions, substitutions and swaps of neighbours between two words.
size_t edit_distance(std::string_view a, std::string_view b);

// The known word nearest to a misspelt one, for "did you mean"; "" when none is near enough (a third of its length).
std::string nearest_word(std::string_view word, const std::vector<std::string>& known);

}  // namespace nccltune
