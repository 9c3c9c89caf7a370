// SPDX-License-Identifier: Apache-2.0
#include "bench/report_json.h"

#include <fcntl.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "bench/text.h"

namespace nccltune::bench {
namespace {

using Json = nlohmann::ordered_json;

std::string utc(std::time_t when) {
  std::tm broken{};
  gmtime_r(&when, &broken);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &broken);
  return text;
}

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

template <class T>
Json optional_of(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

// One line; bytes that are no UTF-8 (a host name, a library's message) are replaced, not fatal.
std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

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
  Json times = Json::array(), shortest = Json::array(), first_done = Json::array();
  for (const protocol::Sample& sample : half.samples) {
    times.push_back(number(sample.max_seconds * 1e6));
    shortest.push_back(number(sample.min_seconds * 1e6));
    first_done.push_back(sample.min_rank);
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
          {"times_us", times},
          {"shortest_us", shortest},
          {"shortest_rank", first_done}};
}

Json half_json(const Half& half) {
  if (!half.ran) return nullptr;
  Json first = nullptr;
  if (half.wrong_rank >= 0)
    first = {
        {"rank", half.wrong_rank}, {"element", half.wrong_element}, {"expected", half.expected}, {"found", half.found}};
  return {{"time_us", number(half.seconds * 1e6)},
          {"cpu_time_us", half.cpu_seconds > 0 ? Json(half.cpu_seconds * 1e6) : Json(nullptr)},
          {"algbw", number(half.algbw)},
          {"busbw", number(half.busbw)},
          {"wrong", half.checked ? Json(half.wrong) : Json(nullptr)},
          {"wrong_ranks", half.checked ? Json(half.bad_ranks) : Json(nullptr)},
          {"first_wrong", first},
          {"iterations", summary_json(half)}};
}

Json group_half_json(const GroupHalf& half) {
  if (!(half.seconds > 0)) return nullptr;
  return {{"time_us", half.seconds * 1e6},
          {"algbw", number(half.algbw)},
          {"busbw", number(half.busbw)},
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
          {"started", utc(info.started)},
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

// The document's tail while the run goes on: a reader of a killed run's file sees complete = false.
const char kRowsFollow[] = "\"rows\":[";
const char kOpenTail[] = "\n],\"complete\":false,\"ended\":null}\n";

std::string tail(const Ending& ending) {
  const Json json = {{"complete", ending.complete},
                     {"ended", utc(std::time(nullptr))},
                     {"seconds", ending.seconds},
                     {"wrong_checks", ending.wrong_checks},
                     {"mean_busbw", number(ending.mean_busbw)},
                     {"exit_status", ending.exit_status},
                     {"notes", ending.notes},
                     {"trouble", ending.trouble.lines}};
  return "\n]," + dump(json).substr(1) + "\n";
}

}  // namespace

void JsonReporter::start(const RunInfo& info) {
  info_ = info;
  std::string head = dump(info_json(info));
  head.back() = ',';  // the object stays open
  head += kRowsFollow;
  end_of_rows_ = head.size();
  sink_.write_at(0, head + kOpenTail);
}

void JsonReporter::add(const Row& row) {
  const Json json = {{"bytes", row.bytes},
                     {"elements", row.elements},
                     {"type", row.type},
                     {"op", row.op == "none" || row.op.empty() ? Json(nullptr) : Json(row.op)},
                     {"root", row.root < 0 ? Json(nullptr) : Json(row.root)},
                     {"cycle", row.cycle},
                     {"iterations", row.iterations},
                     {"time", utc(row.stamp)},
                     {"out_of_place", half_json(row.out)},
                     {"in_place", half_json(row.in)},
                     {"groups", groups_json(row.groups)}};
  const std::string text = (first_ ? "\n" : ",\n") + dump(json);
  first_ = false;
  // Row and tail go in one call: at no moment is the file something else than a document.
  sink_.write_at(end_of_rows_, text + kOpenTail, kOpenTail);
  end_of_rows_ += text.size();
}

void JsonReporter::finish(const Ending& ending) { sink_.write_at(end_of_rows_, tail(ending), kOpenTail); }

bool end_document(const std::string& path, const Ending& ending) {
  std::ifstream file(path, std::ios::binary);
  std::string line;
  if (!std::getline(file, line) || !line.ends_with(kRowsFollow)) return false;
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
  sink.write_at(end, tail(ending));
  return !sink.broken();
}

}  // namespace nccltune::bench
