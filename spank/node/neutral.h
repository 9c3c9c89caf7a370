// SPDX-License-Identifier: Apache-2.0
// Replaces identifiers in the text of a dump, each by the same stand-in wherever it occurs.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "node/node.h"

namespace nccltune {

class Neutral {
 public:
  explicit Neutral(std::string hostname);

  // Every identifier in a text: host name, UUID, MAC, GUID, GID, IPv4, IPv6, and MACs inside interface names (enx...).
  std::string text(std::string_view text);
  // The same but for the host name: a kernel's own path can read like one (/sys/devices/system/node/node1 on host
  // node1).
  std::string path(std::string_view path);
  // Public IPv4 addresses go to 240.0.0.0/4, one /16 for one /16; private ones stay. IPv6: global prefixes go to
  // 2001:db8::/32, one /48 for one /48; interface identifiers made from hardware addresses are replaced.
  IpAddress address(IpAddress address);
  // /proc/net/route: addresses as little-endian words in columns 2 and 3. /proc/net/ipv6_route: 32 hex digits.
  std::string ipv4_routes(std::string_view text);
  std::string ipv6_routes(std::string_view text);

 private:
  std::string token(std::string_view token);
  std::string uuid(std::string_view uuid);
  std::string mac(std::string_view mac, bool colons);
  std::string gid(std::string_view gid);
  uint64_t interface_id(uint64_t id);

  std::string hostname_;
  std::map<std::string, size_t, std::less<>> macs_, uuids_;
  std::map<uint64_t, size_t> ids_;
  std::map<uint32_t, size_t> ipv4_blocks_;
  std::map<uint64_t, size_t> ipv6_sites_;
};

}  // namespace nccltune
