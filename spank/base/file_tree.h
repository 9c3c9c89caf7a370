// SPDX-License-Identifier: Apache-2.0
// A file tree held in memory, with the text form that `nccl-tune dump` writes:
//   nccl-tune dump 1
//   f<TAB>/sys/class/net/eth0/mtu<TAB>9000\n          a file and its contents
//   l<TAB>/sys/class/net/eth0<TAB>../../devices/...   a symbolic link and its target
//   d<TAB>/sys/class/net                              a directory (those above an entry need no line)
//   n<TAB>/sys/class/net/lo                           a name that is there, and whose contents were not kept
// In paths and contents \n, \t, \\ and \xHH stand for what a line cannot hold. Lines that begin with # are comments.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace nccltune {

class FileTree {
 public:
  enum class Kind : char { file = 'f', link = 'l', directory = 'd', name = 'n' };
  struct Entry {
    Kind kind = Kind::directory;
    std::string content;  // of a file; a link's target
  };

  static constexpr std::string_view kFirstLine = "nccl-tune dump 1";

  // Parses the text form; an Error's object is "FILE:line".
  static Result<FileTree> parse(std::string_view text, const std::string& file);
  std::string text() const;

  // Adds an entry and the directories above it. An entry that is there already keeps its place unless it knew less
  // (a directory or a bare name). Paths are absolute, without "." and "..".
  void add(const std::string& path, Kind kind, std::string content = {});

  const Entry* find(const std::string& path) const;                    // by its own path; no link is followed
  std::vector<std::string> names(const std::string& directory) const;  // sorted
  std::map<std::string, Entry>& entries() { return entries_; }
  const std::map<std::string, Entry>& entries() const { return entries_; }

 private:
  std::map<std::string, Entry> entries_;
};

// Follows the symbolic links of path inside one root: read_link tells a link's target (nullopt: not a link) for a path
// whose parents are already free of links. ".." stops at the root. The last component is followed when follow_last.
// nullopt: more than 40 links (the kernel's own bound), a path of more than 4096 bytes, or a relative path.
std::optional<std::string> follow_links(const std::string& path, bool follow_last,
                                        const std::function<std::optional<std::string>(const std::string&)>& read_link);

}  // namespace nccltune
