// SPDX-License-Identifier: Apache-2.0
// Ports of the compute fabric: state, rate, addresses, errors, access.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/text.h"
#include "check/finding.h"
#include "check/ports.h"
#include "policy/gid.h"

namespace nccltune::check {

std::vector<Port> used_ports_of(const Subject& subject) {
  std::vector<Port> ports;
  for (const RdmaDevice& device : subject.node.rdma)
    for (const RdmaPort& port : device.ports)
      if (subject.used(device.name, port.number)) ports.push_back({device, port});
  return ports;
}

namespace {

// A port that is down counts when its sisters, the same board at the same rate, carry the fabric.
void port_state(const Subject& subject, Report& report) {
  std::set<std::string> boards;
  for (const Port& port : used_ports_of(subject)) boards.insert(port.device.hca_type + port.device.driver);
  for (const RdmaDevice& device : subject.node.rdma)
    for (const RdmaPort& port : device.ports) {
      const std::string label = fmt::format("{}:{}", device.name, port.number);
      const std::string state = port.state + (port.phys_state.empty() ? "" : ", " + port.phys_state);
      if (port.active())
        report.ok(label, state);
      else if (boards.contains(device.hca_type + device.driver))
        report.warn(label, state, "ACTIVE, LinkUp, as on the ports of the same kind that are used",
                    port.phys_state == "LinkUp" ? "look for the subnet manager: sminfo"
                                                : "look at cable and switch port: mlxlink -d " + device.name);
    }
}

void rate(const Subject& subject, Report& report) {
  const auto ports = used_ports_of(subject);
  double most = 0;
  for (const Port& port : ports) most = std::max(most, port.port.rate_gbps.value_or(0));
  for (const Port& port : ports) {
    if (!port.port.rate_gbps) continue;
    const std::string seen = fmt::format("{:g} Gb/s", *port.port.rate_gbps);
    if (*port.port.rate_gbps < most)
      report.fail(port.label(), seen, fmt::format("{:g} Gb/s, as on the other ports", most),
                  "reseat the cable, then: mlxlink -d " + port.device.name);
    else
      report.ok(port.label(), seen);
  }
}

void link_layer(const Subject& subject, Report& report) {
  std::map<std::string, std::string> first;  // link layer -> a port that has it
  for (const Port& port : used_ports_of(subject)) first.emplace(port.port.link_layer, port.label());
  if (first.size() == 1) report.ok("NCCL_IB_HCA", first.begin()->first);
  if (first.size() > 1)
    report.fail("NCCL_IB_HCA",
                fmt::format("{} and {}", first.begin()->second, first.rbegin()->second) + " have different link layers",
                "InfiniBand or Ethernet, not both", "exclude_hcas in nccl-tune.yaml");
}

void lid(const Subject& subject, Report& report) {
  for (const Port& port : used_ports_of(subject)) {
    if (port.port.link_layer != "InfiniBand" || !port.port.lid) continue;
    const std::string seen =
        fmt::format("LID {}", *port.port.lid) + (port.port.sm_lid ? fmt::format(", SM LID {}", *port.port.sm_lid) : "");
    if (*port.port.lid == 0 || port.port.sm_lid == 0u)
      report.fail(port.label(), seen, "both above 0",
                  "start a subnet manager on the fabric: sminfo tells whether there is one");
    else
      report.ok(port.label(), seen);
  }
}

void gid(const Subject& subject, Report& report) {
  for (const Port& port : used_ports_of(subject)) {
    if (port.port.link_layer != "Ethernet") continue;
    const Gid* row = best_gid(subject.node, port.port, GidFamily::ipv4);
    if (!row) row = best_gid(subject.node, port.port, GidFamily::ipv6);
    if (row)
      report.ok(port.label(), fmt::format("row {}: {} RoCE v2 {}", row->index, row->text(), row->netdev));
    else
      report.fail(
          port.label(), fmt::format("{} rows, none of them usable", port.port.gids.size()),
          "a RoCE v2 row with a routable address of an interface that is up",
          port.port.netdev.empty() ? "give its interface an address" : "ip addr add ADDRESS dev " + port.port.netdev);
  }
}

void mtu(const Subject& subject, Report& report) {
  std::map<int, std::string> first;  // MTU -> an interface that has it
  for (const Port& port : used_ports_of(subject)) {
    if (port.port.link_layer != "Ethernet") continue;
    const NetInterface* net = subject.node.find_net(port.port.netdev);
    if (!net || !net->mtu) continue;
    first.emplace(*net->mtu, net->name);
    // 4096 bytes of RoCE payload and their headers.
    if (*net->mtu < 4200)
      report.warn(net->name, std::to_string(*net->mtu), "4200 or more, for an RDMA MTU of 4096",
                  "ip link set " + net->name + " mtu 9000");
    else
      report.ok(net->name, std::to_string(*net->mtu));
  }
  if (first.size() > 1)
    report.fail("NCCL_IB_HCA",
                fmt::format("{} on {}, {} on {}", first.begin()->first, first.begin()->second, first.rbegin()->first,
                            first.rbegin()->second),
                "the same on every port",
                "ip link set " + first.begin()->second + fmt::format(" mtu {}", first.rbegin()->first));
}

// Counters run since the driver was loaded: a number above 0 is a hint, a number that grows is the fault.
void counters(const Subject& subject, Report& report) {
  constexpr const char* kCounters[] = {"counters/symbol_error",
                                       "counters/link_downed",
                                       "counters/port_rcv_errors",
                                       "counters/local_link_integrity_errors",
                                       "counters/excessive_buffer_overrun_errors",
                                       "hw_counters/out_of_sequence",
                                       "hw_counters/packet_seq_err",
                                       "hw_counters/local_ack_timeout_err",
                                       "hw_counters/rnr_nak_retry_err"};
  for (const Port& port : used_ports_of(subject)) {
    std::string seen;
    bool any = false;
    for (const char* counter : kCounters) {
      auto text = subject.root.read_line(port.path() + "/" + counter);
      auto count = text ? parse_int(*text, 0, INT64_MAX) : std::nullopt;
      any = any || count;
      if (count && *count > 0)
        seen += (seen.empty() ? "" : ", ") +
                fmt::format("{} {}", std::string(counter).substr(std::string(counter).find('/') + 1), *count);
    }
    if (!any) continue;
    if (seen.empty())
      report.ok(port.label(), "all 0");
    else
      report.warn(port.label(), seen, "0, or no growth during a run",
                  "compare again after a run: rdma statistic show link " + port.device.name);
  }
}

void access_to_verbs(const Subject& subject, Report& report) {
  for (const RdmaDevice& device : subject.node.rdma) {
    if (!device.openable) continue;
    const std::string node =
        device.uverbs.empty() ? "no /dev/infiniband/uverbs*" : "/dev/infiniband/" + device.uverbs.front();
    if (*device.openable)
      report.ok(device.name, node + " can be opened");
    else
      report.fail(device.name, node + " cannot be opened", "open for reading and writing",
                  "allow it in the device cgroup, or pass the device to the container");
  }
}

void firmware(const Subject& subject, Report& report) {
  std::map<std::string, std::map<std::string, std::vector<std::string>>> by_board;  // board -> version -> devices
  for (const RdmaDevice& device : subject.node.rdma) {
    if (device.fw_ver.empty()) continue;
    const std::string board = !device.board_id.empty() ? device.board_id : device.hca_type;
    by_board[board.empty() ? "unknown board" : board][device.fw_ver].push_back(device.name);
  }
  for (const auto& [board, versions] : by_board) {
    if (versions.size() == 1) {
      report.ok(board, versions.begin()->first);
      continue;
    }
    std::vector<std::string> seen;
    for (const auto& [version, devices] : versions) seen.push_back(version + " on " + join(devices, " "));
    report.warn(board, join(seen, "; "), "one version", "mlxfwmanager --online -u, then mlxfwreset");
  }
}

}  // namespace

const std::vector<Check>& rdma_checks() {
  static const std::vector<Check> kChecks{
      {"rdma.port-state", "rdma", "a port that is down takes its GPU's traffic through another HCA",
       "Azure NHC check_hw_ib", port_state},
      {"rdma.rate", "rdma", "NCCL runs a ring at the rate of its slowest port", "Azure NHC check_hw_ib", rate},
      {"rdma.link-layer", "rdma", "NCCL connects InfiniBand ports to Ethernet ports and fails", "NVIDIA/nccl#1478",
       link_layer},
      {"rdma.lid", "rdma", "an InfiniBand port without a LID cannot connect", "ibstat(8)", lid},
      {"rdma.gid", "rdma", "a RoCE port without such a row cannot connect", "NVIDIA/nccl#1573", gid},
      {"rdma.mtu", "rdma", "a small MTU costs bandwidth; unequal ones fail or fragment",
       "RoCE v2: 4096 bytes and headers", mtu},
      {"rdma.counters", "rdma", "link errors are resent, at the cost of bandwidth",
       "NCCL documentation, troubleshooting", counters},
      {"rdma.access", "rdma", "a process that cannot open the device hangs or uses fewer HCAs than its peers",
       "NVIDIA/nccl#2428", access_to_verbs},
      {"rdma.firmware", "rdma", "boards of one kind with different firmware behave differently", "Azure NHC", firmware},
  };
  return kChecks;
}

}  // namespace nccltune::check
