// SPDX-License-Identifier: Apache-2.0
#include "node/wire.h"

#include <cstring>
#include <tuple>
#include <type_traits>
#include <utility>

namespace nccltune {

// Initializes any field, in expressions that are never evaluated.
struct Anything {
  template <class T>
  operator T() const;
};

namespace {

// The fields of every struct of node.h, once for both directions. One that is forgotten here does not compile.
template <class T>
constexpr auto kFields = nullptr;
template <>
constexpr auto kFields<Note> = std::tuple(&Note::object, &Note::text);
template <>
constexpr auto kFields<NumaNode> = std::tuple(&NumaNode::id, &NumaNode::cpus, &NumaNode::memory_kb,
                                              &NumaNode::distances);
template <>
constexpr auto kFields<PciDevice> = std::tuple(&PciDevice::bdf, &PciDevice::path, &PciDevice::vendor,
                                               &PciDevice::device, &PciDevice::class_code, &PciDevice::numa_node,
                                               &PciDevice::local_cpus, &PciDevice::driver, &PciDevice::physfn,
                                               &PciDevice::current_link_speed, &PciDevice::max_link_speed,
                                               &PciDevice::current_link_width, &PciDevice::max_link_width);
template <>
constexpr auto kFields<Gpu> = std::tuple(&Gpu::bdf, &Gpu::minor, &Gpu::uuid, &Gpu::model);
template <>
constexpr auto kFields<Gid> = std::tuple(&Gid::index, &Gid::bytes, &Gid::type, &Gid::netdev);
template <>
constexpr auto kFields<RdmaPort> = std::tuple(&RdmaPort::number, &RdmaPort::state, &RdmaPort::phys_state,
                                              &RdmaPort::link_layer, &RdmaPort::rate_gbps, &RdmaPort::lid,
                                              &RdmaPort::sm_lid, &RdmaPort::netdev, &RdmaPort::gids);
template <>
constexpr auto kFields<RdmaDevice> = std::tuple(&RdmaDevice::name, &RdmaDevice::bdf, &RdmaDevice::driver,
                                                &RdmaDevice::hca_type, &RdmaDevice::fw_ver, &RdmaDevice::board_id,
                                                &RdmaDevice::node_guid, &RdmaDevice::node_type, &RdmaDevice::node_desc,
                                                &RdmaDevice::parent_netdev, &RdmaDevice::uverbs, &RdmaDevice::openable,
                                                &RdmaDevice::netdevs, &RdmaDevice::ports);
template <>
constexpr auto kFields<IpAddress> = std::tuple(&IpAddress::v6, &IpAddress::bytes, &IpAddress::prefix);
template <>
constexpr auto kFields<NetInterface> = std::tuple(&NetInterface::name, &NetInterface::index, &NetInterface::kind,
                                                  &NetInterface::bdf, &NetInterface::driver, &NetInterface::usb,
                                                  &NetInterface::up, &NetInterface::running, &NetInterface::carrier,
                                                  &NetInterface::operstate, &NetInterface::arphrd,
                                                  &NetInterface::speed_mbps, &NetInterface::mtu, &NetInterface::mac,
                                                  &NetInterface::master, &NetInterface::bond_member,
                                                  &NetInterface::lower, &NetInterface::addresses);
template <>
constexpr auto kFields<Route> = std::tuple(&Route::netdev, &Route::destination, &Route::gateway, &Route::metric);
template <>
constexpr auto kFields<ConfLine> = std::tuple(&ConfLine::name, &ConfLine::value, &ConfLine::file, &ConfLine::line);
template <>
constexpr auto kFields<TopologyFile::Device> = std::tuple(&TopologyFile::Device::bdf, &TopologyFile::Device::numa,
                                                          &TopologyFile::Device::cpus, &TopologyFile::Device::bridges);
template <>
constexpr auto kFields<TopologyFile> = std::tuple(&TopologyFile::path, &TopologyFile::devices);
template <>
constexpr auto kFields<NvidiaDriver> = std::tuple(&NvidiaDriver::version, &NvidiaDriver::open_modules);
template <>
constexpr auto kFields<Node> = std::tuple(&Node::hostname, &Node::numa, &Node::online_cpus, &Node::pci, &Node::gpus,
                                          &Node::rdma, &Node::net, &Node::routes, &Node::dmi, &Node::driver,
                                          &Node::peermem, &Node::kernel_release, &Node::hypervisor, &Node::nccl_conf,
                                          &Node::files, &Node::topology_files, &Node::imex_channels, &Node::notes);

// How many fields an aggregate has: as many as it takes initializers.
template <class T, class... Given>
consteval std::size_t count_fields() {
  if constexpr (requires { T{std::declval<Given>()..., Anything()}; })
    return count_fields<T, Given..., Anything>();
  else
    return sizeof...(Given);
}

template <class T>
constexpr T kLast = T{};
template <>
constexpr GidType kLast<GidType> = GidType::infiniband;
template <>
constexpr NetKind kLast<NetKind> = NetKind::virtual_other;

class Writer {
 public:
  std::string take() { return std::move(bytes_); }

