// SPDX-License-Identifier: Apache-2.0
#include "policy/hcas.h"

#include <algorithm>

#include "policy/facts.h"

namespace nccltune {
namespace {

bool comes_before(const HcaSelection::Port& a, const HcaSelection::Port& b) {
  if (a.device().bdf != b.device().bdf) return bdf_less(a.device().bdf, b.device().bdf);
  if (a.device().name != b.device().name) return a.device().name < b.device().name;
  return a.port().number < b.port().number;
}

std::string why_used(const HcaSelection::Port& port) {
  const std::string near = name(port.nearest());
  const std::string place = port.nearest() == Distance::unknown ? "" : ", " + near + " to the nearest GPU";
  return "ACTIVE " + port.port().link_layer + " port of the compute fabric" + place + ".";
}

}  // namespace

Distance HcaSelection::Port::nearest() const {
  return gpus.empty() ? Distance::unknown : *std::min_element(gpus.begin(), gpus.end());
}

HcaSelection::HcaSelection(const Node& n, const Policy& p, const Step& s) : node(n), policy(p), step(s) {
  for (const RdmaDevice& device : node.rdma) {
    std::vector<Distance> gpus;
    gpus.reserve(node.gpus.size());
    for (const Gpu& gpu : node.gpus)
      gpus.push_back(device.bdf.empty() ? Distance::unknown : distance(node, gpu.bdf, device.bdf));
    for (const RdmaPort& port : device.ports) ports.push_back({{&device, &port}, gpus, "", "", ""});
  }
  std::stable_sort(ports.begin(), ports.end(), comes_before);
}

std::vector<HcaSelection::Port*> HcaSelection::in() {
  std::vector<Port*> left;
  for (Port& port : ports)
    if (port.in()) left.push_back(&port);
  return left;
}

// Not const: the port is one of `ports`.
// NOLINTNEXTLINE(readability-make-member-function-const)
void HcaSelection::drop(Port& port, std::string use, std::string why) {
  if (!port.in()) return;
  port.use = std::move(use);
  port.rule = current_rule;
  port.why = std::move(why);
}

bool HcaSelection::same_model(const Port& a, const Port& b) const {
  const PciDevice* x = pci(a);
  const PciDevice* y = pci(b);
  return x != nullptr && y != nullptr && x->vendor == y->vendor && x->device == y->device;
}

bool HcaSelection::same_class(const Port& a, const Port& b) const {
  return a.port().link_layer == b.port().link_layer && a.port().rate_gbps == b.port().rate_gbps && same_model(a, b);
}

const std::vector<HcaRule>& hca_rules() {
  static const std::vector<HcaRule> rules = {
      {"hca.state", drop_inactive},
      {"hca.link-layer", drop_other_link_layers},
      {"hca.plugin-fabric", drop_plugin_fabrics},
      {"hca.iwarp", drop_iwarp},
      {"hca.software", drop_software},
      {"hca.excluded", drop_excluded},
      {"hca.openable", drop_unopenable},
      {"hca.roce-address", drop_roce_without_address},
      {"hca.lid", drop_ib_without_lid},
      {"hca.fabric-subnet", drop_outside_fabric_subnet},
      {"hca.virtual", drop_virtual_beside_physical},
      {"hca.management", drop_management},
      {"hca.fabric-layer", drop_other_fabric_layer},
      {"hca.distant", drop_distant},
      {"hca.model", drop_other_model},
      {"hca.group", drop_minor_groups},
      {"hca.rate", drop_other_rates},
      {"hca.family", drop_other_family},
  };
  return rules;
}

std::vector<HcaDecision> choose_hcas(const Node& node, const Policy& policy, const Step& step,
                                     const std::set<std::string>& without) {
  HcaSelection selection(node, policy, step);
  for (const HcaRule& rule : hca_rules()) {
    if (without.count(rule.id) > 0) continue;
    selection.current_rule = rule.id;
    rule.apply(selection);
  }
  std::vector<HcaDecision> decisions;
  for (const HcaSelection::Port& port : selection.ports) {
    if (port.in())
      decisions.push_back({port.device().name, port.port().number, "compute", "hca.compute", why_used(port)});
    else
      decisions.push_back({port.device().name, port.port().number, port.use, port.rule, port.why});
  }
  return decisions;
}

std::vector<ChosenPort> used_ports(const Node& node, const std::vector<HcaDecision>& decisions) {
  std::vector<ChosenPort> ports;
  for (const HcaDecision& decision : decisions) {
    const RdmaDevice* device = decision.used() ? node.find_rdma(decision.name) : nullptr;
    if (device == nullptr) continue;
    for (const RdmaPort& port : device->ports)
      if (port.number == decision.port) ports.push_back({device, &port});
  }
  return ports;
}

}  // namespace nccltune
