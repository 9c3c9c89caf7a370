// SPDX-License-Identifier: Apache-2.0
#include "worker/common_io.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <thread>

namespace nccltune::worker {

using protocol::FailureKind;
using protocol::Header;

// Bytes read: fewer than asked for only at the end of the stream.
static size_t read_full(void* data, size_t bytes) {
  size_t done = 0;
  while (done < bytes) {
    const ssize_t n = ::read(protocol::kCommandFd, static_cast<char*>(data) + done, bytes - done);
    if (n > 0) {
      done += static_cast<size_t>(n);
    } else if (n == 0 || errno != EINTR) {
      break;
    }
  }
  return done;
}

static void write_full(const void* data, size_t bytes) {
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t n = ::write(protocol::kReplyFd, from, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) ::_exit(1);
    from += n;
    bytes -= static_cast<size_t>(n);
  }
}

bool receive(Message& message) {
  const size_t got = read_full(&message.header, sizeof(Header));
  if (got == 0) return false;
  if (got < sizeof(Header) || message.header.magic != protocol::kMagic ||
      message.header.length > protocol::kMaxPayload) {
    throw Failed(FailureKind::internal, "worker: descriptor 3 does not speak the supervisor's protocol",
                 "start the worker through 'nccl-tune bench', and keep both of one build");
  }
  message.payload.resize(message.header.length);
  return read_full(message.payload.data(), message.payload.size()) == message.payload.size();
}

void send(protocol::Kind kind, uint32_t sequence, std::initializer_list<Piece> pieces) {
  Header header;
  header.kind = kind;
  header.sequence = sequence;
  std::vector<char> whole(sizeof header);
  for (const Piece& piece : pieces) {
    const char* from = static_cast<const char*>(piece.data);
    whole.insert(whole.end(), from, from + piece.bytes);
  }
  header.length = static_cast<uint32_t>(whole.size() - sizeof header);
  std::memcpy(whole.data(), &header, sizeof header);
  write_full(whole.data(), whole.size());
}

void send_phase(const char* text) {
  protocol::Phase phase{};
  copy_text(phase.text, text);
  send(protocol::Kind::phase, 0, {{&phase, sizeof phase}});
}

void send_failure(const Failed& failed, uint32_t sequence) {
  protocol::Failure failure{};
  failure.kind = failed.kind;
  std::string line = failed.text;
  std::replace(line.begin(), line.end(), '\n', ' ');  // libraries end their words with one
  while (!line.empty() && line.back() == ' ') line.pop_back();
  copy_text(failure.text, line);
  copy_text(failure.remedy, failed.remedy);
  send(protocol::Kind::failure, sequence, {{&failure, sizeof failure}});
}

void copy_text(char* field, size_t bytes, const std::string& text) {
  std::memset(field, 0, bytes);
  text.copy(field, bytes - 1);
}

void watch_supervisor() {
  std::thread([] {
    pollfd end{protocol::kCommandFd, 0, 0};  // no event asked for: only the hang-up is told
    while (::poll(&end, 1, -1) < 0 && errno == EINTR) {
    }
    ::sleep(2);  // an orderly quit ends before
    ::_exit(1);
  }).detach();
}

}  // namespace nccltune::worker
