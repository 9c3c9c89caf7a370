// SPDX-License-Identifier: Apache-2.0
#include "node/node.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstdint>

#include "base/text.h"
#include "node/read.h"
#include "node/readers.h"

namespace nccltune {
namespace {

template <class List, class Field, class Value>
auto find_by(const List& list, Field field, const Value& value) -> decltype(list.data()) {
  const auto it = std::find_if(list.begin(), list.end(), [&](const auto& item) { return item.*field == value; });
  return it == list.end() ? nullptr : &*it;
}

std::string address_text(int family, const uint8_t* bytes) {
  char text[INET6_ADDRSTRLEN] = "";
  ::inet_ntop(family, bytes, text, sizeof text);
  return text;
}

}  // namespace

bool Gid::is_ipv4() const {
  return std::all_of(bytes.begin(), bytes.begin() + 10, [](uint8_t b) { return b == 0; }) && bytes[10] == 0xff &&
         bytes[11] == 0xff;
}

bool Gid::is_link_local() const {
  if (is_ipv4()) return bytes[12] == 169 && bytes[13] == 254;
  return bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80;
}

std::string Gid::text() const {
  return is_ipv4() ? address_text(AF_INET, bytes.data() + 12) : address_text(AF_INET6, bytes.data());
}

bool IpAddress::is_link_local() const {
  if (!v6) return bytes[0] == 169 && bytes[1] == 254;
  return bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80;
}

bool IpAddress::is_loopback() const {
  if (!v6) return bytes[0] == 127;
  return std::all_of(bytes.begin(), bytes.begin() + 15, [](uint8_t b) { return b == 0; }) && bytes[15] == 1;
}

bool IpAddress::contains(const IpAddress& other) const {
  if (v6 != other.v6 || prefix < 0 || prefix > (v6 ? 128 : 32)) return false;
  const size_t whole = static_cast<size_t>(prefix) / 8;
  if (!std::equal(bytes.begin(), bytes.begin() + static_cast<long>(whole), other.bytes.begin())) return false;
  const int rest = prefix % 8;
  return rest == 0 || (bytes[whole] ^ other.bytes[whole]) >> (8 - rest) == 0;
}

std::string IpAddress::text() const { return address_text(v6 ? AF_INET6 : AF_INET, bytes.data()); }

std::optional<std::pair<int, int>> kernel_version(const std::string& release) {
  const auto parts = split(release, '.');
  if (parts.size() < 2) return std::nullopt;
  const auto major = parse_int(parts[0], 0, 1000);
  std::string_view second = parts[1];
  const auto minor = parse_int(second.substr(0, second.find_first_not_of("0123456789")), 0, 100000);
  if (!major || !minor) return std::nullopt;
  return std::pair(static_cast<int>(*major), static_cast<int>(*minor));
}

std::optional<bool> Node::dma_buf() const {
  const auto kernel = kernel_version(kernel_release);
  if (!kernel || driver.version.empty()) return std::nullopt;
  return *kernel >= std::pair(5, 12) && driver.open_modules;
}

const PciDevice* Node::find_pci(const std::string& bdf) const {
  const auto it = pci.find(bdf);
  return it == pci.end() ? nullptr : &it->second;
}

const NumaNode* Node::find_numa(int id) const { return find_by(numa, &NumaNode::id, id); }
const Gpu* Node::find_gpu(const std::string& bdf) const { return find_by(gpus, &Gpu::bdf, bdf); }
const RdmaDevice* Node::find_rdma(const std::string& name) const { return find_by(rdma, &RdmaDevice::name, name); }
const NetInterface* Node::find_net(const std::string& name) const { return find_by(net, &NetInterface::name, name); }

Node read_node(const Root& root, const ReadOptions& options) {
  Node node;
  read_numa(root, node);
  read_pci(root, options, node);
  read_gpus(root, node);
  read_interfaces(root, options, node);
  read_rdma(root, options, node);
  read_routes(root, node);
  read_addresses(root, node);
  read_platform(root, node);
  read_nccl_conf(root, options, node);
  probe_files(root, options, node);
  read_topology_files(root, options, node);
  return node;
}

std::string last_component(std::string_view path) { return std::string(path.substr(path.rfind('/') + 1)); }

std::string join_link(const std::string& directory, const std::string& target) {
  const auto no_links = [](const std::string&) { return std::optional<std::string>(); };
  return follow_links(target.starts_with('/') ? target : directory + "/" + target, false, no_links).value_or("");
}

bool is_bdf(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos || colon < 4 || colon > 8 || text.size() != colon + 8) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool punctuation = i == colon || i == colon + 3 || i == colon + 6;
    const char wanted = i == colon + 6 ? '.' : ':';
    const char c = text[i];
    const bool hex = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
    if (punctuation ? c != wanted : !hex) return false;
  }
  return true;
}

std::optional<std::string> normal_bdf(std::string_view text) {
  std::string bdf = lower(trim(text));
  if (std::count(bdf.begin(), bdf.end(), ':') == 1) bdf = "0000:" + bdf;
  if (!is_bdf(bdf)) return std::nullopt;
  const size_t zeros = bdf.find_first_not_of('0');
  const size_t extra = bdf.find(':') - 4;  // digits beyond four
  bdf.erase(0, std::min(extra, zeros));
  return bdf;
}

std::string last_bdf(std::string_view path) {
  std::string found;
  for (std::string_view part : split(path, '/'))
    if (is_bdf(part)) found = part;
  return found;
}

std::optional<uint32_t> hex32(const std::optional<std::string>& text) {
  const auto value = text ? parse_hex(*text) : std::nullopt;
  return value && *value <= UINT32_MAX ? std::optional(static_cast<uint32_t>(*value)) : std::nullopt;
}

}  // namespace nccltune
