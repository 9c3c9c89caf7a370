// SPDX-License-Identifier: Apache-2.0
// Thousands of made-up machines from fixed seeds: what no plan may do, and what must not change it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <set>

#include "base/text.h"
#include "unit/node_builder.h"
#include "unit/policy_shipped.h"

namespace nccltune {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): the builder

constexpr unsigned kMachines = 3000;

class Dice {
 public:
  explicit Dice(unsigned seed) : engine_(seed) {}
  // Not std::uniform_int_distribution: its sequence differs between libraries, and a seed should name a machine.
  int roll(int sides) { return static_cast<int>(engine_() % static_cast<unsigned>(sides)); }
  bool one_in(int n) { return roll(n) == 0; }
  template <class T>
  T pick(std::initializer_list<T> list) {
    return *(list.begin() + roll(static_cast<int>(list.size())));
  }

 private:
  std::mt19937 engine_;
};

std::string address_of(Dice& dice) {
  if (dice.one_in(8)) return "";
  if (dice.one_in(10)) return "169.254." + std::to_string(dice.roll(250)) + ".7/16";
  if (dice.one_in(10)) return "fd0" + std::to_string(dice.roll(3)) + "::" + std::to_string(1 + dice.roll(90)) + "/64";
  return "10." + std::to_string(dice.roll(6)) + "." + std::to_string(dice.roll(9)) + "." +
         std::to_string(1 + dice.roll(200)) + "/24";
}

void add_hcas(Dice& dice, NodeBuilder& machine) {
  const int count = dice.roll(12);
  const bool roce = dice.one_in(2);
  for (int i = 0; i < count; ++i) {
    Card card;
    card.name = "dev" + std::to_string(i);
    card.slot = dice.one_in(2) ? dice.roll(4) : dice.roll(30);
    card.layer = dice.one_in(6) != roce ? "Ethernet" : dice.one_in(20) ? "" : "InfiniBand";
    card.rate = dice.pick({100.0, 200.0, 200.0, 400.0});
    card.device = dice.pick<uint32_t>({0x1021, 0x1021, 0x101d, 0xa2dc, 0x101e});
    card.address = address_of(dice);
    card.state = dice.pick({"ACTIVE", "ACTIVE", "ACTIVE", "DOWN", "INIT", ""});
    RdmaDevice& hca = machine.hca(card);
    if (dice.one_in(10)) hca.openable = false;
    if (dice.one_in(15)) hca.bdf.clear();
    if (dice.one_in(15)) hca.ports[0].lid = 0;
    if (dice.one_in(10)) hca.ports[0].rate_gbps.reset();
    if (dice.one_in(12)) hca.ports[0].gids.resize(hca.ports[0].gids.size() / 2);
    if (dice.one_in(8)) {
      RdmaPort second = hca.ports[0];
      second.number = 2;
      second.state = dice.pick({"ACTIVE", "DOWN"});
      hca.ports.push_back(second);
    }
  }
}

void add_interfaces(Dice& dice, NodeBuilder& machine) {
  const int count = dice.roll(6);
  for (int i = 0; i < count; ++i) {
    NetInterface& net = machine.net("net" + std::to_string(i), address_of(dice),
                                    dice.pick({NetKind::physical, NetKind::physical, NetKind::bridge, NetKind::veth,
                                               NetKind::bond, NetKind::tun, NetKind::ipoib, NetKind::vlan}));
    net.up = !dice.one_in(8);
    net.running = net.up && !dice.one_in(8);
    net.usb = dice.one_in(12);
    net.bond_member = dice.one_in(12);
    if (net.bond_member) net.master = "net0";
  }
  if (machine.node.net.size() > 1 && !dice.one_in(3))
    machine.default_route(machine.node.net[1 + dice.roll(static_cast<int>(machine.node.net.size()) - 1)].name);
}

NodeBuilder random_machine(Dice& dice) {
  NodeBuilder machine;
  std::set<int> slots;
  for (int n = dice.roll(9); n > 0; --n) slots.insert(dice.one_in(2) ? dice.roll(4) : dice.roll(30));
  for (int slot : slots) machine.gpu(slot);
  add_hcas(dice, machine);
  add_interfaces(dice, machine);
  if (dice.one_in(8))
    for (auto& [bdf, pci] : machine.node.pci) {
      pci.numa_node.reset();
      pci.local_cpus.reset();
    }
  return machine;
}

