// SPDX-License-Identifier: Apache-2.0
#include "bench/pmi2_text.h"

#include <array>
#include <cstdint>

#include "bench/text.h"

namespace nccltune::bench {
namespace {

constexpr size_t kPieceBytes = 720;  // 960 characters of base64, and the number of pieces before them
constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr int64_t kMostPieces = 1 << 20;

std::string encode(std::string_view bytes) {
  std::string text;
  uint32_t bits = 0;
  int held = 0;
  for (const char byte : bytes) {
    bits = bits << 8 | static_cast<uint8_t>(byte);
    for (held += 8; held >= 6; held -= 6) text += kAlphabet[bits >> (held - 6) & 63];
  }
  if (held > 0) text += kAlphabet[bits << (6 - held) & 63];
  return text;
}

bool decode(std::string_view text, std::string& bytes) {
  uint32_t bits = 0;
  int held = 0;
  for (const char letter : text) {
    const size_t digit = kAlphabet.find(letter);
    if (digit == std::string_view::npos) return false;
    bits = bits << 6 | static_cast<uint32_t>(digit);
    held += 6;
    if (held < 8) continue;
    held -= 8;
    bytes += static_cast<char>(bits >> held & 255);
  }
  return true;
}

// FNV-1a of 64 bits: http://www.isthe.com/chongo/tech/comp/fnv/
uint64_t hash(std::string_view text) {
  uint64_t value = 0xcbf29ce484222325;
  for (const char byte : text) value = (value ^ static_cast<uint8_t>(byte)) * 0x100000001b3;
  return value;
}

// "(0,2,4)" at the front of `text`, which then begins behind it.
std::optional<std::array<int, 3>> take_block(std::string_view& text) {
  const size_t end = text.find(')');
  if (!text.starts_with('(') || end == std::string_view::npos) return std::nullopt;
  const auto numbers = split(text.substr(1, end - 1), ',');
  if (numbers.size() != 3) return std::nullopt;
  std::array<int, 3> block{};
  for (size_t i = 0; i < 3; ++i) {
    const auto number = parse_integer(numbers[i], i == 0 ? 0 : 1, 1 << 24);
    if (!number) return std::nullopt;
    block[i] = static_cast<int>(*number);
  }
  text.remove_prefix(end + 1);
  return block;
}

}  // namespace

std::vector<std::string> to_pieces(std::string_view value) {
  std::vector<std::string> pieces;
  do {
    pieces.push_back(encode(value.substr(0, kPieceBytes)));
    value.remove_prefix(std::min(kPieceBytes, value.size()));
  } while (!value.empty());
  pieces.front().insert(0, std::to_string(pieces.size()) + ".");
  return pieces;
}

std::optional<size_t> pieces_of(std::string_view first) {
  const auto count = parse_integer(first.substr(0, first.find('.')), 1, kMostPieces);
  if (!count || first.find('.') == std::string_view::npos) return std::nullopt;
  return static_cast<size_t>(*count);
}

std::optional<std::string> from_pieces(const std::vector<std::string>& pieces) {
  if (pieces.empty() || pieces_of(pieces.front()) != pieces.size()) return std::nullopt;
  std::string value;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const std::string_view piece = pieces[i];
    if (!decode(i == 0 ? piece.substr(piece.find('.') + 1) : piece, value)) return std::nullopt;
  }
  return value;
}

std::string piece_name(int rank, std::string_view key, size_t index) {
  return print("nccltune.%d.%016llx.%zu", rank, static_cast<unsigned long long>(hash(key)), index);
}

std::optional<std::vector<int>> read_process_mapping(std::string_view text, int size) {
  constexpr std::string_view kFront = "(vector,";
  if (!text.starts_with(kFront) || !text.ends_with("))")) return std::nullopt;
  text = text.substr(kFront.size(), text.size() - kFront.size() - 1);
  std::vector<std::array<int, 3>> blocks;
  while (!text.empty()) {
    if (!blocks.empty() && text.starts_with(',')) text.remove_prefix(1);
    const auto block = take_block(text);
    if (!block) return std::nullopt;
    blocks.push_back(*block);
  }
  std::vector<int> nodes;
  while (static_cast<int>(nodes.size()) < size)
    for (const auto& [first, count, tasks] : blocks)
      for (int node = first; node < first + count; ++node)
        for (int task = 0; task < tasks && static_cast<int>(nodes.size()) < size; ++task) nodes.push_back(node);
  return nodes;
}

}  // namespace nccltune::bench
