// SPDX-License-Identifier: Apache-2.0
#include "plugin/mark.h"

#include <string_view>

#include "base/text.h"

namespace nccltune {
namespace {

constexpr std::size_t kMaxNames = 1024;
constexpr std::size_t kMaxName = 255;

bool is_never_ours(std::string_view name) {
  for (std::string_view whole : {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "PWD", "TMPDIR", "LD_PRELOAD"})
    if (name == whole) return true;
  for (std::string_view family : {"SLURM", "PMI", "NCCLTUNE"})
    if (name.substr(0, family.size()) == family) return true;
  return false;
}

}  // namespace

bool is_settable_name(const std::string& name) { return name.size() <= kMaxName && is_variable_name(name); }

std::set<std::string> marked_names(const Environment& env) {
  std::set<std::string> names;
  const auto mark = env.find(kMark);
  if (mark == env.end()) return names;
  std::string_view rest = mark->second;
  while (!rest.empty() && names.size() < kMaxNames) {
    const std::size_t comma = rest.find(',');
    std::string name(rest.substr(0, comma));
    if (is_settable_name(name) && !is_never_ours(name)) names.insert(std::move(name));
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  return names;
}

Environment without_marked(const Environment& env) {
  Environment rest = env;
  for (const std::string& name : marked_names(env)) rest.erase(name);
  return rest;
}

std::string mark_of(const std::set<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ",") + name;
  return text;
}

}  // namespace nccltune