  void put(const std::string& text) {
    put_size(text.size());
    bytes_ += text;
  }
  void put(const CpuSet& set) { put(set.list()); }
  void put(const std::array<uint8_t, 16>& bytes) {
    bytes_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  template <class T>
  requires std::is_arithmetic_v<T> || std::is_enum_v<T>
  void put(T value) { bytes_.append(reinterpret_cast<const char*>(&value), sizeof value); }
  template <class T>
  void put(const std::optional<T>& value) {
    put(value.has_value());
    if (value) put(*value);
  }
  template <class T>
  void put(const std::vector<T>& values) {
    put_size(values.size());
    for (const T& value : values) put(value);
  }
  template <class T>
  void put(const std::map<std::string, T>& values) {
    put_size(values.size());
    for (const auto& [name, value] : values) {
      put(name);
      put(value);
    }
  }
  template <class T>
  requires(std::is_aggregate_v<T>) void put(const T& object) {
    static_assert(std::tuple_size_v<decltype(kFields<T>)> == count_fields<T>(), "kFields lacks a field");
    std::apply([&](auto... field) { (put(object.*field), ...); }, kFields<T>);
  }

 private:
  void put_size(std::size_t size) { put(static_cast<uint32_t>(size)); }

  std::string bytes_;
};

// Each get is false when the bytes end too early or hold no such value; what it leaves behind then is of no use.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}
  bool at_end() const { return rest_.empty(); }

  bool get(std::string& text) {
    uint32_t size = 0;
    if (!get_size(size)) return false;
    text = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return true;
  }
  bool get(CpuSet& set) {
    std::string list;
    if (!get(list)) return false;
    std::optional<CpuSet> parsed = CpuSet::from_list(list);
    if (parsed) set = std::move(*parsed);
    return parsed.has_value();
  }
  bool get(std::array<uint8_t, 16>& bytes) { return get_raw(bytes.data(), bytes.size()); }
  bool get(bool& value) {
    uint8_t byte = 0;
    if (!get_raw(&byte, 1) || byte > 1) return false;
    value = byte == 1;
    return true;
  }
  template <class T>
  requires std::is_arithmetic_v<T>
  bool get(T& value) { return get_raw(&value, sizeof value); }
  template <class T>
  requires std::is_enum_v<T>
  bool get(T& value) {
    std::underlying_type_t<T> number{};
    if (!get_raw(&number, sizeof number) || number < 0 || number > static_cast<decltype(number)>(kLast<T>))
      return false;
    value = static_cast<T>(number);
    return true;
  }
  template <class T>
  bool get(std::optional<T>& value) {
    bool there = false;
    if (!get(there)) return false;
    return !there || get(value.emplace());
  }
  template <class T>
  bool get(std::vector<T>& values) {
    uint32_t size = 0;
    if (!get_size(size)) return false;
    for (uint32_t i = 0; i < size; ++i)
      if (!get(values.emplace_back())) return false;
    return true;
  }
  template <class T>
  bool get(std::map<std::string, T>& values) {
    uint32_t size = 0;
    if (!get_size(size)) return false;
    for (uint32_t i = 0; i < size; ++i) {
      std::string name;
      T value{};
      if (!get(name) || !get(value)) return false;
      values.emplace_hint(values.end(), std::move(name), std::move(value));
    }
    return true;
  }
  template <class T>
  requires(std::is_aggregate_v<T>) bool get(T& object) {
    return std::apply([&](auto... field) { return (get(object.*field) && ...); }, kFields<T>);
  }

 private:
  // Of a text or a list: each of its elements takes a byte at least.
  bool get_size(uint32_t& size) { return get(size) && size <= rest_.size(); }
  bool get_raw(void* to, std::size_t size) {
    if (size > rest_.size()) return false;
    std::memcpy(to, rest_.data(), size);
    rest_.remove_prefix(size);
    return true;
  }

  std::string_view rest_;
};

}  // namespace

std::string to_bytes(const Node& node) {
  Writer writer;
  writer.put(node);
  return writer.take();
}

std::optional<Node> from_bytes(std::string_view bytes) {
  Reader reader(bytes);
  Node node;
  if (!reader.get(node) || !reader.at_end()) return std::nullopt;
  return node;
}

}  // namespace nccltune
