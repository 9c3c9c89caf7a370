// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

namespace nccltune::cli {

// A member of what somebody else wrote; null where it is missing, or where this is no object.
inline const nlohmann::ordered_json& field(const nlohmann::ordered_json& json, const char* name) {
  static const nlohmann::ordered_json kNull;
  if (!json.is_object()) return kNull;
  const auto at = json.find(name);
  return at == json.end() ? kNull : *at;
}

}  // namespace nccltune::cli
