// SPDX-License-Identifier: Apache-2.0
#include "cli/plan_json.h"

namespace nccltune::cli {

namespace {

Json task_json(const TaskPlan& task) {
  return {{"local_id", task.local_id},
          {"gpus", task.gpus},
          {"hcas", task.hcas},
          {"cpus", task.cpus ? Json(task.cpus->list()) : Json(nullptr)},
          {"mem_node", or_null(task.mem_node)},
          {"env", settings_json(task.env)},
          {"why", task.why}};
}

}  // namespace

Json settings_json(const std::vector<EnvSetting>& settings) {
  Json list = Json::array();
  for (const EnvSetting& setting : settings)
    list.push_back({{"name", setting.name},
                    {"value", setting.value},
                    {"rule", setting.rule},
                    {"why", setting.why},
                    {"where", setting.where.empty() ? Json(nullptr) : Json(setting.where)}});
  return list;
}

Json notes_json(const std::vector<Note>& notes) {
  Json list = Json::array();
  for (const Note& note : notes) list.push_back({{"object", note.object}, {"text", note.text}});
  return list;
}

Json plan_json(const Plan& plan) {
  Json kept = Json::array(), hcas = Json::array(), tasks = Json::array();
  for (const KeptSetting& setting : plan.kept)
    kept.push_back({{"name", setting.name}, {"value", setting.value}, {"source", setting.source}});
  for (const HcaDecision& hca : plan.hcas)
    hcas.push_back({{"name", hca.name}, {"port", hca.port}, {"use", hca.use}, {"why", hca.why}});
  std::vector<Note> notes = plan.notes;
  for (const TaskPlan& task : plan.tasks) {
    tasks.push_back(task_json(task));
    const std::string itself = "task " + std::to_string(task.local_id);
    for (const Note& note : task.notes)
      notes.push_back({itself, note.object == itself ? note.text : note.object + ": " + note.text});
  }
  return {{"host", plan.host},
          {"platform", plan.platform},
          {"profile", plan.profile},
          {"profile_why", plan.profile_why},
          {"profile_where", plan.profile_where.empty() ? Json(nullptr) : Json(plan.profile_where)},
          {"env", settings_json(plan.env)},
          {"kept", std::move(kept)},
          {"tasks", std::move(tasks)},
          {"hcas", std::move(hcas)},
          {"notes", notes_json(notes)}};
}

std::string text_of(const Json& document) {
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace nccltune::cli
