// SPDX-License-Identifier: Apache-2.0
// From the text of a policy to a Policy. Reading the file is load_policy's (policy_load.cc).
#include <functional>

#include "base/text.h"
#include "policy/address.h"
#include "policy/policy.h"
#include "policy/yaml_tree.h"

namespace nccltune {
namespace {

using MaybeError = std::optional<Error>;

// One map of the file: which keys it may have, and what is done with each.
struct Key {
  std::string name;
  std::function<MaybeError(const YamlNode&)> take;
};

class PolicyReader {
 public:
  explicit PolicyReader(std::string file) : file_(std::move(file)) {}

  MaybeError read(const YamlNode& root, Policy& policy);

 private:
  Error error(const YamlNode& at, std::string what, std::string remedy = "") const {
    return yaml_error(file_, at, std::move(what), std::move(remedy));
  }
  std::string where(const YamlNode& at) const { return file_ + ":" + std::to_string(at.line); }

  MaybeError read_map(const YamlNode& node, const std::string& what, const std::vector<Key>& keys) const;
  MaybeError read_list(const YamlNode& node, const std::string& what,
                       const std::function<MaybeError(const YamlNode&)>& take) const;
  MaybeError read_text(const YamlNode& node, const std::string& what, std::string& to) const;
  MaybeError read_bool(const YamlNode& node, const std::string& what, bool& to) const;
  MaybeError read_mode(const YamlNode& node, Mode& to) const;
  MaybeError read_subnet(const YamlNode& node, std::optional<Sourced>& to) const;
  MaybeError read_sourced(const YamlNode& node, const std::string& what, Sourced& to) const;
  MaybeError read_ignored(const YamlNode& node, IgnoredCheck& to) const;
  MaybeError read_profile(const YamlNode& node, Profile& profile) const;
  MaybeError read_condition(const YamlNode& node, ProfileCondition& when) const;
  MaybeError read_dmi(const YamlNode& node, std::map<std::string, std::string>& dmi) const;
  MaybeError read_gpu_count(const YamlNode& node, std::optional<int>& to) const;
  MaybeError read_link_layer(const YamlNode& node, std::string& to) const;
  MaybeError read_env(const YamlNode& node, std::vector<ProfileEnv>& env) const;
  MaybeError read_setting(const YamlNode& name, const YamlNode& value, ProfileEnv& setting) const;

