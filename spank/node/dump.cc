// SPDX-License-Identifier: Apache-2.0
#include "node/dump.h"

#include <memory>

#include "base/text.h"
#include "node/neutral.h"
#include "node/readers.h"

namespace nccltune {
namespace {

// Microsoft's constant for every Azure guest; a tag with digits of any other machine is an inventory number.
constexpr char kAzureTag[] = "7783-7084-3265-9085-8269-3286-77";

// Exact where /proc would be ambiguous when read back: there IPv4 addresses have no interface.
std::string address_list(const Node& node, Neutral& neutral) {
  std::string out;
  for (const NetInterface& net : node.net)
    for (const IpAddress& address : net.addresses)
      out +=
          neutral.path(net.name) + " " + neutral.address(address).text() + "/" + std::to_string(address.prefix) + "\n";
  return out;
}

std::string neutral_content(const std::string& path, const std::string& content, Neutral& neutral) {
  if (path == "/proc/net/route") return neutral.ipv4_routes(content);
  if (path == "/proc/net/ipv6_route") return neutral.ipv6_routes(content);
  if (path == "/proc/sys/kernel/hostname") return "node\n";
  if (path.ends_with("/chassis_asset_tag")) {
    const bool kept = trim(content) == kAzureTag || content.find_first_of("0123456789") == std::string::npos;
    return kept ? content : "asset\n";
  }
  return neutral.text(content);
}

}  // namespace

Result<std::string> write_dump(const Root& root, ReadOptions options) {
  if (!root.is_directory("/sys"))
    return Error{root.shown("/sys"), "no such folder: there are no facts to dump", "",
                 "name a root with sys/ and proc/"};
  options.home.clear();
  options.nccl_conf_file.clear();
  options.details = true;
  const Node node = read_node(root, options);
  const auto recorded = std::make_shared<FileTree>();
  read_node(root.recording_into(recorded), options);

  Neutral neutral(node.hostname);
  FileTree out;
  for (const auto& [path, entry] : recorded->entries()) {
    // kDumpedAddresses has the same, and with interfaces.
    if (path == "/proc/net/fib_trie" || path == "/proc/net/if_inet6") continue;
    const bool is_link = entry.kind == FileTree::Kind::link;
    out.add(neutral.path(path), entry.kind,
            is_link ? neutral.path(entry.content) : neutral_content(path, entry.content, neutral));
  }
  out.add(kDumpedAddresses, FileTree::Kind::file, address_list(node, neutral));
  return out.text();
}

}  // namespace nccltune
