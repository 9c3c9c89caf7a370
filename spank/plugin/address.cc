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

// Reads a DNS message (RFC 1035 section 4) from start to end and never past it: it comes from the network. Written out,
// as the parser of resolv.h is in libresolv, which slurmstepd would have to load.
class DnsReader {
 public:
  explicit DnsReader(std::string_view message) : rest_(message) {}

  bool skip(std::size_t bytes) {
    if (bytes > rest_.size()) return false;
    rest_.remove_prefix(bytes);
    return true;
  }
  std::optional<unsigned> number16() {
    if (rest_.size() < 2) return std::nullopt;
    const unsigned value = byte(0) << 8 | byte(1);
    rest_.remove_prefix(2);
    return value;
  }
  // Labels up to the empty one, or to a pointer into what came before, which ends a name.
  bool skip_name() {
    while (!rest_.empty()) {
      const unsigned length = byte(0);
      if (length >= 0xc0) return skip(2);
      if (!skip(1 + length)) return false;
      if (length == 0) return true;
    }
    return false;
  }
  const char* at() const { return rest_.data(); }

 private:
  unsigned byte(std::size_t index) const { return static_cast<unsigned char>(rest_[index]); }

  std::string_view rest_;
};

std::string first_a_record(DnsReader message) {
  constexpr std::size_t kIdAndFlags = 4, kOtherCounts = 4, kTypeAndClass = 4, kClassAndLifetime = 6;
  if (!message.skip(kIdAndFlags)) return "";
  const auto questions = message.number16(), answers = message.number16();
  if (!questions || !answers || !message.skip(kOtherCounts)) return "";
  for (unsigned i = 0; i < *questions; ++i)
    if (!message.skip_name() || !message.skip(kTypeAndClass)) return "";
  for (unsigned i = 0; i < *answers; ++i) {
    if (!message.skip_name()) return "";
    const auto type = message.number16();
    if (!type || !message.skip(kClassAndLifetime)) return "";
    const auto length = message.number16();
    if (!length) return "";
    const char* data = message.at();
    if (!message.skip(*length)) return "";
    std::array<char, INET_ADDRSTRLEN> text{};
    if (*type != ns_t_a || *length != sizeof(in_addr)) continue;
    if (inet_ntop(AF_INET, data, text.data(), text.size()) == nullptr) continue;
    if (const auto address = usable_address(text.data())) return *address;
  }
  return "";
}

// One query over UDP to the first name server of resolv.conf, with a resolver state of our own: the process-wide one is
// slurmstepd's.
std::string from_name_server(const std::string& name) {
  struct __res_state state {};
  if (res_ninit(&state) != 0) return "";
  state.retry = 1;
  state.retrans = 1;  // seconds
  if (state.nscount > 1) state.nscount = 1;
  // A search list of six domains would be six questions: the first one only, and a bare name not as a top level domain.
  if (state.dnsrch[0] != nullptr) state.dnsrch[1] = nullptr;
  state.options |= RES_NOTLDQUERY;
  state.options |= RES_IGNTC;  // a cut answer still holds an address; no second try over TCP
  std::array<unsigned char, NS_PACKETSZ * 2> answer{};
  const int length = res_nsearch(&state, name.c_str(), ns_c_in, ns_t_a, answer.data(), answer.size());
  res_nclose(&state);
  // The length of the whole answer, also where the buffer holds only its beginning.
  if (length <= 0 || static_cast<std::size_t>(length) > answer.size()) return "";
  return address_in_dns_answer({reinterpret_cast<const char*>(answer.data()), static_cast<std::size_t>(length)});
}

}  // namespace

std::string address_in_dns_answer(std::string_view message) { return first_a_record(DnsReader(message)); }

std::string address_of(const std::string& node_name, const Root& root) {
  if (node_name.empty()) return "";
  if (const auto address = usable_address(node_name)) return *address;  // NodeName=10.0.0.1 does happen
  std::string address = from_hosts(node_name, root.read("/etc/hosts").value_or(""));
  if (address.empty() && root.live()) address = from_name_server(node_name);
  return address;
}

}  // namespace nccltune
