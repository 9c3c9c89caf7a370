// SPDX-License-Identifier: Apache-2.0
#include "policy/lint.h"

#include <algorithm>

#include "base/text.h"
#include "policy/facts.h"
#include "policy/gid.h"
#include "policy/hcas.h"
#include "policy/interface.h"
#include "policy/kept.h"
#include "policy/nccl_list.h"

namespace nccltune {
namespace {

struct Setting {
  std::string name;
  Existing existing;
};

std::string quoted(const std::string& text) { return "'" + text + "'"; }

class Linter {
 public:
  Linter(const Node& node, const Step& step, std::vector<Note>& notes) : node_(node), step_(step), notes_(notes) {}

  void hca_list();
  void interface_list();
  void gid_index();
  void topology_file();
  void conf_names();

 private:
  std::optional<Existing> value_of(const std::string& name) const { return existing_value(node_, step_.env, name); }
  void say(const std::string& name, const Existing& existing, const std::string& text);
  void list_syntax(const std::string& name, const Existing& existing, const NcclList& list);
  void hca_entry(const Existing& existing, const NcclList& list, const NcclList::Entry& entry);
  void hca_port(const Existing& existing, const NcclList::Entry& entry);
  void hca_selection(const Existing& existing, const NcclList& list);
  std::vector<ChosenPort> selected_ports(const NcclList& list) const;
  std::vector<ChosenPort> ports_in_use() const;

