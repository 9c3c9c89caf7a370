// SPDX-License-Identifier: Apache-2.0
// The worker's end of the two pipes, and the one way in which it fails.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <initializer_list>
#include <string>
#include <vector>

#include "worker/protocol.h"

namespace nccltune::worker {

// What ends a worker: becomes the Failure message. `text` is one line that names the object and gives the library's own
// words; `remedy` what to do, or "".
class Failed : public std::exception {
 public:
  Failed(protocol::FailureKind kind, std::string text, std::string remedy = "")
      : kind(kind), text(std::move(text)), remedy(std::move(remedy)) {}
  const char* what() const noexcept override { return text.c_str(); }

  protocol::FailureKind kind;
  std::string text, remedy;
};

struct Message {
  protocol::Header header;
  std::vector<char> payload;
};

// Part of a payload.
struct Piece {
  const void* data;
  size_t bytes;
};

// False at the end of the stream. Throws Failed for a header that is not of this build's protocol.
bool receive(Message& message);
// Ends the process when the supervisor has gone: nobody is left to be told.
void send(protocol::Kind kind, uint32_t sequence, std::initializer_list<Piece> pieces);
void send_phase(const char* text);
void send_failure(const Failed& failed, uint32_t sequence);

// The payload's first bytes as a message struct; throws Failed when it is too short.
template <class T>
T payload_as(const Message& message) {
  T value;
  if (message.payload.size() < sizeof value) {
    throw Failed(protocol::FailureKind::internal,
                 "worker: message " + std::to_string(static_cast<unsigned>(message.header.kind)) + " is too short");
  }
  std::memcpy(&value, message.payload.data(), sizeof value);
  return value;
}

// Copies text into a fixed field, cut to fit, zero-terminated and the rest zeroed.
void copy_text(char* field, size_t bytes, const std::string& text);
template <size_t N>
void copy_text(char (&field)[N], const std::string& text) {
  copy_text(field, N, text);
}

// Ends this process two seconds after the supervisor's end of the pipe has closed, whatever it is doing: a worker that
// waits in a library for a dead peer must not keep the GPU when its supervisor was killed.
void watch_supervisor();

}  // namespace nccltune::worker
