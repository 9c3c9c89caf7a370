// SPDX-License-Identifier: Apache-2.0
// The readers behind read_node, one for each subject, in the order in which read_node calls them. Each adds its part to
// the node and uses what those before it found.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/root.h"
#include "node/node.h"
#include "node/read.h"

namespace nccltune {

void read_numa(const Root& root, Node& node);
void read_pci(const Root& root, const ReadOptions& options, Node& node);
void read_gpus(const Root& root, Node& node);
void read_interfaces(const Root& root, const ReadOptions& options, Node& node);  // all but their addresses
void read_rdma(const Root& root, const ReadOptions& options, Node& node);
void read_routes(const Root& root, Node& node);
void read_addresses(const Root& root, Node& node);  // needs routes and GID tables where the kernel cannot be asked
void read_platform(const Root& root, Node& node);
void read_nccl_conf(const Root& root, const ReadOptions& options, Node& node);
void probe_files(const Root& root, const ReadOptions& options, Node& node);
// Paths that match a glob, component by component, so that only folders on the way are listed.
std::vector<std::string> expand_glob(const Root& root, const std::string& pattern);
void read_topology_files(const Root& root, const ReadOptions& options, Node& node);

// "0000:3b:00.0": a domain of 4 to 8 hex digits, bus, device, function.
bool is_bdf(std::string_view text);

// Lower case, and a domain of four digits where it fits ("00000000:3B:00.0" as the driver's tools write it; "3b:00.0").
std::optional<std::string> normal_bdf(std::string_view text);

// The last PCI function in a path such as "../../devices/pci0000:3a/0000:3a:00.0/virtio3/net/eth0"; "" when none.
std::string last_bdf(std::string_view path);

// A link's target as an absolute path: where "../../devices/x" in /sys/class/net leads, by the words alone.
std::string join_link(const std::string& directory, const std::string& target);

std::string last_component(std::string_view path);

// A hexadecimal attribute, "0x15b3"; nullopt when it is absent, is none or does not fit.
std::optional<uint32_t> hex32(const std::optional<std::string>& text);

// The addresses of `nccl-tune dump`, exact where /proc alone would be ambiguous: lines "eth0 10.0.0.1/24".
inline constexpr char kDumpedAddresses[] = "/nccl-tune/addresses";

std::optional<IpAddress> parse_address(std::string_view text);  // "10.0.0.1", "10.0.0.1/24", "fd00::1/64"

}  // namespace nccltune
