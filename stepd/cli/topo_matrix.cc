// SPDX-License-Identifier: Apache-2.0
#include "cli/topo_matrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "cli/output.h"
#include "node/distance.h"

namespace nccltune::cli {

namespace {

constexpr size_t kGap = 2;
constexpr size_t kCpus = 27;  // at which a list of CPUs wraps
std::vector<const RdmaDevice*> devices_on_pci(const Node& node) {
  std::vector<const RdmaDevice*> devices;
  for (const RdmaDevice& device : node.rdma)
    if (!device.bdf.empty()) devices.push_back(&device);
  return devices;
}

size_t width_of(const std::string& label) { return std::max(label.size(), std::string("NODE").size()) + kGap; }

std::string cpus_text(const Node& node, const std::string& bdf) {
  auto cpus = cpus_near(node, bdf);
  return cpus ? cpus->list() : "?";
}

std::string numa_text(const Node& node, const std::string& bdf) {
  auto numa = numa_of(node, bdf);
  return numa ? std::to_string(*numa) : "?";
}

// What else is on a line: the indent, "GPU10", and the two affinity columns.
size_t width_of_others(const Node& node) {
  size_t cpus = std::string_view("CPU Affinity").size();
  for (const Gpu& gpu : node.gpus)
    for (const std::string& line : wrap(cpus_text(node, gpu.bdf), kCpus)) cpus = std::max(cpus, line.size());
  return 2 + 5 + kGap + cpus + kGap + std::string_view("NUMA Affinity").size();
}

// How many of the labels from `first` on fit into one block; at least one.
size_t block_of(const std::vector<std::string>& labels, size_t first, size_t others) {
  size_t width = others, count = 0;
  while (first + count < labels.size() && width + width_of(labels[first + count]) <= kWidth)
    width += width_of(labels[first + count++]);
  return std::max<size_t>(count, 1);
}

constexpr const char* kLegend =
    "  PIX = at most one PCIe bridge between    PXB  = several bridges, no host bridge\n"
    "  PHB = through a host bridge (the CPU)    NODE = between host bridges of a NUMA node\n"
    "  SYS = between NUMA nodes                 ?    = the kernel does not tell\n";

}  // namespace

std::string matrix_text(const Node& node, const Style& style) {
  if (node.gpus.empty()) return "";
  const auto devices = devices_on_pci(node);
  std::vector<std::string> labels;
  labels.reserve(devices.size());
  for (const RdmaDevice* device : devices) labels.push_back(device->name);
  const size_t others = width_of_others(node);
  const bool by_name = block_of(labels, 0, others) >= labels.size();
  if (!by_name)
    for (size_t i = 0; i < labels.size(); ++i) labels[i] = fmt::format("NIC{}", i);

  std::string out;
  size_t first = 0;
  do {
    const size_t count = labels.empty() ? 0 : block_of(labels, first, others);
    std::vector<Column> columns{""};
    for (size_t i = first; i < first + count; ++i) columns.emplace_back(labels[i]);
    columns.emplace_back("CPU Affinity", kCpus);
    columns.emplace_back("NUMA Affinity");
    Table table(std::move(columns));
    for (size_t g = 0; g < node.gpus.size(); ++g) {
      const std::string& bdf = node.gpus[g].bdf;
      std::vector<Cell> row{fmt::format("GPU{}", g)};
      for (size_t i = first; i < first + count; ++i) {
        const Distance d = distance(node, bdf, devices[i]->bdf);
        row.emplace_back(name(d), d == Distance::pix || d == Distance::pxb ? Tone::good : Tone::plain);
      }
      row.emplace_back(cpus_text(node, bdf));
      row.emplace_back(numa_text(node, bdf));
      table.add(std::move(row));
    }
    out += (first ? "\n" : "") + table.text(style);
    first += count;
  } while (first < labels.size());

  out += "\n" + std::string(kLegend);
  if (by_name) return out;
  std::string legend = "NICs:";
  for (size_t i = 0; i < devices.size(); ++i) legend += fmt::format(" NIC{}={}", i, printable(devices[i]->name));
  return out + paragraph(legend, 2, 4);
}

}  // namespace nccltune::cli
