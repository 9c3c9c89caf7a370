// SPDX-License-Identifier: Apache-2.0
// What every JSON writer of this room needs, and a document that is valid while it grows.
#pragma once

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "bench/sink.h"

namespace nccltune::bench {

// One line; bytes that are no UTF-8 (a host name, a library's message) are replaced, not fatal.
template <class Json>
std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// JSON knows no infinity.
inline nlohmann::ordered_json number_or_null(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
}

inline nlohmann::ordered_json text_or_null(const std::string& text) {
  return text.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(text);
}

// An object that ends in a list: head, an item a line, tail. The tail is rewritten with every item in one call, so at
// no moment is the file something else than a document; one that was killed has "complete": false and "ended": null.
class GrowingDocument {
 public:
  explicit GrowingDocument(Sink sink) : sink_(std::move(sink)) {}
  // What the first line ends in, by which an unfinished document is known.
  static std::string opening_of(const std::string& list) { return "\"" + list + "\":["; }
  // `head` is an object with members; the list comes after them.
  void start(const nlohmann::ordered_json& head, const std::string& list);
  void add(const nlohmann::ordered_json& item);
  // `tail` is an object too: its members follow the list.
  void finish(const nlohmann::ordered_json& tail);
  // What finish() writes after the last item, for a document whose writer is gone.
  static std::string ending(const nlohmann::ordered_json& tail) { return "\n]," + dump(tail).substr(1) + "\n"; }

 private:
  Sink sink_;
  uint64_t end_of_items_ = 0;
  bool first_ = true;
};

}  // namespace nccltune::bench
