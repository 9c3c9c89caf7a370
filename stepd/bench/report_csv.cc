// SPDX-License-Identifier: Apache-2.0
#include "bench/report_csv.h"

#include "bench/text.h"

namespace nccltune::bench {
namespace {

std::string micros(double seconds) { return print("%.3f", seconds * 1e6); }

std::string line(const RunInfo& info, const Row& row, const char* placement, const Half& half) {
  const Summary& s = half.summary;
  std::vector<std::string> cells = {std::string(info_of(info.options.collective).name),
                                    std::to_string(row.bytes),
                                    std::to_string(row.elements),
                                    row.type,
                                    row.op == "none" ? "" : row.op,
                                    row.root < 0 ? "" : std::to_string(row.root),
                                    placement,
                                    std::to_string(row.cycle),
                                    std::to_string(row.iterations),
                                    micros(half.seconds),
                                    print("%.6g", half.algbw),
                                    print("%.6g", half.busbw),
                                    half.checked ? std::to_string(half.wrong) : ""};
  const bool any = s.count > 0;
  cells.push_back(any ? std::to_string(s.count) : "");
  for (const double value : {s.min, s.p50, s.p95}) cells.push_back(any ? micros(value) : "");
  cells.push_back(s.p99 ? micros(*s.p99) : "");
  cells.push_back(any ? micros(s.max) : "");
  cells.push_back(s.median_interval ? micros(s.median_interval->first) : "");
  cells.push_back(s.median_interval ? micros(s.median_interval->second) : "");
  cells.push_back(any ? print("%.4f", s.drift) : "");
  cells.push_back(any ? micros(s.skew) : "");
  cells.push_back(s.late_rank >= 0 ? std::to_string(s.late_rank) : "");
  cells.push_back(utc_text(row.stamp));
  cells.push_back(std::to_string(info.ranks));
  cells.push_back(std::to_string(info.nodes));
  cells.push_back(info.worker);
  cells.push_back(info.devices.empty() ? "" : info.devices.front().name);
  cells.push_back(info.devices.empty() ? "" : info.devices.front().library);
  cells.push_back(info.version);
  cells.push_back(info.job);
  cells.push_back(half.repeats.runs ? std::to_string(half.repeats.runs) : "");
  cells.push_back(half.repeats.runs ? std::to_string(half.repeats.differing) : "");
  for (std::string& cell : cells) cell = csv_field(cell);
  return join(cells, ",") + "\n";
}

}  // namespace

std::string csv_head() {
  return "collective,bytes,elements,type,op,root,placement,cycle,iterations,time_us,algbw_gbs,busbw_gbs,wrong,samples,"
         "min_us,p50_us,p95_us,p99_us,max_us,median_low_us,median_high_us,drift,arrival_skew_us,late_rank,utc,ranks,"
         "nodes,worker,device,library,version,job,repeats,repeats_differing\n";
}

std::string csv_rows(const RunInfo& info, const Row& row) {
  std::string text;
  if (row.out.ran) text += line(info, row, "out_of_place", row.out);
  if (row.in.ran) text += line(info, row, "in_place", row.in);
  return text;
}

void CsvReporter::start(const RunInfo& info) {
  info_ = info;
  sink_.write(csv_head());
}

}  // namespace nccltune::bench
