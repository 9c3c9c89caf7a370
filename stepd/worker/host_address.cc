// SPDX-License-Identifier: Apache-2.0
#include "worker/host_address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <sstream>

namespace nccltune::worker {

static socklen_t length_of(const sockaddr* address) {
  return address->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
}

static std::string in_numbers(const sockaddr* address) {
  char text[NI_MAXHOST] = "";
  ::getnameinfo(address, length_of(address), text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  return text;
}

std::vector<LocalAddress> local_addresses() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, ::freeifaddrs);
  std::vector<LocalAddress> found;
  for (const ifaddrs* it = list; it; it = it->ifa_next) {
    const unsigned wanted = IFF_UP | IFF_RUNNING;
    if (!it->ifa_addr || (it->ifa_flags & wanted) != wanted) continue;
    const int family = it->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    if (family == AF_INET6) {
      const auto* six = reinterpret_cast<const sockaddr_in6*>(it->ifa_addr);
      if (IN6_IS_ADDR_LINKLOCAL(&six->sin6_addr)) continue;
    }
    found.push_back({it->ifa_name, in_numbers(it->ifa_addr), (it->ifa_flags & IFF_LOOPBACK) != 0});
  }
  // IPv4 first within an interface and among all: a mesh needs one family that everybody has.
  std::stable_partition(found.begin(), found.end(),
                        [](const auto& a) { return a.address.find(':') == std::string::npos; });
  return found;
}

std::string select_address(const std::string& names, const std::vector<LocalAddress>& addresses) {
  const bool exclude = names.rfind('^', 0) == 0;
  std::string list = exclude ? names.substr(1) : names;
  const bool exact = list.rfind('=', 0) == 0;
  if (exact) list = list.substr(1);
  std::vector<std::string> wanted;
  std::istringstream words(list);
  for (std::string word; std::getline(words, word, ',');) {
    if (!word.empty()) wanted.push_back(word.substr(0, word.find(':')));  // a port may follow, NCCL ignores it here
  }
  for (const LocalAddress& local : addresses) {
    const bool named = std::any_of(wanted.begin(), wanted.end(), [&](const std::string& name) {
      return exact ? local.interface == name : local.interface.rfind(name, 0) == 0;
    });
    if (named != exclude && !(exclude && local.loopback)) return local.address;
  }
  return "";
}

// Connecting a datagram socket sends nothing; the kernel only looks up its route.
std::string address_towards(const std::string& peer) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST;
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* resolved = nullptr;
  if (::getaddrinfo(peer.c_str(), "9", &hints, &resolved) != 0) return "";
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(resolved, ::freeaddrinfo);
  const int fd = ::socket(resolved->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return "";
  sockaddr_storage local{};
  socklen_t length = sizeof local;
  std::string text;
  if (::connect(fd, resolved->ai_addr, resolved->ai_addrlen) == 0 &&
      ::getsockname(fd, reinterpret_cast<sockaddr*>(&local), &length) == 0) {
    text = in_numbers(reinterpret_cast<sockaddr*>(&local));
  }
  ::close(fd);
  return text;
}

}  // namespace nccltune::worker
