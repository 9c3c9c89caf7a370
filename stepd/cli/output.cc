// SPDX-License-Identifier: Apache-2.0
#include "cli/output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "base/fd.h"
#include "cli/commands.h"

namespace nccltune::cli {

bool write_result(std::string_view text) {
  std::signal(SIGPIPE, SIG_IGN);
  if (write_all(STDOUT_FILENO, text)) return true;
  say({.object = "stdout", .what = "cannot write the result", .reason = std::strerror(errno)});
  return false;
}

std::optional<Error> write_new_file(const std::string& path, std::string_view text) {
  Fd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (!fd && errno == EEXIST)
    return Error{.object = path, .what = "exists already and is not overwritten", .remedy = "give another name"};
  if (!fd) return Error{.object = path, .what = "cannot be created", .reason = std::strerror(errno)};
  int reason = write_all(fd.get(), text) ? 0 : errno;
  if (::close(fd.release()) != 0 && reason == 0) reason = errno;  // a network file system may tell of a full disk here
  if (reason == 0) return std::nullopt;
  unlink(path.c_str());
  return Error{.object = path, .what = "cannot be written", .reason = std::strerror(reason)};
}

int finish(std::string_view text) { return write_result(text) ? exit_ok : exit_cannot_run; }

void say(const Error& error) { fmt::print(stderr, "nccl-tune: {}\n", printable(error.text())); }

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (unsigned char c : text) {
    if (c < 0x20 || c == 0x7f)
      out += fmt::format("\\x{:02x}", c);
    else
      out += static_cast<char>(c);
  }
  return out;
}

}  // namespace nccltune::cli
