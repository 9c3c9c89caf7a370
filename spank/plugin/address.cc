// SPDX-License-Identifier: Apache-2.0
#include "plugin/address.h"

#include <arpa/inet.h>
#include <arpa/nameser.h>
#include <netinet/in.h>
#include <resolv.h>

#include <array>
#include <optional>
#include <string_view>
#include <vector>

namespace nccltune {
namespace {

constexpr std::string_view kBlank = " \t\r";

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  line = line.substr(0, line.find('#'));
  while (true) {
    const std::size_t begin = line.find_first_not_of(kBlank);
    if (begin == std::string_view::npos) return words;
    const std::size_t end = line.find_first_of(kBlank, begin);
    words.push_back(line.substr(begin, end - begin));
    if (end == std::string_view::npos) return words;
    line.remove_prefix(end);
  }
}

// `text` as the kernel would write it; nothing for what is no address or a loopback one.
std::optional<std::string> usable_address(std::string_view text) {
  const std::string copy(text);
  std::array<char, INET6_ADDRSTRLEN> out{};
  in_addr v4{};
  in6_addr v6{};
  if (inet_pton(AF_INET, copy.c_str(), &v4) == 1) {
    if (ntohl(v4.s_addr) >> 24 == 127) return std::nullopt;
    return inet_ntop(AF_INET, &v4, out.data(), out.size());
  }
  if (inet_pton(AF_INET6, copy.c_str(), &v6) == 1 && !IN6_IS_ADDR_LOOPBACK(&v6))
    return inet_ntop(AF_INET6, &v6, out.data(), out.size());
  return std::nullopt;
}

// The first IPv4 address of the name, else its first IPv6 one.
std::string from_hosts(const std::string& name, std::string_view hosts) {
  std::string v6;
  while (!hosts.empty()) {
    const std::size_t newline = hosts.find('\n');
    const std::vector<std::string_view> words = words_of(hosts.substr(0, newline));
    for (std::size_t i = 1; i < words.size(); ++i) {
      if (words[i] != name) continue;
      const std::optional<std::string> address = usable_address(words[0]);
      if (address && address->find(':') == std::string::npos) return *address;
      if (address && v6.empty()) v6 = *address;
    }
    if (newline == std::string_view::npos) break;
    hosts.remove_prefix(newline + 1);
  }
  return v6;
}

// One query over UDP to the first name server of resolv.conf, with a resolver state of our own: the process-wide one is
// slurmstepd's.
std::string from_name_server(const std::string& name) {
  struct __res_state state {};
  if (res_ninit(&state) != 0) return "";
  state.retry = 1;
  state.retrans = 1;  // seconds
  state.nscount = state.nscount > 1 ? 1 : state.nscount;
  state.options |= RES_IGNTC;  // a cut answer still holds an address; no second try over TCP
  std::array<unsigned char, NS_PACKETSZ * 2> answer{};
  const int length = res_nsearch(&state, name.c_str(), ns_c_in, ns_t_a, answer.data(), answer.size());
  std::string address;
  ns_msg message{};
  if (length > 0 && length <= static_cast<int>(answer.size()) && ns_initparse(answer.data(), length, &message) == 0) {
    for (int i = 0; i < ns_msg_count(message, ns_s_an) && address.empty(); ++i) {
      ns_rr record{};
      if (ns_parserr(&message, ns_s_an, i, &record) != 0) break;
      if (ns_rr_type(record) != ns_t_a || ns_rr_rdlen(record) != sizeof(in_addr)) continue;
      std::array<char, INET_ADDRSTRLEN> out{};
      if (inet_ntop(AF_INET, ns_rr_rdata(record), out.data(), out.size()) != nullptr)
        address = usable_address(out.data()).value_or("");
    }
  }
  res_nclose(&state);
  return address;
}

}  // namespace

std::string address_of(const std::string& node_name, const Root& root) {
  if (node_name.empty()) return "";
  if (const auto address = usable_address(node_name)) return *address;  // NodeName=10.0.0.1 does happen
  std::string address = from_hosts(node_name, root.read("/etc/hosts").value_or(""));
  if (address.empty() && root.live()) address = from_name_server(node_name);
  return address;
}

}  // namespace nccltune
