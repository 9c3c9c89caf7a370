// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/fd.h"
#include "cli/commands.h"
#include "cli/facts.h"
#include "cli/output.h"
#include "cli/plan_json.h"
#include "cli/report_page.h"
#include "cli/report_text.h"

namespace nccltune::cli {

namespace {

constexpr size_t kMostBytes = 64u << 20;  // a result of a thousand ranks with all samples is a few MiB

Result<std::string> read_whole(const std::string& file) {
  const int fd = file == "-" ? ::dup(STDIN_FILENO) : ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return Error{file, "cannot be read", std::strerror(errno), ""};
  std::string text;
  char buffer[65536];
  ssize_t n = 0;
  while ((n = ::read(fd, buffer, sizeof buffer)) > 0 || (n < 0 && errno == EINTR)) {
    if (n > 0) text.append(buffer, static_cast<size_t>(n));
    if (text.size() > kMostBytes) break;
  }
  const int why = errno;
  ::close(fd);
  if (n < 0) return Error{file, "cannot be read", std::strerror(why), ""};
  if (text.size() > kMostBytes) return Error{file, "is larger than 64 MiB", "", "split it"};
  return text;
}

bool write_file(const std::string& file, const std::string& text) {
  const int fd = ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  const bool written = fd >= 0 && write_all(fd, text);
  const int why = errno;
  const bool closed = fd >= 0 && ::close(fd) == 0;
  if (written && closed) return true;
  say({.object = file, .what = "cannot write the page", .reason = std::strerror(why)});
  return false;
}

}  // namespace

int report(int argc, char** argv) {
  CLI::App app("results side by side: of nccl-tune bench, of nccl-tests since 2.8, and what topo, plan and check wrote",
               "nccl-tune report");
  std::vector<std::string> files;
  std::string page, expected_file;
  bool json = false;
  app.add_option("FILE", files, "outputs and JSON documents; - for standard input")->required();
  app.add_option("--html", page, "write a page for a browser, with all in one file")->type_name("FILE");
  app.add_option("--expected", expected_file, "published figures to compare with, as CSV")->type_name("FILE");
  app.add_flag("--json", json, "all that was read, as a JSON document");
  app.footer(
      "Exit status 2 when nothing was understood.\n"
      "Examples:\n"
      "  nccl-tune report nccl_test_1234.out nccl_test_1301.out\n"
      "  nccl-tune report --html run.html bench.json topo.json plan.json check.json last-week.out");
  if (auto status = parse(app, argc, argv)) return *status;
  std::vector<Reading> readings;
  bool any = false;
  for (const std::string& file : files) {
    auto text = read_whole(file);
    if (!text) {
      say(text.error());
      return exit_usage;
    }
    readings.push_back(read_report_file(file, *text));
    any = any || !readings.back().empty();
  }
  std::vector<ExpectedFigure> expected;
  if (!expected_file.empty()) {
    auto text = read_whole(expected_file);
    if (!text) {
      say(text.error());
      return exit_usage;
    }
    expected = read_expected(*text);
  }
  if (!page.empty()) {
    if (!has_chart_library()) {
      say({.object = "--html", .what = "left out of this build: no chart library", .remedy = "build with npm at hand"});
      return exit_cannot_run;
    }
    if (!write_file(page, report_page(report_json(readings, expected)))) return exit_cannot_run;
  }
  const int written =
      finish(json ? text_of(report_json(readings, expected)) : report_text(readings, expected, style_of_stdout()));
  if (written != exit_ok) return written;
  return any ? exit_ok : exit_usage;
}

}  // namespace nccltune::cli
