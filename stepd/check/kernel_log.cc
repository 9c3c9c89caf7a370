// SPDX-License-Identifier: Apache-2.0
#include "check/kernel_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "base/text.h"

namespace nccltune::check {

namespace {

constexpr int64_t kTwoHours = 2LL * 3600 * 1000000;  // microseconds, as Azure's node health check looks back

int64_t since_two_hours() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000LL + now.tv_nsec / 1000 - kTwoHours;
}

bool read_records(int fd, KernelLog& log) {
  const int64_t since = since_two_hours();
  char buffer[8192];  // a record is at most that long (kernel: PRINTKRB_RECORD_MAX)
  // The buffer of the kernel holds a few ten thousand records at most; a log that grows as fast as it is read ends
  // here.
  for (int i = 0; i < 200000; ++i) {
    const ssize_t n = ::read(fd, buffer, sizeof buffer);
    if (n < 0 && (errno == EPIPE || errno == EINTR)) continue;  // EPIPE: the record was overwritten meanwhile
    if (n <= 0) return n == 0 || errno == EAGAIN;
    if (auto text = message_of({buffer, static_cast<size_t>(n)}, since)) log.lines.push_back(*text);
  }
  return true;
}

// journald keeps a file that members of adm and systemd-journal may read.
bool journal_is_readable() {
  char id[33] = "";
  if (FILE* file = std::fopen("/etc/machine-id", "re")) {
    const size_t n = std::fread(id, 1, 32, file);
    id[n] = '\0';
    std::fclose(file);
  }
  for (const char* folder : {"/var/log/journal/", "/run/log/journal/"})
    if (*id && access((std::string(folder) + id + "/system.journal").c_str(), R_OK) == 0) return true;
  return false;
}

bool read_journal(KernelLog& log) {
  if (!journal_is_readable()) return false;
  FILE* pipe = ::popen("timeout 5 journalctl -k -q -o cat --since=-2h 2>/dev/null", "re");
  if (!pipe) return false;
  char* line = nullptr;
  size_t size = 0;
  while (getline(&line, &size, pipe) > 0) log.lines.emplace_back(trim(line));
  std::free(line);
  return ::pclose(pipe) == 0;
}

}  // namespace

std::optional<std::string> message_of(std::string_view record, int64_t since) {
  const size_t semicolon = record.find(';');
  if (semicolon == std::string_view::npos) return std::nullopt;
  const auto fields = split(record.substr(0, semicolon), ',');
  if (fields.size() < 4) return std::nullopt;
  const auto time = parse_int(fields[2], 0, INT64_MAX);
  if (!time || *time < since) return std::nullopt;
  return std::string(first_line(record.substr(semicolon + 1)));
}

std::optional<Xid> xid_in(std::string_view line) {
  constexpr std::string_view kStart = "NVRM: Xid (PCI:";
  size_t at = line.find(kStart);
  if (at == std::string_view::npos) return std::nullopt;
  at += kStart.size();
  const size_t end = line.find("): ", at);
  if (end == std::string_view::npos) return std::nullopt;
  std::string bdf = lower(line.substr(at, end - at));
  if (bdf.find('.') == std::string::npos) bdf += ".0";
  std::string_view rest = line.substr(end + 3);
  const auto code = parse_int(rest.substr(0, rest.find_first_not_of("0123456789")), 0, 100000);
  if (!code) return std::nullopt;
  return Xid{bdf, static_cast<int>(*code)};
}

KernelLog read_kernel_log() {
  KernelLog log;
  const int fd = ::open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  const int reason = errno;
  if (fd >= 0) {
    const bool whole = read_records(fd, log);
    const int why = errno;
    ::close(fd);
    if (whole) return log;
    log.lines.clear();
    if (read_journal(log)) return log;
    log.error = why == EPERM || why == EACCES ? "needs root" : std::strerror(why);
    return log;
  }
  if (read_journal(log)) return log;
  log.error = reason == EPERM || reason == EACCES ? "needs root" : "no /dev/kmsg here";
  return log;
}

}  // namespace nccltune::check
