// SPDX-License-Identifier: Apache-2.0
// The only door to /sys, /proc, /dev and the host's conf files: every path that the readers use goes through a Root,
// so that a recorded machine is read by the same code as a live one.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/file_tree.h"
#include "base/result.h"

namespace nccltune {

// Where a Root leaves word of what it is about to touch, for whoever waits for it: in memory that processes share, so
// plain bytes. Always ended by a NUL, as the last byte is never written.
struct PathWatch {
  char path[512] = {};
};

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
  std::optional<std::string> read(const std::string& path) const;                     // whole contents
  std::optional<std::string> read_head(const std::string& path, size_t limit) const;  // the first bytes, at most limit
  std::optional<std::string> read_line(const std::string& path) const;  // first line, trailing white space removed
  // Several files below one directory ("mtu", "gids/3") in the order asked, with one walk of its path for all: the
  // first line of each.
  std::vector<std::optional<std::string>> read_lines(const std::string& directory,
                                                     const std::vector<std::string>& names) const;
  std::optional<std::string> link(const std::string& path) const;  // a symbolic link's target, as written
  std::optional<std::string> resolve(
      const std::string& path) const;                            // the path with every link followed, root-relative
  std::vector<std::string> list(const std::string& path) const;  // names in a directory, sorted; empty when absent
  // The names in a directory, sorted, each with its target as written ("" for what is no link): one walk for all.
  std::vector<std::pair<std::string, std::string>> list_links(const std::string& path) const;
  bool exists(const std::string& path) const;
  bool is_directory(const std::string& path) const;

  // For a message: the path as the reader of the message can open it.
  std::string shown(const std::string& path) const;

  // From now on every path goes to watch before it is touched; watch must outlive this Root and its copies.
  void tell_paths_to(PathWatch* watch) { watch_ = watch; }

  // The same machine through a Root that also puts every answer it gives into tree, links included, so that tree read
  // back gives the same answers. It is not live(): what it offers is what a dump can hold.
  Root recording_into(std::shared_ptr<FileTree> tree) const;

 private:
  class Folder;  // the open directory that paths are resolved in

  void tell_path(const std::string& directory, const std::string& name = "") const;
  int open_fd(const std::string& path, int flags) const;
  std::optional<std::string> read_unrecorded(const std::string& path, size_t limit) const;
  std::vector<std::string> list_unrecorded(const std::string& path) const;
  std::optional<std::string> link_unrecorded(const std::string& path) const;
  std::optional<std::string> link_of_plain(const std::string& path) const;  // no link above its last component
  std::optional<std::string> record_links(const std::string& path) const;
  void record_names(const std::string& directory, const std::vector<std::string>& names) const;

  std::string prefix_;  // "" for the live machine; the dump's file name for a dump
  std::shared_ptr<const Folder> folder_;
  std::shared_ptr<const FileTree> dump_;
  PathWatch* watch_ = nullptr;
  std::shared_ptr<FileTree> recording_;
  std::shared_ptr<std::map<std::string, std::string>>
      recorded_directories_;  // where each asked one ends, links recorded
};

}  // namespace nccltune
