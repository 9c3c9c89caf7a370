// SPDX-License-Identifier: Apache-2.0
#include "policy/profile.h"

#include <algorithm>
#include <cstdio>
#include <set>

#include "base/text.h"
#include "policy/facts.h"

namespace nccltune {
namespace {

bool dmi_holds(const Node& node, const std::map<std::string, std::string>& wanted) {
  return std::all_of(wanted.begin(), wanted.end(), [&](const auto& field) {
    const auto fact = node.dmi.find(field.first);
    return fact != node.dmi.end() && glob_match(field.second, fact->second);
  });
}

// "10de:2330"
std::string pci_id(const PciDevice& device) {
  char text[16];
  std::snprintf(text, sizeof text, "%04x:%04x", device.vendor.value_or(0) & 0xffff, device.device.value_or(0) & 0xffff);
  return text;
}

bool gpu_holds(const Node& node, const std::string& glob) {
  return std::any_of(node.gpus.begin(), node.gpus.end(), [&](const Gpu& gpu) {
    const PciDevice* pci = node.find_pci(gpu.bdf);
    return pci != nullptr && pci->vendor && pci->device && glob_match(lower(glob), pci_id(*pci));
  });
}

bool driver_holds(const Node& node, const std::string& driver) {
  return std::any_of(node.rdma.begin(), node.rdma.end(),
                     [&](const RdmaDevice& device) { return driver_of(node, device) == driver; });
}

bool link_layer_holds(const std::vector<ChosenPort>& hcas, const std::string& layer) {
  return !hcas.empty() &&
         std::all_of(hcas.begin(), hcas.end(), [&](const ChosenPort& hca) { return hca.port->link_layer == layer; });
}

bool holds(const Node& node, const ProfileCondition& when, const std::vector<ChosenPort>& hcas) {
  if (!dmi_holds(node, when.dmi)) return false;
  if (!when.gpu.empty() && !gpu_holds(node, when.gpu)) return false;
  if (when.gpu_count && static_cast<std::size_t>(*when.gpu_count) != node.gpus.size()) return false;
  if (!when.hca_driver.empty() && !driver_holds(node, when.hca_driver)) return false;
  if (!when.link_layer.empty() && !link_layer_holds(hcas, when.link_layer)) return false;
  return std::all_of(when.files.begin(), when.files.end(),
                     [&](const std::string& path) { return has_file(node, path); });
}

std::string sentence(const Profile& profile, const ProfileEnv& setting) {
  const std::string& why = !setting.why.empty() ? setting.why : profile.why;
  return (why.empty() ? "Profile " + profile.name : why) + " (" + setting.where + ").";
}

// The path of a setting that must be a readable file: itself, or the only one that its wildcards match; "" when there
// is none or the choice is not clear.
std::string readable_file(const Node& node, const std::string& value) {
  if (!is_glob(value)) return has_file(node, value) ? value : "";
  std::string found;
  for (const auto& [path, readable] : node.files) {
    if (!readable || path == value || !glob_match(value, path)) continue;
    if (!found.empty()) return "";
    found = path;
  }
  return found;
}

}  // namespace

const Profile* match_profile(const Node& node, const Policy& policy, const std::vector<ChosenPort>& hcas) {
  for (const Profile& profile : policy.profiles)
    if (holds(node, profile.when, hcas)) return &profile;
  return nullptr;
}

const Profile* find_profile(const Policy& policy, const std::string& name) {
  for (const Profile& profile : policy.profiles)
    if (profile.name == name) return &profile;
  return nullptr;
}

Profile with_extended(const Policy& policy, const Profile& profile, std::vector<Note>& notes) {
  Profile whole = profile;
  std::set<std::string> seen{profile.name};
  for (std::string next = profile.extends; !next.empty();) {
    const Profile* base = find_profile(policy, next);
    if (base == nullptr || !seen.insert(next).second) {
      notes.push_back({"profile " + profile.name, "extends '" + next + "', which " +
                                                      (base == nullptr ? "the policy does not have" : "extends it") +
                                                      " (" + profile.where + ")"});
      break;
    }
    for (const ProfileEnv& setting : base->env) {
      const bool own = std::any_of(whole.env.begin(), whole.env.end(),
                                   [&](const ProfileEnv& other) { return other.name == setting.name; });
      if (own) continue;
      whole.env.push_back(setting);
      if (setting.why.empty()) whole.env.back().why = base->why;
    }
    if (whole.net_plugin.empty()) whole.net_plugin = base->net_plugin;
    next = base->extends;
  }
  return whole;
}

void plan_profile_env(const Node& node, const Profile& profile, std::vector<EnvSetting>& env,
                      std::vector<Note>& notes) {
  for (const ProfileEnv& setting : profile.env) {
    // A missing topology file is one INFO line in NCCL's log, and GPUDirect RDMA is lost (nccl src/graph/xml.cc).
    const bool must_exist = setting.if_file || setting.name == "NCCL_TOPO_FILE";
    const std::string value = must_exist ? readable_file(node, setting.value) : setting.value;
    if (value.empty())
      notes.push_back({setting.name, "not set: " + setting.value + " cannot be read here (" + setting.where + ")"});
    else
      env.push_back({setting.name, value, "profile." + profile.name, sentence(profile, setting), setting.where});
  }
}

}  // namespace nccltune
