// SPDX-License-Identifier: Apache-2.0
#include "bench/tune_space.h"

#include <algorithm>

#include "base/text.h"

namespace nccltune::bench {
namespace {

const Knob* find_knob(const Space& space, const std::string& name) {
  for (const Knob& knob : space.knobs)
    if (knob.name == name) return &knob;
  return nullptr;
}

std::string at_least(int wanted, const char* what, int here) {
  return "needs " + std::to_string(wanted) + " " + what + ", here " + (here == 1 ? "is " : "are ") +
         std::to_string(here);
}

}  // namespace

double Space::grid_size() const {
  // A knob that needs another has its values only where that one is set; those come after their base in no fixed order,
  // so the product is taken over bases, each with its dependants.
  double size = 1;
  for (const Knob& knob : knobs) {
    if (find_knob(*this, knob.needs) != nullptr) continue;
    double with_value = static_cast<double>(knob.values.size());
    for (const Knob& other : knobs)
      if (other.needs == knob.name) with_value *= 1.0 + static_cast<double>(other.values.size());
    size *= 1 + with_value;
  }
  return size;
}

bool is_legal(const Space& space, const Setting& setting) {
  for (size_t i = 0; i < space.knobs.size(); ++i) {
    if (setting[i] == 0 || space.knobs[i].needs.empty()) continue;
    const Knob* base = find_knob(space, space.knobs[i].needs);
    if (base == nullptr || setting[static_cast<size_t>(base - space.knobs.data())] == 0) return false;
  }
  return true;
}

int count_set(const Setting& setting) {
  return static_cast<int>(std::count_if(setting.begin(), setting.end(), [](uint8_t choice) { return choice != 0; }));
}

Changes changes_of(const Space& space, const Setting& setting) {
  Changes changes;
  for (size_t i = 0; i < setting.size(); ++i)
    if (setting[i] > 0) changes.emplace_back(space.knobs[i].name, space.knobs[i].values[setting[i] - 1]);
  return changes;
}

std::string describe(const Space& space, const Setting& setting) {
  std::string text;
  for (const auto& [name, value] : changes_of(space, setting)) text += (text.empty() ? "" : " ") + name + "=" + *value;
  return text.empty() ? "today's settings" : text;
}

std::optional<std::string> why_not(const Knob& knob, const StepFacts& facts) {
  const KnobCondition& when = knob.when;
  if (when.worker != facts.worker) return "is for the " + when.worker + " worker";
  if (facts.users.count(knob.name) > 0)
    return "is set by the user already, to '" + facts.environment.at(knob.name) + "'";
  if (!facts.net_plugin.empty() && (knob.name.rfind("NCCL_IB_", 0) == 0 || knob.name.rfind("NCCL_NET_", 0) == 0))
    return "the fabric is reached through the plugin " + facts.net_plugin + ", which has values of its own";
  if (facts.nodes < when.nodes) return at_least(when.nodes, "nodes", facts.nodes);
  if (facts.hcas < when.hcas) return at_least(when.hcas, "HCAs on a node", facts.hcas);
  if (facts.ranks_per_node < when.ranks_per_node)
    return at_least(when.ranks_per_node, "ranks on a node", facts.ranks_per_node);
  if (when.sockets && facts.hcas > 0) return "is for sockets, and HCAs are used";
  if (!when.link_layer.empty() && when.link_layer != facts.link_layer) return "needs " + when.link_layer;
  if (!when.gpu.empty() && std::none_of(facts.gpus.begin(), facts.gpus.end(),
                                        [&](const std::string& id) { return glob_match(when.gpu, id); }))
    return "needs a GPU " + when.gpu;
  if (when.nccl > 0 && facts.nccl < when.nccl) return "needs NCCL " + nccl_version(when.nccl);
  if (when.nccl_below > 0 && facts.nccl >= when.nccl_below)
    return "is for NCCL before " + nccl_version(when.nccl_below);
  if (!when.file.empty() && facts.files.count(when.file) == 0) return when.file + " is not there";
  if (when.registration && !facts.registration) return "needs registered buffers (-R 1)";
  if (facts.smallest < when.sizes_from || (when.sizes_to > 0 && facts.largest > when.sizes_to))
    return "is for other sizes, and holds for every size of a job";
  for (const std::string& collective : facts.collectives)
    if (!when.collectives.empty() &&
        std::find(when.collectives.begin(), when.collectives.end(), collective) == when.collectives.end())
      return "is not for " + collective;
  return std::nullopt;
}

Space applicable(const Space& space, const StepFacts& facts,
                 std::vector<std::pair<std::string, std::string>>& left_out) {
  Space here;
  for (const Knob& knob : space.knobs) {
    const auto taken =
        std::find_if(here.knobs.begin(), here.knobs.end(), [&](const Knob& other) { return other.name == knob.name; });
    std::optional<std::string> reason = why_not(knob, facts);
    if (!reason && taken != here.knobs.end()) reason = "is here already, at " + taken->where;
    Knob own = knob;
    const auto today = facts.environment.find(knob.name);
    if (today != facts.environment.end()) std::erase(own.values, today->second);
    if (!reason && own.values.empty()) reason = "is '" + today->second + "' already";
    if (reason)
      left_out.emplace_back(knob.name, *reason);
    else
      here.knobs.push_back(std::move(own));
  }
  std::erase_if(here.knobs, [&](Knob& knob) {
    if (knob.needs.empty()) return false;
    if (facts.environment.count(knob.needs) > 0) knob.needs.clear();  // it has a value today
    if (knob.needs.empty() || find_knob(here, knob.needs) != nullptr) return false;
    left_out.emplace_back(knob.name, "needs " + knob.needs + ", which is not tried");
    return true;
  });
  return here;
}

std::optional<int> nccl_code(const std::string& text) {
  int parts[3] = {0, 0, 0}, count = 0;
  for (const std::string_view word : split(text, '.')) {
    const auto number = parse_int(word, 0, 99);
    if (!number || count == 3) return std::nullopt;
    parts[count++] = static_cast<int>(*number);
  }
  if (count < 2) return std::nullopt;
  return parts[0] < 2 || (parts[0] == 2 && parts[1] <= 8) ? parts[0] * 1000 + parts[1] * 100 + parts[2]
                                                          : parts[0] * 10000 + parts[1] * 100 + parts[2];
}

std::string nccl_version(int code) {
  const int major = code >= 10000 ? code / 10000 : code / 1000;
  const int rest = code - major * (code >= 10000 ? 10000 : 1000);
  std::string text = std::to_string(major) + "." + std::to_string(rest / 100);
  if (rest % 100 > 0) text += "." + std::to_string(rest % 100);
  return text;
}

}  // namespace nccltune::bench
