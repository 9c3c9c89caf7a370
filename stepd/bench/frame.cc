// SPDX-License-Identifier: Apache-2.0
#include "bench/frame.h"

#include <cstdint>

#include "bench/text.h"

namespace nccltune::bench {

using protocol::Header;

Result<std::optional<Message>> FrameReader::next() {
  if (buffer_.size() < sizeof(Header)) return std::optional<Message>();
  Header header;
  std::memcpy(&header, buffer_.data(), sizeof header);
  if (header.magic != protocol::kMagic)
    return Error{"worker", print("wrote something that is no message (0x%08x)", header.magic), "",
                 "is it of this build?"};
  if (header.length > protocol::kMaxPayload)
    return Error{"worker", print("announced a message of %u bytes", header.length), "", ""};
  const size_t whole = sizeof header + header.length;
  if (buffer_.size() < whole) return std::optional<Message>();
  Message message{header.kind, header.sequence, buffer_.substr(sizeof header, header.length)};
  buffer_.erase(0, whole);
  return std::optional(std::move(message));
}

std::string frame(protocol::Kind kind, uint32_t sequence, std::string_view payload) {
  Header header;
  header.kind = kind;
  header.sequence = sequence;
  header.length = static_cast<uint32_t>(payload.size());
  return std::string(bytes_of(header)).append(payload);
}

}  // namespace nccltune::bench
