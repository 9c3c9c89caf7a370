// SPDX-License-Identifier: Apache-2.0
#include "cli/topo_text.h"

#include <fmt/format.h>

#include <cstdint>

#include "base/text.h"
#include "cli/output.h"
#include "cli/plan_text.h"
#include "cli/topo_matrix.h"
#include "cli/topo_view.h"
#include "node/distance.h"

namespace nccltune::cli {

namespace {

constexpr size_t kLabel = 16;  // width of the names of the first lines

std::string dmi_text(const Node& node) {
  std::vector<std::string> parts;
  for (const char* field : {"sys_vendor", "product_name"})
    if (auto it = node.dmi.find(field); it != node.dmi.end() && !it->second.empty()) parts.push_back(it->second);
  return join(parts, " ");
}

std::string driver_text(const Node& node) {
  if (node.driver.version.empty()) return "none";
  return node.driver.version + (node.driver.open_modules ? " (open kernel modules)" : " (proprietary kernel modules)");
}

std::string header_text(const Node& node, const Plan& plan) {
  const std::string dmi = dmi_text(node);
  std::string out;
  auto line = [&out](const char* name, const std::string& value) {
    std::string label = name;
    for (const std::string& part : wrap(value.empty() ? "unknown" : printable(value), kWidth - kLabel)) {
      out += fmt::format("{:<{}}{}\n", label, kLabel, part);
      label.clear();
    }
  };
  line("host", node.hostname);
  line("platform", plan.platform + (dmi.empty() ? "" : " (" + dmi + ")"));
  line("kernel", node.kernel_release);
  line("guest", node.hypervisor ? "yes, of a hypervisor" : "no");
  line("NVIDIA driver", driver_text(node));
  line("GPUDirect RDMA", gpu_direct(node).text);
  line("CPUs", fmt::format("{} online in {} NUMA node{}", node.online_cpus.count(), node.numa.size(),
                           node.numa.size() == 1 ? "" : "s"));
  return out;
}

std::string memory_text(std::optional<uint64_t> kb) {
  return kb ? fmt::format("{:.0f} GiB", static_cast<double>(*kb) / (1 << 20)) : "";
}

std::string numa_text(const Node& node, const Style& style) {
  if (node.numa.empty()) return "";
  Table table({"NUMA node", "memory", "CPUs"});
  CpuSet bare;  // nodes of memory only: GB200 has 32, most of them empty, so they share a line
  uint64_t bare_kb = 0;
  for (const NumaNode& numa : node.numa) {
    if (!numa.cpus.empty()) {
      table.add({std::to_string(numa.id), memory_text(numa.memory_kb), numa.cpus.list()});
      continue;
    }
    bare.add(numa.id);
    bare_kb += numa.memory_kb.value_or(0);
  }
  if (!bare.empty()) table.add({bare.list(), bare_kb ? memory_text(bare_kb) : "", "none: memory only"});
  return heading(style, "NUMA nodes") + table.text(style);
}

std::string flat_text(const Node& node) {
  if (!is_flat(node)) return "";
  std::vector<std::string> paths;
  for (const TopologyFile& file : node.topology_files) paths.push_back(file.path);
  return paragraph(paths.empty()
                       ? "sysfs tells no locality here (every GPU on a root bus of its own, no NUMA node), and no "
                         "vendor's topology file was found"
                       : "sysfs tells no locality here; the distances are those of " + printable(join(paths, ", ")),
                   2, 2);
}

std::string gpus_text(const Node& node, const Style& style) {
  if (node.gpus.empty()) return heading(style, "GPUs") + "  no NVIDIA GPU\n";
  Table table({"GPU", "PCI address", "minor", "model"});
  for (size_t i = 0; i < node.gpus.size(); ++i) {
    const Gpu& gpu = node.gpus[i];
    table.add({fmt::format("GPU{}", i), gpu.bdf, gpu.minor ? std::to_string(*gpu.minor) : "", gpu.model});
  }
  std::string out = heading(style, "GPUs") + table.text(style);
  out += heading(style, node.rdma.empty() ? "Distances (no RDMA device)" : "Distances") + matrix_text(node, style);
  return out + flat_text(node);
}

std::string rate_text(const RdmaPort& port) { return port.rate_gbps ? fmt::format("{:g} Gb/s", *port.rate_gbps) : ""; }

std::string state_text(const RdmaPort& port) {
  return port.active() || port.phys_state.empty() ? port.state : port.state + " (" + port.phys_state + ")";
}

std::string gid_text(const Gid* gid) { return gid ? fmt::format("{}: {}", gid->index, gid->text()) : ""; }

std::string hcas_text(const Node& node, const Plan& plan, const Style& style) {
  const auto rows = hca_rows(node, plan);
  if (rows.empty()) return heading(style, "HCAs") + "  no RDMA device\n";
  Table facts({"HCA", "PCI address", "state", "link layer", "rate", "netdev", "GID"});
  Table uses({"HCA", "use", "why"});
  for (const HcaRow& row : rows) {
    const bool used = row.use == "compute";
    const std::string name = fmt::format("{}:{}", row.device->name, row.port->number);
    facts.add({{name, used ? Tone::good : Tone::plain},
               row.device->bdf,
               {state_text(*row.port), row.port->active() ? Tone::plain : Tone::warn},
               row.port->link_layer,
               rate_text(*row.port),
               row.port->netdev,
               gid_text(row.gid)});
    uses.add({name, {row.use, used ? Tone::good : Tone::faint}, row.why});
  }
  return heading(style, "HCAs") + facts.text(style) + "\n" + uses.text(style);
}

std::string addresses_text(const NetInterface& net) {
  std::vector<std::string> parts;
  for (const IpAddress& address : net.addresses) parts.push_back(fmt::format("{}/{}", address.text(), address.prefix));
  return join(parts, " ");
}

std::string state_text(const NetInterface& net) { return !net.up ? "down" : net.running ? "up" : "up, no link"; }

std::string interfaces_text(const Node& node, const Plan& plan, const Style& style) {
  const auto rows = interface_rows(node, plan);
  if (rows.empty()) return "";
  Table table({"interface", "kind", "state", {"addresses", 30}, "used", "why"});
  for (const InterfaceRow& row : rows)
    table.add({row.interface->name,
               name_of(row.interface->kind),
               state_text(*row.interface),
               addresses_text(*row.interface),
               {row.used ? "yes" : "no", row.used ? Tone::good : Tone::faint},
               row.why});
  return heading(style, "Interfaces for NCCL's sockets") + table.text(style);
}

}  // namespace

std::string topo_text(const Node& node, const Plan& plan, const GpuLinks& links, const Style& style) {
  return header_text(node, plan) + numa_text(node, style) + gpus_text(node, style) + links_text(node, links, style) +
         hcas_text(node, plan, style) + interfaces_text(node, plan, style) + notes_text(plan.notes, style);
}

}  // namespace nccltune::cli
