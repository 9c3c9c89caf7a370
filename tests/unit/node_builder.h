// SPDX-License-Identifier: Apache-2.0
// Small machines for tests of the policy. Cards of one slot share a PCIe switch (PIX); other slots of a NUMA node are
// NODE away, those of another SYS.
#pragma once

#include <arpa/inet.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "node/node.h"
#include "policy/plan.h"

namespace nccltune::testing {

inline IpAddress ip(const std::string& text) {  // "10.0.0.1/24"
  IpAddress address;
  const std::size_t slash = text.find('/');
  const std::string host = text.substr(0, slash);
  address.v6 = host.find(':') != std::string::npos;
  inet_pton(address.v6 ? AF_INET6 : AF_INET, host.c_str(), address.bytes.data());
  address.prefix = slash == std::string::npos ? (address.v6 ? 128 : 32) : std::stoi(text.substr(slash + 1));
  return address;
}

inline Gid gid(int index, const std::string& address, GidType type, const std::string& netdev) {
  Gid row;
  row.index = index;
  row.type = type;
  row.netdev = netdev;
  const IpAddress a = ip(address);
  if (a.v6) {
    row.bytes = a.bytes;
  } else {
    row.bytes[10] = row.bytes[11] = 0xff;
    std::copy(a.bytes.begin(), a.bytes.begin() + 4, row.bytes.begin() + 12);
  }
  return row;
}

// The two rows that the kernel makes for an address: v1, then v2.
inline void add_pair(std::vector<Gid>& gids, int index, const std::string& address, const std::string& netdev) {
  gids.push_back(gid(index, address, GidType::roce_v1, netdev));
  gids.push_back(gid(index + 1, address, GidType::roce_v2, netdev));
}

// 0, 1 link-local; 2, 3 the address.
inline std::vector<Gid> usual_gids(const std::string& address, const std::string& netdev) {
  std::vector<Gid> gids;
  add_pair(gids, 0, "fe80::ba3f:d2ff:fe40:1", netdev);
  if (!address.empty()) add_pair(gids, 2, address, netdev);
  return gids;
}

struct Card {
  std::string name;
  int slot = 0;
  std::string layer = "InfiniBand";
  double rate = 400;
  uint32_t device = 0x1021;
  std::string address;  // of its Ethernet interface; "" for none
  std::string netdev;   // default: "eth-NAME"
  int function = 0;
  std::string state = "ACTIVE";
};

class NodeBuilder {
 public:
  NodeBuilder() {
    node.hostname = "n1";
    numa(0, "0-31");
    numa(1, "32-63");
    lo();
  }

  Node node;

  NodeBuilder& numa(int id, const std::string& cpus) {
    NumaNode numa;
    numa.id = id;
    numa.cpus = *CpuSet::from_list(cpus);
    numa.memory_kb = 64u << 20;
    node.numa.push_back(numa);
    node.online_cpus |= numa.cpus;
    return *this;
  }

  // Slots 0 to 15 are of NUMA node 0, 16 to 29 of node 1.
  static int numa_of_slot(int slot) { return slot < 16 ? 0 : 1; }

