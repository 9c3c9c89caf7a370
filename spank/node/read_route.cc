// SPDX-License-Identifier: Apache-2.0
#include <net/route.h>

#include <bit>
#include <cstdint>

#include "base/text.h"
#include "node/readers.h"

namespace nccltune {
namespace {

constexpr uint32_t kRtfLocal = 0x80000000;  // linux/ipv6_route.h
constexpr size_t kMaxRoutes = 4096;         // a BGP table in the kernel holds a million; ours is about interfaces

// The kernel prints the network-order word as a number of the host's order: "0002000A" is 10.0.2.0 on a little-endian
// one.
std::optional<IpAddress> parse_word(std::string_view text) {
  const auto value = text.size() == 8 ? parse_hex(text) : std::nullopt;
  if (!value) return std::nullopt;
  IpAddress address;
  for (size_t i = 0; i < 4; ++i) address.bytes[i] = static_cast<uint8_t>(*value >> (8 * i));
  address.prefix = 32;
  return address;
}

int prefix_length(const IpAddress& mask) {
  int bits = 0;
  for (size_t i = 0; i < 4; ++i) bits += std::popcount(mask.bytes[i]);
  return bits;
}

// "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT".
void read_ipv4(const Root& root, Node& node) {
  const auto text = root.read("/proc/net/route");
  if (!text) return;
  for (std::string_view line : split_lines(*text)) {
    const auto f = split_words(line);
    if (f.size() < 8 || node.routes.size() >= kMaxRoutes) continue;
    const auto destination = parse_word(f[1]), gateway = parse_word(f[2]), mask = parse_word(f[7]);
    const auto flags = parse_hex(f[3]);
    const auto metric = parse_int(f[6], 0, UINT32_MAX);
    if (!destination || !gateway || !mask || !flags || !(*flags & RTF_UP) || (*flags & RTF_REJECT)) continue;
    Route route;
    route.netdev = f[0];
    route.destination = *destination;
    route.destination.prefix = prefix_length(*mask);
    if (*flags & RTF_GATEWAY) route.gateway = *gateway;
    route.metric = static_cast<uint32_t>(metric.value_or(0));
    node.routes.push_back(std::move(route));
  }
}

std::optional<IpAddress> parse_hex128(std::string_view text) {
  if (text.size() != 32) return std::nullopt;
  IpAddress address;
  address.v6 = true;
  address.prefix = 128;
  for (size_t i = 0; i < 16; ++i) {
    const auto byte = parse_hex(text.substr(2 * i, 2));
    if (!byte) return std::nullopt;
    address.bytes[i] = static_cast<uint8_t>(*byte);
  }
  return address;
}

// "destination prefix source prefix next-hop metric refcnt use flags iface", all but the last in hex.
void read_ipv6(const Root& root, Node& node) {
  const auto text = root.read("/proc/net/ipv6_route");
  if (!text) return;
  for (std::string_view line : split_lines(*text)) {
    const auto f = split_words(line);
    if (f.size() < 10 || f[9] == "lo" || node.routes.size() >= kMaxRoutes) continue;
    const auto destination = parse_hex128(f[0]), gateway = parse_hex128(f[4]);
    const auto prefix = parse_hex(f[1]), metric = parse_hex(f[5]), flags = parse_hex(f[8]);
    if (!destination || !gateway || !prefix || *prefix > 128 || !metric || !flags) continue;
    if (!(*flags & RTF_UP) || (*flags & (RTF_REJECT | kRtfLocal)) || destination->bytes[0] == 0xff) continue;
    Route route;
    route.netdev = f[9];
    route.destination = *destination;
    route.destination.prefix = static_cast<int>(*prefix);
    if (*flags & RTF_GATEWAY) route.gateway = *gateway;
    route.metric = static_cast<uint32_t>(*metric);
    node.routes.push_back(std::move(route));
  }
}

}  // namespace

void read_routes(const Root& root, Node& node) {
  read_ipv4(root, node);
  read_ipv6(root, node);
}

}  // namespace nccltune
