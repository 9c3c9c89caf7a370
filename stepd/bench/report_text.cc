// SPDX-License-Identifier: Apache-2.0
#include "bench/report_text.h"

#include "bench/text.h"

namespace nccltune::bench {
namespace {

constexpr int kTimeWidth = 7, kRateWidth = 6, kStampWidth = 19;

const char* blocking_line(int mode) {
  switch (mode) {
    case 1:
      return "# Blocking Enabled: wait and barrier after each inner iteration (-m) \n";
    case 2:
      return "# Blocking Enabled: wait after each inner iteration (-m), no barrier \n";
    case 3:
      return "# Blocking Enabled: wait and barrier after each outer iteration (-n); time excludes barrier \n";
    default:
      return "";
  }
}

std::string device_text(const DeviceLine& device) {
  // nccl-tests cuts a host name at the first dot, and prints the PCI address without the function.
  const std::string host = device.host.substr(0, device.host.find('.'));
  const std::string bus = device.bdf.empty() ? "0000:00:00" : device.bdf.substr(0, device.bdf.find('.'));
  return print("#  Rank %2d Group %2d Pid %6lld on %10s device %2d [%s] %s\n", device.rank, device.group,
               static_cast<long long>(device.pid), host.c_str(), device.device, bus.c_str(), device.name.c_str());
}

// One line of the table's head: five columns, then a half twice, then the time stamp's.
std::string head_line(const Options& o, const char* size, const char* count, const char* type, const char* op,
                      const char* root, const char* time, const char* rate_a, const char* rate_b, const char* wrong,
                      const std::vector<const char*>& iteration, const char* stamp) {
  std::string text = print("# %10s  %12s  %8s  %6s  %6s", size, count, type, op, root);
  for (int half = 0; half < 2; ++half) {
    text += print("  %7s  %6s  %6s  %6s", time, rate_a, rate_b, wrong);
    if (o.per_iteration)
      for (const char* name : iteration) text += print("  %7s", name);
  }
  return text + print(" %*s\n", o.timestamps ? kStampWidth : 0, o.timestamps ? stamp : "");
}

std::string table_head(const Options& o) {
  std::string text = "#\n";
  const std::string lead = print("# %10s  %12s  %8s  %6s  %6s", "", "", "", "", "");
  text += lead + (o.per_iteration
                      ? "              out-of-place (+ per-iteration)                                in-place (+ "
                        "per-iteration)\n"
                      : "           out-of-place                       in-place          \n");
  const char* time = o.cpu_time ? "cputime" : "time";
  text += head_line(o, "size", "count", "type", "redop", "root", time, "algbw", "busbw", "#wrong",
                    {"i_min", "i_max", "i_p99", "i_cv%"}, "timestamp");
  text += head_line(o, "(B)", "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", "", {"(us)", "(us)", "(us)", "(%)"},
                    "%Y-%m-%d %H:%M:%S");
  return text;
}

std::string half_text(const Options& o, const Half& half) {
  const double shown = o.cpu_time ? half.cpu_seconds : half.seconds;
  std::string text = "  " + fit_number(shown * 1e6, kTimeWidth) + "  " + fit_number(half.algbw, kRateWidth) + "  " +
                     fit_number(half.busbw, kRateWidth);
  text += half.checked ? print("  %6g", static_cast<double>(half.wrong)) : std::string("    N/A");
  if (o.per_iteration) {
    const Summary& s = half.summary;
    for (const double value : {s.min * 1e6, s.max * 1e6, s.p99_nearest * 1e6, s.cv * 100})
      text += "  " + fit_number(value, kTimeWidth);
  }
  return text;
}

std::string comments(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += "# " + neutral_comment(line) + "\n";
  return text;
}

}  // namespace

std::string header_text(const RunInfo& info) {
  const Options& o = info.options;
  std::string text = o.announce_json ? "# Writing JSON output to " + o.json + "\n" : "";
  text += print("# %s version %s nccl-headers=%d nccl-library=%d\n", info.tool.c_str(), info.version.c_str(),
                info.header_code, info.library_code);
  text += "# Collective test starting: " + info.program() + "\n";
  text += print(
      "# nThread %d nGpus %d minBytes %llu maxBytes %llu step: %lld(%s) warmup iters: %d iters: %d agg iters: %d "
      "validation: %d graph: %d unalign: %llu\n",
      o.threads, o.gpus, static_cast<unsigned long long>(o.min_bytes), static_cast<unsigned long long>(o.max_bytes),
      static_cast<long long>(o.adds_bytes() ? o.step_bytes : o.factor), o.adds_bytes() ? "bytes" : "factor", o.warmup,
      o.iterations, o.aggregate, o.check, o.graph, static_cast<unsigned long long>(o.unalign));
  text += blocking_line(o.blocking);
  if (o.per_iteration) {
    text += "# Per-Iteration Report: CUDA event timing; i_* uses max over process rows";
    if (o.skip) text += print("; summary skips first %d iterations", o.skip);
    text += " \n";
  }
  if (o.parallel_init) text += "# Parallel Init Enabled: threads call into NcclInitRank concurrently \n";
  text += "#\n# Using devices\n";
  for (const DeviceLine& device : info.devices) text += device_text(device);
  if (info.max_bytes < o.max_bytes)
    text += print("#\n# Reducing maxBytes to %llu due to memory limitation\n",
                  static_cast<unsigned long long>(info.max_bytes));
  return text + table_head(o);
}

std::string row_text(const Options& o, const Row& row) {
  std::string text = print("%12llu  %12llu  %8s  %6s  %6d", static_cast<unsigned long long>(row.bytes),
                           static_cast<unsigned long long>(row.elements), row.type.c_str(), row.op.c_str(), row.root);
  text += half_text(o, row.out) + half_text(o, row.in);
  if (o.timestamps) text += print("%21s", local_time_text(row.stamp).c_str());
  return text + "\n";
}

std::string trouble_text(const std::vector<std::string>& lines) {
  if (lines.empty()) return "";
  return "#\n# error: " + neutral_comment(lines.front()) + "\n" + comments({lines.begin() + 1, lines.end()});
}

std::string ending_text(const RunInfo& info, const Ending& ending) {
  std::string text;
  if (ending.complete) {
    // Without this footer the readers take a run for failed: it stands under complete tables only.
    text += print("# %-20s : %lld %s\n", "Out of bounds values", static_cast<long long>(ending.wrong_checks),
                  ending.wrong_checks ? "FAILED" : "OK");
    text += print("# %-20s : %g %s\n", "Avg bus bandwidth", ending.mean_busbw,
                  !ending.mean_ok   ? ""
                  : *ending.mean_ok ? "OK"
                                    : "FAILED");
  }
  text += "#\n# Collective test concluded: " + info.program() + "\n";
  if (!ending.memory.empty()) text += print("# %-20s : %s\n", "GPU memory usage", ending.memory.c_str());
  text += "#\n";
  if (ending.trouble.any())
    text += "# error: " + neutral_comment(ending.trouble.lines.front()) + "\n";
  else
    text += "\n";
  std::vector<std::string> more = ending.trouble.lines;
  if (!more.empty()) more.erase(more.begin());
  return text + comments(more) + comments(ending.notes);
}

void TextReporter::write(const std::string& text) {
  for (Sink& sink : sinks_) sink.write(text);
}

void TextReporter::start(const RunInfo& info) {
  info_ = info;
  write(header_text(info));
}

void TextReporter::add(const Row& row) { write(row_text(info_.options, row)); }

void TextReporter::finish(const Ending& ending) { write(ending_text(info_, ending)); }

}  // namespace nccltune::bench
