// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace nccltune::cli {

// A member of what somebody else wrote; null where it is missing, or where this is no object.
inline const nlohmann::ordered_json& field(const nlohmann::ordered_json& json, const char* name) {
  static const nlohmann::ordered_json kNull;
  if (!json.is_object()) return kNull;
  const auto at = json.find(name);
  return at == json.end() ? kNull : *at;
}

// Whether it is a text of no letters: empty() of a JSON text asks something else.
inline bool is_blank(const nlohmann::ordered_json& json) {
  return json.is_string() && json.get_ref<const std::string&>().empty();
}

}  // namespace nccltune::cli
