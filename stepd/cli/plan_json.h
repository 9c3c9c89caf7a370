// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "policy/plan.h"

namespace nccltune::cli {

using Json = nlohmann::ordered_json;

// The plan as a document: every field is always there and keeps its name; tests/golden/fields.py lists them.
Json plan_json(const Plan& plan);

Json settings_json(const std::vector<EnvSetting>& settings);
Json notes_json(const std::vector<Note>& notes);

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

// Two blanks a level and a newline; bytes that are no UTF-8 become U+FFFD, for a name in sysfs can hold any.
std::string text_of(const Json& document);

}  // namespace nccltune::cli
