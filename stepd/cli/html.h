// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace nccltune::cli {

// Text as HTML shows it, inside an element or a quoted attribute. Bytes that are no UTF-8 are left to the browser,
// which shows them as U+FFFD.
inline std::string html(std::string_view text) {
  std::string out;
  for (char c : text) switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  return out;
}

// A value of a document: its text, or the value as JSON writes it.
inline std::string html_of(const nlohmann::ordered_json& value) {
  return value.is_string() ? html(value.get_ref<const std::string&>()) : value.is_null() ? "" : html(value.dump());
}

// A field of a document that came from a file: "" where it is absent or no text.
inline std::string text_of_field(const nlohmann::ordered_json& json, const char* name) {
  const auto it = json.is_object() ? json.find(name) : json.end();
  return it != json.end() && it->is_string() ? it->get<std::string>() : "";
}

}  // namespace nccltune::cli
