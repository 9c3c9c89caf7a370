// SPDX-License-Identifier: Apache-2.0
// Which settings the search tries next; what becomes of them is in tune_search.cc.
#include <algorithm>
#include <set>
#include <utility>

#include "bench/tune_search.h"

namespace nccltune::bench {
namespace {

constexpr size_t kMostTogether = 5;  // variables that are combined: 2^5 settings

}  // namespace

// A setting that is not legal becomes one for each value of what it needs.
void Search::add_with_bases(Setting setting, std::vector<Setting>& to) const {
  if (is_legal(space_, setting)) {
    to.push_back(std::move(setting));
    return;
  }
  for (size_t i = 0; i < setting.size(); ++i) {
    if (setting[i] == 0 || space_.knobs[i].needs.empty()) continue;
    for (size_t base = 0; base < setting.size(); ++base)
      if (space_.knobs[base].name == space_.knobs[i].needs && setting[base] == 0)
        for (size_t value = 1; value <= space_.knobs[base].values.size(); ++value) {
          Setting with = setting;
          with[base] = static_cast<uint8_t>(value);
          if (is_legal(space_, with)) to.push_back(std::move(with));
        }
  }
}

// It holds all of a setting that failed: what is wrong with that is wrong with this.
bool Search::is_tainted(const Setting& setting) const {
  return std::any_of(failed_.begin(), failed_.end(), [&](const Failed& failed) {
    if (count_set(failed.setting) == 0) return false;
    for (size_t i = 0; i < setting.size(); ++i)
      if (failed.setting[i] != 0 && failed.setting[i] != setting[i]) return false;
    return true;
  });
}

// Every value of every variable. The first values of all variables come before the second ones: when time is short,
// each variable is tried.
std::vector<Setting> Search::singles() const {
  std::vector<Setting> found;
  size_t most = 0;
  for (const Knob& knob : space_.knobs) most = std::max(most, knob.values.size());
  for (size_t value = 1; value <= most; ++value)
    for (size_t i = 0; i < space_.knobs.size(); ++i) {
      if (value > space_.knobs[i].values.size()) continue;
      Setting setting(space_.knobs.size(), 0);
      setting[i] = static_cast<uint8_t>(value);
      add_with_bases(std::move(setting), found);
    }
  return found;
}

// The best values of the variables that looked faster alone, in every combination, the most promising first.
std::vector<Setting> Search::combinations() const {
  struct Part {
    Setting setting;
    double gain;
  };
  std::vector<Part> parts;
  std::set<Setting> groups;  // which variables, not their values
  std::vector<std::pair<double, Setting>> ranked;
  for (const auto& [setting, arm] : arms_)
    if (count_set(setting) > 0 && !arm.dead && !arm.scores.empty() && estimate(arm) < 0)
      ranked.emplace_back(estimate(arm), setting);
  std::sort(ranked.begin(), ranked.end());
  for (const auto& [gain, setting] : ranked) {
    Setting group = setting;
    for (uint8_t& choice : group) choice = choice > 0;
    if (parts.size() < kMostTogether && groups.insert(group).second) parts.push_back({setting, gain});
  }
  std::vector<std::pair<double, Setting>> sums;
  for (unsigned mask = 1; mask < 1u << parts.size(); ++mask) {
    Setting setting(space_.knobs.size(), 0);
    double gain = 0;
    for (size_t p = 0; p < parts.size(); ++p) {
      if (!(mask >> p & 1)) continue;
      gain += parts[p].gain;
      for (size_t i = 0; i < setting.size(); ++i)
        if (parts[p].setting[i] > 0) setting[i] = parts[p].setting[i];
    }
    if (is_legal(space_, setting)) sums.emplace_back(gain, std::move(setting));
  }
  std::sort(sums.begin(), sums.end());
  std::vector<Setting> found;
  for (auto& [gain, setting] : sums)
    if (std::find(found.begin(), found.end(), setting) == found.end()) found.push_back(std::move(setting));
  return found;
}

// The setting itself; without one variable; with another value of one, tried least first.
std::vector<Setting> Search::neighbours(const Setting& of) const {
  std::vector<Setting> found{of}, others;
  for (size_t i = 0; i < of.size(); ++i)
    for (size_t value = 0; value <= space_.knobs[i].values.size(); ++value) {
      if (value == of[i]) continue;
      Setting setting = of;
      setting[i] = static_cast<uint8_t>(value);
      if (count_set(setting) > 0 && is_legal(space_, setting)) (value == 0 ? found : others).push_back(setting);
    }
  const auto launches = [this](const Setting& setting) {
    const auto at = arms_.find(setting);
    return at == arms_.end() ? size_t{0} : at->second.dead ? size_t{1000000} : at->second.scores.size();
  };
  std::stable_sort(others.begin(), others.end(),
                   [&](const Setting& a, const Setting& b) { return launches(a) < launches(b); });
  found.insert(found.end(), others.begin(), others.end());
  return found;
}

}  // namespace nccltune::bench