Step random_step(Dice& dice, const Node& node) {
  Step step;
  step.container = dice.one_in(6);
  step.private_network = dice.one_in(20);
  step.outside_slurm = dice.one_in(2);
  step.local_tasks = 1 + dice.roll(8);
  if (!node.net.empty() && dice.one_in(3)) {
    const NetInterface& net = node.net[dice.roll(static_cast<int>(node.net.size()))];
    if (!net.addresses.empty()) step.node_address = net.addresses[0].text();
  }
  for (int i = 0; i < step.local_tasks; ++i) {
    Task task;
    task.local_id = i;
    CpuSet mask;
    for (int n = dice.roll(20); n >= 0; --n) mask.add(dice.roll(64));
    if (!dice.one_in(5)) task.mask = mask;
    if (!dice.one_in(3)) task.env["CUDA_VISIBLE_DEVICES"] = std::to_string(dice.roll(9));
    if (dice.one_in(3)) task.env["SLURMD_TRES_BIND"] = "gres/gpu:per_task:1";
    if (dice.one_in(3)) task.openable_minors = std::set<int>{dice.roll(8), dice.roll(8)};
    step.tasks.push_back(task);
  }
  return step;
}

// The plan as bytes.
std::string text_of(const Plan& plan) {
  std::string text = plan.platform + "\n";
  for (const EnvSetting& e : plan.env) text += e.name + "=" + e.value + " " + e.rule + " " + e.why + "\n";
  for (const HcaDecision& h : plan.hcas)
    text += h.name + ":" + std::to_string(h.port) + " " + h.use + " " + h.why + "\n";
  for (const Note& n : plan.notes) text += n.object + ": " + n.text + "\n";
  for (const TaskPlan& t : plan.tasks) {
    text += std::to_string(t.local_id) + " " + join(t.gpus, ",") + " " + join(t.hcas, ",") + " " + t.why + "\n";
    text += (t.cpus ? t.cpus->list() : "-") + " " + std::to_string(t.mem_node.value_or(-1)) + "\n";
    for (const EnvSetting& e : t.env) text += e.name + "=" + e.value + "\n";
    for (const Note& n : t.notes) text += n.object + ": " + n.text + "\n";
  }
  return text;
}

void check_hca_list(const Node& node, const Plan& plan, unsigned seed) {
  const std::string list = value_of(plan.env, "NCCL_IB_HCA");
  if (list == "(unset)") return;
  ASSERT_EQ(list.front(), '=') << seed;
  std::set<std::string> seen;
  std::set<std::string> layers;
  for (const std::string_view part : split(std::string_view(list).substr(1), ',')) {
    ASSERT_TRUE(seen.insert(std::string(part)).second) << seed << ": twice " << part;
    const std::size_t colon = part.find(':');
    const RdmaDevice* device = node.find_rdma(std::string(part.substr(0, colon)));
    ASSERT_NE(device, nullptr) << seed << ": " << part;
    ASSERT_NE(device->openable, std::optional(false)) << seed << ": " << part;
    bool active = false;
    for (const RdmaPort& port : device->ports) {
      if (std::to_string(port.number) != part.substr(colon + 1)) continue;
      active = port.active();
      layers.insert(port.link_layer);
    }
    ASSERT_TRUE(active) << seed << ": " << part << " is not ACTIVE";
  }
  ASSERT_EQ(layers.size(), 1u) << seed << ": mixed link layers in " << list;
  ASSERT_LE(seen.size(), 32u) << seed;
}

void check_interface(const Node& node, const Plan& plan, unsigned seed) {
  const std::string name = value_of(plan.env, "NCCL_SOCKET_IFNAME");
  if (name == "(unset)") return;
  const NetInterface* interface = node.find_net(name.substr(1));
  ASSERT_NE(interface, nullptr) << seed << ": " << name;
  ASSERT_TRUE(interface->up && interface->running && !interface->addresses.empty()) << seed << ": " << name;
  ASSERT_FALSE(interface->usb || interface->bond_member) << seed << ": " << name;
}

void check_tasks(const Node& node, const Step& step, const Plan& plan, unsigned seed) {
  for (std::size_t i = 0; i < plan.tasks.size(); ++i) {
    const TaskPlan& task = plan.tasks[i];
    for (const std::string& gpu : task.gpus) ASSERT_NE(node.find_gpu(gpu), nullptr) << seed;
    if (!task.cpus) continue;
    ASSERT_FALSE(task.cpus->empty()) << seed;
    ASSERT_FALSE(task.gpus.empty()) << seed << ": a pin without a GPU";
    const CpuSet allowed = step.tasks[i].mask.value_or(node.online_cpus);
    ASSERT_TRUE(task.cpus->is_subset_of(allowed)) << seed << ": outside the mask";
  }
}

