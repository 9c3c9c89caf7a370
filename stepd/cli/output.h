// SPDX-License-Identifier: Apache-2.0
// Results to stdout, all else to stderr.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace nccltune::cli {

// Writes the whole of a command's result to stdout. False after saying why on stderr: closed, a pipe without a reader,
// a full disk. SIGPIPE is ignored from here on, so that a reader that left early is such an error and not a death.
bool write_result(std::string_view text);

// Writes a new file; one that exists stays as it is, and one that could not be written whole is removed.
std::optional<Error> write_new_file(const std::string& path, std::string_view text);

// write_result, as an exit status.
int finish(std::string_view text);

// One line on stderr, behind "nccl-tune: ".
void say(const Error& error);

// The text with control bytes (also newlines) made visible: names come from devices and files and must not steer a
// terminal or break a line.
std::string printable(std::string_view text);

}  // namespace nccltune::cli