  std::string file_;
};

MaybeError PolicyReader::read_map(const YamlNode& node, const std::string& what, const std::vector<Key>& keys) const {
  if (node.kind != YamlNode::Kind::map) return error(node, what + " must be a map of keys and values");
  for (const auto& [name, value] : node.entries) {
    const Key* known = nullptr;
    for (const Key& key : keys)
      if (key.name == name.scalar) known = &key;
    if (known == nullptr) {
      std::vector<std::string> names;
      names.reserve(keys.size());
      for (const Key& key : keys) names.push_back(key.name);
      const std::string near = nearest_word(name.scalar, names);
      return error(name, "unknown key '" + name.scalar + "'",
                   near.empty() ? "known are " + join(names, ", ") : "did you mean '" + near + "'?");
    }
    if (auto e = known->take(value)) return e;
  }
  return std::nullopt;
}

MaybeError PolicyReader::read_list(const YamlNode& node, const std::string& what,
                                   const std::function<MaybeError(const YamlNode&)>& take) const {
  if (node.kind == YamlNode::Kind::null) return std::nullopt;
  if (node.kind != YamlNode::Kind::list) return error(node, what + " must be a list");
  for (const YamlNode& item : node.items)
    if (auto e = take(item)) return e;
  return std::nullopt;
}

MaybeError PolicyReader::read_text(const YamlNode& node, const std::string& what, std::string& to) const {
  if (node.kind != YamlNode::Kind::scalar) return error(node, what + " must be one word or text");
  if (node.scalar.empty()) return error(node, what + " is empty");
  if (node.scalar.find('\0') != std::string::npos) return error(node, what + " holds a NUL character");
  to = node.scalar;
  return std::nullopt;
}

MaybeError PolicyReader::read_bool(const YamlNode& node, const std::string& what, bool& to) const {
  std::string word;
  if (auto e = read_text(node, what, word)) return e;
  word = lower(word);
  if (word != "true" && word != "yes" && word != "on" && word != "false" && word != "no" && word != "off")
    return error(node, what + " must be true or false, not '" + node.scalar + "'");
  to = word == "true" || word == "yes" || word == "on";
  return std::nullopt;
}

MaybeError PolicyReader::read_mode(const YamlNode& node, Mode& to) const {
  std::string word;
  if (auto e = read_text(node, "mode", word)) return e;
  if (word == "on") {
    to = Mode::on;
  } else if (word == "off") {
    to = Mode::off;
  } else if (word == "show") {
    to = Mode::show;
  } else {
    const std::string near = nearest_word(word, {"on", "off", "show"});
    return error(node, "mode is '" + word + "'",
                 near.empty() ? "it must be on, off or show" : "did you mean '" + near + "'?");
  }
  return std::nullopt;
}

MaybeError PolicyReader::read_sourced(const YamlNode& node, const std::string& what, Sourced& to) const {
  if (auto e = read_text(node, what, to.value)) return e;
  to.where = where(node);
  return std::nullopt;
}

MaybeError PolicyReader::read_subnet(const YamlNode& node, std::optional<Sourced>& to) const {
  if (node.kind == YamlNode::Kind::null) return std::nullopt;
  Sourced subnet;
  if (auto e = read_sourced(node, "fabric_subnet", subnet)) return e;
  if (!parse_subnet(subnet.value))
    return error(node, "fabric_subnet is '" + subnet.value + "'", "write a subnet as in 10.100.0.0/24 or fd02::/16");
  to = subnet;
  return std::nullopt;
}

MaybeError PolicyReader::read_dmi(const YamlNode& node, std::map<std::string, std::string>& dmi) const {
  if (node.kind != YamlNode::Kind::map) return error(node, "dmi must be a map of fields and patterns");
  // The files of /sys/class/dmi/id that anyone may read; serial numbers are root's alone.
  static const std::vector<std::string> kFields = {
      "bios_vendor",    "bios_version",    "board_name",     "board_vendor", "chassis_asset_tag",
      "chassis_vendor", "product_family",  "product_name",   "product_sku",  "product_version",
      "sys_vendor",     "board_asset_tag", "chassis_version"};
  for (const auto& [name, value] : node.entries) {
    bool known = false;
    for (const std::string& field : kFields) known = known || field == name.scalar;
    if (!known) {
      const std::string near = nearest_word(name.scalar, kFields);
      return error(name, "unknown DMI field '" + name.scalar + "'",
                   near.empty() ? "known are " + join(kFields, ", ") : "did you mean '" + near + "'?");
    }
    if (auto e = read_text(value, name.scalar, dmi[name.scalar])) return e;
  }
  return std::nullopt;
}

MaybeError PolicyReader::read_gpu_count(const YamlNode& node, std::optional<int>& to) const {
  const auto count = parse_int(node.scalar, 0, 1024);
  if (node.kind != YamlNode::Kind::scalar || !count) return error(node, "gpu_count must be a number from 0 to 1024");
  to = static_cast<int>(*count);
  return std::nullopt;
}

MaybeError PolicyReader::read_link_layer(const YamlNode& node, std::string& to) const {
  if (auto e = read_text(node, "link_layer", to)) return e;
  if (to == "Ethernet" || to == "InfiniBand") return std::nullopt;
  const std::string near = nearest_word(to, {"Ethernet", "InfiniBand"});
  return error(node, "link_layer is '" + to + "'",
               near.empty() ? "it must be Ethernet or InfiniBand" : "did you mean '" + near + "'?");
}

MaybeError PolicyReader::read_condition(const YamlNode& node, ProfileCondition& when) const {
  return read_map(node, "when",
                  {{"dmi", [&](const YamlNode& n) { return read_dmi(n, when.dmi); }},
                   {"gpu", [&](const YamlNode& n) { return read_text(n, "gpu", when.gpu); }},
                   {"gpu_count", [&](const YamlNode& n) { return read_gpu_count(n, when.gpu_count); }},
                   {"hca_driver", [&](const YamlNode& n) { return read_text(n, "hca_driver", when.hca_driver); }},
                   {"link_layer", [&](const YamlNode& n) { return read_link_layer(n, when.link_layer); }},
                   {"files", [&](const YamlNode& n) {
                      return read_list(n, "files", [&](const YamlNode& item) -> MaybeError {
                        std::string path;
                        if (auto e = read_text(item, "a file", path)) return e;
                        if (path[0] != '/') return error(item, "'" + path + "' is not an absolute path");
                        when.files.push_back(path);
                        return std::nullopt;
                      });
                    }}});
}

// Names that a policy cannot set: Slurm's own steer nested srun commands, ours carry what a step has to remember.
bool is_reserved(const std::string& name) {
  return name.rfind("SLURM_", 0) == 0 || name.rfind("SLURMD_", 0) == 0 || name.rfind("NCCLTUNE", 0) == 0;
}

MaybeError PolicyReader::read_setting(const YamlNode& name, const YamlNode& value, ProfileEnv& setting) const {
  if (!is_variable_name(name.scalar)) return error(name, "'" + name.scalar + "' is not a variable's name");
  if (is_reserved(name.scalar)) return error(name, "'" + name.scalar + "' cannot be set by a policy");
  setting.name = name.scalar;
  setting.where = where(name);
  if (value.kind != YamlNode::Kind::map) return read_text(value, name.scalar, setting.value);
  if (auto e = read_map(value, name.scalar,
                        {{"value", [&](const YamlNode& n) { return read_text(n, "value", setting.value); }},
                         {"why", [&](const YamlNode& n) { return read_text(n, "why", setting.why); }},
                         {"if_file", [&](const YamlNode& n) { return read_bool(n, "if_file", setting.if_file); }}}))
    return e;
  if (setting.value.empty()) return error(value, name.scalar + " has no value");
  if (setting.if_file && setting.value[0] != '/')
    return error(value, name.scalar + ": if_file wants an absolute path as the value");
  return std::nullopt;
}

MaybeError PolicyReader::read_env(const YamlNode& node, std::vector<ProfileEnv>& env) const {
  if (node.kind == YamlNode::Kind::null) return std::nullopt;
  if (node.kind != YamlNode::Kind::map) return error(node, "env must be a map of variables");
  for (const auto& [name, value] : node.entries) {
    ProfileEnv setting;
    if (auto e = read_setting(name, value, setting)) return e;
    env.push_back(std::move(setting));
  }
  return std::nullopt;
}

MaybeError PolicyReader::read_ignored(const YamlNode& node, IgnoredCheck& to) const {
  to.where = where(node);
  if (auto e = read_map(node, "an entry of ignore_checks",
                        {{"id", [&](const YamlNode& n) { return read_text(n, "id", to.id); }},
                         {"object", [&](const YamlNode& n) { return read_text(n, "object", to.object); }},
                         {"reason", [&](const YamlNode& n) { return read_text(n, "reason", to.reason); }}}))
    return e;
  if (to.id.empty()) return error(node, "an entry of ignore_checks has no id", "nccl-tune check shows the ids");
  if (to.reason.empty()) return error(node, "ignore_checks: " + to.id + " has no reason", "say why it is ignored");
  return std::nullopt;
}

MaybeError PolicyReader::read_profile(const YamlNode& node, Profile& profile) const {
  profile.where = where(node);
  if (auto e =
          read_map(node, "a profile",
                   {{"name", [&](const YamlNode& n) { return read_text(n, "name", profile.name); }},
                    {"when", [&](const YamlNode& n) { return read_condition(n, profile.when); }},
                    {"env", [&](const YamlNode& n) { return read_env(n, profile.env); }},
                    {"extends", [&](const YamlNode& n) { return read_text(n, "extends", profile.extends); }},
                    {"net_plugin", [&](const YamlNode& n) { return read_text(n, "net_plugin", profile.net_plugin); }},
                    {"why", [&](const YamlNode& n) { return read_text(n, "why", profile.why); }}}))
    return e;
  if (profile.name.empty()) return error(node, "a profile has no name");
  return std::nullopt;
}

MaybeError PolicyReader::read(const YamlNode& root, Policy& policy) {
  if (root.kind == YamlNode::Kind::null) return std::nullopt;  // an empty file: the built-in rules alone
  return read_map(root, "a policy",
                  {{"mode", [&](const YamlNode& n) { return read_mode(n, policy.mode); }},
                   {"bind", [&](const YamlNode& n) { return read_bool(n, "bind", policy.bind); }},
                   {"exclude_hcas",
                    [&](const YamlNode& n) {
                      return read_list(n, "exclude_hcas", [&](const YamlNode& item) -> MaybeError {
                        Sourced hca;
                        if (auto e = read_sourced(item, "a device of exclude_hcas", hca)) return e;
                        policy.exclude_hcas.push_back(std::move(hca));
                        return std::nullopt;
                      });
                    }},
                   {"ignore_checks",
                    [&](const YamlNode& n) {
                      return read_list(n, "ignore_checks", [&](const YamlNode& item) -> MaybeError {
                        IgnoredCheck entry;
                        if (auto e = read_ignored(item, entry)) return e;
                        policy.ignore_checks.push_back(std::move(entry));
                        return std::nullopt;
                      });
                    }},
                   {"fabric_subnet", [&](const YamlNode& n) { return read_subnet(n, policy.fabric_subnet); }},
                   {"socket_ifname",
                    [&](const YamlNode& n) -> MaybeError {
                      if (n.kind == YamlNode::Kind::null) return std::nullopt;
                      Sourced name;
                      if (auto e = read_sourced(n, "socket_ifname", name)) return e;
                      policy.socket_ifname = std::move(name);
                      return std::nullopt;
                    }},
                   {"profiles", [&](const YamlNode& n) {
                      return read_list(n, "profiles", [&](const YamlNode& item) -> MaybeError {
                        Profile profile;
                        if (auto e = read_profile(item, profile)) return e;
                        for (const Profile& other : policy.profiles)
                          if (other.name == profile.name)
                            return error(item, "profile '" + profile.name + "' is there already, at " + other.where);
                        policy.profiles.push_back(std::move(profile));
                        return std::nullopt;
                      });
                    }}});
}

}  // namespace

Result<Policy> parse_policy(const std::string& text, const std::string& file) {
  Result<YamlNode> root = parse_yaml(text, file);
  if (!root) return root.error();
  Policy policy;
  policy.sources.push_back(file);
  if (auto e = PolicyReader(file).read(*root, policy)) return *e;
  return policy;
}

}  // namespace nccltune
