// SPDX-License-Identifier: Apache-2.0
// IP addresses and subnets from text, and from a GID.
#pragma once

#include <optional>
#include <string>

#include "node/node.h"

namespace nccltune {

// "10.0.0.1", "fd00::1"; nullopt: not an address (host names are not looked up). prefix is 32 or 128.
std::optional<IpAddress> parse_address(const std::string& text);

// "10.0.0.0/24", "fd02::/16". nullopt: not a subnet, or host bits are set and the text is no subnet's own name.
std::optional<IpAddress> parse_subnet(const std::string& text);

// The address that a RoCE GID stands for: IPv4 when it is IPv4-mapped, else IPv6.
IpAddress address_of(const Gid& gid);

// The subnet of this prefix length around an address.
IpAddress subnet_of(const IpAddress& address, int prefix);

// "10.0.0.0/24"
std::string subnet_text(const IpAddress& subnet);

// Two addresses without regard to their prefix lengths.
bool same_host(const IpAddress& a, const IpAddress& b);

}  // namespace nccltune
