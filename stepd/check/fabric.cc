// SPDX-License-Identifier: Apache-2.0
// What the ports of the fabric have in force: MTU, GPUDirect by DMA-BUF, GID rows, quality of service, drivers.
#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "base/text.h"
#include "check/finding.h"
#include "check/ports.h"
#include "policy/gid.h"

namespace nccltune::check {

namespace {

// What libibverbs said; null after a skip that tells why there is nothing, and where no HCA is used.
const VerbsFacts* verbs_facts(const Subject& subject, Report& report) {
  if (used_ports_of(subject).empty()) return nullptr;
  if (!subject.hardware) {
    report.skip("libibverbs.so.1", "not on a recorded machine");
    return nullptr;
  }
  if (subject.hardware->verbs.error.empty()) return &subject.hardware->verbs;
  report.skip("libibverbs.so.1", subject.hardware->verbs.error);
  return nullptr;
}

void active_mtu(const Subject& subject, Report& report) {
  const VerbsFacts* verbs = verbs_facts(subject, report);
  if (!verbs) return;
  int most = 0;
  for (const auto& [name, device] : verbs->devices)
    for (const auto& [port, bytes] : device.active_mtu) most = std::max(most, bytes);
  for (const auto& [name, device] : verbs->devices) {
    if (!device.error.empty()) report.skip(name, device.error);
    for (const auto& [number, bytes] : device.active_mtu) {
      const std::string label = fmt::format("{}:{}", name, number);
      if (bytes < most)
        report.fail(label, std::to_string(bytes), fmt::format("{}, as on the other ports", most),
                    "ip link set INTERFACE mtu 9000, on the switch too; InfiniBand: the subnet manager's partition");
      else if (bytes < 4096)
        report.warn(label, std::to_string(bytes), "4096", "ip link set INTERFACE mtu 9000, on the switch too");
      else
        report.ok(label, std::to_string(bytes));
    }
  }
}

void dma_buf(const Subject& subject, Report& report) {
  if (subject.node.gpus.empty()) return;
  const VerbsFacts* verbs = verbs_facts(subject, report);
  if (!verbs) return;
  for (const auto& [name, device] : verbs->devices) {
    if (!device.dma_buf) continue;
    if (*device.dma_buf)
      report.ok(name, "its driver registers DMA-BUFs");
    else if (subject.node.peermem == true)
      report.ok(name, "no DMA-BUF; nvidia_peermem is loaded");
    else
      report.warn(name, "its driver does not register DMA-BUFs", "DMA-BUF, or nvidia_peermem",
                  "modprobe nvidia-peermem, or a newer kernel and rdma-core");
  }
}

// One NCCL_IB_GID_INDEX serves all ports of a process.
void gid_index(const Subject& subject, Report& report) {
  std::map<int, std::vector<std::string>> ports;  // row -> ports
  for (const Port& port : used_ports_of(subject)) {
    if (!port.ethernet()) continue;
    const Gid* row = best_gid(subject.node, port.port, GidFamily::ipv4);
    if (!row) row = best_gid(subject.node, port.port, GidFamily::ipv6);
    if (row) ports[row->index].push_back(port.label());
  }
  if (ports.empty()) return;
  if (ports.size() == 1) return report.ok("NCCL_IB_GID_INDEX", std::to_string(ports.begin()->first));
  std::vector<std::string> seen;
  seen.reserve(ports.size());
  for (const auto& [row, names] : ports) seen.push_back(fmt::format("{} on {}", row, join(names, " ")));
  report.warn("NCCL_IB_GID_INDEX", join(seen, "; "), "the same row on every port, or NCCL 2.21 and the variable unset",
              "unset NCCL_IB_GID_INDEX");
}

// The link came back each time; a link that keeps falling takes the job with it.
void link_flaps(const Subject& subject, Report& report) {
  for (const Port& port : used_ports_of(subject)) {
    auto text = subject.root.read_line(port.path() + "/counters/link_downed");
    auto times = text ? parse_int(*text, 0, INT64_MAX) : std::nullopt;
    if (!times) continue;
    if (*times == 0)
      report.ok(port.label(), "never fell since the driver was loaded");
    else
      report.warn(port.label(), fmt::format("fell {} times since the driver was loaded", *times), "0",
                  "journalctl -k --since=-6h | grep -i " + port.device.name + "; clean or replace the cable");
  }
}

struct Class {
  std::string traffic_class, tos, notification;
  bool operator<(const Class& other) const {
    return std::tie(traffic_class, tos, notification) < std::tie(other.traffic_class, other.tos, other.notification);
  }
  std::string text() const {
    return "traffic class " + (traffic_class.empty() ? "not told" : traffic_class) +
           (tos.empty() ? "" : ", default RoCE TOS " + tos) + (notification.empty() ? "" : ", ECN " + notification);
  }
};

// ECN enables of all eight priorities, reaction and notification point: "rp 00010000 np 00010000".
std::string ecn_of(const Root& root, const std::string& netdev) {
  std::string out;
  for (const char* point : {"rp", "np"}) {
    std::string bits;
    for (int priority = 0; priority < 8; ++priority)
      if (auto bit = root.read_line(fmt::format("/sys/class/net/{}/ecn/roce_{}/enable/{}", netdev, point, priority)))
        bits += *bit;
    if (!bits.empty()) out += (out.empty() ? "" : " ") + std::string(point) + " " + bits;
  }
  return out;
}

void quality_of_service(const Subject& subject, Report& report) {
  std::map<Class, std::vector<std::string>> ports;
  for (const Port& port : used_ports_of(subject)) {
    if (!port.ethernet()) continue;
    Class one;
    const std::string number = std::to_string(port.port.number);
    // "Global tclass=106" once a site's script has set it; an empty file until then.
    one.traffic_class =
        subject.root.read_line("/sys/class/infiniband/" + port.device.name + "/tc/" + number + "/traffic_class")
            .value_or("");
    one.tos =
        subject.root
            .read_line("/sys/kernel/config/rdma_cm/" + port.device.name + "/ports/" + number + "/default_roce_tos")
            .value_or("");
    one.notification = ecn_of(subject.root, port.port.netdev);
    if (!one.traffic_class.empty() || !one.tos.empty() || !one.notification.empty()) ports[one].push_back(port.label());
  }
  if (ports.empty()) {
    if (subject.live() && !used_ports_of(subject).empty() && used_ports_of(subject).front().ethernet())
      report.skip("RoCE ports", "no traffic class, TOS or ECN is told; PFC: mlnx_qos -i INTERFACE needs root");
    return;
  }
  if (ports.size() == 1) return report.ok("RoCE ports", ports.begin()->first.text());
  std::vector<std::string> seen;
  seen.reserve(ports.size());
  for (const auto& [one, names] : ports) seen.push_back(one.text() + " on " + join(names, " "));
  report.warn("RoCE ports", join(seen, "; "), "the same on every port, as the switches expect it",
              "run the site's RoCE script on the ports that differ");
}

void drivers(const Subject& subject, Report& report) {
  std::set<std::string> seen;
  for (const Port& port : used_ports_of(subject)) {
    const std::string& driver = port.device.driver;
    if (driver.empty() || !seen.insert(driver).second) continue;
    // A module of the kernel's own tree has no version; one of OFED has.
    auto version = subject.root.read_line("/sys/module/" + driver + "/version");
    if (version)
      report.ok(driver, *version);
    else if (subject.root.exists("/sys/module/" + driver))
      report.ok(driver, "of kernel " + subject.node.kernel_release);
  }
}

}  // namespace

const std::vector<Check>& fabric_checks() {
  static const std::vector<Check> kChecks{
      {"rdma.active-mtu", "rdma", "an MTU below 4096 costs bandwidth; unequal ones end in retries",
       "InfiniBand specification, path MTU", active_mtu},
      {"rdma.dma-buf", "rdma", "without DMA-BUF or peermem every message goes through host memory",
       "nccl src/transport/net_ib: ncclIbDmaBufSupport", dma_buf},
      {"rdma.gid-index", "rdma", "one index for all ports reaches a wrong row on some", "NVIDIA/nccl#890", gid_index},
      {"rdma.link-flaps", "rdma", "a link that falls during a job ends it", "OCI rdma_link_flapping", link_flaps},
      {"rdma.qos", "rdma", "RoCE traffic outside its lossless class is dropped under load",
       "NVIDIA RoCE configuration guide", quality_of_service},
      {"rdma.driver", "rdma", "nodes of one job should run one driver", "Meta gcm check-iblink", drivers},
  };
  return kChecks;
}

}  // namespace nccltune::check
