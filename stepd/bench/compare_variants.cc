// SPDX-License-Identifier: Apache-2.0
#include "bench/compare_variants.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <set>

#include "base/text.h"
#include "bench/text.h"

namespace nccltune::bench {
namespace {

constexpr size_t kMostVariants = 256;  // beyond it is a search: nccl-tune tune

struct Axis {
  std::string name;
  std::vector<std::optional<std::string>> values;
};

std::vector<std::string> split_values(std::string_view text) {
  std::vector<std::string> values(1);
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 1 < text.size() && text[i + 1] == ',')
      values.back() += text[++i];
    else if (text[i] == ',')
      values.emplace_back();
    else
      values.back() += text[i];
  }
  return values;
}

Result<Axis> axis_of(const std::string& text) {
  const size_t equals = text.find('=');
  Axis axis{text.substr(0, equals), {}};
  if (equals == std::string::npos || !is_variable_name(axis.name))
    return Error{"--env", "'" + text + "' is not NAME=VALUE[,VALUE...]", "", ""};
  for (std::string& value : split_values(std::string_view(text).substr(equals + 1)))
    axis.values.push_back(value.empty() ? std::nullopt : std::optional(std::move(value)));
  return axis;
}

std::string setting_name(const std::string& name, const std::optional<std::string>& value) {
  return value ? name + "=" + *value : name + " unset";
}

Error at_mark(const std::string& file, const YAML::Mark& mark, const std::string& what) {
  return Error{print("%s:%d:%d", file.c_str(), mark.line + 1, mark.column + 1), what, "", ""};
}

Result<VariantSpec> spec_of(const YAML::Node& node, const std::string& file) {
  VariantSpec spec;
  if (!node.IsMap()) return at_mark(file, node.Mark(), "a variant has a name and an env");
  for (const auto& member : node) {
    const std::string key = member.first.as<std::string>("");
    if (key == "name" && member.second.IsScalar()) {
      spec.name = member.second.Scalar();
    } else if (key == "env" && (member.second.IsMap() || member.second.IsNull())) {
      for (const auto& setting : member.second) {
        const std::string name = setting.first.as<std::string>("");
        if (!is_variable_name(name)) return at_mark(file, setting.first.Mark(), "'" + name + "' names no variable");
        if (setting.second.IsNull())
          spec.environment.emplace_back(name, std::nullopt);
        else if (setting.second.IsScalar())
          spec.environment.emplace_back(name, setting.second.Scalar());
        else
          return at_mark(file, setting.second.Mark(), name + ": a value is one text, or null to unset it");
      }
    } else {
      return at_mark(file, member.first.Mark(), "'" + key + "' is not a variant's name (text) or env (a map)");
    }
  }
  if (spec.name.empty()) return at_mark(file, node.Mark(), "a variant without a name");
  return spec;
}

}  // namespace

Result<std::vector<VariantSpec>> variants_of_grid(const std::vector<std::string>& texts) {
  std::vector<VariantSpec> specs(1);
  for (const std::string& text : texts) {
    auto axis = axis_of(text);
    if (!axis) return axis.error();
    std::vector<VariantSpec> finer;
    for (const VariantSpec& spec : specs)
      for (const auto& value : axis->values) {
        finer.push_back(spec);
        finer.back().name += (spec.name.empty() ? "" : " ") + setting_name(axis->name, value);
        finer.back().environment.emplace_back(axis->name, value);
      }
    specs = std::move(finer);
    if (specs.size() > kMostVariants)
      return Error{"--env", print("more than %zu variants", kMostVariants), "", "search with nccl-tune tune"};
  }
  if (texts.empty()) specs.clear();
  return specs;
}

Result<std::vector<VariantSpec>> variants_of_file(const std::string& text, const std::string& file) {
  try {
    const YAML::Node root = YAML::Load(text);
    if (!root.IsMap() || root.size() != 1 || !root["variants"] || !root["variants"].IsSequence())
      return at_mark(file, root.Mark(), "not 'variants:' with a list of variants");
    std::vector<VariantSpec> specs;
    for (const YAML::Node& node : root["variants"]) {
      auto spec = spec_of(node, file);
      if (!spec) return spec.error();
      specs.push_back(std::move(*spec));
    }
    return specs;
  } catch (const YAML::Exception& fault) {
    return at_mark(file, fault.mark, fault.msg);
  }
}

Result<std::vector<VariantSpec>> with_baseline(std::vector<VariantSpec> specs, const Choice& choice) {
  const auto of_plan = [](const std::string& name) { return VariantSpec{name, {}, name == kNone}; };
  const auto is_of_plan = [](const std::string& name) { return name == kPlan || name == kNone; };
  std::vector<VariantSpec> all;
  const auto named = std::find_if(specs.begin(), specs.end(), [&](const auto& s) { return s.name == choice.baseline; });
  if (named != specs.end()) {
    all.push_back(*named);
    specs.erase(named);
  } else if (is_of_plan(choice.baseline)) {
    all.push_back(of_plan(choice.baseline));
    for (VariantSpec& spec : specs) spec.without_plan = choice.baseline == kNone;
  } else {
    return Error{"--baseline", "'" + choice.baseline + "' is not plan, none or the name of a variant", "", ""};
  }
  if (!choice.against.empty() && !is_of_plan(choice.against))
    return Error{"--against", "'" + choice.against + "' is not plan or none", "", ""};
  if (!choice.against.empty()) all.push_back(of_plan(choice.against));
  for (VariantSpec& spec : specs) all.push_back(std::move(spec));
  if (all.size() < 2)
    return Error{"compare", "there is nothing to compare", "", "name settings with --env, --file or --against none"};
  std::set<std::string> names;
  for (const VariantSpec& spec : all)
    if (!names.insert(spec.name).second) return Error{"compare", "two variants are named '" + spec.name + "'", "", ""};
  return all;
}

Changes without_plan(const Variables& environment) {
  Changes changes;
  const auto mark = environment.find("NCCLTUNE_SET");
  if (mark == environment.end()) return changes;
  std::string names = mark->second;
  std::replace(names.begin(), names.end(), ',', ' ');
  for (const std::string& name : split(names, ' '))
    if (!name.empty()) changes.emplace_back(name, std::nullopt);
  if (!changes.empty()) changes.emplace_back("NCCLTUNE_SET", std::nullopt);
  return changes;
}

Variant variant_of(const VariantSpec& spec, const Variables& environment) {
  Variant variant{spec.name, spec.without_plan ? without_plan(environment) : Changes()};
  variant.environment.insert(variant.environment.end(), spec.environment.begin(), spec.environment.end());
  return variant;
}

}  // namespace nccltune::bench
