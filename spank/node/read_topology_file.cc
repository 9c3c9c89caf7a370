// SPDX-License-Identifier: Apache-2.0
// A vendor's NCCL topology file: <system><cpu numaid affinity><pci busid><pci busid/>...
#include <cstring>
#include <pugixml.hpp>

#include "base/text.h"
#include "node/readers.h"

namespace nccltune {
namespace {

constexpr int kMaxDepth = 32;
constexpr size_t kMaxDevices = 4096;

struct Context {
  std::optional<int> numa;
  CpuSet cpus;
  std::vector<std::string> bridges;
};

void collect(const pugi::xml_node& element, const Context& context, int depth, std::vector<TopologyFile::Device>& out) {
  if (depth > kMaxDepth) return;
  for (const pugi::xml_node& child : element.children()) {
    Context inner = context;
    if (std::strcmp(child.name(), "cpu") == 0) {
      if (const auto numa = parse_int(child.attribute("numaid").value(), 0, CpuSet::kMaxId))
        inner.numa = static_cast<int>(*numa);
      inner.cpus = CpuSet::from_mask(child.attribute("affinity").value()).value_or(CpuSet());
    } else if (std::strcmp(child.name(), "pci") == 0) {
      const auto bdf = normal_bdf(child.attribute("busid").value());
      if (!bdf || out.size() >= kMaxDevices) continue;
      out.push_back({*bdf, context.numa, context.cpus, context.bridges});
      inner.bridges.push_back(*bdf);
    }
    collect(child, inner, depth + 1, out);
  }
}

}  // namespace

void read_topology_files(const Root& root, const ReadOptions& options, Node& node) {
  for (const std::string& named : options.topology_files) {
    // By wildcard only where that is one file: two could tell two stories.
    const std::vector<std::string> matches = is_glob(named) ? expand_glob(root, named) : std::vector{named};
    if (matches.size() != 1) continue;
    const std::string& path = matches.front();
    const auto text = root.read(path);
    if (!text) continue;
    pugi::xml_document document;
    const pugi::xml_parse_result parsed = document.load_buffer(text->data(), text->size());
    if (!parsed) {
      node.notes.push_back({root.shown(path), std::string("not a topology file: ") + parsed.description()});
      continue;
    }
    TopologyFile file;
    file.path = path;
    collect(document, {}, 0, file.devices);
    if (file.devices.empty()) {
      node.notes.push_back({root.shown(path), "names no PCI device"});
    } else {
      node.topology_files.push_back(std::move(file));
    }
  }
}

}  // namespace nccltune
