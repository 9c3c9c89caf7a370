// SPDX-License-Identifier: Apache-2.0
#include "cli/tune_profile.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/table.h"

namespace nccltune::cli {
namespace {

// A double-quoted YAML scalar; what is no ASCII stays when it is UTF-8 of a command line, control bytes are escaped.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      out += std::string("\\") + c;
    else if (byte < 0x20 || byte == 0x7f)
      out += fmt::format("\\x{:02x}", byte);
    else
      out += c;
  }
  return out + "\"";
}

// A glob that means this text alone.
std::string literal(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '*' || c == '?' || c == '[' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

}  // namespace

std::vector<std::string> gpu_ids(const Node& node) {
  std::vector<std::string> ids;
  for (const Gpu& gpu : node.gpus) {
    const PciDevice* pci = node.find_pci(gpu.bdf);
    if (pci != nullptr && pci->vendor && pci->device)
      ids.push_back(fmt::format("{:04x}:{:04x}", *pci->vendor, *pci->device));
  }
  return ids;
}

std::string link_layer_of(const Node& node, const Plan& plan) {
  std::string layer;
  for (const HcaDecision& hca : plan.hcas) {
    if (!hca.used()) continue;
    const RdmaDevice* device = node.find_rdma(hca.name);
    if (device == nullptr) continue;
    for (const RdmaPort& port : device->ports) {
      if (port.number != hca.port) continue;
      if (!layer.empty() && layer != port.link_layer) return "";
      layer = port.link_layer;
    }
  }
  return layer;
}

ProfileCondition condition_of(const Node& node, const Plan& plan) {
  ProfileCondition when;
  const auto product = node.dmi.find("product_name");
  if (product != node.dmi.end() && !product->second.empty()) when.dmi["product_name"] = literal(product->second);
  const std::vector<std::string> ids = gpu_ids(node);
  if (!ids.empty() && std::all_of(ids.begin(), ids.end(), [&](const std::string& id) { return id == ids.front(); }))
    when.gpu = ids.front();
  when.gpu_count = static_cast<int>(node.gpus.size());
  when.link_layer = link_layer_of(node, plan);
  return when;
}

std::string tuned_name(const std::string& base, const std::string& date, const Policy& policy) {
  const std::string stem = base.substr(0, base.find("-tuned-")) + "-tuned-" + date;
  std::string name = stem;
  const auto taken = [&] {
    return std::any_of(policy.profiles.begin(), policy.profiles.end(),
                       [&](const Profile& profile) { return profile.name == name; });
  };
  for (int i = 2; taken(); ++i) name = stem + "-" + std::to_string(i);
  return name;
}

std::string profile_text(const Profile& profile, const std::vector<std::string>& comments) {
  std::string out;
  for (const std::string& comment : comments)
    for (const std::string& line : comment.size() <= 116 ? std::vector{comment} : wrap(comment, 116))
      out += "# " + line + "\n";
  out += "profiles:\n  - name: " + quoted(profile.name) + "\n    when:\n";
  if (!profile.when.dmi.empty()) {
    out += "      dmi:\n";
    for (const auto& [field, glob] : profile.when.dmi) out += "        " + field + ": " + quoted(glob) + "\n";
  }
  if (!profile.when.gpu.empty()) out += "      gpu: " + quoted(profile.when.gpu) + "\n";
  if (profile.when.gpu_count) out += fmt::format("      gpu_count: {}\n", *profile.when.gpu_count);
  if (!profile.when.link_layer.empty()) out += "      link_layer: " + profile.when.link_layer + "\n";
  if (!profile.extends.empty()) out += "    extends: " + quoted(profile.extends) + "\n";
  out += "    why: " + quoted(profile.why) + "\n    env:\n";
  for (const ProfileEnv& setting : profile.env) out += "      " + setting.name + ": " + quoted(setting.value) + "\n";
  return out;
}

}  // namespace nccltune::cli
