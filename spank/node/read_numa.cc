// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>

#include "base/text.h"
#include "node/readers.h"

namespace nccltune {
namespace {

constexpr char kNodes[] = "/sys/devices/system/node";

// "Node 0 MemTotal:       501719040 kB"
std::optional<uint64_t> memory_total(const std::string& meminfo) {
  for (std::string_view line : split_lines(meminfo)) {
    const auto words = split_words(line);
    for (size_t i = 0; i + 1 < words.size(); ++i)
      if (words[i] == "MemTotal:")
        if (const auto kb = parse_int(words[i + 1], 0, INT64_MAX)) return static_cast<uint64_t>(*kb);
  }
  return std::nullopt;
}

std::optional<int> node_id(std::string_view name) {
  if (!name.starts_with("node")) return std::nullopt;
  const auto id = parse_int(name.substr(4), 0, CpuSet::kMaxId);
  return id ? std::optional(static_cast<int>(*id)) : std::nullopt;
}

NumaNode read_one(const Root& root, const std::string& directory, int id, Node& node) {
  NumaNode numa;
  numa.id = id;
  const auto lines = root.read_lines(directory, {"cpulist", "distance"});
  if (const auto cpus = lines[0] ? CpuSet::from_list(*lines[0]) : std::nullopt) {
    numa.cpus = *cpus;
  } else {
    node.notes.push_back({"NUMA node " + std::to_string(id), "the kernel does not tell its CPUs"});
  }
  if (lines[1])
    for (std::string_view word : split_words(*lines[1]))
      if (const auto value = parse_int(word, 0, 255)) numa.distances.push_back(static_cast<int>(*value));
  // MemTotal is the first line; the rest is thirty more that the kernel formats one by one.
  if (const auto meminfo = root.read_head(directory + "/meminfo", 4096)) numa.memory_kb = memory_total(*meminfo);
  return numa;
}

}  // namespace

void read_numa(const Root& root, Node& node) {
  for (const std::string& name : root.list(kNodes))
    if (const auto id = node_id(name)) node.numa.push_back(read_one(root, std::string(kNodes) + "/" + name, *id, node));
  std::sort(node.numa.begin(), node.numa.end(), [](const NumaNode& a, const NumaNode& b) { return a.id < b.id; });

  const auto online = root.read_line("/sys/devices/system/cpu/online");
  if (const auto cpus = online ? CpuSet::from_list(*online) : std::nullopt) node.online_cpus = *cpus;
  if (node.online_cpus.empty())
    for (const NumaNode& numa : node.numa) node.online_cpus |= numa.cpus;
  if (node.numa.empty()) node.notes.push_back({kNodes, "the kernel shows no NUMA node"});
}

}  // namespace nccltune
