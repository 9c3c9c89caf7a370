// SPDX-License-Identifier: Apache-2.0
#include "cli/topo_json.h"

#include <fmt/format.h>

#include "cli/topo_view.h"
#include "node/distance.h"

namespace nccltune::cli {

namespace {

Json text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

Json cpus_or_null(const std::optional<CpuSet>& cpus) { return cpus ? Json(cpus->list()) : Json(nullptr); }

Json numa_json(const Node& node) {
  Json list = Json::array();
  for (const NumaNode& numa : node.numa)
    list.push_back({{"id", numa.id},
                    {"cpus", numa.cpus.list()},
                    {"memory_kb", or_null(numa.memory_kb)},
                    {"distances", numa.distances}});
  return list;
}

// One object a GPU: with the distance to every RDMA device, by name, and the NVLinks to other GPUs, by address.
Json gpus_json(const Node& node, const GpuLinks& links) {
  Json list = Json::array();
  for (const Gpu& gpu : node.gpus) {
    Json distances = Json::object();
    for (const RdmaDevice& device : node.rdma)
      if (!device.bdf.empty()) distances[device.name] = name(distance(node, gpu.bdf, device.bdf));
    Json joined = Json::object();
    if (const auto at = links.find(gpu.bdf); at != links.end())
      for (const auto& [peer, count] : at->second) joined[peer] = count;
    list.push_back({{"bdf", gpu.bdf},
                    {"minor", or_null(gpu.minor)},
                    {"uuid", text_or_null(gpu.uuid)},
                    {"model", text_or_null(gpu.model)},
                    {"numa_node", or_null(numa_of(node, gpu.bdf))},
                    {"cpus", cpus_or_null(cpus_near(node, gpu.bdf))},
                    {"distances", std::move(distances)},
                    {"nvlinks", std::move(joined)}});
  }
  return list;
}

Json gid_json(const Gid& gid) {
  return {{"index", gid.index}, {"gid", gid.text()}, {"type", name_of(gid.type)}, {"netdev", text_or_null(gid.netdev)}};
}

Json hcas_json(const Node& node, const Plan& plan) {
  Json list = Json::array();
  for (const HcaRow& row : hca_rows(node, plan)) {
    Json gids = Json::array();
    for (const Gid& gid : row.port->gids) gids.push_back(gid_json(gid));
    list.push_back({{"name", row.device->name},
                    {"port", row.port->number},
                    {"bdf", text_or_null(row.device->bdf)},
                    {"driver", text_or_null(row.device->driver)},
                    {"hca_type", text_or_null(row.device->hca_type)},
                    {"fw_ver", text_or_null(row.device->fw_ver)},
                    {"board_id", text_or_null(row.device->board_id)},
                    {"numa_node", row.device->bdf.empty() ? Json(nullptr) : or_null(numa_of(node, row.device->bdf))},
                    {"state", text_or_null(row.port->state)},
                    {"phys_state", text_or_null(row.port->phys_state)},
                    {"link_layer", text_or_null(row.port->link_layer)},
                    {"rate_gbps", or_null(row.port->rate_gbps)},
                    {"netdev", text_or_null(row.port->netdev)},
                    {"gid_index", row.gid ? Json(row.gid->index) : Json(nullptr)},
                    {"gids", std::move(gids)},
                    {"use", row.use},
                    {"why", row.why}});
  }
  return list;
}

Json interfaces_json(const Node& node, const Plan& plan) {
  Json list = Json::array();
  for (const InterfaceRow& row : interface_rows(node, plan)) {
    const NetInterface& net = *row.interface;
    Json addresses = Json::array();
    for (const IpAddress& address : net.addresses)
      addresses.push_back(fmt::format("{}/{}", address.text(), address.prefix));
    list.push_back({{"name", net.name},
                    {"kind", name_of(net.kind)},
                    {"bdf", text_or_null(net.bdf)},
                    {"up", net.up},
                    {"running", net.running},
                    {"carrier", or_null(net.carrier)},
                    {"speed_mbps", or_null(net.speed_mbps)},
                    {"mtu", or_null(net.mtu)},
                    {"master", text_or_null(net.master)},
                    {"addresses", std::move(addresses)},
                    {"used", row.used},
                    {"why", row.why}});
  }
  return list;
}

}  // namespace

Json topo_json(const Node& node, const Plan& plan, const GpuLinks& links) {
  const GpuDirect direct = gpu_direct(node);
  return {
      {"host", node.hostname},
      {"platform", plan.platform},
      {"dmi", node.dmi},
      {"kernel", text_or_null(node.kernel_release)},
      {"guest", node.hypervisor},
      {"flat", is_flat(node)},
      {"nvidia_driver", {{"version", text_or_null(node.driver.version)}, {"open_modules", node.driver.open_modules}}},
      {"gpudirect_rdma",
       {{"peermem", or_null(direct.peermem)}, {"dma_buf", or_null(direct.dma_buf)}, {"text", direct.text}}},
      {"imex_channels", node.imex_channels},
      {"online_cpus", node.online_cpus.list()},
      {"numa", numa_json(node)},
      {"gpus", gpus_json(node, links)},
      {"hcas", hcas_json(node, plan)},
      {"interfaces", interfaces_json(node, plan)},
      {"notes", notes_json(plan.notes)}};
}

}  // namespace nccltune::cli
