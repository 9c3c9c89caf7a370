// SPDX-License-Identifier: Apache-2.0
// Numbers and texts of what tasks of one build tell each other, one after the other in the machine's byte order.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

namespace nccltune::bench {

class Packer {
 public:
  template <class T>
  void number(T value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  // Of at most 64 KiB.
  void text(std::string_view value) {
    number(static_cast<uint16_t>(value.size()));
    bytes += value;
  }
  // Its length, then each of them as `one` puts it.
  template <class List, class One>
  void list(List& values, One one) {
    number(static_cast<uint32_t>(values.size()));
    for (auto& value : values) one(*this, value);
  }
  std::string bytes;
};

// Reads nothing past the end: `good` is false from then on.
class Unpacker {
 public:
  explicit Unpacker(std::string_view bytes) : bytes_(bytes) {}
  template <class T>
  void number(T& value) {
    if (bytes_.size() < sizeof value) {
      good = false;
      return;
    }
    std::memcpy(&value, bytes_.data(), sizeof value);
    bytes_.remove_prefix(sizeof value);
  }
  void text(std::string& value) {
    uint16_t length = 0;
    number(length);
    if (bytes_.size() < length) good = false;
    if (!good) return;
    value = bytes_.substr(0, length);
    bytes_.remove_prefix(length);
  }
  template <class List, class One>
  void list(List& values, One one) {
    uint32_t count = 0;
    number(count);
    for (uint32_t i = 0; i < count && good; ++i) one(*this, values.emplace_back());
  }
  bool good = true;

 private:
  std::string_view bytes_;
};

// A record whose fields(archive, record) goes through them in one order for both ways. `mark`: of the kind and its
// layout.
template <class Record>
std::string packed(std::string_view mark, const Record& record) {
  Packer packer;
  packer.bytes = mark;
  fields(packer, record);
  return std::move(packer.bytes);
}
// nullopt: not one of this mark, or cut.
template <class Record>
std::optional<Record> unpacked(std::string_view mark, std::string_view bytes) {
  if (!bytes.starts_with(mark)) return std::nullopt;
  Unpacker unpacker(bytes.substr(mark.size()));
  Record record;
  fields(unpacker, record);
  if (!unpacker.good) return std::nullopt;
  return record;
}

}  // namespace nccltune::bench
