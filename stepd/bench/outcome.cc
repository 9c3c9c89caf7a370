// SPDX-License-Identifier: Apache-2.0
#include "bench/outcome.h"

#include <algorithm>
#include <tuple>

#include "bench/json.h"
#include "bench/text.h"
#include "bench/trouble.h"

namespace nccltune::bench {
namespace {

using Json = nlohmann::json;

TrialFault::Kind kind_of(const Fault& fault) {
  switch (fault.kind) {
    case Fault::Kind::died:
      return TrialFault::Kind::died;
    case Fault::Kind::orphaned:  // somebody ended the command, not the variant
      return TrialFault::Kind::lost;
    case Fault::Kind::hung:
      return TrialFault::Kind::hung;
    case Fault::Kind::signal:
      return TrialFault::Kind::signal;
    default:
      return fault.failure == protocol::FailureKind::usage ? TrialFault::Kind::refused : TrialFault::Kind::failed;
  }
}

}  // namespace

Outcome outcome_of(const Launch& launch, const std::optional<Fault>& fault) {
  Outcome outcome;
  if (!fault) return outcome;
  // Other tasks know the start's fault by its text only; this one knows what it was.
  const Fault& own = launch.early() ? *launch.early() : *fault;
  outcome.fault = kind_of(own);
  outcome.cause = own.rank >= 0 || own.kind == Fault::Kind::hung;
  if (outcome.cause) outcome.order = cause_order(launch, own);
  outcome.rank = own.rank;
  outcome.failure = own.failure;
  outcome.text = own.text;
  outcome.remedy = own.remedy;
  outcome.state = describe_own_state(launch, own, outcome.cause);
  return outcome;
}

std::string pack(const Outcome& o) {
  Json json;
  json["rows"] = o.rows;
  json["fault"] = o.fault ? Json(static_cast<int>(*o.fault)) : Json(nullptr);
  json["failure"] = static_cast<int>(o.failure);
  json["cause"] = o.cause;
  json["order"] = o.order;
  json["rank"] = o.rank;
  json["text"] = o.text;
  json["remedy"] = o.remedy;
  json["state"] = o.state;
  json["library"] = o.library;
  json["device"] = o.device;
  json["seconds"] = o.seconds;
  json["data_path"] = o.data_path;
  json["settings"] = o.settings;
  // What a crashing library wrote may be no UTF-8.
  return dump(json);
}

std::optional<Outcome> unpack_outcome(const std::string& text) {
  try {
    const Json json = Json::parse(text);
    Outcome o;
    json.at("rows").get_to(o.rows);
    if (!json.at("fault").is_null()) {
      const int kind = json.at("fault").get<int>();
      if (kind < 0 || kind > static_cast<int>(TrialFault::Kind::lost)) return std::nullopt;
      o.fault = static_cast<TrialFault::Kind>(kind);
    }
    json.at("cause").get_to(o.cause);
    json.at("order").get_to(o.order);
    json.at("rank").get_to(o.rank);
    o.failure = static_cast<protocol::FailureKind>(json.at("failure").get<int>());
    json.at("text").get_to(o.text);
    json.at("remedy").get_to(o.remedy);
    json.at("state").get_to(o.state);
    json.at("library").get_to(o.library);
    json.at("device").get_to(o.device);
    json.at("seconds").get_to(o.seconds);
    json.at("data_path").get_to(o.data_path);
    json.at("settings").get_to(o.settings);
    return o;
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

Result<std::vector<Outcome>> exchange_outcomes(Launch& launch, const Outcome& own, Deadline deadline) {
  World& world = launch.world();
  if (world.place().size == 1) return std::vector{own};
  const std::string key = launch.key("outcome");
  if (auto error = world.put(key, pack(own))) return *error;
  if (auto error = world.commit()) return *error;
  launch.alarm().watch(true);
  const auto error = world.fence_unless([&launch] { return launch.alarm().heard_of_loss(); }, deadline);
  launch.alarm().watch(false);
  if (error && launch.alarm().heard_of_loss()) return Error{*launch.alarm().heard(), "no further trial", "", ""};
  if (error) return *error;
  std::vector<Outcome> outcomes;
  for (int task = 0; task < world.place().size; ++task) {
    auto text = world.get(task, key, in_seconds(10));
    if (!text) return text.error();
    auto outcome = *text ? unpack_outcome(**text) : std::nullopt;
    if (!outcome) return Error{print("task %d", task), "left no word about the trial", "", ""};
    outcomes.push_back(std::move(*outcome));
  }
  return outcomes;
}

void combine(const std::vector<Outcome>& outcomes, int per_task, TrialResult& result) {
  result.seconds = outcomes.front().seconds;
  result.data_path = outcomes.front().data_path;
  result.settings = outcomes.front().settings;
  result.library = outcomes.front().library;
  result.device = outcomes.front().device;

  size_t works = result.rows.size();
  for (const Outcome& outcome : outcomes) works = std::min(works, outcome.rows.size());
  result.rows.resize(works);
  for (size_t w = 0; w < works; ++w) {
    size_t rows = result.rows[w].size();
    for (const Outcome& outcome : outcomes) rows = std::min(rows, outcome.rows[w]);
    result.rows[w].resize(rows);
  }

  // The user's word first, then the likeliest cause, then what all tasks know alike, then what some only heard of.
  const auto weight = [](const Outcome& o) {
    const bool over = *o.fault == TrialFault::Kind::signal || *o.fault == TrialFault::Kind::lost;
    return std::tuple(!over, !o.cause, o.order, o.rank < 0, o.rank);
  };
  const Outcome* first = nullptr;
  bool caused = false;
  std::vector<std::optional<std::string>> states;
  for (const Outcome& outcome : outcomes) {
    states.emplace_back(outcome.state);
    if (!outcome.fault) continue;
    caused |= outcome.cause;
    if (first == nullptr || weight(outcome) < weight(*first)) first = &outcome;
  }
  if (first == nullptr) return;
  TrialFault fault;
  fault.kind = *first->fault;
  fault.failure = first->failure;
  fault.rank = first->rank;
  fault.lines = split(first->text, '\n');
  if (caused && fault.kind != TrialFault::Kind::signal)
    if (auto lines = summarise_states(states, per_task); !lines.empty()) fault.lines = std::move(lines);
  if (!first->remedy.empty() && fault.lines.front().starts_with(first->text))
    fault.lines.front() += "; " + first->remedy;
  fault.text = split(first->text, '\n').front() + (first->remedy.empty() ? "" : "; " + first->remedy);
  result.fault = std::move(fault);
}

}  // namespace nccltune::bench
