// SPDX-License-Identifier: Apache-2.0
#include "node/dump.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include "cli/commands.h"
#include "cli/facts.h"
#include "cli/output.h"

namespace nccltune::cli {

namespace {

// A new file; one that exists stays as it is, and one that could not be written whole is removed.
std::optional<Error> write_new_file(const std::string& path, std::string_view text) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (fd < 0 && errno == EEXIST)
    return Error{.object = path, .what = "exists already and is not overwritten", .remedy = "give another name"};
  if (fd < 0) return Error{.object = path, .what = "cannot be created", .reason = std::strerror(errno)};
  int reason = 0;
  while (!text.empty() && reason == 0) {
    const ssize_t n = write(fd, text.data(), text.size());
    if (n >= 0)
      text.remove_prefix(static_cast<size_t>(n));
    else if (errno != EINTR)
      reason = errno;
  }
  if (close(fd) != 0 && reason == 0) reason = errno;  // a network file system may tell of a full disk here
  if (reason == 0) return std::nullopt;
  unlink(path.c_str());
  return Error{.object = path, .what = "cannot be written", .reason = std::strerror(reason)};
}

}  // namespace

int dump(int argc, char** argv) {
  CLI::App app("this node's facts as one file that --root reads back; names, UUIDs, GUIDs and addresses are replaced",
               "nccl-tune dump");
  FactsOptions options;
  std::string file = "-";
  app.add_option("FILE", file, "a new file; standard output for - or without it");
  add_root_option(app, options);
  add_policy_options(app, options);
  app.footer(
      "Examples:\n"
      "  nccl-tune dump node17.dump\n"
      "  nccl-tune plan --root node17.dump        what this node would be given");
  if (auto status = parse(app, argc, argv)) return *status;

  auto source = open_source(options);
  if (!source) {
    say(source.error());
    return exit_usage;
  }
  auto text = write_dump(source->root, source->read);
  if (!text) {
    say(text.error());
    return exit_usage;
  }
  if (file == "-") return finish(*text);
  if (auto error = write_new_file(file, *text)) {
    say(*error);
    return exit_usage;
  }
  return exit_ok;
}

}  // namespace nccltune::cli
