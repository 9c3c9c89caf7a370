// SPDX-License-Identifier: Apache-2.0
#include "bench/compare_json.h"

#include "bench/text.h"

namespace nccltune::bench {
namespace {

using Json = nlohmann::ordered_json;

Json work_json(const Work& work) {
  const CollectiveInfo& info = info_of(work.collective);
  return {{"collective", std::string(info.name)},
          {"type", std::string(type_name(work.type))},
          {"op", info.has_op ? Json(std::string(op_name(work.op))) : Json(nullptr)},
          {"root", info.has_root ? Json(work.root) : Json(nullptr)},
          {"sizes", work.sizes}};
}

Json variant_json(const Variant& variant) {
  Json environment = Json::object();
  for (const auto& [name, value] : variant.environment) environment[name] = value ? Json(*value) : Json(nullptr);
  return {{"name", variant.name}, {"environment", environment}};
}

Json fault_json(const std::optional<TrialFault>& fault) {
  if (!fault) return nullptr;
  return {{"kind", name(fault->kind)},
          {"rank", fault->rank < 0 ? Json(nullptr) : Json(fault->rank)},
          {"text", fault->text},
          {"lines", fault->lines}};
}

Json half_json(const Half& half) {
  if (!half.ran) return nullptr;
  return {{"time_us", number_or_null(half.seconds * 1e6)},
          {"p50_us", half.summary.count ? Json(half.summary.p50 * 1e6) : Json(nullptr)},
          {"busbw", number_or_null(half.busbw)},
          {"wrong", half.checked ? Json(half.wrong) : Json(nullptr)}};
}

Json row_json(size_t work, const Row& row) {
  return {{"work", work},
          {"bytes", row.bytes},
          {"iterations", row.iterations},
          {"time_us", number_or_null(time_of(row) * 1e6)},
          {"out_of_place", half_json(row.out)},
          {"in_place", half_json(row.in)}};
}

Json size_json(const SizeVerdict& s) {
  return {{"work", s.work},
          {"bytes", s.bytes},
          {"blocks", s.ratio.blocks},
          {"baseline_us", number_or_null(s.baseline * 1e6)},
          {"variant_us", number_or_null(s.variant * 1e6)},
          {"baseline_busbw", number_or_null(s.baseline_gbs)},
          {"variant_busbw", number_or_null(s.variant_gbs)},
          {"ratio", number_or_null(s.ratio.ratio)},
          {"interval", s.ratio.interval ? Json{s.ratio.interval->first, s.ratio.interval->second} : Json(nullptr)},
          {"p", s.ratio.p},
          {"p_corrected", s.p},
          {"verdict", s.verdict == Verdict::untold ? Json(nullptr) : Json(name(s.verdict))}};
}

Json verdict_json(const Comparison& c, const VariantVerdict& v) {
  Json sizes = Json::array();
  for (const SizeVerdict& size : v.sizes) sizes.push_back(size_json(size));
  return {{"variant", c.variants[v.variant].name},
          {"launches", v.launches},
          {"failed", v.failed},
          {"fault", fault_json(v.fault)},
          {"data_path", v.data_path},
          {"unread", v.unread},
          {"sizes", sizes}};
}

}  // namespace

void CompareJson::start(const CompareInfo& info, const Comparison& c) {
  Json works = Json::array(), variants = Json::array(), environment = Json::object();
  for (const Work& work : c.works) works.push_back(work_json(work));
  for (const Variant& variant : c.variants) variants.push_back(variant_json(variant));
  for (const auto& [name, value] : info.environment) environment[name] = value;
  document_.start({{"format", 1},
                   {"tool", "nccl-tune compare"},
                   {"version", info.version},
                   {"started", utc_text(info.started)},
                   {"worker", info.worker},
                   {"world", info.world},
                   {"job", text_or_null(info.job)},
                   {"step", text_or_null(info.step)},
                   {"ranks", c.ranks},
                   {"nodes", c.nodes},
                   {"arguments", info.arguments},
                   {"seed", info.seed},
                   {"launches_wanted", c.launches},
                   {"least", c.least},
                   {"false_difference", kFalseDifference},
                   {"environment", environment},
                   {"works", works},
                   {"variants", variants}},
                  "launches");
}

void CompareJson::add(const Comparison& c, const ComparedLaunch& launch) {
  Json rows = Json::array();
  for (size_t work = 0; work < launch.result.rows.size(); ++work)
    for (const Row& row : launch.result.rows[work]) rows.push_back(row_json(work, row));
  document_.add({{"block", launch.block},
                 {"variant", c.variants[launch.variant].name},
                 {"started", utc_text(launch.started)},
                 {"seconds", launch.result.seconds},
                 {"fault", fault_json(launch.result.fault)},
                 {"data_path", launch.result.data_path},
                 {"settings_read", launch.result.settings},
                 {"rows", rows}});
}

void CompareJson::finish(const CompareInfo& info, const Comparison& c, const std::vector<VariantVerdict>& verdicts,
                         const CompareEnding& ending) {
  Json judged = Json::array();
  for (const VariantVerdict& v : verdicts) judged.push_back(verdict_json(c, v));
  document_.finish({{"complete", ending.complete},
                    {"ended", utc_text(std::time(nullptr))},
                    {"seconds", ending.seconds},
                    {"library", text_or_null(info.library)},
                    {"device", text_or_null(info.device)},
                    {"baseline", c.variants.front().name},
                    {"verdicts", judged},
                    {"sentence", ending.sentence},
                    {"trouble", ending.trouble},
                    {"exit_status", ending.exit_status}});
}

}  // namespace nccltune::bench
