// SPDX-License-Identifier: Apache-2.0
#include "node/neutral.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>

#include "base/text.h"
#include "node/readers.h"

namespace nccltune {
namespace {

bool is_hex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
bool is_word(char c) { return is_hex(c) || (c >= 'g' && c <= 'z') || (c >= 'G' && c <= 'Z'); }

// Groups of hex digits of one width, `count` of them, with a separator: "0c:42:a1:00:00:01" is (2, 6, ':').
bool has_groups(std::string_view text, size_t width, size_t count, char separator) {
  if (text.size() != width * count + count - 1) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool between = i % (width + 1) == width;
    if (between ? text[i] != separator : !is_hex(text[i])) return false;
  }
  return true;
}

// 8-4-4-4-12
bool is_uuid(std::string_view text) {
  return text.size() == 36 && has_groups(text.substr(0, 8), 8, 1, '-') && text[8] == '-' &&
         has_groups(text.substr(9, 14), 4, 3, '-') && text[23] == '-' && has_groups(text.substr(24), 12, 1, '-');
}

// The number of a value in order of first sight, from 1.
template <class Map, class Key>
size_t number_of(Map& map, const Key& key) {
  return map.try_emplace(key, map.size() + 1).first->second;
}

template <class... Values>
std::string format(const char* form, Values... values) {
  char out[64];
  std::snprintf(out, sizeof out, form, values...);
  return out;
}

bool is_public(uint32_t a) {
  const auto in = [a](uint32_t network, int prefix) { return (a ^ network) >> (32 - prefix) == 0; };
  return !(in(0x00000000, 8) || in(0x0a000000, 8) || in(0x64400000, 10) || in(0x7f000000, 8) || in(0xa9fe0000, 16) ||
           in(0xac100000, 12) || in(0xc0a80000, 16) || in(0xe0000000, 3));
}

uint64_t word64(const uint8_t* bytes) {
  uint64_t word = 0;
  for (int i = 0; i < 8; ++i) word = word << 8 | bytes[i];
  return word;
}

void store64(uint64_t word, uint8_t* bytes) {
  for (int i = 7; i >= 0; --i, word >>= 8) bytes[i] = static_cast<uint8_t>(word);
}

bool is_ipv4_mapped(const IpAddress& a) {
  return a.v6 && word64(a.bytes.data()) == 0 && (word64(a.bytes.data() + 8) >> 32) == 0xffff;
}

std::optional<IpAddress> from_digits(std::string_view digits) {
  IpAddress address;
  address.v6 = true;
  for (size_t i = 0; i < 16; ++i) {
    const auto byte = parse_hex(digits.substr(2 * i, 2));
    if (!byte) return std::nullopt;
    address.bytes[i] = static_cast<uint8_t>(*byte);
  }
  return address;
}

std::string to_digits(const IpAddress& address) {
  std::string out;
  for (uint8_t byte : address.bytes) out += format("%02x", byte);
  return out;
}

// The parts of a text that are words and what is between, so that white space and columns stay.
template <class Replace>
std::string replace_words(std::string_view text, Replace replace, bool (*belongs)(char)) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    size_t end = i;
    while (end < text.size() && belongs(text[end])) ++end;
    if (end > i) out += replace(text.substr(i, end - i));
    if (end < text.size()) out += text[end++];
    i = end;
  }
  return out;
}

}  // namespace

Neutral::Neutral(std::string hostname) : hostname_(std::move(hostname)) {}

std::string Neutral::path(std::string_view path) {
  return replace_words(
      path, [this](std::string_view word) { return token(word); },
      [](char c) { return is_word(c) || c == ':' || c == '.' || c == '-' || c == '_'; });
}

std::string Neutral::text(std::string_view text) {
  std::string out = path(text);
  // The full name first, then the part before its domain.
  for (const std::string& name : {hostname_, hostname_.substr(0, hostname_.find('.'))}) {
    if (name.size() < 3 || name == "node" || name == "localhost") continue;
    for (size_t at = 0; (at = out.find(name, at)) != std::string::npos;) {
      const bool starts = at == 0 || !is_word(out[at - 1]);
      const size_t end = at + name.size();
      const bool ends = end == out.size() || !is_word(out[end]);
      if (starts && ends) out.replace(at, name.size(), "node");
      at += starts && ends ? 4 : name.size();
    }
  }
  return out;
}