  const Node& node_;
  const Step& step_;
  std::vector<Note>& notes_;
};

void Linter::say(const std::string& name, const Existing& existing, const std::string& text) {
  const std::string source = existing.in_file ? " of " + existing.source : "";
  notes_.push_back({name, quoted(existing.value) + source + ": " + text});
}

// '^' and '=' stand once, at the start, in this order (NVIDIA/nccl#588, nccl-tests#150).
void Linter::list_syntax(const std::string& name, const Existing& existing, const NcclList& list) {
  bool inner = false;
  std::vector<std::string> names;
  for (const NcclList::Entry& entry : list.entries) {
    const std::size_t start = std::min(entry.name.find_first_not_of("^="), entry.name.size());
    inner = inner || start > 0;
    names.push_back(entry.name.substr(start) + (entry.port.empty() ? "" : ":" + entry.port));
    if (trim(entry.name) != entry.name)
      say(name, existing, "NCCL does not trim blanks, " + quoted(entry.name) + " is no name");
  }
  if (!inner) return;
  const bool exclude = list.exclude || existing.value.find('^') != std::string::npos;
  say(name, existing,
      std::string("'^' and '=' count only once, at the start and in this order; meant is ") +
          quoted(std::string(exclude ? "^" : "") + "=" + join(names, ",")));
}

// NCCL reads the number with atoi or strtol; 18446744073709551615 becomes -1, which is any port.
void Linter::hca_port(const Existing& existing, const NcclList::Entry& entry) {
  if (entry.port.empty()) return;
  const std::string number = entry.port.substr(0, entry.port.find(':'));
  const auto port = parse_int(number, 1, 254);
  if (!port) {
    say("NCCL_IB_HCA", existing, "port " + quoted(number) + " of " + entry.name + " is not a number from 1 to 254");
    return;
  }
  const RdmaDevice* device = node_.find_rdma(entry.name);
  if (device == nullptr) return;
  const bool there =
      std::any_of(device->ports.begin(), device->ports.end(), [&](const RdmaPort& p) { return p.number == *port; });
  if (!there) say("NCCL_IB_HCA", existing, entry.name + " has no port " + number);
}

void Linter::hca_entry(const Existing& existing, const NcclList& list, const NcclList::Entry& entry) {
  const std::size_t start = entry.name.find_first_not_of("^=");
  if (start != 0) return;  // list_syntax has told
  std::vector<std::string> matches;
  for (const RdmaDevice& device : node_.rdma)
    if (entry_matches(entry, device.name, list.exact)) matches.push_back(device.name);
  if (matches.empty()) {
    say("NCCL_IB_HCA", existing,
        "no device of this node is called " + quoted(entry.name) + (list.exact ? "" : " or begins so"));
  } else if (matches.size() > 1 && node_.find_rdma(entry.name) != nullptr) {
    matches.erase(std::remove(matches.begin(), matches.end(), entry.name), matches.end());
    say("NCCL_IB_HCA", existing,
        quoted(entry.name) + " is a prefix and also takes " + in_words(matches) + "; begin the list with '" +
            (list.exclude ? "^=" : "=") + "'");
  }
  hca_port(existing, entry);
}

std::vector<ChosenPort> Linter::selected_ports(const NcclList& list) const {
  std::vector<ChosenPort> ports;
  for (const RdmaDevice& device : node_.rdma)
    for (const RdmaPort& port : device.ports)
      if (port.active() && list.takes(device.name, port.number)) ports.push_back({&device, &port});
  return ports;
}

void Linter::hca_selection(const Existing& existing, const NcclList& list) {
  const std::vector<ChosenPort> ports = selected_ports(list);
  if (ports.empty() && !list.exclude) {
    say("NCCL_IB_HCA", existing, "selects no ACTIVE port of this node; NCCL will use sockets");
    return;
  }
  const auto of_layer = [&](const char* layer) {
    std::vector<std::string> labels;
    for (const ChosenPort& port : ports)
      if (port.port->link_layer == layer) labels.push_back(port.label());
    return labels;
  };
  const std::vector<std::string> ethernet = of_layer("Ethernet"), infiniband = of_layer("InfiniBand");
  if (!ethernet.empty() && !infiniband.empty())
    say("NCCL_IB_HCA", existing,
        "mixes InfiniBand with the Ethernet of " + in_words(ethernet) + ", which cannot connect");
}

void Linter::hca_list() {
  const auto existing = value_of("NCCL_IB_HCA");
  if (!existing || node_.rdma.empty()) return;
  if (existing->value.empty() || existing->value == "=")
    return say("NCCL_IB_HCA", *existing, "an empty list takes every device");
  const NcclList list = NcclList::parse(existing->value);
  if (list.entries.empty()) return say("NCCL_IB_HCA", *existing, "takes no device at all");
  list_syntax("NCCL_IB_HCA", *existing, list);
  if (list.entries.size() > kMaxHcas)
    say("NCCL_IB_HCA", *existing, "NCCL takes " + std::to_string(kMaxHcas) + " entries and ignores the rest");
  for (const NcclList::Entry& entry : list.entries) hca_entry(*existing, list, entry);
  hca_selection(*existing, list);
}

void Linter::interface_list() {
  const auto existing = value_of("NCCL_SOCKET_IFNAME");
  if (!existing || node_.net.empty() || existing->value.size() < 2) return;  // NCCL ignores a shorter value
  const NcclList list = NcclList::parse(existing->value);
  list_syntax("NCCL_SOCKET_IFNAME", *existing, list);
  std::vector<std::string> usable;
  for (const NetInterface& interface : node_.net)
    if (list.takes(interface.name, -1) && interface.up && interface.running && !interface.addresses.empty())
      usable.push_back(interface.name);
  if (usable.empty())
    return say("NCCL_SOCKET_IFNAME", *existing, "no interface that is up and has an address matches; NCCL will fail");
  if (list.exclude) {
    const NetInterface* lo = node_.find_net("lo");
    if (lo != nullptr && list.takes("lo", -1))
      say("NCCL_SOCKET_IFNAME", *existing,
          "an own list of exclusions replaces NCCL's, and lo is no longer excluded; add lo");
    return;
  }
  for (const NcclList::Entry& entry : list.entries) {
    if (list.exact || node_.find_net(entry.name) == nullptr) continue;
    std::vector<std::string> others;
    for (const NetInterface& interface : node_.net)
      if (interface.name != entry.name && entry_matches(entry, interface.name, false)) others.push_back(interface.name);
    if (!others.empty())
      say("NCCL_SOCKET_IFNAME", *existing,
          quoted(entry.name) + " is a prefix and also takes " + in_words(others) + "; begin the list with '='");
  }
}

std::vector<ChosenPort> Linter::ports_in_use() const {
  const auto hcas = value_of("NCCL_IB_HCA");
  return selected_ports(NcclList::parse(hcas ? hcas->value : ""));
}

void Linter::gid_index() {
  const auto existing = value_of("NCCL_IB_GID_INDEX");
  if (!existing) return;
  const std::string& value = existing->value;
  if (value.empty())
    return say("NCCL_IB_GID_INDEX", *existing, "empty reads as 0, the link-local row; unset it instead");
  const auto index = parse_int(value, -1, 65535);
  if (!index) return say("NCCL_IB_GID_INDEX", *existing, "not a number");
  if (*index < 0) return;
  std::map<std::string, std::vector<std::string>> faults;
  for (const ChosenPort& port : ports_in_use()) {
    if (port.port->link_layer != "Ethernet" || port.port->gids.empty()) continue;
    const auto row = std::find_if(port.port->gids.begin(), port.port->gids.end(),
                                  [&](const Gid& gid) { return gid.index == *index; });
    const std::string fault = row == port.port->gids.end() ? "is unset" : fault_of_gid(node_, *row);
    if (fault.empty()) continue;
    const Gid* better = best_gid(node_, *port.port, GidFamily::ipv4);
    faults[fault].push_back(port.label() +
                            (better == nullptr ? "" : " (" + std::to_string(better->index) + " is right)"));
  }
  for (const auto& [fault, ports] : faults)
    say("NCCL_IB_GID_INDEX", *existing, "row " + value + " " + fault + " on " + in_words(ports));
}

void Linter::topology_file() {
  const auto existing = value_of("NCCL_TOPO_FILE");
  if (!existing || existing->value.empty()) return;
  const auto fact = node_.files.find(existing->value);
  if (fact != node_.files.end() && !fact->second)
    say("NCCL_TOPO_FILE", *existing, "cannot be read here; NCCL goes on without it and may lose GPUDirect RDMA");
}

// NCCL trims nothing: a blank before the name makes another name (nccl src/misc/param.cc).
void Linter::conf_names() {
  for (const ConfLine& line : node_.nccl_conf) {
    const std::string where = line.file + ":" + std::to_string(line.line);
    if (trim(line.name) != line.name)
      notes_.push_back({where, "the name " + quoted(line.name) + " holds a blank, so NCCL does not know it"});
    else if (trim(line.value) != line.value)
      notes_.push_back(
          {where, "the value " + quoted(line.value) + " of " + line.name + " holds a blank, and NCCL keeps it"});
  }
}

}  // namespace

void lint_settings(const Node& node, const Step& step, std::vector<Note>& notes) {
  Linter linter(node, step, notes);
  linter.hca_list();
  linter.interface_list();
  linter.gid_index();
  linter.topology_file();
  linter.conf_names();
}

}  // namespace nccltune
