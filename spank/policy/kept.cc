// SPDX-License-Identifier: Apache-2.0
#include "policy/kept.h"

#include <algorithm>

#include "base/text.h"

namespace nccltune {
namespace {

std::string place(const ConfLine& line) { return line.file + ":" + std::to_string(line.line); }

}  // namespace

std::set<std::string> names_set_by_us(const Environment& env) {
  std::set<std::string> names;
  const auto mark = env.find("NCCLTUNE_SET");
  if (mark == env.end()) return names;
  std::string text = mark->second;
  std::replace(text.begin(), text.end(), ',', ' ');
  for (const std::string_view word : split_words(text)) names.emplace(word);
  return names;
}

std::vector<std::string> exported_names(const Plan& plan, const TaskPlan& task) {
  std::set<std::string> names;
  for (const EnvSetting& setting : plan.env) names.insert(setting.name);
  for (const EnvSetting& setting : task.env) names.insert(setting.name);
  return {names.begin(), names.end()};
}

std::optional<Existing> existing_value(const Node& node, const Environment& env, const std::string& name) {
  const auto own = env.find(name);
  if (own != env.end() && names_set_by_us(env).count(name) == 0) return Existing{own->second, "environment", false};
  for (const ConfLine& line : node.nccl_conf)
    if (line.name == name) return Existing{line.value, place(line), true};
  return std::nullopt;
}

std::vector<EnvSetting> without_kept(const Node& node, const Step& step, const Environment& env,
                                     std::vector<EnvSetting> wanted, std::vector<KeptSetting>& kept) {
  std::vector<EnvSetting> left;
  for (EnvSetting& setting : wanted) {
    if (setting.value.empty()) continue;  // an empty NCCL_IB_GID_INDEX reads as 0
    const auto existing = existing_value(node, env, setting.name);
    if (existing && !(existing->in_file && step.container))
      kept.push_back({setting.name, existing->value, existing->source, setting.value});
    else if (!existing)
      left.push_back(std::move(setting));
  }
  return left;
}

std::vector<EnvSetting> conf_as_settings(const Node& node, const Environment& env) {
  std::vector<EnvSetting> settings;
  std::set<std::string> seen;
  for (const ConfLine& line : node.nccl_conf) {
    if (!is_variable_name(line.name) || line.value.empty() || !seen.insert(line.name).second) continue;
    const auto existing = existing_value(node, env, line.name);
    if (!existing || !existing->in_file) continue;
    settings.push_back({line.name, line.value, "conf.container",
                        "The host's " + place(line) + " sets it, which the container does not see."});
  }
  return settings;
}

void add_unplanned(const Node& node, const Environment& env, std::vector<KeptSetting>& kept) {
  static const char* const kManaged[] = {"NCCL_IB_HCA",        "NCCL_IB_GID_INDEX",  "NCCL_IB_ADDR_FAMILY",
                                         "NCCL_IB_ADDR_RANGE", "NCCL_SOCKET_IFNAME", "NCCL_TOPO_FILE"};
  for (const char* name : kManaged) {
    const bool told = std::any_of(kept.begin(), kept.end(), [&](const KeptSetting& k) { return k.name == name; });
    const auto existing = told ? std::nullopt : existing_value(node, env, name);
    if (existing) kept.push_back({name, existing->value, existing->source, ""});
  }
}

}  // namespace nccltune
