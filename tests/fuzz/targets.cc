// SPDX-License-Identifier: Apache-2.0
#include "fuzz/targets.h"

#include <sys/mman.h>
#include <unistd.h>

namespace fuzz {

const std::vector<Target>& targets() {
  static const std::vector<Target> all = [] {
    std::vector<Target> list;
    add_text_targets(list);
    add_node_targets(list);
    add_plugin_targets(list);
    add_bench_targets(list);
    add_result_targets(list);
    add_show_targets(list);
    return list;
  }();
  return all;
}

const Target* find_target(std::string_view name) {
  for (const Target& target : targets())
    if (name == target.name) return &target;
  return nullptr;
}

bool is_one_line(std::string_view text) {
  if (text.size() > 8192) return false;
  for (unsigned char c : text)
    if (c < 0x20 || c == 0x7f) return false;
  return true;
}

bool is_plain_text(std::string_view text) {
  for (unsigned char c : text)
    if ((c < 0x20 && c != '\n') || c == 0x7f) return false;
  return true;
}

bool print_wire(std::string_view argument) {
  constexpr std::string_view kOption = "--wire-of=";
  if (!argument.starts_with(kOption)) return false;
  const std::string bytes = wire_of(std::string(argument.substr(kOption.size())));
  std::fwrite(bytes.data(), 1, bytes.size(), stdout);
  return true;
}

std::vector<std::string> sections(std::string_view input, std::size_t count) {
  std::vector<std::string> parts(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t end = i + 1 < count ? input.find('\0') : std::string_view::npos;
    parts[i] = input.substr(0, end);
    if (end == std::string_view::npos) break;
    input.remove_prefix(end + 1);
  }
  return parts;
}

MemoryFile::MemoryFile(std::string_view content) : fd_(memfd_create("fuzz", MFD_CLOEXEC)) {
  MUST(fd_ >= 0);
  for (std::size_t done = 0; done < content.size();) {
    const ssize_t n = write(fd_, content.data() + done, content.size() - done);
    MUST(n > 0);
    done += static_cast<std::size_t>(n);
  }
  path_ = "/proc/self/fd/" + std::to_string(fd_);
}

MemoryFile::~MemoryFile() { close(fd_); }

}  // namespace fuzz
