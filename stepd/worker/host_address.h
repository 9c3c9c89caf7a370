// SPDX-License-Identifier: Apache-2.0
// Which local address the host worker binds to.
#pragma once

#include <string>
#include <vector>

namespace nccltune::worker {

struct LocalAddress {
  std::string interface, address;  // address in numbers
  bool loopback = false;
};

// Addresses of the interfaces that are up and running, in the kernel's order. IPv6 link-local ones are left out: they
// mean nothing without a scope.
std::vector<LocalAddress> local_addresses();

// The address of the first interface that NCCL_SOCKET_IFNAME's grammar selects ("=eth0", "eth", "^docker", lists), or
// "".
std::string select_address(const std::string& names, const std::vector<LocalAddress>& addresses);

// The local address from which the kernel would reach `peer` (numbers), or "" when it has no route.
std::string address_towards(const std::string& peer);

}  // namespace nccltune::worker
