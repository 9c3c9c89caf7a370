// SPDX-License-Identifier: Apache-2.0
// nccl-tests' own output, from 2.8 to 2.19. The columns changed with the version and the collective; a row is read by
// the kinds of its words, not by their places.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <set>

#include "base/text.h"
#include "cli/report_run.h"

namespace nccltune::cli {

namespace {

using Words = std::vector<std::string_view>;

bool is_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

std::optional<double> number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

// "[1,0]<stdout>:" of mpirun --tag-output; " 0: " of srun -l; "2025-01-31T10:11:12.5Z " of kubectl and journald.
std::string_view without_prefix(std::string_view line) {
  std::string_view text = line.substr(std::min(line.size(), line.find_first_not_of(" \t")));
  if (text.starts_with('[')) {
    const size_t tag = text.find(">:");
    if (tag != std::string_view::npos && text.find("]<std") < tag) return text.substr(tag + 2);
  }
  const size_t colon = text.find(':');
  if (colon != std::string_view::npos && is_digits(text.substr(0, colon)) &&
      (colon + 1 == text.size() || text[colon + 1] == ' '))
    return text.substr(colon + 1);
  if (text.size() > 19 && text[4] == '-' && text[7] == '-' && text[10] == 'T' && is_digits(text.substr(0, 4))) {
    const size_t blank = text.find(' ');
    if (blank != std::string_view::npos) return text.substr(blank + 1);
  }
  return line;
}

bool is_type(std::string_view word) {
  static const std::set<std::string_view> kTypes{"int8", "uint8", "int32",    "uint32",   "int64",  "uint64",
                                                 "half", "float", "double",   "bfloat16", "f8e4m3", "f8e5m2",
                                                 "char", "int",   "fp8_e4m3", "fp8_e5m2"};
  return kTypes.contains(word);
}

bool is_op(std::string_view word) {
  static const std::set<std::string_view> kOps{"sum", "prod", "max", "min", "avg", "mulsum", "none"};
  return kOps.contains(word);
}

bool looks_like_row(const Words& words) {
  return words.size() >= 3 && is_digits(words[0]) && is_digits(words[1]) && is_type(words[2]);
}

// "2025-01-31 10:11:12" of -S at the end of a row.
bool ends_with_stamp(const Words& words) {
  return words.size() > 2 && words[words.size() - 2].size() == 10 && words[words.size() - 2][4] == '-' &&
         words.back().size() == 8 && words.back()[2] == ':';
}

struct RowForm {
  bool counts_wrong = true;  // the header has "#wrong" (2.13 and newer), not "error"
};

// time algbw busbw wrong, and with -I: i_min i_max i_p99 (us) i_cv.
std::optional<ReportHalf> read_half(const Words& words, size_t at, size_t width, const RowForm& form) {
  std::array<double, 3> value{};
  for (size_t i = 0; i < value.size(); ++i) {
    const auto parsed = number(words[at + i]);
    if (!parsed || *parsed < 0) return std::nullopt;
    value[i] = *parsed;
  }
  ReportHalf half{.time_us = value[0], .algbw = value[1], .busbw = value[2]};
  if (words[at + 3] != "N/A") {
    const auto wrong = number(words[at + 3]);
    if (!wrong) return std::nullopt;
    if (form.counts_wrong) half.wrong = count_of(*wrong);
  }
  if (width == 8) {
    half.min_us = number(words[at + 4]);
    half.max_us = number(words[at + 5]);
    half.p99_us = number(words[at + 6]);
  }
  return half;
}

// An error text, or "" and the row.
std::string read_row(Words words, const RowForm& form, ReportRow& row) {
  if (ends_with_stamp(words)) words.resize(words.size() - 2);
  const auto bytes = parse_int(words[0], 0, INT64_MAX), elements = parse_int(words[1], 0, INT64_MAX);
  if (!bytes || !elements) return "a size out of range";
  row.bytes = static_cast<uint64_t>(*bytes);
  row.elements = static_cast<uint64_t>(*elements);
  row.type = words[2];
  size_t at = 3;
  if (at < words.size() && is_op(words[at])) row.op = words[at] == "none" ? "" : words[at], ++at;
  // Two halves of an even number of words each: one word more is the root's.
  if ((words.size() - at) % 2 == 1) {
    const auto root = parse_int(words[at], -1, INT32_MAX);
    if (!root) return fmt::format("'{}' where the root is", words[at]);
    row.root = static_cast<int>(*root);
    ++at;
  }
  const size_t rest = words.size() - at;
  if (rest != 8 && rest != 16) return fmt::format("{} figures, 8 or 16 make a row", rest);
  row.out = read_half(words, at, rest / 2, form);
  row.in = read_half(words, at + rest / 2, rest / 2, form);
  return row.out && row.in ? "" : "a figure that is no number";
}

// What follows the mark, a part of the line; "" without it.
std::string_view after(std::string_view line, std::string_view mark) {
  const size_t at = line.find(mark);
  return at == std::string_view::npos ? std::string_view() : trim(line.substr(at + mark.size()));
}

class OutputReader {
 public:
  explicit OutputReader(Reading& reading) : reading_(reading) {}

