// SPDX-License-Identifier: Apache-2.0
#include "cli/topo_matrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "node/distance.h"

namespace nccltune::cli {

namespace {

constexpr size_t kGap = 2;
constexpr size_t kAffinity = 40;  // columns kept for the two affinity columns and what is before the HCAs

std::vector<const RdmaDevice*> devices_on_pci(const Node& node) {
  std::vector<const RdmaDevice*> devices;
  for (const RdmaDevice& device : node.rdma)
    if (!device.bdf.empty()) devices.push_back(&device);
  return devices;
}

size_t width_of(const std::string& label) { return std::max(label.size(), std::string("NODE").size()) + kGap; }

bool fit(const std::vector<std::string>& labels) {
  size_t width = 0;
  for (const std::string& label : labels) width += width_of(label);
  return width + kAffinity <= kWidth;
}

// How many of the labels from `first` on one block takes; at least one.
size_t block_of(const std::vector<std::string>& labels, size_t first) {
  size_t width = 0, count = 0;
  while (first + count < labels.size() && width + width_of(labels[first + count]) + kAffinity <= kWidth)
    width += width_of(labels[first + count++]);
  return std::max<size_t>(count, 1);
}

std::string cpus_text(const Node& node, const std::string& bdf) {
  auto cpus = cpus_near(node, bdf);
  return cpus ? cpus->list() : "?";
}

std::string numa_text(const Node& node, const std::string& bdf) {
  auto numa = numa_of(node, bdf);
  return numa ? std::to_string(*numa) : "?";
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
  for (const RdmaDevice* device : devices) labels.push_back(device->name);
  const bool by_name = fit(labels);
  if (!by_name)
    for (size_t i = 0; i < labels.size(); ++i) labels[i] = fmt::format("NIC{}", i);

  std::string out;
  size_t first = 0;
  do {
    const size_t count = labels.empty() ? 0 : block_of(labels, first);
    std::vector<Column> columns{""};
    for (size_t i = first; i < first + count; ++i) columns.emplace_back(labels[i]);
    columns.emplace_back("NUMA Affinity");
    columns.emplace_back("CPU Affinity");
    Table table(std::move(columns));
    for (size_t g = 0; g < node.gpus.size(); ++g) {
      const std::string& bdf = node.gpus[g].bdf;
      std::vector<Cell> row{fmt::format("GPU{}", g)};
      for (size_t i = first; i < first + count; ++i) {
        const Distance d = distance(node, bdf, devices[i]->bdf);
        row.emplace_back(name(d), d == Distance::pix || d == Distance::pxb ? Tone::good : Tone::plain);
      }
      row.emplace_back(numa_text(node, bdf));
      row.emplace_back(cpus_text(node, bdf));
      table.add(std::move(row));
    }
    out += (first ? "\n" : "") + table.text(style);
    first += count;
  } while (first < labels.size());

  out += "\n" + std::string(kLegend);
  if (by_name) return out;
  std::string legend = "NICs:";
  for (size_t i = 0; i < devices.size(); ++i) legend += fmt::format(" NIC{}={}", i, devices[i]->name);
  return out + paragraph(legend, 2, 4);
}

}  // namespace nccltune::cli
