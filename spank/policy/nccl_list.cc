// SPDX-License-Identifier: Apache-2.0
#include "policy/nccl_list.h"

#include <algorithm>

#include "base/text.h"

namespace nccltune {

NcclList NcclList::parse(const std::string& text) {
  NcclList list;
  std::string_view rest = text;
  if (!rest.empty() && rest.front() == '^') {
    list.exclude = true;
    rest.remove_prefix(1);
  }
  if (!rest.empty() && rest.front() == '=') {
    list.exact = true;
    rest.remove_prefix(1);
  }
  for (const std::string_view part : split(rest, ',')) {
    if (part.empty()) continue;
    const std::size_t colon = part.find(':');
    Entry entry;
    entry.name = std::string(part.substr(0, colon));
    if (colon != std::string_view::npos) entry.port = std::string(part.substr(colon + 1));
    list.entries.push_back(std::move(entry));
  }
  return list;
}

bool entry_matches(const NcclList::Entry& entry, const std::string& name, bool exact) {
  return exact ? name == entry.name : name.compare(0, entry.name.size(), entry.name) == 0;
}

bool NcclList::takes(const std::string& name, int port) const {
  if (entries.empty()) return !exclude;  // "" takes all, a lone '^' none
  const bool listed = std::any_of(entries.begin(), entries.end(), [&](const Entry& entry) {
    if (!entry_matches(entry, name, exact)) return false;
    const auto wanted = parse_int(entry.port.substr(0, entry.port.find(':')), 0, 255);
    return port < 0 || !wanted || *wanted == port;
  });
  return listed != exclude;
}

}  // namespace nccltune
