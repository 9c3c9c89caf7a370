// SPDX-License-Identifier: Apache-2.0
#include "cli/plan_text.h"

#include <fmt/format.h>

#include "base/text.h"
#include "cli/output.h"

namespace nccltune::cli {

namespace {

std::string setting_text(const EnvSetting& setting, const Style& style, size_t indent) {
  std::string first = paragraph(printable(setting.name + "=" + setting.value), indent, indent + 4);
  return style.paint(Tone::good, first.substr(0, first.size() - 1)) + "\n" +
         paragraph(printable(setting.why + " [" + setting.rule + "]"), indent + 4, indent + 4);
}

std::string environment_text(const Plan& plan, const Style& style) {
  std::string out = heading(style, "Exported to every task");
  if (plan.env.empty()) return out + "  nothing\n";
  for (const EnvSetting& setting : plan.env) out += setting_text(setting, style, 2);
  return out;
}

std::string kept_text(const Plan& plan, const Style& style) {
  if (plan.kept.empty()) return "";
  std::string out = heading(style, "Set already, kept");
  for (const KeptSetting& kept : plan.kept) {
    out += paragraph(printable(kept.name + "=" + kept.value), 2, 6);
    std::string told = kept.source;
    if (!kept.planned.empty())
      told += kept.planned == kept.value ? "; the plan has the same" : "; the plan has '" + kept.planned + "'";
    out += paragraph(printable(told), 6, 6);
  }
  return out;
}

std::string hcas_text(const Plan& plan, const Style& style) {
  if (plan.hcas.empty()) return "";
  Table table({"HCA", "use", "why"});
  for (const HcaDecision& hca : plan.hcas)
    table.add({hca_name(hca), {hca.use, hca.used() ? Tone::good : Tone::faint}, hca.why});
  return heading(style, "HCAs") + table.text(style);
}

// What the table has no room for.
std::string task_text(const TaskPlan& task, const Style& style) {
  std::string out;
  if (!task.why.empty()) out += paragraph(printable(task.why), 6, 6);
  for (const EnvSetting& setting : task.env) out += setting_text(setting, style, 6);
  const std::string itself = fmt::format("task {}", task.local_id);
  for (const Note& note : task.notes)
    out += paragraph(printable(note.object == itself ? note.text : note.object + ": " + note.text), 6, 10);
  return out;
}

std::string tasks_text(const Plan& plan, const Style& style) {
  if (plan.tasks.empty()) return "";
  Table table({"task", {"GPUs", 12}, {"HCAs", 24}, {"CPUs", 26}, "memory"});
  for (const TaskPlan& task : plan.tasks)
    table.add({std::to_string(task.local_id), join(task.gpus, " "), join(task.hcas, " "),
               task.cpus ? task.cpus->list() : "not pinned",
               task.mem_node ? fmt::format("NUMA node {}", *task.mem_node) : ""});
  std::string out = heading(style, "Tasks") + table.text(style);
  for (const TaskPlan& task : plan.tasks) {
    std::string own = task_text(task, style);
    CpuSet same;  // the tasks that this text is told of, once, at the first of them
    for (const TaskPlan& other : plan.tasks)
      if (task_text(other, style) == own) same.add(other.local_id);
    if (own.empty() || same.first() != task.local_id) continue;
    out += fmt::format("  {} {}:\n", same.count() == 1 ? "task" : "tasks", same.list()) + own;
  }
  return out;
}

}  // namespace

std::string hca_name(const HcaDecision& hca) { return fmt::format("{}:{}", hca.name, hca.port); }

std::string notes_text(const std::vector<Note>& notes, const Style& style) {
  if (notes.empty()) return "";
  std::string out = heading(style, "Notes");
  for (const Note& note : notes) out += paragraph(printable(note.object + ": " + note.text), 2, 6);
  return out;
}

std::string plan_text(const Plan& plan, const Style& style) {
  std::string profile = plan.profile.empty() ? "none" : plan.profile;
  std::string out =
      fmt::format("host      {}\nplatform  {}\nprofile   {}\n", plan.host.empty() ? "unknown" : printable(plan.host),
                  printable(plan.platform), printable(profile));
  if (!plan.profile_where.empty())
    out += paragraph(
        printable(plan.profile_why.empty() ? plan.profile_where : plan.profile_why + " (" + plan.profile_where + ")"),
        10, 10);
  return out + environment_text(plan, style) + kept_text(plan, style) + hcas_text(plan, style) +
         tasks_text(plan, style) + notes_text(plan.notes, style);
}

}  // namespace nccltune::cli
