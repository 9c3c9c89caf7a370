// SPDX-License-Identifier: Apache-2.0
// What is fuzzed: each parser, and the plugin as a whole. A target takes any bytes; what it finds wrong with the answer
// ends the process, as a crash would.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace fuzz {

struct Target {
  const char* name;  // also of its folder of seeds
  void (*run)(std::string_view input);
  std::size_t max_length;
};

const std::vector<Target>& targets();
const Target* find_target(std::string_view name);

#define MUST(condition)                                                               \
  do {                                                                                \
    if (!(condition)) {                                                               \
      std::fprintf(stderr, "%s:%d: must hold: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                   \
    }                                                                                 \
  } while (false)

// One line to a person: no control characters in it, and a bound to its length.
bool is_one_line(std::string_view text);

// Lines without control characters: a terminal obeys what those say.
bool is_plain_text(std::string_view text);

// Sections of an input, by NUL bytes: `count` of them, those that are not there empty; the last one takes the rest.
std::vector<std::string> sections(std::string_view input, std::size_t count);

// A file of this process in memory, whose path can be opened while it lives.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view content);
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  int fd_;
  std::string path_;
};

// The bytes that the facts of a dump travel as: a seed of the target `wire`, which no recorded file could be. "" for no
// dump. Both programs print it for --wire-of=DUMP (print_wire is true then).
std::string wire_of(const std::string& dump);
bool print_wire(std::string_view argument);

// Of the files of these names.
void add_text_targets(std::vector<Target>& all);
void add_node_targets(std::vector<Target>& all);
void add_plugin_targets(std::vector<Target>& all);
void add_bench_targets(std::vector<Target>& all);
void add_result_targets(std::vector<Target>& all);
void add_show_targets(std::vector<Target>& all);

}  // namespace fuzz
