// SPDX-License-Identifier: Apache-2.0
#include "bench/report_json.h"

#include <fcntl.h>

#include <fstream>

#include "bench/text.h"

namespace nccltune::bench {
namespace {

using Json = nlohmann::ordered_json;

template <class T>
Json optional_of(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json options_json(const Options& o) {
  Json types = Json::array(), ops = Json::array();
  for (const auto type : o.types) types.push_back(std::string(type_name(type)));
  for (const auto op : o.ops) ops.push_back(std::string(op_name(op)));
  return {{"arguments", o.arguments},
          {"workers_per_task", o.workers()},
          {"min_bytes", o.min_bytes},
          {"max_bytes", o.max_bytes},
          {"step_bytes", o.adds_bytes() ? Json(o.step_bytes) : Json(nullptr)},
          {"step_factor", o.adds_bytes() ? Json(nullptr) : Json(o.factor)},
          {"iterations", o.iterations},
          {"aggregate", o.aggregate},
          {"warmup", o.warmup},
          {"cycles", o.cycles},
          {"check", o.check},
          {"repeatable", o.repeat ? Json(o.repeat) : Json(nullptr)},
          {"types", types},
          {"ops", ops},
          {"root", o.root},
          {"blocking", o.blocking},
          {"graph", o.graph},
          {"average", o.average},
          {"registration", o.registration},
          {"cta_policy", o.cta_policy},
          {"unalign", o.unalign},
          {"skip", o.skip},
          {"null_stream", o.null_stream != 0},
          {"split", o.split ? Json(o.split->text) : Json(nullptr)},
          {"ci", optional_of(o.ci)},
          {"duration_seconds", optional_of(o.duration)},
          {"timeout_seconds", o.timeout},
          {"min_busbw", optional_of(o.min_busbw)},
          {"min_ratio", optional_of(o.min_ratio)}};
}

Json device_json(const DeviceLine& d) {
  return {{"rank", d.rank},
          {"host", d.host},
          {"pid", d.pid},
          {"device", d.device},
          {"bdf", text_or_null(d.bdf)},
          {"uuid", text_or_null(d.uuid)},
          {"name", d.name},
          {"library", d.library},
          {"cuda_runtime", d.cuda_runtime ? Json(d.cuda_runtime) : Json(nullptr)},
          {"cuda_driver", d.cuda_driver ? Json(d.cuda_driver) : Json(nullptr)}};
}

Json summary_json(const Half& half) {
  const Summary& s = half.summary;
  if (s.count == 0) return nullptr;
  Json times = Json::array(), shortest = Json::array(), shortest_rank = Json::array(), longest = Json::array(),
       late_rank = Json::array();
  for (const protocol::Sample& sample : half.samples) {
    times.push_back(number_or_null(sample.max_seconds * 1e6));
    shortest.push_back(number_or_null(sample.own_min_seconds * 1e6));
    shortest_rank.push_back(sample.own_min_rank);
    longest.push_back(number_or_null(sample.own_max_seconds * 1e6));
    late_rank.push_back(sample.late_rank < 0 ? Json(nullptr) : Json(sample.late_rank));
  }
  return {{"count", s.count},
          {"settling", s.settling},
          {"min_us", s.min * 1e6},
          {"p50_us", s.p50 * 1e6},
          {"p95_us", s.p95 * 1e6},
          {"p99_us", s.p99 ? Json(*s.p99 * 1e6) : Json(nullptr)},
          {"max_us", s.max * 1e6},
          {"mean_us", s.mean * 1e6},
          {"cv", s.cv},
          {"median_interval_us",
           s.median_interval ? Json{s.median_interval->first * 1e6, s.median_interval->second * 1e6} : Json(nullptr)},
          {"drift", s.drift},
          {"slope_us", s.slope * 1e6},
          {"from_last_arrival_us", s.network * 1e6},
          {"arrival_skew_us", s.skew * 1e6},
          {"late_rank", s.late_rank < 0 ? Json(nullptr) : Json(s.late_rank)},
          {"late_share", s.late_share},
          {"late_wait_us", s.late_wait * 1e6},
          {"times_us", times},
          {"shortest_us", shortest},
          {"shortest_rank", shortest_rank},
          {"longest_us", longest},
          {"late_ranks", late_rank}};
}

Json repeats_json(const Repeats& repeats) {
  if (repeats.runs == 0) return nullptr;
  Json first = nullptr;
  if (repeats.differing > 0)
    first = {{"run", repeats.run},    {"elements", repeats.elements}, {"ranks", repeats.bad_ranks},
             {"rank", repeats.rank},  {"element", repeats.element},   {"before", repeats.before},
             {"after", repeats.after}};
  return {{"runs", repeats.runs}, {"differing", repeats.differing}, {"first", first}};
}

Json half_json(const Half& half) {
  if (!half.ran) return nullptr;
  Json first = nullptr;
  if (half.wrong_rank >= 0)
    first = {
        {"rank", half.wrong_rank}, {"element", half.wrong_element}, {"expected", half.expected}, {"found", half.found}};
  return {{"time_us", number_or_null(half.seconds * 1e6)},
          {"cpu_time_us", half.cpu_seconds > 0 ? Json(half.cpu_seconds * 1e6) : Json(nullptr)},
          {"algbw", number_or_null(half.algbw)},
          {"busbw", number_or_null(half.busbw)},
          {"wrong", half.checked ? Json(half.wrong) : Json(nullptr)},
          {"wrong_ranks", half.checked ? Json(half.bad_ranks) : Json(nullptr)},
          {"first_wrong", first},
          {"repeats", repeats_json(half.repeats)},
          {"iterations", summary_json(half)}};
}

Json group_half_json(const GroupHalf& half) {
  if (!(half.seconds > 0)) return nullptr;
  return {{"time_us", half.seconds * 1e6},
          {"algbw", number_or_null(half.algbw)},
          {"busbw", number_or_null(half.busbw)},
          {"wrong", half.wrong}};
}

Json groups_json(const std::vector<GroupRow>& groups) {
  if (groups.empty()) return nullptr;
  Json list = Json::array();
  for (const GroupRow& group : groups)
    list.push_back({{"out_of_place", group_half_json(group.out)}, {"in_place", group_half_json(group.in)}});
  return list;
}

Json info_json(const RunInfo& info) {
  Json devices = Json::array(), plan = Json::object();
  for (const DeviceLine& device : info.devices) devices.push_back(device_json(device));
  for (const auto& [name, value] : info.plan) plan[name] = value;
  Json groups = info.groups.empty() ? Json(nullptr) : Json::array();
  for (const GroupLine& group : info.groups) groups.push_back({{"color", group.color}, {"ranks", group.ranks}});
  return {{"format", 1},
          {"tool", info.tool},
          {"version", info.version},
          {"collective", std::string(info_of(info.options.collective).name)},
          {"label", info.options.label},
          {"started", utc_text(info.started)},
          {"worker", info.worker},
          {"world", info.world},
          {"job", text_or_null(info.job)},
          {"step", text_or_null(info.step)},
          {"ranks", info.ranks},
          {"nodes", info.nodes},
          {"groups", groups},
          {"nccl_headers", info.header_code},
          {"nccl_library", info.library_code},
          {"max_bytes_in_force", info.max_bytes},
          {"options", options_json(info.options)},
          {"environment", plan},
          {"devices", devices}};
}

const char kList[] = "rows";

Json tail(const Ending& ending) {
  return {{"complete", ending.complete},
          {"ended", utc_text(std::time(nullptr))},
          {"seconds", ending.seconds},
          {"wrong_checks", ending.wrong_checks},
          {"mean_busbw", number_or_null(ending.mean_busbw)},
          {"exit_status", ending.exit_status},
          {"notes", ending.notes},
          {"trouble", ending.trouble.lines}};
}

}  // namespace

void JsonReporter::start(const RunInfo& info) { document_.start(info_json(info), kList); }

void JsonReporter::add(const Row& row) {
  document_.add({{"bytes", row.bytes},
                 {"elements", row.elements},
                 {"type", row.type},
                 {"op", row.op == "none" || row.op.empty() ? Json(nullptr) : Json(row.op)},
                 {"root", row.root < 0 ? Json(nullptr) : Json(row.root)},
                 {"cycle", row.cycle},
                 {"iterations", row.iterations},
                 {"time", utc_text(row.stamp)},
                 {"out_of_place", half_json(row.out)},
                 {"in_place", half_json(row.in)},
                 {"groups", groups_json(row.groups)}});
}

void JsonReporter::finish(const Ending& ending) { document_.finish(tail(ending)); }

bool end_document(const std::string& path, const Ending& ending) {
  std::ifstream file(path, std::ios::binary);
  std::string line;
  if (!std::getline(file, line) || !line.ends_with(GrowingDocument::opening_of(kList))) return false;
  uint64_t at = line.size() + 1, end = line.size();
  while (std::getline(file, line)) {
    const size_t comma = line.ends_with(',') ? 1 : 0;
    if (!Json::accept(line.begin(), line.end() - static_cast<ptrdiff_t>(comma))) break;
    end = at + line.size() - comma;
    at += line.size() + 1;
  }
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return false;
  Sink sink(fd, path);
  sink.write_at(end, GrowingDocument::ending(tail(ending)));
  return !sink.broken();
}

}  // namespace nccltune::bench
