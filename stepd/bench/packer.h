// SPDX-License-Identifier: Apache-2.0
// Numbers and texts of what tasks of one build tell each other, one after the other in the machine's byte order.
#pragma once

#include <cstdint>
#include <cstring>
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
  bool good = true;

 private:
  std::string_view bytes_;
};

}  // namespace nccltune::bench