TEST(RandomMachines, PlansNeverNameWhatIsNotThere) {
  const Policy policy = shipped_policy();
  int with_hcas = 0, with_pins = 0;
  for (unsigned seed = 1; seed <= kMachines; ++seed) {
    Dice dice(seed);
    const NodeBuilder machine = random_machine(dice);
    const Step step = random_step(dice, machine.node);
    const Plan plan = make_plan(machine.node, policy, step);
    check_hca_list(machine.node, plan, seed);
    check_interface(machine.node, plan, seed);
    check_tasks(machine.node, step, plan, seed);
    std::set<std::string> names;
    for (const EnvSetting& e : plan.env)
      ASSERT_TRUE(!e.value.empty() && names.insert(e.name).second) << seed << ": " << e.name;
    ASSERT_EQ(text_of(plan), text_of(make_plan(machine.node, policy, step))) << seed << ": not the same bytes twice";
    with_hcas += names.count("NCCL_IB_HCA") > 0 ? 1 : 0;
    for (const TaskPlan& task : plan.tasks) with_pins += task.cpus ? 1 : 0;
  }
  EXPECT_GT(with_hcas, 1000);  // the machines are not all barren
  EXPECT_GT(with_pins, 1000);
}

// Which GPUs, HCAs and interfaces, by what cannot be renamed.
std::string essence_of(const Node& node, const Plan& plan) {
  std::multiset<std::string> lines;
  for (const HcaDecision& hca : plan.hcas) {
    const RdmaDevice* device = node.find_rdma(hca.name);
    lines.insert(device->node_guid + " " + std::to_string(hca.port) + " " + hca.use + " " + hca.rule);
  }
  std::string text = join({lines.begin(), lines.end()}, "\n") + "\n" + plan.platform + "\n";
  for (const char* name : {"NCCL_IB_GID_INDEX", "NCCL_IB_ADDR_FAMILY", "NCCL_IB_ADDR_RANGE", "NCCL_NET_PLUGIN"})
    text += value_of(plan.env, name) + "\n";
  const NetInterface* interface = node.find_net(value_of(plan.env, "NCCL_SOCKET_IFNAME").substr(1));
  text += (interface == nullptr ? "-" : std::to_string(interface->index)) + "\n";
  for (const TaskPlan& task : plan.tasks) {
    text += join(task.gpus, ",") + " " + (task.cpus ? task.cpus->list() : "-") + "\n";
    std::multiset<std::string> near;
    for (const std::string& name : task.hcas) near.insert(node.find_rdma(name)->node_guid);
    text += join({near.begin(), near.end()}, ",") + "\n";
  }
  return text;
}

// New names for every device and interface, and the lists in another order.
Node renamed(Node node, Dice& dice) {
  std::map<std::string, std::string> names{{"", ""}, {"lo", "lo"}};
  for (NetInterface& net : node.net)
    if (net.kind != NetKind::loopback) names[net.name] = "if" + std::to_string(dice.roll(1000000)) + "x" + net.name;
  for (NetInterface& net : node.net) {
    net.name = names[net.name];
    net.master = names[net.master];
    net.lower = names[net.lower];
  }
  for (Route& route : node.routes) route.netdev = names[route.netdev];
  for (RdmaDevice& device : node.rdma) {
    device.name = "any" + std::to_string(dice.roll(1000000)) + device.name;
    for (std::string& netdev : device.netdevs) netdev = names[netdev];
    for (RdmaPort& port : device.ports) {
      port.netdev = names[port.netdev];
      for (Gid& gid : port.gids) gid.netdev = names[gid.netdev];
    }
  }
  for (std::size_t i = node.rdma.size(); i > 1; --i)
    std::swap(node.rdma[i - 1], node.rdma[dice.roll(static_cast<int>(i))]);
  for (std::size_t i = node.net.size(); i > 1; --i)
    std::swap(node.net[i - 1], node.net[dice.roll(static_cast<int>(i))]);
  return node;
}

TEST(RandomMachines, NamesAndOrderDecideNothing) {
  const Policy policy = shipped_policy();
  for (unsigned seed = 1; seed <= kMachines; ++seed) {
    Dice dice(seed);
    NodeBuilder machine = random_machine(dice);
    for (std::size_t i = 0; i < machine.node.rdma.size(); ++i) machine.node.rdma[i].node_guid = "g" + std::to_string(i);
    const Step step = random_step(dice, machine.node);
    const Node other = renamed(machine.node, dice);
    ASSERT_EQ(essence_of(machine.node, make_plan(machine.node, policy, step)),
              essence_of(other, make_plan(other, policy, step)))
        << "seed " << seed;
  }
}

}  // namespace
}  // namespace nccltune