std::string Neutral::token(std::string_view word) {
  if (word.starts_with("GPU-") && is_uuid(word.substr(4))) return "GPU-" + uuid(word.substr(4));
  if (is_uuid(word)) return uuid(word);
  if (has_groups(word, 2, 6, ':')) return mac(word, true);
  // IPoIB: four bytes of queue pair and flags, then the GID.
  if (has_groups(word, 2, 20, ':')) {
    std::string digits;
    for (char c : word.substr(12))
      if (c != ':') digits += c;
    std::string out(word.substr(0, 12)), fresh = to_digits(address(*from_digits(digits)));
    for (size_t i = 0; i < 16; ++i) out += fresh.substr(2 * i, 2) + (i < 15 ? ":" : "");
    return out;
  }
  if (has_groups(word, 4, 8, ':')) return gid(word);
  if (has_groups(word, 4, 4, ':')) {
    std::string digits;
    for (char c : word)
      if (c != ':') digits += c;
    const std::string id = format("%016llx", static_cast<unsigned long long>(interface_id(*parse_hex(digits))));
    return id.substr(0, 4) + ":" + id.substr(4, 4) + ":" + id.substr(8, 4) + ":" + id.substr(12);
  }
  if (word.starts_with("enx") && word.size() >= 15 && has_groups(word.substr(3, 12), 12, 1, ':'))
    return "enx" + mac(word.substr(3, 12), false) + std::string(word.substr(15));
  const bool dotted = std::count(word.begin(), word.end(), '.') == 3;
  const bool colons = std::count(word.begin(), word.end(), ':') >= 2;
  if (dotted || colons)
    if (const auto parsed = parse_address(word)) return address(*parsed).text();
  return std::string(word);
}

std::string Neutral::uuid(std::string_view uuid) {
  return format("00000000-0000-0000-0000-%012zx", number_of(uuids_, lower(uuid)));
}

std::string Neutral::mac(std::string_view mac, bool colons) {
  std::string digits;
  for (char c : lower(mac))
    if (c != ':') digits += c;
  // All zeros (lo) and all ones (broadcast) name nobody.
  if (digits == "000000000000" || digits == "ffffffffffff") return std::string(mac);
  const size_t n = number_of(macs_, digits);
  return colons ? format("02:00:00:00:%02zx:%02zx", n >> 8 & 255, n & 255) : format("02000000%04zx", n & 0xffff);
}

uint64_t Neutral::interface_id(uint64_t id) {
  if (id >> 32 == 0) return id;  // ::1, ::12, an embedded small number: chosen by people
  return 0x020000fffe000000 | number_of(ids_, id);
}

IpAddress Neutral::address(IpAddress a) {
  if (!a.v6 || is_ipv4_mapped(a)) {
    uint8_t* b = a.bytes.data() + (a.v6 ? 12 : 0);
    const uint32_t word = static_cast<uint32_t>(b[0]) << 24 | b[1] << 16 | b[2] << 8 | b[3];
    if (!is_public(word)) return a;
    const size_t n = number_of(ipv4_blocks_, word >> 16);
    b[0] = static_cast<uint8_t>(240 + (n >> 8) % 15);
    b[1] = static_cast<uint8_t>(n);
    return a;
  }
  uint64_t site = word64(a.bytes.data());
  if (site >> 61 == 1) {  // 2000::/3
    site = 0x20010db800000000 | (number_of(ipv6_sites_, site >> 16) & 0xffff) << 16 | (site & 0xffff);
    store64(site, a.bytes.data());
  }
  store64(interface_id(word64(a.bytes.data() + 8)), a.bytes.data() + 8);
  return a;
}

std::string Neutral::gid(std::string_view gid) {
  std::string digits, out;
  for (char c : gid)
    if (c != ':') digits += c;
  const std::string fresh = to_digits(address(*from_digits(digits)));
  for (size_t i = 0; i < 8; ++i) out += fresh.substr(4 * i, 4) + (i < 7 ? ":" : "");
  return out;
}

std::string Neutral::ipv4_routes(std::string_view text) {
  std::string out;
  for (std::string_view line : split_lines(text)) {
    std::vector<std::string> fields;
    for (std::string_view word : split_words(line)) {
      fields.emplace_back(token(word));
      const bool is_address = fields.size() == 2 || fields.size() == 3;
      const auto value = is_address && word.size() == 8 ? parse_hex(word) : std::nullopt;
      if (!value) continue;
      IpAddress a;
      for (size_t i = 0; i < 4; ++i) a.bytes[i] = static_cast<uint8_t>(*value >> (8 * i));
      a = address(a);
      uint32_t fresh = 0;
      for (size_t i = 0; i < 4; ++i) fresh |= static_cast<uint32_t>(a.bytes[i]) << (8 * i);
      fields.back() = format("%08X", fresh);
    }
    out += join(fields, "\t") + "\n";
  }
  return out;
}

std::string Neutral::ipv6_routes(std::string_view text) {
  return replace_words(
      text,
      [this](std::string_view word) {
        const auto a = word.size() == 32 ? from_digits(word) : std::nullopt;
        return a ? to_digits(address(*a)) : token(word);
      },
      [](char c) { return is_word(c); });
}

}  // namespace nccltune
