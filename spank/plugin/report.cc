// SPDX-License-Identifier: Apache-2.0
#include "plugin/report.h"

#include "plugin/spank_api.h"

namespace nccltune {
namespace {

constexpr std::size_t kMaxLine = 4096;  // Slurm's own log cuts at about that

std::string count_of(std::size_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

std::string assignment(const EnvSetting& setting) { return setting.name + "='" + setting.value + "'"; }

std::string setting_line(const EnvSetting& setting) {
  return setting.name + ": '" + setting.value + "' (" + setting.rule + "): " + setting.why;
}

bool is_the_users(const KeptSetting& kept) { return kept.source == "environment"; }

std::string kept_line(const KeptSetting& kept) {
  std::string line =
      kept.name + ": kept " +
      (is_the_users(kept) ? "the user's '" + kept.value + "'" : "'" + kept.value + "' of " + kept.source);
  if (!kept.planned.empty() && kept.planned != kept.value) line += "; the plan has '" + kept.planned + "'";
  return line;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

}  // namespace

std::string summary_line(const Plan& plan, const Node& node, const Step& step) {
  std::size_t used = 0;
  for (const HcaDecision& hca : plan.hcas) used += hca.used() ? 1 : 0;
  std::string line = (step.node_name.empty() ? plan.host : step.node_name) + ": profile " + plan.profile + ": " +
                     count_of(node.gpus.size(), "GPU") + ", " + std::to_string(used) + " of " +
                     count_of(plan.hcas.size(), "HCA port") + ", " + count_of(step.local_tasks, "task");
  for (std::size_t i = 0; i < plan.env.size(); ++i) line += (i == 0 ? "; " : ", ") + assignment(plan.env[i]);
  return line;
}

Lines reason_lines(const Plan& plan) {
  Lines lines;
  for (const EnvSetting& setting : plan.env) lines.push_back(setting_line(setting));
  for (const KeptSetting& kept : plan.kept) lines.push_back(kept_line(kept));
  for (const HcaDecision& hca : plan.hcas)
    if (!hca.used())
      lines.push_back(hca.name + ": port " + std::to_string(hca.port) + " left out (" + hca.use + "): " + hca.why);
  for (const Note& note : plan.notes) lines.push_back(note_line(note));
  return lines;
}

Lines task_lines(const TaskPlan& task) {
  Lines lines;
  std::string line = "task " + std::to_string(task.local_id) + ": ";
  line += task.gpus.empty() ? "no GPU of its own" : "GPU " + joined(task.gpus);
  if (!task.hcas.empty()) line += ", HCA " + joined(task.hcas);
  line += task.cpus ? ", CPUs " + task.cpus->list() : ", CPUs as Slurm gave them";
  if (task.mem_node) line += ", memory of NUMA node " + std::to_string(*task.mem_node);
  if (!task.why.empty()) line += ": " + task.why;
  lines.push_back(line);
  for (const EnvSetting& setting : task.env) lines.push_back(setting_line(setting));
  for (const Note& note : task.notes) lines.push_back(note_line(note));
  return lines;
}

Lines kept_lines(const Plan& plan, const Step& step) {
  Lines lines;
  for (const KeptSetting& kept : plan.kept)
    if (is_the_users(kept) && !kept.planned.empty() && kept.planned != kept.value) lines.push_back(kept_line(kept));
  for (const Note& note : plan.notes)
    if (step.env.count(note.object) > 0 || (step.private_network && note.object == "network"))
      lines.push_back(note_line(note));
  return lines;
}

std::string note_line(const Note& note) { return note.object + ": " + note.text; }

std::string one_line(std::string text) {
  if (text.size() > kMaxLine) text = text.substr(0, kMaxLine) + "...";
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  return text;
}

void tell_user(const std::string& line) { slurm_spank_log("nccl-tune: %s", one_line(line).c_str()); }
void tell_error(const std::string& line) { slurm_error("nccl-tune: %s", one_line(line).c_str()); }
void tell_admin(const std::string& line) { slurm_info("nccl-tune: %s", one_line(line).c_str()); }
void tell_detail(const std::string& line) { slurm_verbose("nccl-tune: %s", one_line(line).c_str()); }

}  // namespace nccltune
