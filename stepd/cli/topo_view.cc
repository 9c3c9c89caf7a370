// SPDX-License-Identifier: Apache-2.0
#include "cli/topo_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "base/text.h"
#include "policy/gid.h"
#include "policy/interface.h"
#include "policy/nccl_list.h"

namespace nccltune::cli {

namespace {

// The value in force: the plan's, or the one that it kept.
// The row of the index in force, else the one that NCCL finds by itself.
const Gid* gid_in_force(const Node& node, const RdmaPort& port, const Plan& plan) {
  if (port.link_layer != "Ethernet") return nullptr;
  const bool v6 = value_in_force(plan, "NCCL_IB_ADDR_FAMILY") == "AF_INET6";
  const auto index = value_in_force(plan, "NCCL_IB_GID_INDEX");
  const int64_t wanted = index ? parse_int(*index, 0, 65535).value_or(-1) : -1;
  if (wanted < 0) return best_gid(node, port, v6 ? GidFamily::ipv6 : GidFamily::ipv4);
  auto row = std::find_if(port.gids.begin(), port.gids.end(), [&](const Gid& gid) { return gid.index == wanted; });
  return row == port.gids.end() ? nullptr : &*row;
}

std::string why_not(const Node& node, const NetInterface& net) {
  if (net.kind == NetKind::loopback) return "loopback";
  if (std::string fault = fault_of_interface(net); !fault.empty()) return fault;
  for (const RdmaDevice& device : node.rdma)
    for (const RdmaPort& port : device.ports)
      if (port.netdev == net.name) return fmt::format("the fabric's: {}:{}", device.name, port.number);
  return "not the way to the other nodes";
}

std::string reason_for(const Plan& plan, std::string_view name) {
  for (const KeptSetting& kept : plan.kept)
    if (kept.name == name) return fmt::format("set by {}: '{}'", kept.source, kept.value);
  for (const EnvSetting& setting : plan.env)
    if (setting.name == name) return setting.why;
  return "";
}

std::string readiness(const Node& node, const GpuDirect& direct) {
  if (node.gpus.empty()) return "no NVIDIA GPU";
  if (node.driver.version.empty()) return "no NVIDIA driver is loaded, so nothing can be said";
  if (direct.peermem == true && direct.dma_buf == true)
    return "ready: nvidia_peermem is loaded, and DMA-BUF is possible";
  if (direct.peermem == true) return "ready: nvidia_peermem is loaded";
  if (direct.dma_buf == true)
    return "possible by DMA-BUF (CUDA 11.7 and a NIC driver with ibv_reg_dmabuf_mr); nvidia_peermem is not loaded";
  if (direct.peermem == false && direct.dma_buf == false)
    return "not ready: nvidia_peermem is not loaded, and DMA-BUF needs kernel 5.12 and the open GPU kernel modules; "
           "try 'modprobe nvidia-peermem'";
  return "unknown: the kernel's version and modules were not recorded";
}

}  // namespace

std::vector<HcaRow> hca_rows(const Node& node, const Plan& plan) {
  std::vector<HcaRow> rows;
  for (const RdmaDevice& device : node.rdma)
    for (const RdmaPort& port : device.ports) {
      HcaRow row{.device = &device, .port = &port, .gid = gid_in_force(node, port, plan)};
      for (const HcaDecision& decision : plan.hcas)
        if (decision.name == device.name && decision.port == port.number) {
          row.use = decision.use;
          row.why = decision.why;
        }
      rows.push_back(std::move(row));
    }
  return rows;
}

std::vector<InterfaceRow> interface_rows(const Node& node, const Plan& plan) {
  const auto value = value_in_force(plan, "NCCL_SOCKET_IFNAME");
  std::vector<InterfaceRow> rows;
  for (const NetInterface& net : node.net) {
    const bool used = value && !value->empty() && NcclList::parse(*value).takes(net.name, -1);
    rows.push_back({&net, used, used ? reason_for(plan, "NCCL_SOCKET_IFNAME") : why_not(node, net)});
  }
  return rows;
}

GpuDirect gpu_direct(const Node& node) {
  GpuDirect direct{.peermem = node.peermem, .dma_buf = node.dma_buf(), .text = ""};
  direct.text = readiness(node, direct);
  return direct;
}

const char* name_of(NetKind kind) {
  switch (kind) {
    case NetKind::physical:
      return "physical";
    case NetKind::loopback:
      return "loopback";
    case NetKind::bond:
      return "bond";
    case NetKind::vlan:
      return "vlan";
    case NetKind::bridge:
      return "bridge";
    case NetKind::veth:
      return "veth";
    case NetKind::tun:
      return "tun";
    case NetKind::macvlan:
      return "macvlan";
    case NetKind::ipvlan:
      return "ipvlan";
    case NetKind::dummy:
      return "dummy";
    case NetKind::ipoib:
      return "ipoib";
    case NetKind::wireguard:
      return "wireguard";
    case NetKind::tunnel:
      return "tunnel";
    case NetKind::virtual_other:
      return "virtual";
  }
  return "";
}

const char* name_of(GidType type) {
  switch (type) {
    case GidType::unknown:
      return "unknown";
    case GidType::roce_v1:
      return "RoCE v1";
    case GidType::roce_v2:
      return "RoCE v2";
    case GidType::infiniband:
      return "InfiniBand";
  }
  return "";
}

}  // namespace nccltune::cli
