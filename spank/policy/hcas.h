// SPDX-License-Identifier: Apache-2.0
// Which ports of which RDMA devices carry the compute fabric: a table of rules, asked in order. A port that a rule
// drops stays dropped, with the rule's id and its reason.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "node/distance.h"
#include "node/node.h"
#include "policy/gid.h"
#include "policy/plan.h"
#include "policy/policy.h"
#include "policy/step.h"

namespace nccltune {

class HcaSelection {
 public:
  struct Port {
    ChosenPort chosen;
    std::vector<Distance> gpus;  // to each of node.gpus
    std::string use;             // "" while it is in
    std::string rule, why;

    const RdmaDevice& device() const { return *chosen.device; }
    const RdmaPort& port() const { return *chosen.port; }
    bool in() const { return use.empty(); }
    bool ethernet() const { return port().link_layer == "Ethernet"; }
    Distance nearest() const;  // to any GPU; unknown without GPUs
  };

  HcaSelection(const Node& node, const Policy& policy, const Step& step);

  const Node& node;
  const Policy& policy;
  const Step& step;
  std::vector<Port> ports;  // in PCI order

  std::vector<Port*> in();  // those that no rule has dropped yet
  void drop(Port& port, std::string use, std::string why);
  const PciDevice* pci(const Port& port) const { return node.find_pci(port.device().bdf); }

  // Same vendor, device, link layer and rate: bought for the same purpose.
  bool same_class(const Port& a, const Port& b) const;
  bool same_model(const Port& a, const Port& b) const;

  std::string current_rule;
};

struct HcaRule {
  const char* id;  // stable: shown to people and named by tests
  void (*apply)(HcaSelection&);
};

// In the order of asking.
const std::vector<HcaRule>& hca_rules();

// Every port of the node with its use; the rules named in `without` are not asked (for tests that show each one's
// worth).
std::vector<HcaDecision> choose_hcas(const Node& node, const Policy& policy, const Step& step,
                                     const std::set<std::string>& without = {});

// The ports that are used, in the order of the decisions.
std::vector<ChosenPort> used_ports(const Node& node, const std::vector<HcaDecision>& decisions);

// NCCL takes at most 32 entries (nccl src/transport/net_ib/init.cc: MAX_IB_DEVS).
constexpr std::size_t kMaxHcas = 32;

// The rules, each with its source. hca_port_rules.cc: what a port tells of itself.
void drop_inactive(HcaSelection&);
void drop_other_link_layers(HcaSelection&);
void drop_plugin_fabrics(HcaSelection&);
void drop_iwarp(HcaSelection&);
void drop_software(HcaSelection&);
void drop_excluded(HcaSelection&);
void drop_unopenable(HcaSelection&);
void drop_roce_without_address(HcaSelection&);
void drop_ib_without_lid(HcaSelection&);
void drop_outside_fabric_subnet(HcaSelection&);
// hca_fabric_rules.cc: what it is among the others.
void drop_virtual_beside_physical(HcaSelection&);
void drop_management(HcaSelection&);
void drop_other_fabric_layer(HcaSelection&);
void drop_distant(HcaSelection&);
void drop_other_model(HcaSelection&);
void drop_minor_groups(HcaSelection&);
void drop_other_rates(HcaSelection&);
void drop_other_family(HcaSelection&);

}  // namespace nccltune
