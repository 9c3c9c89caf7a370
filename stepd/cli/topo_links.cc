// SPDX-License-Identifier: Apache-2.0
#include "cli/topo_links.h"

#include <fmt/format.h>

#include "node/distance.h"

namespace nccltune::cli {

namespace {

constexpr size_t kMostColumns = 9;  // of "GPU0  " in a line of 100

int joined(const GpuLinks& links, const std::string& a, const std::string& b) {
  const auto from = links.find(a);
  if (from == links.end()) return 0;
  const auto to = from->second.find(b);
  return to == from->second.end() ? 0 : to->second;
}

Cell cell_of(const Node& node, const GpuLinks& links, const std::string& a, const std::string& b) {
  if (a == b) return "X";
  if (const int count = joined(links, a, b)) return {fmt::format("NV{}", count), Tone::good};
  return name(distance(node, a, b));
}

}  // namespace

GpuLinks links_of(const check::DriverFacts& driver) {
  GpuLinks links;
  for (const check::DriverFacts::Pair& pair : driver.pairs) {
    if (pair.links == 0) continue;
    const std::string &a = driver.gpus[pair.a].bdf, &b = driver.gpus[pair.b].bdf;
    links[a][b] = links[b][a] = pair.links;
  }
  return links;
}

std::string links_text(const Node& node, const GpuLinks& links, const Style& style) {
  if (links.empty() || node.gpus.size() < 2) return "";
  std::string out = heading(style, "NVLinks between GPUs (from the driver)");
  for (size_t first = 0; first < node.gpus.size(); first += kMostColumns) {
    const size_t end = std::min(first + kMostColumns, node.gpus.size());
    std::vector<Column> columns{""};
    for (size_t b = first; b < end; ++b) columns.emplace_back(fmt::format("GPU{}", b));
    Table table(std::move(columns));
    for (size_t a = 0; a < node.gpus.size(); ++a) {
      std::vector<Cell> row{fmt::format("GPU{}", a)};
      for (size_t b = first; b < end; ++b) row.push_back(cell_of(node, links, node.gpus[a].bdf, node.gpus[b].bdf));
      table.add(std::move(row));
    }
    out += (first ? "\n" : "") + table.text(style);
  }
  return out + "\n  NV# = by # NVLinks, directly or through switches; else the distance over PCIe\n";
}

}  // namespace nccltune::cli
