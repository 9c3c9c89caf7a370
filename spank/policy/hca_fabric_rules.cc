// SPDX-License-Identifier: Apache-2.0
// Rules that look at a port among the others. None of them drops the last port.
#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "policy/facts.h"
#include "policy/hcas.h"

namespace nccltune {
namespace {

using Port = HcaSelection::Port;
using Ports = std::vector<Port*>;

double rate_of(const Port& port) { return port.port().rate_gbps.value_or(0); }

bool is_close_to_a_gpu(const Port& port) { return is_close(port.nearest()); }

bool is_covered(std::size_t gpu, const Ports& ports) {
  return std::any_of(ports.begin(), ports.end(), [&](const Port* p) { return is_close(p->gpus[gpu]); });
}

std::size_t covered_gpus(const HcaSelection& selection, const Ports& ports) {
  std::size_t covered = 0;
  for (std::size_t gpu = 0; gpu < selection.node.gpus.size(); ++gpu) covered += is_covered(gpu, ports) ? 1 : 0;
  return covered;
}

Distance nearest_of(std::size_t gpu, const Ports& ports) {
  Distance best = Distance::unknown;
  for (const Port* port : ports) best = std::min(best, port->gpus[gpu]);
  return best;
}

// ---- SR-IOV

// mlx5 virtual functions by device id, for trees that lack the physfn link (linux drivers/net/ethernet/mellanox/mlx5/
// core/main.c: mlx5_core_pci_table, the rows marked MLX5_PCI_DEV_IS_VF).
bool is_mlx5_virtual(const PciDevice& pci) {
  if (pci.vendor != 0x15b3u || !pci.device) return false;
  static constexpr uint32_t kVirtual[] = {0x1012, 0x1014, 0x1016, 0x1018, 0x101a, 0x101c, 0x101e};
  return std::find(std::begin(kVirtual), std::end(kVirtual), *pci.device) != std::end(kVirtual);
}

bool same_bus(const PciDevice& a, const PciDevice& b) {
  return a.path.size() > 2 && a.path.size() == b.path.size() &&
         std::equal(a.path.begin(), a.path.end() - 1, b.path.begin());
}

// The physical function of a virtual one is among the ports that are still in.
bool physical_is_in(HcaSelection& selection, const Port& port) {
  const PciDevice* pci = selection.pci(port);
  if (pci == nullptr) return false;
  for (const Port* other : selection.in()) {
    const PciDevice* physical = selection.pci(*other);
    if (physical == nullptr || physical == pci) continue;
    if (!pci->physfn.empty() && other->device().bdf == pci->physfn) return true;
    if (pci->physfn.empty() && is_mlx5_virtual(*pci) && physical->physfn.empty() && !is_mlx5_virtual(*physical) &&
        physical->vendor == pci->vendor && same_bus(*pci, *physical))
      return true;
  }
  return false;
}

}  // namespace

// VFs share the wire of their PF: no bandwidth is gained, and they are made for containers (NVIDIA/nccl#687, #224).
// Where only VFs are in sight (a guest: IBM VPC, Azure) they are the cards.
void drop_virtual_beside_physical(HcaSelection& selection) {
  for (Port* port : selection.in())
    if (physical_is_in(selection, *port))
      selection.drop(*port, "virtual", "A virtual function of a card whose physical function is here too.");
}

// ---- management

namespace {

// "" when the port's interfaces carry neither the default route nor the node's own address.
std::string node_traffic(const HcaSelection& selection, const Port& port) {
  const std::set<std::string> names = interfaces_of(selection.node, port.device(), port.port());
  const std::string default_route = default_route_interface(selection.node);
  if (!default_route.empty() && names.count(default_route) > 0) return "the default route leaves by " + default_route;
  const std::string own = interface_with_address(selection.node, selection.step.node_address);
  if (!own.empty() && names.count(own) > 0) return "the node's own address is on " + own;
  return "";
}

// A rail that happens to hold the default route as well: same class as other rails, and without it a GPU would have no
// HCA beside it, or, where nobody is close, there would be one too few for the GPUs.
bool is_needed_rail(const HcaSelection& selection, const Port& port, const Ports& others) {
  const auto sisters = static_cast<std::size_t>(
      std::count_if(others.begin(), others.end(), [&](const Port* o) { return selection.same_class(*o, port); }));
  if (sisters == 0) return false;
  const bool nobody_close = !is_close_to_a_gpu(port) && std::none_of(others.begin(), others.end(), [](const Port* o) {
    return is_close_to_a_gpu(*o);
  });
  // From four on, an equal number of cards and GPUs is no chance.
  if (nobody_close && sisters + 1 >= 4 && sisters + 1 == selection.node.gpus.size()) return true;
  for (std::size_t gpu = 0; gpu < port.gpus.size(); ++gpu)
    if (is_close(port.gpus[gpu]) && !is_covered(gpu, others)) return true;
  return false;
}

}  // namespace

// Ethernet ports that carry the node's own traffic are not the fabric (NVSentinel: NIC monitor; Baidu's and OCI's
// pages), unless there is nothing else. IPoIB does not make an InfiniBand port a management one: many sites let Slurm
// know their nodes by it.
void drop_management(HcaSelection& selection) {
  Ports management, others;
  std::map<const Port*, std::string> reasons;
  for (Port* port : selection.in()) {
    const std::string reason = port->ethernet() ? node_traffic(selection, *port) : "";
    (reason.empty() ? others : management).push_back(port);
    reasons[port] = reason;
  }
  if (others.empty()) return;
  for (Port* port : management)
    if (!is_needed_rail(selection, *port, others))
      selection.drop(*port, "management", "A management card: " + reasons[port] + ".");
}

// ---- InfiniBand and Ethernet together

namespace {

double fastest(const Ports& ports) {
  double rate = 0;
  for (const Port* port : ports) rate = std::max(rate, rate_of(*port));
  return rate;
}

// How much a link layer looks like the fabric: whether it is beside half of the GPUs with ports that are no slower than
// half of the other's, then what its ports carry together. One slow card on a GPU's switch, as PCIe servers have, is no
// fabric. InfiniBand counts double: an active port has a subnet manager and a switch behind it, which nobody builds for
// management, while Ethernet is on every node.
std::pair<bool, double> weigh(const HcaSelection& selection, const Ports& ports, const Ports& others, double weight) {
  double total = 0;
  for (const Port* port : ports) total += std::max(rate_of(*port), 1.0) * weight;
  const std::size_t covered = covered_gpus(selection, ports);
  const bool beside_gpus = covered > 0 && 2 * covered >= selection.node.gpus.size();
  return {beside_gpus && 2 * fastest(ports) >= fastest(others), total};
}

}  // namespace

// NCCL connects every pair of NICs; InfiniBand with Ethernet fails or hangs (NVIDIA/nccl#302, #1412, DeepEP#223).
void drop_other_fabric_layer(HcaSelection& selection) {
  Ports infiniband, ethernet;
  for (Port* port : selection.in()) (port->ethernet() ? ethernet : infiniband).push_back(port);
  if (infiniband.empty() || ethernet.empty()) return;
  const bool is_infiniband = weigh(selection, infiniband, ethernet, 2) >= weigh(selection, ethernet, infiniband, 1);
  for (Port* port : is_infiniband ? ethernet : infiniband)
    selection.drop(*port, "other-fabric",
                   std::string("The fabric of this node is ") + (is_infiniband ? "InfiniBand" : "Ethernet") +
                       "; NCCL cannot mix it with " + port->port().link_layer + ".");
}

// ---- closeness to the GPUs

namespace {

// A sister of the rails in a slot of its own that is nearer to a GPU than any of those that share a switch with
// another. Where it is only as near as they are, it is one more card of the kind, for storage (NVIDIA/nccl#1591).
bool serves_uncovered_gpu(const HcaSelection& selection, const Port& port, const Ports& close, const Ports& all) {
  const bool has_sister =
      std::any_of(close.begin(), close.end(), [&](const Port* c) { return selection.same_class(*c, port); });
  if (!has_sister) return false;
  for (std::size_t gpu = 0; gpu < port.gpus.size(); ++gpu)
    if (!is_covered(gpu, close) && port.gpus[gpu] == nearest_of(gpu, all) && port.gpus[gpu] < nearest_of(gpu, close))
      return true;
  return false;
}

}  // namespace

// Compute HCAs share a PCIe switch with a GPU; those that do not, on a node where others do, are for storage or
// management (NVIDIA/nccl#1363; NVSentinel; DGX A100's mlx5_4, 5, 10, 11). All GPUs of the node count, not the job's:
// every step and rank must have the same list (NVIDIA/nccl#1478).
void drop_distant(HcaSelection& selection) {
  const Ports all = selection.in();
  Ports close;
  for (Port* port : all)
    if (is_close_to_a_gpu(*port)) close.push_back(port);
  if (close.empty()) return;
  const bool all_covered = covered_gpus(selection, close) == selection.node.gpus.size();
  for (Port* port : all) {
    if (is_close_to_a_gpu(*port)) continue;
    if (!all_covered && serves_uncovered_gpu(selection, *port, close, all)) continue;
    selection.drop(*port, "storage",
                   std::string("Only ") + name(port->nearest()) +
                       " to the nearest GPU while other HCAs share a PCIe switch with one: for storage or management.");
  }
}

namespace {

// The cards of one model, and the GPUs to which one of them is the nearest there is, sharing a switch.
struct Model {
  Ports ports;
  std::set<std::size_t> gpus;
  double total = 0;

