// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "base/text.h"
#include "node/readers.h"

namespace nccltune {
namespace {

constexpr char kDmi[] = "/sys/class/dmi/id";
constexpr size_t kMaxMatches = 64;  // of one glob

void read_dmi(const Root& root, Node& node) {
  // No serial numbers and no UUIDs: nothing decides on them, and a plan is often shown to others.
  static const std::vector<std::string> kFields = {
      "bios_vendor",    "board_name",   "board_vendor", "chassis_asset_tag", "chassis_vendor",
      "product_family", "product_name", "product_sku",  "product_version",   "sys_vendor"};
  const auto lines = root.read_lines(kDmi, kFields);
  for (size_t i = 0; i < kFields.size(); ++i)
    if (lines[i]) node.dmi[kFields[i]] = *lines[i];
}

// "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.82.07  Release Build  (...)"
void read_driver(const Root& root, Node& node) {
  const auto line = root.read_line("/proc/driver/nvidia/version");
  if (!line) return;
  node.driver.open_modules = line->find("Open Kernel Module") != std::string::npos;
  for (std::string_view word : split_words(*line)) {
    const bool numbers = word.find_first_not_of("0123456789.") == std::string_view::npos;
    if (!numbers || word.find('.') == std::string_view::npos) continue;
    node.driver.version = word;
    return;
  }
}

// The three places that NCCL itself looks at (src/transport/net_ib/gdr.cc), and the module of the older package.
void read_peermem(const Root& root, Node& node) {
  if (!root.is_directory("/sys/module")) return;  // a record without modules tells nothing
  node.peermem = root.exists("/sys/module/nvidia_peermem") || root.exists("/sys/module/nv_peer_mem") ||
                 root.exists("/sys/kernel/mm/memory_peers/nv_mem/version") ||
                 root.exists("/sys/kernel/mm/memory_peers/nv_mem_nc/version");
}

bool is_guest(const Root& root) {
  // The first CPU is enough, and all of them cost the kernel milliseconds on a large machine.
  const std::string head = root.read_head("/proc/cpuinfo", 4096).value_or("");
  for (std::string_view line : split_lines(head)) {
    if (!line.starts_with("flags")) continue;
    const auto words = split_words(line);
    return std::find(words.begin(), words.end(), "hypervisor") != words.end();
  }
  return false;
}

bool is_readable(const Root& root, const std::string& path) {
  if (root.live()) return ::faccessat(AT_FDCWD, path.c_str(), R_OK, AT_EACCESS) == 0;
  return root.exists(path);
}

}  // namespace

std::vector<std::string> expand_glob(const Root& root, const std::string& pattern) {
  std::vector<std::string> found = {""};
  for (std::string_view part : split(pattern, '/')) {
    if (part.empty()) continue;
    std::vector<std::string> next;
    for (const std::string& base : found) {
      if (!is_glob(part)) {
        next.push_back(base + "/" + std::string(part));
        continue;
      }
      for (const std::string& name : root.list(base.empty() ? "/" : base))
        if (name[0] != '.' && next.size() < kMaxMatches && glob_match(part, name)) next.push_back(base + "/" + name);
    }
    found = std::move(next);
  }
  return found;
}

void read_platform(const Root& root, Node& node) {
  node.hostname = root.read_line("/proc/sys/kernel/hostname").value_or("");
  node.kernel_release = root.read_line("/proc/sys/kernel/osrelease").value_or("");
  read_dmi(root, node);
  read_driver(root, node);
  read_peermem(root, node);
  node.hypervisor = is_guest(root);
  for (const std::string& name : root.list("/dev/nvidia-caps-imex-channels"))
    node.imex_channels |= name.starts_with("channel");
}

void probe_files(const Root& root, const ReadOptions& options, Node& node) {
  for (const std::string& pattern : options.probe) {
    bool found = false;
    if (!is_glob(pattern)) {
      found = is_readable(root, pattern);
    } else {
      // The matches too: who asked by wildcard may need to know which file it is.
      for (const std::string& path : expand_glob(root, pattern)) {
        if (!is_readable(root, path)) continue;
        found = true;
        node.files[path] = true;
      }
    }
    node.files[pattern] = found;
  }
}

}  // namespace nccltune
