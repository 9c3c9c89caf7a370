// SPDX-License-Identifier: Apache-2.0
#include "cli/output.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "cli/commands.h"

namespace nccltune::cli {

bool write_result(std::string_view text) {
  std::signal(SIGPIPE, SIG_IGN);
  while (!text.empty()) {
    ssize_t n = ::write(STDOUT_FILENO, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      say({.object = "stdout", .what = "cannot write the result", .reason = std::strerror(errno)});
      return false;
    }
    text.remove_prefix(static_cast<size_t>(n));
  }
  return true;
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