  std::pair<std::size_t, double> weight() const { return {gpus.size(), total}; }
};

std::vector<Model> models_of(const HcaSelection& selection, const Ports& all) {
  std::vector<Model> models;
  for (Port* port : all) {
    auto model = std::find_if(models.begin(), models.end(),
                              [&](const Model& m) { return selection.same_model(*m.ports.front(), *port); });
    if (model == models.end()) model = models.insert(models.end(), Model{});
    model->ports.push_back(port);
    model->total += std::max(rate_of(*port), 1.0);
    for (std::size_t gpu = 0; gpu < port->gpus.size(); ++gpu)
      if (is_close(port->gpus[gpu]) && port->gpus[gpu] == nearest_of(gpu, all)) model->gpus.insert(gpu);
  }
  return models;
}

// Each GPU that this model is nearest to has a card of a weightier one as near.
bool is_superfluous(const Model& model, const std::vector<Model>& models) {
  const auto is_served = [&](std::size_t gpu) {
    return std::any_of(models.begin(), models.end(), [&](const Model& other) {
      return other.weight() > model.weight() && other.gpus.count(gpu) > 0;
    });
  };
  return std::all_of(model.gpus.begin(), model.gpus.end(), is_served);
}

}  // namespace

// A storage card or a DPU on the switches of the rails: a model that no GPU needs, since the rails are as near to it.
void drop_other_model(HcaSelection& selection) {
  const Ports all = selection.in();
  const std::vector<Model> models = models_of(selection, all);
  if (std::all_of(models.begin(), models.end(), [](const Model& m) { return m.gpus.empty(); })) return;
  for (const Model& model : models) {
    if (!is_superfluous(model, models)) continue;
    for (Port* port : model.ports)
      selection.drop(*port, "storage",
                     model.gpus.empty() ? "A card of another model that is the nearest to no GPU."
                                        : "A card of another model; each of its GPUs has one of the fabric's as near.");
  }
}

// ---- nobody is close: guests without a tree, cards in slots of their own

namespace {

// A BlueField among ConnectX cards is for storage and management first (15b3:a2d2, a2d6, a2dc: pci.ids).
bool is_dpu(const HcaSelection& selection, const Port& port) {
  const PciDevice* pci = selection.pci(port);
  return pci != nullptr && pci->vendor == 0x15b3u && pci->device && (*pci->device >> 4) == 0xa2d;
}

using Weight = std::tuple<double, double, bool, int>;

// What a group of equal cards carries together, then the rate of one, then its kind, then how near its best card is.
Weight weight_of(const HcaSelection& selection, const Ports& group) {
  double total = 0;
  Distance nearest = Distance::unknown;
  for (const Port* port : group) {
    total += std::max(rate_of(*port), 1.0);
    nearest = std::min(nearest, port->nearest());
  }
  return {total, rate_of(*group.front()), !is_dpu(selection, *group.front()), -static_cast<int>(nearest)};
}

}  // namespace

// Without a tree to go by, the cards that were bought together and carry the most are the fabric (NVSentinel does the
// same on GB200, where every GPU to NIC pair is SYS). Groups that weigh the same all stay.
void drop_minor_groups(HcaSelection& selection) {
  const Ports all = selection.in();
  if (std::any_of(all.begin(), all.end(), [](const Port* p) { return is_close_to_a_gpu(*p); })) return;
  std::vector<Ports> groups;
  for (Port* port : all) {
    const auto group = std::find_if(groups.begin(), groups.end(),
                                    [&](const Ports& g) { return selection.same_class(*g.front(), *port); });
    if (group == groups.end())
      groups.push_back({port});
    else
      group->push_back(port);
  }
  if (groups.size() < 2) return;
  Weight best = weight_of(selection, groups.front());
  for (const Ports& group : groups) best = std::max(best, weight_of(selection, group));
  for (const Ports& group : groups) {
    if (weight_of(selection, group) == best) continue;
    for (Port* port : group)
      selection.drop(*port, "storage",
                     "Not of the cards that together carry the most here: for storage or management.");
  }
}

// ---- what the survivors must have in common

// NCCL spreads a channel over all NICs and the slowest sets the pace. The fabric's rate is the one that carries most in
// total, so that neither one fast storage card nor one badly trained link decides.
void drop_other_rates(HcaSelection& selection) {
  std::map<double, double> totals;
  for (const Port* port : selection.in())
    if (port->port().rate_gbps) totals[*port->port().rate_gbps] += *port->port().rate_gbps;
  if (totals.size() < 2) return;
  double fabric = 0, most = 0;
  for (const auto& [rate, total] : totals)
    if (total >= most) fabric = rate, most = total;  // ascending: a tie goes to the higher rate
  const auto gbps = [](double rate) { return std::to_string(static_cast<long>(rate)) + " Gb/s"; };
  for (Port* port : selection.in())
    if (port->port().rate_gbps && *port->port().rate_gbps != fabric)
      selection.drop(*port, "other-rate",
                     "Runs at " + gbps(*port->port().rate_gbps) + " while the fabric runs at " + gbps(fabric) + ".");
}

// One NCCL_IB_ADDR_FAMILY serves all ports; one of the other family would fall back to row 0, which is link-local
// (uccl-project/uccl#803).
void drop_other_family(HcaSelection& selection) {
  std::vector<ChosenPort> roce;
  for (const Port* port : selection.in())
    if (port->ethernet()) roce.push_back(port->chosen);
  const auto family = common_family(selection.node, roce, std::nullopt);
  if (!family) return;
  for (Port* port : selection.in())
    if (port->ethernet() && best_gid(selection.node, port->port(), *family) == nullptr)
      selection.drop(*port, "other-fabric",
                     std::string("Has no ") + (*family == GidFamily::ipv4 ? "IPv4" : "IPv6") +
                         " address, which the other ports of the fabric have.");
}

}  // namespace nccltune
