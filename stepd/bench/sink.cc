// SPDX-License-Identifier: Apache-2.0
#include "bench/sink.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "bench/text.h"

namespace nccltune::bench {
namespace {

constexpr int kMostNames = 1000;

bool same_file(const struct stat& a, const struct stat& b) { return a.st_dev == b.st_dev && a.st_ino == b.st_ino; }

bool is_stdout(const std::string& path, int stdout_fd) {
  struct stat named, out;
  return lstat(path.c_str(), &named) == 0 && fstat(stdout_fd, &out) == 0 && S_ISREG(named.st_mode) &&
         same_file(named, out);
}

// An option -o or --output, or the variable in its place: then srun's own stdout is not where the tasks' goes. Also an
// -o of the command that it runs is taken for it: with a doubt the report gets a file of its own.
bool redirects(const std::string& arguments, const std::string& environment) {
  for (const std::string& argument : split(arguments, '\0'))
    if (argument.starts_with("-o") || argument.starts_with("--out")) return true;
  return environment.find(std::string(1, '\0') + "SLURM_STDOUTMODE=") != std::string::npos;
}

}  // namespace

Sink::Sink(int fd, std::string name, bool borrowed) : fd_(fd), name_(std::move(name)), borrowed_(borrowed) {}

Sink::Sink(Sink&& other) noexcept
    : fd_(other.fd_), name_(std::move(other.name_)), borrowed_(other.borrowed_), broken_(other.broken_) {
  other.fd_ = -1;
}

Sink::~Sink() {
  if (fd_ >= 0 && !borrowed_) close(fd_);
}

void Sink::fail(const char* doing) {
  broken_ = true;
  std::fprintf(stderr, "nccl-tune: %s: cannot %s: %s; the report goes on without it\n", name_.c_str(), doing,
               std::strerror(errno));
}

void Sink::write(std::string_view text) {
  const size_t whole = text.size();
  while (!broken_ && !text.empty()) {
    const ssize_t n = ::write(fd_, text.data(), text.size());
    if (n >= 0)
      text.remove_prefix(n);
    else if (errno != EINTR)
      fail("write");
  }
  // Half a row is worse than none.
  const off_t end = broken_ && text.size() < whole ? lseek(fd_, 0, SEEK_CUR) : -1;
  if (end >= 0) (void)!ftruncate(fd_, end - static_cast<off_t>(whole - text.size()));
}

void Sink::write_at(uint64_t offset, std::string_view text, std::string_view otherwise) {
  if (broken_) return;
  const uint64_t from = offset, end = offset + text.size();
  while (!broken_ && !text.empty()) {
    const ssize_t n = pwrite(fd_, text.data(), text.size(), static_cast<off_t>(offset));
    if (n >= 0) {
      text.remove_prefix(n);
      offset += n;
    } else if (errno != EINTR) {
      fail("write");
    }
  }
  if (!broken_ && ftruncate(fd_, static_cast<off_t>(end)) != 0 && errno != EINVAL) fail("truncate");
  if (!broken_ || otherwise.empty()) return;
  if (pwrite(fd_, otherwise.data(), otherwise.size(), static_cast<off_t>(from)) >= 0)
    (void)!ftruncate(fd_, static_cast<off_t>(from + otherwise.size()));
}

bool Sink::is_file_of(int fd) const {
  struct stat mine, other;
  return fstat(fd_, &mine) == 0 && fstat(fd, &other) == 0 && same_file(mine, other);
}

Result<Sink> open_named(const std::string& path) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) return Error{path, "cannot write", std::strerror(errno), ""};
  return Sink(fd, path);
}

bool is_output_of_srun(const std::string& path, const std::string& job, const std::string& proc) {
  struct stat named;
  if (lstat(path.c_str(), &named) != 0 || !S_ISREG(named.st_mode)) return false;
  namespace fs = std::filesystem;
  const auto text_of = [](const fs::path& file) {
    std::ifstream in(file, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  bool any = false;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(proc, ignored)) {
    if (entry.path().filename().string().find_first_not_of("0123456789") != std::string::npos) continue;
    if (text_of(entry.path() / "comm") != "srun\n") continue;
    const std::string environment = '\0' + text_of(entry.path() / "environ");
    if (environment.find('\0' + ("SLURM_JOB_ID=" + job) + '\0') == std::string::npos) continue;
    if (redirects(text_of(entry.path() / "cmdline"), environment)) return false;
    struct stat out;
    if (stat((entry.path() / "fd/1").c_str(), &out) != 0 || !same_file(named, out)) return false;
    any = true;
  }
  return any;
}

Result<JobFile> open_job_file(const std::string& job, const std::string& step, int stdout_fd) {
  std::string first = "nccl_test_" + job + ".out";
  if (is_stdout(first, stdout_fd) || is_output_of_srun(first, job)) return JobFile{};
  for (int i = -1; i < kMostNames; ++i) {
    const std::string name = i < 0    ? first
                             : i == 0 ? "nccl_test_" + job + "." + step + ".out"
                                      : "nccl_test_" + job + "." + step + "." + std::to_string(i) + ".out";
    const int fd = open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd >= 0) {
      JobFile file{Sink(fd, name), ""};
      if (i >= 0) file.note = print("%s exists and is left as it is; the report is in %s", first.c_str(), name.c_str());
      return file;
    }
    if (errno != EEXIST && errno != ELOOP)
      return Error{name, "cannot write", std::strerror(errno), "the report is on stdout only; name a file with --out"};
  }
  return Error{first, "too many reports of this job are here", "", "name a file with --out"};
}

}  // namespace nccltune::bench
