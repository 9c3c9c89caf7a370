// SPDX-License-Identifier: Apache-2.0
// What NCCL's sockets and a routed RoCE fabric need of the IP network.
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>

#include "base/text.h"
#include "check/finding.h"

namespace nccltune::check {

namespace {

void socket_interface(const Subject& subject, Report& report) {
  for (const EnvSetting& setting : subject.plan.env)
    if (setting.name == "NCCL_SOCKET_IFNAME") report.ok(setting.value, setting.why);
  for (const KeptSetting& kept : subject.plan.kept)
    if (kept.name == "NCCL_SOCKET_IFNAME") report.ok(kept.value, "set by " + kept.source);
  if (report.empty() && !subject.node.net.empty())
    report.warn("NCCL_SOCKET_IFNAME", "no interface leads to the other nodes", "one with a routable address",
                "ip -brief address; socket_ifname in nccl-tune.yaml");
}

bool reaches_others(const NetInterface& net) { return net.up && net.kind != NetKind::loopback && !net.bond_member; }

// arp_ignore=1 keeps an interface from answering for its neighbour's address.
bool answers_for_itself(const Subject& subject, const std::string& name) {
  for (const std::string& scope : {name, std::string("all")}) {
    auto value = subject.root.read_line("/proc/sys/net/ipv4/conf/" + scope + "/arp_ignore");
    if (value && *value != "0") return true;
  }
  return false;
}

// The subnet that an IPv4 address lies in, as "10.224.0.0/12".
std::string subnet_of(const IpAddress& address) {
  IpAddress first = address;
  for (int bit = address.prefix; bit < 32; ++bit) {
    uint8_t& byte = first.bytes[static_cast<size_t>(bit / 8)];
    byte = static_cast<uint8_t>(byte & ~(0x80 >> (bit % 8)));
  }
  return fmt::format("{}/{}", first.text(), address.prefix);
}

void one_interface_a_subnet(const Subject& subject, Report& report) {
  std::map<std::string, std::vector<std::string>> interfaces;  // by subnet
  for (const NetInterface& net : subject.node.net)
    for (const IpAddress& address : net.addresses)
      if (reaches_others(net) && !address.v6 && !address.is_link_local() && address.prefix < 31) {
        auto& names = interfaces[subnet_of(address)];
        if (names.empty() || names.back() != net.name) names.push_back(net.name);
      }
  for (const auto& [subnet, names] : interfaces) {
    const bool all_answer_for_themselves = std::all_of(
        names.begin(), names.end(), [&](const std::string& name) { return answers_for_itself(subject, name); });
    if (names.size() == 1)
      report.ok(subnet, names.front());
    else if (all_answer_for_themselves)
      report.ok(subnet, join(names, " ") + ", arp_ignore is set");
    else
      report.warn(subnet, join(names, " "), "a subnet each, or arp_ignore=1 and source routing",
                  "sysctl net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2");
  }
}

// The one interface that the plan, or the user's own value, names for NCCL's sockets; "" when it is a list or none.
std::string socket_interface_of(const Plan& plan) {
  std::string value;
  for (const EnvSetting& setting : plan.env)
    if (setting.name == "NCCL_SOCKET_IFNAME") value = setting.value;
  for (const KeptSetting& kept : plan.kept)
    if (kept.name == "NCCL_SOCKET_IFNAME") value = kept.value;
  return value.starts_with('=') ? value.substr(1) : value;
}

// Two connected routes to one network: which one the kernel takes is the order in which the interfaces came up, and
// that differs between nodes.
// NCCL's sockets are concerned, so the networks of the interface that they use.
void connected_routes(const Subject& subject, Report& report) {
  const std::string sockets = socket_interface_of(subject.plan);
  std::map<std::string, std::vector<std::string>> interfaces;  // network and metric -> interfaces
  for (const Route& route : subject.node.routes) {
    if (!route.gateway && !route.destination.v6 && route.destination.prefix > 0 && route.destination.prefix < 32 &&
        !route.destination.is_link_local())
      interfaces[fmt::format("{} metric {}", subnet_of(route.destination), route.metric)].push_back(route.netdev);
  }
  for (const auto& [network, names] : interfaces)
    if (names.size() > 1 && std::count(names.begin(), names.end(), sockets))
      report.warn(network, join(names, " "), "one interface, or a metric each",
                  "ip route show; ip route replace NETWORK dev " + names.front() + " metric 100");
    else
      report.ok(network, join(names, " "));
}

// An underlay of unnumbered BGP has the node's address on lo, as /32: no interface but lo can be named.
void address_on_loopback(const Subject& subject, Report& report) {
  bool elsewhere = false, any = subject.live();
  const IpAddress* on_lo = nullptr;
  for (const NetInterface& net : subject.node.net)
    for (const IpAddress& address : net.addresses) {
      any = any || !address.is_loopback();
      if (address.is_link_local() || address.is_loopback()) continue;
      if (net.kind == NetKind::loopback)
        on_lo = &address;
      else if (net.up)
        elsewhere = true;
    }
  if (!any) return;  // a record without addresses
  if (elsewhere) return report.ok("addresses", "on an interface that is no loopback");
  if (on_lo)
    report.warn("lo", on_lo->text() + " is the node's only address", "an address on an interface",
                "export NCCL_SOCKET_IFNAME==lo");
  else if (!subject.node.net.empty())
    report.warn("addresses", "none that other nodes can reach", "an address on an interface", "ip -brief address");
}

void host_name(const Subject& subject, Report& report) {
  if (!subject.live()) {
    report.skip("host name", "not on a recorded machine");
    return;
  }
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* raw = nullptr;
  if (int rc = getaddrinfo(name, nullptr, &hints, &raw); rc != 0) {
    report.warn(name, gai_strerror(rc), "resolves to an address of this node", "add it to /etc/hosts or to DNS");
    return;
  }
  std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> found(raw, freeaddrinfo);
  char text[NI_MAXHOST] = "";
  getnameinfo(found->ai_addr, found->ai_addrlen, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  const std::string address = text;
  if (address.starts_with("127.") || address == "::1")
    report.warn(name, address, "an address that other nodes can reach",
                "write the node's own address beside its name in /etc/hosts");
  else
    report.ok(name, address);
}

void port_range(const Subject& subject, Report& report) {
  auto text = subject.root.read_line("/proc/sys/net/ipv4/ip_local_port_range");
  if (!text) return;
  const auto words = split_words(*text);
  if (words.size() != 2) return;
  const auto low = parse_int(words[0], 0, 65535), high = parse_int(words[1], 0, 65535);
  if (!low || !high) return;
  const std::string seen = fmt::format("{} to {}", *low, *high);
  if (*high - *low < 16384)
    report.warn("net.ipv4.ip_local_port_range", seen, "16384 ports or more",
                "sysctl net.ipv4.ip_local_port_range='32768 60999'");
  else
    report.ok("net.ipv4.ip_local_port_range", seen);
}

}  // namespace

const std::vector<Check>& net_checks() {
  static const std::vector<Check> kChecks{
      {"net.socket-interface", "net", "without one NCCL stops: 'Bootstrap : no socket interface found'",
       "NVIDIA/nccl#286, #1837", socket_interface},
      {"net.subnets", "net", "replies leave by the other interface, and connections fail or hang",
       "NVIDIA/nccl#1131, #1581", one_interface_a_subnet},
      {"net.connected-routes", "net", "packets leave by an interface that the peer does not expect", "NVIDIA/nccl#1581",
       connected_routes},
      {"net.addresses", "net", "NCCL binds to 127.0.0.1 and reaches nobody", "NVIDIA/nccl#1053", address_on_loopback},
      {"net.host-name", "net", "launchers that take the node's address from its name tell the others 127.0.x.x",
       "Debian reference, hostname resolution", host_name},
      {"net.port-range", "net", "every pair of ranks takes several ports", "NCCL documentation, troubleshooting",
       port_range},
  };
  return kChecks;
}

}  // namespace nccltune::check
