// SPDX-License-Identifier: Apache-2.0
// The JSON that `report` reads. Files come from anywhere: a field of another type than ours counts as absent.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/text.h"
#include "cli/json_field.h"
#include "cli/report_run.h"

namespace nccltune::cli {

namespace {

using Json = nlohmann::ordered_json;

std::string text(const Json& json, const char* name) {
  const Json& value = field(json, name);
  return value.is_string() ? value.get<std::string>() : "";
}

std::optional<double> number(const Json& json, const char* name) {
  const Json& value = field(json, name);
  if (value.is_number()) return value.get<double>();
  // nccl-tests writes some numbers as text: root is "    -1".
  if (!value.is_string()) return std::nullopt;
  char* end = nullptr;
  const std::string copy(trim(value.get_ref<const std::string&>()));
  const double parsed = std::strtod(copy.c_str(), &end);
  return copy.empty() || *end || !std::isfinite(parsed) ? std::nullopt : std::optional<double>(parsed);
}

uint64_t size_of(const Json& json, const char* name) {
  const double value = number(json, name).value_or(0);
  return value > 0 && value < 9e18 ? static_cast<uint64_t>(value) : 0;
}

int int_of(const Json& json, const char* name, int otherwise) {
  const double value = number(json, name).value_or(otherwise);
  return std::abs(value) < 2e9 ? static_cast<int>(value) : otherwise;
}

std::string version_text(double code) {
  const int n = code > 0 && code < 1e7 ? static_cast<int>(code) : 0;
  return n ? fmt::format("{}.{}.{}", n / 10000, n / 100 % 100, n % 100) : "";
}

// ---- nccl-tune bench ----

std::optional<ReportHalf> half_of_ours(const Json& json) {
  if (!json.is_object()) return std::nullopt;
  ReportHalf half{.time_us = number(json, "time_us").value_or(0),
                  .algbw = number(json, "algbw").value_or(0),
                  .busbw = number(json, "busbw").value_or(0)};
  if (auto wrong = number(json, "wrong")) half.wrong = count_of(*wrong);
  const Json& iterations = field(json, "iterations");
  half.min_us = number(iterations, "min_us");
  half.p50_us = number(iterations, "p50_us");
  half.p95_us = number(iterations, "p95_us");
  half.p99_us = number(iterations, "p99_us");
  half.max_us = number(iterations, "max_us");
  half.skew_us = number(iterations, "arrival_skew_us");
  half.network_us = number(iterations, "from_last_arrival_us");
  if (const int rank = int_of(iterations, "late_rank", -1); rank >= 0) half.late_rank = rank;
  half.late_share = number(iterations, "late_share").value_or(0);
  return half;
}

void read_strings(const Json& list, std::vector<std::string>& to) {
  for (const Json& item : list)
    if (item.is_string()) to.push_back(item.get<std::string>());
}

void read_ours(const Json& json, Reading& reading) {
  ReportRun run;
  run.file = reading.file;
  run.label = text(json, "label");
  run.tool = text(json, "tool") + " " + text(json, "version");
  run.nccl = version_text(number(json, "nccl_library").value_or(0));
  run.collective = text(json, "collective");
  run.started = text(json, "started");
  run.job = text(json, "job");
  run.ranks = int_of(json, "ranks", 0);
  run.nodes = int_of(json, "nodes", 0);
  for (const Json& device : field(json, "devices"))
    run.devices.push_back({int_of(device, "rank", 0), text(device, "host"), text(device, "name")});
  for (const Json& row : field(json, "rows")) {
    ReportRow one{.bytes = size_of(row, "bytes"),
                  .elements = size_of(row, "elements"),
                  .type = text(row, "type"),
                  .op = text(row, "op"),
                  .root = int_of(row, "root", -1)};
    one.out = half_of_ours(field(row, "out_of_place"));
    one.in = half_of_ours(field(row, "in_place"));
    if (one.best()) run.rows.push_back(std::move(one));
  }
  run.mean_busbw = number(json, "mean_busbw");
  if (auto wrong = number(json, "wrong_checks")) run.out_of_bounds = count_of(*wrong);
  run.complete = field(json, "complete").is_boolean() && field(json, "complete").get<bool>();
  read_strings(field(json, "notes"), run.notes);
  read_strings(field(json, "trouble"), run.trouble);
  if (field(json, "environment").is_object())
    for (const auto& [name, value] : field(json, "environment").items())
      if (value.is_string()) run.environment.emplace_back(name, value.get<std::string>());
  if (!run.complete && run.trouble.empty()) run.notes.emplace_back("the run had not ended when this was written");
  conclude(run);
  reading.runs.push_back(std::move(run));
  reading.kind = "nccl-tune bench";
}

// ---- nccl-tests -J ----

std::optional<ReportHalf> half_of_theirs(const Json& json, const Json& iterations) {
  if (!json.is_object()) return std::nullopt;
  ReportHalf half{.time_us = number(json, "time").value_or(0),
                  .algbw = number(json, "alg_bw").value_or(0),
                  .busbw = number(json, "bus_bw").value_or(0)};
  if (auto wrong = number(json, "nwrong"); wrong && *wrong >= 0) half.wrong = count_of(*wrong);
  half.min_us = number(iterations, "min_us");
  half.p50_us = number(iterations, "p50_us");
  half.p95_us = number(iterations, "p95_us");
  half.p99_us = number(iterations, "p99_us");
  half.max_us = number(iterations, "max_us");
  return half;
}

void read_theirs(const Json& json, Reading& reading) {
  ReportRun run;
  run.file = reading.file;
  run.tool = "nccl-tests";
  run.nccl = version_text(number(json, "nccl_version").value_or(0));
  run.started = text(json, "start_time");
  if (const Json& arguments = field(json, "args");
      arguments.is_array() && !arguments.empty() && arguments[0].is_string()) {
    std::string program = arguments[0].get<std::string>();
    program = program.substr(program.rfind('/') + 1);
    if (program.ends_with("_perf")) run.collective = program.substr(0, program.size() - 5);
  }
  const Json& config = field(json, "config");
  for (const Json& device : field(config, "devices"))
    run.devices.push_back({int_of(device, "rank", 0), text(device, "hostname"), text(device, "device_info")});
  for (const Json& row : field(json, "results")) {
    ReportRow one{.bytes = size_of(row, "size"),
                  .elements = size_of(row, "count"),
                  .type = text(row, "type"),
                  .op = text(row, "redop") == "none" ? "" : text(row, "redop"),
                  .root = int_of(row, "root", -1)};
    one.out = half_of_theirs(field(row, "out_of_place"), field(row, "out_of_place_per_iter"));
    one.in = half_of_theirs(field(row, "in_place"), field(row, "in_place_per_iter"));
    if (one.best()) run.rows.push_back(std::move(one));
  }
  run.mean_busbw = number(field(json, "average_bus_bandwidth"), "bandwidth");
  if (auto count = number(field(json, "out_of_bounds"), "count")) run.out_of_bounds = count_of(*count);
  for (const Json& error : field(json, "errors"))
    run.trouble.push_back(error.is_string() ? error.get<std::string>() : error.dump());
  run.complete = run.trouble.empty() && !field(json, "end_time").is_null() && !run.rows.empty();
  conclude(run);
  reading.runs.push_back(std::move(run));
  reading.kind = "nccl-tests -J";
}

// ---- one object a measurement: rccl-tests ----

void read_line_of_rccl(const Json& json, Reading& reading) {
  std::string name = text(json, "name"), snake;
  for (char c : name) {
    if (c >= 'A' && c <= 'Z' && !snake.empty()) snake += '_';
    snake += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  }
  if (reading.runs.empty() || reading.runs.back().collective != snake) {
    ReportRun& run = reading.runs.emplace_back();
    run.file = reading.file;
    run.tool = "rccl-tests";
    run.collective = snake;
    run.ranks = int_of(json, "gpus", 0);
    run.complete = true;
  }
  ReportRun& run = reading.runs.back();
  const uint64_t bytes = size_of(json, "size");
  const std::string type = text(json, "type");
  if (run.rows.empty() || run.rows.back().bytes != bytes || run.rows.back().type != type)
    run.rows.push_back({.bytes = bytes, .type = type, .op = text(json, "redop")});
  ReportHalf half{.time_us = number(json, "time").value_or(0),
                  .algbw = number(json, "algBw").value_or(0),
                  .busbw = number(json, "busBw").value_or(0)};
  if (auto wrong = number(json, "#wrong")) half.wrong = count_of(*wrong);
  (int_of(json, "inPlace", 0) ? run.rows.back().in : run.rows.back().out) = half;
  reading.kind = "rccl-tests' JSON";
}

// ---- nccl-tune pairs: a line for each of its kinds ----

bool is_line_of_pairs(const Json& json) {
  static const std::set<std::string> kKinds = {"start", "alone", "pair", "finding", "end"};
  return kKinds.contains(text(json, "kind"));
}

void read_line_of_pairs(const Json& json, Reading& reading) {
  if (reading.pairs.is_null())
    reading.pairs = {{"start", nullptr}, {"figures", Json::array()}, {"findings", Json::array()}, {"end", nullptr}};
  const std::string kind = text(json, "kind");
  if (kind == "start" || kind == "end")
    reading.pairs[kind] = json;
  else
    reading.pairs[kind == "finding" ? "findings" : "figures"].push_back(json);
  reading.kind = "nccl-tune pairs";
}

}  // namespace

bool read_json_document(const nlohmann::ordered_json& json, Reading& reading) {
  if (json.is_array()) {
    bool any = false;
    for (const Json& item : json) any = read_json_document(item, reading) || any;
    return any;
  }
  if (!json.is_object()) return false;
  if (is_line_of_pairs(json)) {
    read_line_of_pairs(json, reading);
  } else if (json.contains("findings") && json["findings"].is_array()) {
    reading.findings = json;
    reading.kind = "nccl-tune check";
  } else if (json.contains("numa") && json.contains("gpus")) {
    reading.topology = json;
    reading.kind = "nccl-tune topo";
  } else if (json.contains("env") && json.contains("tasks") && json.contains("kept")) {
    reading.plan = json;
    reading.kind = "nccl-tune plan";
  } else if (json.contains("rows") && json["rows"].is_array()) {
    read_ours(json, reading);
  } else if (json.contains("results") && json["results"].is_array()) {
    read_theirs(json, reading);
  } else if (json.contains("busBw") && json.contains("name")) {
    read_line_of_rccl(json, reading);
  } else {
    return false;
  }
  return true;
}

void Reading::refuse(int line, std::string_view text, std::string why) {
  ++refused_in_all;
  if (refused.size() < 100) refused.push_back({line, std::string(trim(text).substr(0, 120)), std::move(why)});
}

double ReportRun::peak_busbw() const {
  double peak = 0;
  for (const ReportRow& row : rows)
    for (const auto* half : {&row.out, &row.in})
      if (*half) peak = std::max(peak, (*half)->busbw);
  return peak;
}

std::string ReportRun::gpu() const { return devices.empty() ? "" : devices.front().name; }

void conclude(ReportRun& run) {
  std::set<std::string> hosts;
  int most = -1;
  for (const ReportDevice& device : run.devices) {
    hosts.insert(device.host);
    most = std::max(most, device.rank);
  }
  std::set<int> ranks;
  for (const ReportDevice& device : run.devices)
    if (!ranks.insert(device.rank).second) {
      run.notes.push_back(
          fmt::format("rank {} is listed twice: the processes did not find each other "
                      "(NVIDIA/nccl-tests#213, #306)",
                      device.rank));
      break;
    }
  if (run.ranks == 0) run.ranks = most + 1;
  // A table of devices that was cut tells neither all ranks' hosts.
  if (run.nodes == 0 && static_cast<int>(run.devices.size()) == run.ranks) run.nodes = static_cast<int>(hosts.size());
  if (!run.collective.empty()) return;
  // Before 2.16.7 the output did not name the collective: the bus factor and the columns do, but for the collectives
  // whose factor is (n-1)/n, which are alike.
  for (auto row = run.rows.rbegin(); row != run.rows.rend(); ++row) {
    const ReportHalf* half = row->best();
    if (!half || half->algbw < 1) continue;
    const double factor = half->busbw / half->algbw;
    if (factor > 1.02)
      run.collective = "all_reduce";
    else if (row->root >= 0)
      run.collective = row->op.empty() ? "broadcast" : "reduce";
    else if (factor < 0.995 && factor > 0.4 && !row->op.empty())
      run.collective = "reduce_scatter";
    break;
  }
}

namespace {

// One object a line, as rccl-tests writes it.
void read_json_lines(const std::string& text, Reading& reading) {
  int line = 0;
  for (std::string_view one : split_lines(text)) {
    ++line;
    const std::string_view trimmed = trim(one);
    if (trimmed.empty() || trimmed.starts_with('#')) continue;
    const Json json = Json::parse(trimmed, nullptr, false);
    if (json.is_discarded())
      reading.refuse(line, one, "no whole JSON document");
    else if (!read_json_document(json, reading))
      reading.refuse(line, one, "a JSON document of another kind");
  }
  reading.lines = line;
}

}  // namespace

Reading read_report_file(const std::string& file, const std::string& text) {
  Reading reading;
  reading.file = file;
  const std::string_view start = trim(text);
  if (start.starts_with('{') || start.starts_with('[')) {
    const Json json = Json::parse(text, nullptr, false);
    if (!json.is_discarded()) {
      reading.lines = static_cast<int>(split_lines(text).size());
      if (!read_json_document(json, reading)) reading.refuse(1, start, "a JSON document of another kind");
      return reading;
    }
  }
  // A '[' also begins the tag of mpirun; a JSON object a line may follow a comment.
  if (text.find("\n{\"") != std::string::npos || start.starts_with("{"))
    read_json_lines(text, reading);
  else
    read_nccl_tests(text, reading);
  if (reading.empty() && reading.refused.empty()) reading.refuse(1, first_line(start), "nothing that is known here");
  return reading;
}

}  // namespace nccltune::cli
