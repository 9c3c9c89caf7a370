// SPDX-License-Identifier: Apache-2.0
#include "check/differences.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/text.h"
#include "check/health.h"
#include "check/ports.h"
#include "policy/gid.h"

namespace nccltune::check {

namespace {

constexpr const char* kWhy = "ranks of one job that run on unlike nodes wait for the slowest, or do not connect";

Status severity(const std::string& name) {
  // Without these two nodes do not talk, or not over the same ports.
  for (const char* fatal : {"HCA count", "HCA link layer", "HCA rate", "interface MTU", "RDMA MTU", "NCCL"})
    if (name == fatal) return Status::fail;
  return Status::warn;
}

std::string joined(const std::set<std::string>& values) {
  return join(std::vector<std::string>(values.begin(), values.end()), " ");
}

void take_ports(const Subject& subject, NodeFacts& facts) {
  std::set<std::string> layers, rates, rows, mtus;
  std::vector<std::string> names;
  for (const Port& port : used_ports_of(subject)) {
    names.push_back(port.label());
    layers.insert(port.port.link_layer);
    if (port.port.rate_gbps) rates.insert(fmt::format("{:g} Gb/s", *port.port.rate_gbps));
    if (!port.ethernet()) continue;
    const Gid* row = best_gid(subject.node, port.port, GidFamily::ipv4);
    if (row) rows.insert(std::to_string(row->index));
    const NetInterface* net = subject.node.find_net(port.port.netdev);
    if (net && net->mtu) mtus.insert(std::to_string(*net->mtu));
  }
  facts.values["HCA count"] = std::to_string(names.size());
  // Names in PCI order: rail i of one node must meet rail i of the others.
  facts.values["HCA names and order"] = join(names, " ");
  facts.values["HCA link layer"] = joined(layers);
  facts.values["HCA rate"] = joined(rates);
  if (!rows.empty()) facts.values["GID index"] = joined(rows);
  if (!mtus.empty()) facts.values["interface MTU"] = joined(mtus);
}

void take_firmware(const Node& node, NodeFacts& facts) {
  std::map<std::string, std::set<std::string>> versions;
  for (const RdmaDevice& device : node.rdma)
    if (!device.fw_ver.empty())
      versions[device.board_id.empty() ? device.hca_type : device.board_id].insert(device.fw_ver);
  for (const auto& [board, fw] : versions) facts.values["firmware of " + board] = joined(fw);
}

void take_hardware(const Hardware& hardware, NodeFacts& facts) {
  std::set<std::string> mtus, links;
  for (const auto& [name, device] : hardware.verbs.devices)
    for (const auto& [port, bytes] : device.active_mtu) mtus.insert(std::to_string(bytes));
  if (!mtus.empty()) facts.values["RDMA MTU"] = joined(mtus);
  for (const GpuHealth& gpu : hardware.driver.gpus) links.insert(std::to_string(gpu.active_links()));
  if (!links.empty()) facts.values["NVLinks a GPU"] = joined(links);
}

}  // namespace

NodeFacts facts_to_compare(const Subject& subject) {
  const Node& node = subject.node;
  NodeFacts facts{.host = node.hostname, .values = {}};
  std::set<std::string> models;
  for (const Gpu& gpu : node.gpus) models.insert(gpu.model.empty() ? "unknown model" : gpu.model);
  facts.values["GPUs"] = std::to_string(node.gpus.size()) + (models.empty() ? "" : " " + joined(models));
  facts.values["nvidia driver"] = node.driver.version + (node.driver.open_modules ? " open" : "");
  facts.values["kernel"] = node.kernel_release;
  facts.values["profile"] = subject.plan.profile;
  if (node.peermem) facts.values["nvidia_peermem"] = *node.peermem ? "loaded" : "not loaded";
  for (const char* name : {"kernel/numa_balancing", "net/ipv4/conf/all/arp_ignore", "net/ipv4/conf/all/rp_filter"})
    if (auto value = subject.root.read_line(std::string("/proc/sys/") + name)) facts.values[name] = *value;
  take_ports(subject, facts);
  take_firmware(node, facts);
  if (subject.hardware) take_hardware(*subject.hardware, facts);
  if (const std::string version = library_text(subject); !version.empty()) facts.values["NCCL"] = version;
  return facts;
}

// FNV-1a over the packed values.
uint64_t digest_of(const NodeFacts& facts) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (char c : pack({"", facts.values})) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

// Lines "name\tvalue"; the host comes first. Neither holds a tab or a newline: they become blanks.
std::string pack(const NodeFacts& facts) {
  const auto plain = [](std::string text) {
    std::replace_if(
        text.begin(), text.end(), [](char c) { return c == '\t' || c == '\n'; }, ' ');
    return text;
  };
  std::string out = plain(facts.host) + "\n";
  for (const auto& [name, value] : facts.values) out += plain(name) + "\t" + plain(value) + "\n";
  return out;
}

NodeFacts unpack(std::string_view text) {
  NodeFacts facts;
  bool first = true;
  for (std::string_view line : split_lines(text)) {
    const size_t tab = line.find('\t');
    if (first)
      facts.host = line;
    else if (tab != std::string_view::npos)
      facts.values.emplace(line.substr(0, tab), line.substr(tab + 1));
    first = false;
  }
  return facts;
}

std::string in_short(const std::vector<std::string>& hosts) {
  constexpr size_t kShown = 8;
  if (hosts.size() <= kShown) return join(hosts, " ");
  return join(std::vector<std::string>(hosts.begin(), hosts.begin() + kShown), " ") +
         fmt::format(" and {} more", hosts.size() - kShown);
}

std::vector<Finding> differences(const std::vector<AlikeNodes>& groups) {
  std::set<std::string> names;
  size_t nodes = 0;
  for (const AlikeNodes& group : groups) {
    nodes += group.hosts.size();
    for (const auto& [name, value] : group.facts.values) names.insert(name);
  }
  std::vector<Finding> findings;
  for (const std::string& name : names) {
    std::map<std::string, std::vector<std::string>> hosts;  // value -> nodes
    std::vector<std::string> order;                         // values, as they came
    for (const AlikeNodes& group : groups) {
      const auto it = group.facts.values.find(name);
      const std::string value = it == group.facts.values.end() ? "not told" : it->second.empty() ? "none" : it->second;
      auto& of_value = hosts[value];
      if (of_value.empty()) order.push_back(value);
      of_value.insert(of_value.end(), group.hosts.begin(), group.hosts.end());
    }
    if (hosts.size() < 2) continue;
    const std::string most = *std::max_element(order.begin(), order.end(), [&](const auto& a, const auto& b) {
      return hosts[a].size() < hosts[b].size();  // the first of equals
    });
    for (const std::string& value : order)
      if (value != most)
        findings.push_back({"job.same", "job", severity(name), in_short(hosts[value]), name + ": " + value,
                            fmt::format("{}, as on {} of {} nodes", most, hosts[most].size(), nodes), kWhy,
                            "bring the node to the state of the others, or drain it",
                            "Meta gcm; nccl src/init.cc: Mismatched NCCL version", ""});
  }
  if (findings.empty())
    findings.push_back({"job.same", "job", Status::ok, fmt::format("{} nodes", nodes),
                        fmt::format("alike in {} values", names.size()), "", kWhy, "", "Meta gcm", ""});
  return findings;
}

std::vector<Finding> clock_differences(std::vector<NodeClock> clocks) {
  constexpr double kApart = 2;
  constexpr const char* kWhyClock =
      "logs of several nodes cannot be laid side by side, and MUNGE refuses what is too old";
  constexpr const char* kSource = "munged(8), --ttl; chronyc(1)";
  if (clocks.size() < 2) return {};
  std::sort(clocks.begin(), clocks.end(), [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
  // Of an even number the later one: a clock that was never set is behind.
  const double median = clocks[clocks.size() / 2].seconds;
  std::vector<Finding> findings;
  for (const NodeClock& clock : clocks) {
    const double apart = clock.seconds - median;
    if (std::abs(apart) <= kApart) continue;
    findings.push_back({"job.clock", "job", Status::warn, clock.host,
                        fmt::format("{:.1f} s {} the median", std::abs(apart), apart < 0 ? "behind" : "ahead of"),
                        fmt::format("within {:g} s", kApart), kWhyClock, "chronyc tracking", kSource, ""});
  }
  if (findings.empty())
    findings.push_back({"job.clock", "job", Status::ok, fmt::format("{} nodes", clocks.size()),
                        fmt::format("within {:.1f} s", clocks.back().seconds - clocks.front().seconds), "", kWhyClock,
                        "", kSource, ""});
  return findings;
}

}  // namespace nccltune::check
