// SPDX-License-Identifier: Apache-2.0
#include "bench/environment.h"

#include <string_view>

extern char** environ;

namespace nccltune::bench {

Variables own_environment() {
  Variables environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = text.find('=');
    if (equals != std::string_view::npos) environment.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return environment;
}

Variables changed(Variables environment, const Changes& changes) {
  for (const auto& [name, value] : changes) {
    if (value)
      environment[name] = *value;
    else
      environment.erase(name);
  }
  return environment;
}

std::vector<std::pair<std::string, std::string>> named_settings(const Variables& environment) {
  std::vector<std::pair<std::string, std::string>> settings;
  for (const auto& [name, value] : environment)
    for (const std::string_view prefix : {"NCCL_", "UCX_", "SHARP_", "NCCLTUNE_"})
      if (name.starts_with(prefix)) settings.emplace_back(name, value);
  return settings;
}

}  // namespace nccltune::bench