  void take(int number, std::string_view raw);
  void end();

 private:
  // The run that a line belongs to. One that has rows or its footer is over when a header comes.
  ReportRun& run();
  ReportRun& run_for_header();
  bool take_comment(std::string_view line);
  bool take_device(std::string_view line);
  bool take_footer(std::string_view line);
  bool take_trouble(std::string_view line);
  void take_row(int number, std::string_view raw, const Words& words);

  Reading& reading_;
  RowForm form_;
  bool open_ = false, over_ = false;
  int headers_ = 0;  // "# nThread" lines since the run began
};

ReportRun& OutputReader::run() {
  if (open_) return reading_.runs.back();
  reading_.runs.emplace_back().file = reading_.file;
  open_ = true;
  over_ = false;
  headers_ = 0;
  form_ = {};
  return reading_.runs.back();
}

ReportRun& OutputReader::run_for_header() {
  if (open_ && (over_ || !reading_.runs.back().rows.empty())) open_ = false;
  return run();
}

bool OutputReader::take_device(std::string_view line) {
  // "#  Rank  0 Group  0 Pid 3617715 on    gpu-1-1 device  0 [0009:01:00] NVIDIA GH200 120GB"
  const Words words = split_words(line);
  const auto on = std::find(words.begin(), words.end(), "on");
  if (words.size() < 8 || words[0] != "#" || words[1] != "Rank" || on == words.end() || words.end() - on < 4 ||
      on[2] != "device")
    return false;
  const auto rank = parse_int(words[2], 0, INT32_MAX);
  if (!rank) return false;
  const size_t bracket = line.find(']');
  const std::string name(bracket == std::string_view::npos ? "" : trim(line.substr(bracket + 1)));
  // nccl-tests 2.19 prints no table of processes that ran separately; each of them is rank 0.
  run().devices.push_back({static_cast<int>(*rank), std::string(on[1]), name});
  return true;
}

bool OutputReader::take_footer(std::string_view line) {
  if (line.find("Out of bounds values") != std::string_view::npos) {
    const Words words = split_words(after(line, ":"));
    if (!words.empty())
      if (auto count = parse_int(words[0], 0, INT64_MAX)) run().out_of_bounds = *count;
    return true;
  }
  if (line.find("Avg bus bandwidth") != std::string_view::npos) {
    const Words words = split_words(after(line, ":"));
    if (!words.empty()) run().mean_busbw = number(words[0]);
    run().complete = run().trouble.empty() && !run().rows.empty();
    over_ = true;
    return true;
  }
  return false;
}

bool OutputReader::take_comment(std::string_view line) {
  if (take_device(line) || take_footer(line)) return true;
  if (line.find("nccl-tests version") != std::string_view::npos) {
    const Words words = split_words(after(line, "nccl-tests version"));
    ReportRun& run = run_for_header();
    if (!words.empty()) run.tool = "nccl-tests " + std::string(words[0]);
    if (const std::string_view code = after(line, "nccl-library="); !code.empty())
      if (auto n = parse_int(code, 1, 999999)) run.nccl = fmt::format("{}.{}.{}", *n / 10000, *n / 100 % 100, *n % 100);
  } else if (line.find("nccl-tune version") != std::string_view::npos) {
    const Words words = split_words(after(line, "nccl-tune version"));
    if (!words.empty()) run_for_header().tool = "nccl-tune " + std::string(words[0]);
  } else if (line.find("Collective test starting") != std::string_view::npos) {
    std::string name(after(line, ":"));
    if (name.ends_with("_perf")) name.resize(name.size() - 5);
    run_for_header().collective = name.substr(name.rfind('/') + 1);
  } else if (line.starts_with("# nThread")) {
    run_for_header();
    ++headers_;
  } else if (line.find("out-of-place") != std::string_view::npos && line.find("in-place") != std::string_view::npos) {
    run_for_header();
  } else if (line.find("busbw") != std::string_view::npos) {
    run();
    form_.counts_wrong = line.find("error") == std::string_view::npos;
  } else if (line.find("# error:") != std::string_view::npos) {
    run().trouble.emplace_back(trim(line));
    run().complete = false;
  } else if (line.find("Reducing maxBytes") != std::string_view::npos) {
    run().notes.push_back("the largest message was cut: " + std::string(after(line, "Reducing maxBytes ")));
  }
  return true;
}

bool OutputReader::take_trouble(std::string_view line) {
  static const std::array<std::string_view, 8> kMarks{
      "Test CUDA failure", "Test NCCL failure",  "Test failure", "Test timeout",
      "srun: error:",      "slurmstepd: error:", "Primary job ", "mpirun noticed"};
  const bool any = std::any_of(kMarks.begin(), kMarks.end(),
                               [&](std::string_view mark) { return line.find(mark) != std::string_view::npos; });
  if (!any) return false;
  if (run().trouble.size() < 100) run().trouble.emplace_back(trim(line));
  run().complete = false;
  return true;
}

void OutputReader::take_row(int line, std::string_view raw, const Words& words) {
  if (over_) open_ = false;
  ReportRow row;
  if (const std::string why = read_row(words, form_, row); !why.empty())
    reading_.refuse(line, raw, why);
  else
    run().rows.push_back(std::move(row));
}

void OutputReader::take(int line, std::string_view raw) {
  const std::string_view text = without_prefix(raw);
  const Words words = split_words(text);
  if (words.empty()) return;
  if (words[0].starts_with('#')) {
    take_comment(trim(text));
  } else if (looks_like_row(words)) {
    take_row(line, raw, words);
  } else if (take_trouble(text)) {
  } else if (text.find("NCCL version ") != std::string_view::npos) {
    const Words version = split_words(after(text, "NCCL version "));
    if (!version.empty() && open_) run().nccl = version[0];
  } else if (words[0] == "..." || words[0] == "…") {
    reading_.refuse(line, raw, "rows are left out here");
  } else if (words.size() > 8 && is_digits(words[0]) && is_digits(words[1])) {
    reading_.refuse(line, raw, fmt::format("unknown datatype '{}'", words[2]));
  }
  if (headers_ > 1 && open_ && run().rows.empty() && run().notes.empty())
    run().notes.emplace_back(
        "several headers before the first row: the processes did not find each other and each measured itself "
        "(NVIDIA/nccl-tests#213, #306)");
}

void OutputReader::end() {
  // What was opened by a header alone, without a row, a device or a failure, is no run.
  std::erase_if(reading_.runs, [](const ReportRun& run) {
    return run.rows.empty() && run.trouble.empty() && run.devices.empty() && run.collective.empty() &&
           run.notes.empty();
  });
  for (ReportRun& run : reading_.runs) {
    if (!run.complete && run.trouble.empty())
      run.notes.emplace_back(run.rows.empty() ? "it ends before the first row" : "its footer is missing");
    conclude(run);
  }
}

}  // namespace

void read_nccl_tests(const std::string& text, Reading& reading) {
  OutputReader reader(reading);
  int line = 0;
  for (std::string_view one : split_lines(text)) reader.take(++line, one);
  reading.lines = line;
  reader.end();
  if (!reading.runs.empty()) reading.kind = "nccl-tests' columns";
}

}  // namespace nccltune::cli