  PciDevice& pci(int slot, int bus, int function, uint32_t vendor, uint32_t device, uint32_t class_code) {
    const auto name = [](int b, int d, int f) {
      char text[16];
      std::snprintf(text, sizeof text, "0000:%02x:%02x.%d", b, d, f);
      return std::string(text);
    };
    char root[16];
    std::snprintf(root, sizeof root, "pci0000:%02x", slot * 8);
    PciDevice card;
    card.bdf = name(slot * 8 + bus, 0, function);
    card.path = {root, name(slot * 8, 1, 0), name(slot * 8 + 1, 0, 0), name(slot * 8 + 2, bus, 0), card.bdf};
    card.vendor = vendor;
    card.device = device;
    card.class_code = class_code;
    card.numa_node = numa_of_slot(slot);
    card.local_cpus = node.numa[numa_of_slot(slot)].cpus;
    for (std::size_t i = 1; i + 1 < card.path.size(); ++i) {
      PciDevice bridge;
      bridge.bdf = card.path[i];
      bridge.path.assign(card.path.begin(), card.path.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      bridge.class_code = 0x060400;
      bridge.numa_node = card.numa_node;
      node.pci.emplace(bridge.bdf, bridge);
    }
    return node.pci[card.bdf] = card;
  }

  NodeBuilder& gpu(int slot, int minor = -1) {
    Gpu gpu;
    gpu.bdf = pci(slot, 3, 0, 0x10de, 0x2330, 0x030200).bdf;
    gpu.minor = minor < 0 ? static_cast<int>(node.gpus.size()) : minor;
    gpu.uuid = "GPU-00000000-0000-0000-0000-0000000000" + gpu.bdf.substr(5, 2);
    node.gpus.push_back(gpu);
    std::sort(node.gpus.begin(), node.gpus.end(), [](const Gpu& a, const Gpu& b) { return a.bdf < b.bdf; });
    return *this;
  }
  NodeBuilder& gpus(const std::vector<int>& slots) {
    for (int slot : slots) gpu(slot);
    return *this;
  }

  RdmaDevice& hca(const Card& card) {
    const int bus = 4 + next_bus_[card.slot];
    if (card.function == 0) ++next_bus_[card.slot];
    PciDevice& pci_card =
        pci(card.slot, card.function == 0 ? bus : bus - 1, card.function, 0x15b3, card.device, 0x020700);
    pci_card.driver = "mlx5_core";
    RdmaDevice device;
    device.name = card.name;
    device.bdf = pci_card.bdf;
    device.driver = "mlx5_core";
    device.node_type = "1: CA";
    RdmaPort port;
    port.state = card.state;
    port.phys_state = card.state == "ACTIVE" ? "LinkUp" : "Disabled";
    port.link_layer = card.layer;
    port.rate_gbps = card.rate;
    const std::string netdev = card.netdev.empty() ? "eth-" + card.name : card.netdev;
    if (card.layer == "Ethernet") {
      port.lid = 0;
      port.netdev = netdev;
      if (card.state == "ACTIVE") port.gids = usual_gids(card.address.substr(0, card.address.find('/')), netdev);
      if (node.find_net(netdev) == nullptr) net(netdev, card.address).bdf = device.bdf;
      device.netdevs = {netdev};
    } else {
      port.lid = 7;
      port.gids = {gid(0, "fe80::b83f:d203:98:130", GidType::infiniband, "")};
    }
    device.ports = {port};
    node.rdma.push_back(device);
    return node.rdma.back();
  }

  NetInterface& net(const std::string& name, const std::string& address, NetKind kind = NetKind::physical) {
    NetInterface interface;
    interface.name = name;
    interface.index = static_cast<int>(node.net.size()) + 1;
    interface.kind = kind;
    interface.up = interface.running = true;
    interface.carrier = true;
    interface.arphrd = kind == NetKind::loopback ? 772 : kind == NetKind::ipoib ? 32 : 1;
    if (!address.empty()) interface.addresses.push_back(ip(address));
    node.net.push_back(interface);
    return node.net.back();
  }
  NodeBuilder& lo() {
    net("lo", "127.0.0.1/8", NetKind::loopback);
    return *this;
  }

  NodeBuilder& default_route(const std::string& netdev, uint32_t metric = 0) {
    Route route;
    route.netdev = netdev;
    route.metric = metric;
    node.routes.push_back(route);
    return *this;
  }

 private:
  int next_bus_[30] = {};
};

inline NodeBuilder one_gpu() {
  NodeBuilder machine;
  machine.gpu(0);
  return machine;
}

inline Plan plan_of(const NodeBuilder& machine, Environment env = {}, const Policy& policy = {}, Step step = {}) {
  step.env = std::move(env);
  return plan_node(machine.node, policy, step);
}

inline std::string value_of(const std::vector<EnvSetting>& env, const std::string& name) {
  for (const EnvSetting& setting : env)
    if (setting.name == name) return setting.value;
  return "(unset)";
}

inline std::string use_of(const Plan& plan, const std::string& device) {
  for (const HcaDecision& hca : plan.hcas)
    if (hca.name == device) return hca.use;
  return "(none)";
}

inline std::string rule_of(const Plan& plan, const std::string& device) {
  for (const HcaDecision& hca : plan.hcas)
    if (hca.name == device) return hca.rule;
  return "(none)";
}

// The texts of the notes about one object, joined by " | ".
inline std::string notes_of(const std::vector<Note>& notes, const std::string& object) {
  std::string text;
  for (const Note& note : notes)
    if (note.object == object) text += (text.empty() ? "" : " | ") + note.text;
  return text;
}

}  // namespace nccltune::testing
