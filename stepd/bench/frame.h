// SPDX-License-Identifier: Apache-2.0
// Messages of worker/protocol.h, cut out of a stream of bytes. What comes from a worker is checked before it is
// believed: a crashing process can write anything.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "worker/protocol.h"

namespace nccltune::bench {

struct Message {
  protocol::Kind kind{};
  uint32_t sequence = 0;
  std::string payload;

  // The payload's beginning as T; nullopt when it is shorter.
  template <class T>
  std::optional<T> as() const {
    if (payload.size() < sizeof(T)) return std::nullopt;
    T value;
    std::memcpy(&value, payload.data(), sizeof value);
    return value;
  }
  // What follows it.
  template <class T>
  std::string_view after() const {
    return std::string_view(payload).substr(sizeof(T));
  }
};

class FrameReader {
 public:
  void feed(std::string_view bytes) { buffer_ += bytes; }
  // The next whole message; nullopt: more bytes are needed. An error is final: the stream has lost its frame.
  Result<std::optional<Message>> next();

 private:
  std::string buffer_;
};

std::string frame(protocol::Kind kind, uint32_t sequence, std::string_view payload);

template <class T>
std::string_view bytes_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

// A fixed field, which may lack its zero.
template <size_t N>
std::string text_of(const char (&field)[N]) {
  return std::string(field, strnlen(field, N));
}

}  // namespace nccltune::bench
