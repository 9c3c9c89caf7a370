// SPDX-License-Identifier: Apache-2.0
#include "policy/address.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstdint>

#include "base/text.h"

namespace nccltune {

std::optional<IpAddress> parse_address(const std::string& text) {
  IpAddress address;
  if (inet_pton(AF_INET, text.c_str(), address.bytes.data()) == 1) {
    address.prefix = 32;
    return address;
  }
  if (inet_pton(AF_INET6, text.c_str(), address.bytes.data()) == 1) {
    address.v6 = true;
    address.prefix = 128;
    return address;
  }
  return std::nullopt;
}

std::optional<IpAddress> parse_subnet(const std::string& text) {
  const std::size_t slash = text.find('/');
  if (slash == std::string::npos) return std::nullopt;
  const auto address = parse_address(text.substr(0, slash));
  if (!address) return std::nullopt;
  const auto prefix = parse_int(text.substr(slash + 1), 0, address->v6 ? 128 : 32);
  if (!prefix) return std::nullopt;
  const IpAddress subnet = subnet_of(*address, static_cast<int>(*prefix));
  if (!same_host(subnet, *address)) return std::nullopt;
  return subnet;
}

IpAddress address_of(const Gid& gid) {
  IpAddress address;
  if (gid.is_ipv4()) {
    std::copy(gid.bytes.begin() + 12, gid.bytes.end(), address.bytes.begin());
    address.prefix = 32;
  } else {
    address.v6 = true;
    address.bytes = gid.bytes;
    address.prefix = 128;
  }
  return address;
}

IpAddress subnet_of(const IpAddress& address, int prefix) {
  IpAddress subnet = address;
  subnet.prefix = prefix;
  for (int bit = prefix; bit < 128; ++bit) subnet.bytes[bit / 8] &= static_cast<uint8_t>(~(0x80 >> (bit % 8)));
  return subnet;
}

std::string subnet_text(const IpAddress& subnet) { return subnet.text() + "/" + std::to_string(subnet.prefix); }

bool same_host(const IpAddress& a, const IpAddress& b) { return a.v6 == b.v6 && a.bytes == b.bytes; }

}  // namespace nccltune
