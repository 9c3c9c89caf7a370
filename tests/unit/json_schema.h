// SPDX-License-Identifier: Apache-2.0
// As much of JSON Schema as the schemas in etc/ use, and stricter: a member that the schema lacks is an error.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace nccltune {

inline void expect_valid(const nlohmann::json& schema, const nlohmann::json& value, const std::string& where) {
  const auto is = [&value](const std::string& type) {
    return (type == "null" && value.is_null()) || (type == "object" && value.is_object()) ||
           (type == "array" && value.is_array()) || (type == "string" && value.is_string()) ||
           (type == "boolean" && value.is_boolean()) || (type == "integer" && value.is_number_integer()) ||
           (type == "number" && value.is_number());
  };
  const auto& types = schema.at("type");
  bool fits = types.is_string() && is(types);
  if (types.is_array())
    for (const auto& type : types) fits |= is(type);
  EXPECT_TRUE(fits) << where << " is " << value.dump().substr(0, 80) << ", not " << types;
  if (value.is_array())
    for (const auto& item : value) expect_valid(schema.at("items"), item, where + "[]");
  if (!value.is_object()) return;
  for (const auto& name : schema.value("required", nlohmann::json::array()))
    EXPECT_TRUE(value.contains(name)) << where << " lacks " << name;
  for (const auto& [name, member] : value.items()) {
    if (schema.contains("additionalProperties"))
      expect_valid(schema["additionalProperties"], member, where + "." + name);
    else if (schema.at("properties").contains(name))
      expect_valid(schema["properties"][name], member, where + "." + name);
    else
      ADD_FAILURE() << where << " has " << name << ", which the schema does not know";
  }
}

}  // namespace nccltune
