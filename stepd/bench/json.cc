// SPDX-License-Identifier: Apache-2.0
#include "bench/json.h"

namespace nccltune::bench {
namespace {

const char kOpenTail[] = "\n],\"complete\":false,\"ended\":null}\n";

}  // namespace

void GrowingDocument::start(const nlohmann::ordered_json& head, const std::string& list) {
  std::string text = dump(head);
  text.back() = ',';  // the object stays open
  text += opening_of(list);
  end_of_items_ = text.size();
  sink_.write_at(0, text + kOpenTail);
}

void GrowingDocument::add(const nlohmann::ordered_json& item) {
  const std::string text = (first_ ? "\n" : ",\n") + dump(item);
  first_ = false;
  sink_.write_at(end_of_items_, text + kOpenTail, kOpenTail);
  end_of_items_ += text.size();
}

void GrowingDocument::finish(const nlohmann::ordered_json& tail) {
  sink_.write_at(end_of_items_, ending(tail), kOpenTail);
}

}  // namespace nccltune::bench
