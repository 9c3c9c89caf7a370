// SPDX-License-Identifier: Apache-2.0
// The files from which NCCL fills its environment, with NCCL's own rules (nccl: src/misc/param.cc, initEnvFunc).
#include <algorithm>

#include "base/text.h"
#include "node/readers.h"

namespace nccltune {
namespace {

// NCCL's buffers: what is longer is cut.
constexpr size_t kMaxLine = 4095;
constexpr size_t kMaxPart = 1023;

// '#' counts in column 0 alone; the first '=' splits; nothing is trimmed, so " NCCL_X" is a variable of that odd name.
void parse(const std::string& text, const std::string& file, std::vector<ConfLine>& out) {
  int number = 0;
  for (std::string_view line : split_lines(text)) {
    ++number;
    line = line.substr(0, std::min(kMaxLine, line.find('\0')));
    const size_t equals = line.find('=');
    if (line.starts_with('#') || equals == std::string_view::npos || equals == 0) continue;
    out.push_back({std::string(line.substr(0, std::min(equals, kMaxPart))),
                   std::string(line.substr(equals + 1, kMaxPart)), file, number});
  }
}

void read_file(const Root& root, const std::string& path, Node& node) {
  if (path.empty()) return;
  if (const auto text = root.read(path)) {
    parse(*text, path, node.nccl_conf);
  } else if (root.exists(path)) {
    node.notes.push_back({root.shown(path), "exists and cannot be read; its settings are not known"});
  }
}

}  // namespace

// The environment beats NCCL_CONF_FILE or ~/.nccl.conf, which beat /etc/nccl.conf; in a file the first line wins.
void read_nccl_conf(const Root& root, const ReadOptions& options, Node& node) {
  if (!options.nccl_conf_file.empty()) {
    read_file(root, options.nccl_conf_file, node);
  } else if (!options.home.empty()) {
    read_file(root, options.home + "/.nccl.conf", node);
  }
  read_file(root, "/etc/nccl.conf", node);
}

}  // namespace nccltune
