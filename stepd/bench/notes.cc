// SPDX-License-Identifier: Apache-2.0
#include "bench/notes.h"

#include <algorithm>
#include <cstdint>
#include <map>

#include "bench/text.h"

namespace nccltune::bench {
namespace {

constexpr uint64_t kLarge = 1ull << 30;  // sizes from which a link's rate can be read (NVIDIA/nccl-tests#212)
constexpr size_t kMostLines = 64;

std::string cuda_version(int32_t code) { return print("%d.%d", code / 1000, code % 1000 / 10); }

std::string who(const RunInfo& info, int rank) {
  if (rank < 0 || rank >= static_cast<int>(info.devices.size())) return print("rank %d", rank);
  const DeviceLine& device = info.devices[rank];
  std::string text = print("rank %d (%s", rank, device.host.c_str());
  if (!device.bdf.empty()) text += ", GPU " + device.bdf;
  return text + ")";
}

std::string times_line(const RunInfo& info, const Row& row, const char* placement, const Summary& s) {
  std::string text = print("%10s %8s %6s %3s %6zu %9.2f %9.2f", human_size(row.bytes).c_str(), row.type.c_str(),
                           row.op.c_str(), placement, s.count, s.min * 1e6, s.p50 * 1e6);
  text += s.median_interval ? print(" %9.2f %9.2f", s.median_interval->first * 1e6, s.median_interval->second * 1e6)
                            : print(" %9s %9s", "-", "-");
  text += print(" %9.2f", s.p95 * 1e6) + (s.p99 ? print(" %9.2f", *s.p99 * 1e6) : print(" %9s", "-"));
  text += print(" %9.2f %6.1f%%", s.max * 1e6, s.drift * 100);
  text += info.ranks > 1 ? print(" %9.2f %5d", s.skew * 1e6, s.late_rank) : print(" %9s %5s", "-", "-");
  return s.drifts() ? text + " drifts" : text;
}

void add_percentiles(const RunInfo& info, const Row& row, const char* placement, const Half& half,
                     std::vector<std::string>& lines) {
  if (info.options.percentiles.empty() || half.samples.empty()) return;
  std::vector<double> sorted;
  for (const protocol::Sample& sample : half.samples) sorted.push_back(sample.max_seconds);
  std::sort(sorted.begin(), sorted.end());
  std::string text =
      print("%10s %8s %6s %3s", human_size(row.bytes).c_str(), row.type.c_str(), row.op.c_str(), placement);
  for (const double p : info.options.percentiles) text += print("  p%g %.2f us", p, percentile(sorted, p / 100) * 1e6);
  lines.push_back(text);
}

// The late rank of the whole run, when there is one: late in most iterations of most rows, and by a time that counts.
std::vector<std::string> late_rank_lines(const RunInfo& info, const std::vector<Row>& rows) {
  std::map<int, size_t> times_late;
  size_t counted = 0;
  double skew = 0;
  for (const Row& row : rows)
    for (const Half* half : {&row.out, &row.in}) {
      const Summary& s = half->summary;
      if (s.late_rank < 0) continue;
      ++counted;
      if (s.late_share < 0.5 || s.skew < 0.05 * s.p50 || s.skew < 5e-6) continue;
      ++times_late[s.late_rank];
      skew = std::max(skew, s.skew);
    }
  for (const auto& [rank, count] : times_late)
    if (2 * count > counted)
      return {
          print("%s comes late in most iterations of %zu of %zu measurements; the others wait for it, up to %.0f us",
                who(info, rank).c_str(), count, counted, skew * 1e6)};
  return {};
}

}  // namespace

double best_busbw(const std::vector<Row>& rows) {
  double best = 0;
  for (const Row& row : rows) best = std::max({best, row.out.busbw, row.in.busbw});
  return best;
}

std::vector<std::string> describe_setting(const RunInfo& info, const std::string& worker_note) {
  std::vector<std::string> lines;
  std::string text = print("nccl-tune %s: %d rank%s, %d node%s, %s, %s", info.version.c_str(), info.ranks,
                           info.ranks == 1 ? "" : "s", info.nodes, info.nodes == 1 ? "" : "s",
                           info.devices.empty() ? "" : info.devices.front().library.c_str(), info.world.c_str());
  if (!info.devices.empty() && info.devices.front().cuda_driver)
    text += print(", CUDA %s, driver for %s", cuda_version(info.devices.front().cuda_runtime).c_str(),
                  cuda_version(info.devices.front().cuda_driver).c_str());
  lines.push_back(text);
  if (!worker_note.empty()) lines.push_back(worker_note);
  if (info.ranks == 1)
    lines.push_back(
        "1 rank: nothing leaves the device, so busbw is 0 by its definition; start more ranks to measure links");
  return lines;
}

std::vector<std::string> describe_rates(const RunInfo& info, const std::vector<Row>& rows) {
  if (rows.empty() || info.ranks == 1) return {};
  const Row* best = &rows.front();
  double large = 0;
  int count = 0;
  for (const Row& row : rows) {
    if (std::max(row.out.busbw, row.in.busbw) > std::max(best->out.busbw, best->in.busbw)) best = &row;
    if (row.bytes < kLarge) continue;
    for (const Half* half : {&row.out, &row.in})
      if (half->ran) large += half->busbw, ++count;
  }
  std::vector<std::string> lines = {print("peak busbw %.2f GB/s, with %s", std::max(best->out.busbw, best->in.busbw),
                                          human_size(best->bytes).c_str())};
  if (count) lines.front() += print("; mean from 1 GiB up %.2f GB/s", large / count);
  lines.front() += "; the mean above is over all sizes, small ones too";
  return lines;
}

std::vector<std::string> describe_times(const RunInfo& info, const std::vector<Row>& rows) {
  std::vector<std::string> lines, more;
  for (const Row& row : rows)
    for (const auto& [name, half] : {std::pair("out", &row.out), std::pair("in", &row.in)}) {
      if (half->summary.count == 0) continue;
      if (lines.empty()) {
        lines.push_back(
            "time of one iteration, the maximum over ranks, in us (device clock; n: iterations; 95 %: interval of the "
            "median;");
        lines.push_back(
            "skew: the longest wait for the last to arrive, median; late: the rank that waits least most often)");
        lines.push_back(print("%10s %8s %6s %3s %6s %9s %9s %9s %9s %9s %9s %9s %7s %9s %5s", "size", "type", "redop",
                              "", "n", "min", "p50", "95% from", "to", "p95", "p99", "max", "drift", "skew", "late"));
      }
      if (lines.size() < kMostLines + 3) lines.push_back(times_line(info, row, name, half->summary));
      add_percentiles(info, row, name, *half, more);
    }
  if (lines.size() == kMostLines + 3) lines.push_back("more rows are in the JSON (--json)");
  lines.insert(lines.end(), more.begin(), more.end());
  for (std::string& line : late_rank_lines(info, rows)) lines.push_back(std::move(line));
  return lines;
}

std::vector<std::string> describe_wrong(const RunInfo& info, const std::vector<Row>& rows) {
  std::vector<std::string> lines;
  for (const Row& row : rows)
    for (const auto& [name, half] : {std::pair("out of place", &row.out), std::pair("in place", &row.in)}) {
      if (!half->checked || half->wrong == 0) continue;
      std::string text =
          print("wrong data: %s %s %s, %s: %lld elements of %d ranks", human_size(row.bytes).c_str(), row.type.c_str(),
                row.op.c_str(), name, static_cast<long long>(half->wrong), half->bad_ranks);
      if (half->wrong_rank >= 0)
        text += print("; first: %s, element %lld, expected %s, found %s", who(info, half->wrong_rank).c_str(),
                      static_cast<long long>(half->wrong_element), half->expected.c_str(), half->found.c_str());
      lines.push_back(text);
    }
  return lines;
}

}  // namespace nccltune::bench
