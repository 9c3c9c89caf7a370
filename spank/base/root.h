// SPDX-License-Identifier: Apache-2.0
// The only door to /sys, /proc, /dev and the host's conf files: every path that the readers use goes through a Root,
// so that a recorded machine is read by the same code as a live one.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace nccltune {

class Root {
 public:
  // The live machine.
  Root();
  // A folder that holds sys/, proc/ ..., or a file that `nccl-tune dump` wrote.
  static Result<Root> open(const std::string& path);

  // True for the live machine: only then may a reader also ask the kernel by system call (getifaddrs, access on /dev).
  bool live() const;

  // Paths are absolute as on the machine: "/sys/class/net". None of these fails loudly: a file that is absent, that
  // may not be read, or whose read gives EINVAL (an unset GID row) is nullopt, for the caller to note or to pass over.
  // At most 1 MiB is read. Symbolic links are followed inside the root, also absolute ones, and never out of it.
  std::optional<std::string> read(const std::string& path) const;       // whole contents
  std::optional<std::string> read_line(const std::string& path) const;  // first line, trailing white space removed
  std::optional<std::string> link(const std::string& path) const;       // a symbolic link's target, as written
  std::optional<std::string> resolve(const std::string& path) const;    // the path with every link followed, root-relative
  std::vector<std::string> list(const std::string& path) const;         // names in a directory, sorted; empty when absent
  bool exists(const std::string& path) const;
  bool is_directory(const std::string& path) const;

  // For a message: the path as the reader of the message can open it.
  std::string shown(const std::string& path) const;

 private:
  struct Entry;  // of a dump held in memory
  std::string prefix_;  // "" for the live machine
  std::shared_ptr<const std::map<std::string, Entry>> dump_;
};

}  // namespace nccltune
