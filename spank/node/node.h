// SPDX-License-Identifier: Apache-2.0
// The facts of one node, as its kernel shows them. Plain data: readers fill it, the policy reads it, nothing here
// decides. A fact that the kernel withholds is absent (nullopt, empty), never a default; notes say which and why.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/cpuset.h"

namespace nccltune {

// Something worth telling a person about an object; never an error.
struct Note {
  std::string object;
  std::string text;
};

struct NumaNode {
  int id = 0;   // ids can be sparse (POWER9: 0 and 8)
  CpuSet cpus;  // empty for a node of memory only (Grace GPU memory, CXL)
  std::optional<uint64_t> memory_kb;
  std::vector<int> distances;  // in the order of Node::numa
};

struct PciDevice {
  std::string bdf;                // "0000:3b:00.0"
  std::vector<std::string> path;  // from the root: "pci0000:3a", "0000:3a:00.0", ..., bdf itself
  std::optional<uint32_t> vendor, device;
  std::optional<uint32_t> class_code;  // 24 bits: 0x030200
  std::optional<int> numa_node;        // absent when the kernel says -1
  std::optional<CpuSet> local_cpus;
  std::string driver;  // "mlx5_core"; "" when unbound or unknown
  std::string physfn;  // BDF of the physical function when this is an SR-IOV virtual function
  std::string current_link_speed, max_link_speed;  // "16.0 GT/s PCIe"
  std::string current_link_width, max_link_width;  // "16"

  bool is_bridge() const { return class_code && (*class_code >> 16) == 0x06; }
};

struct Gpu {  // NVIDIA only
  std::string bdf;
  std::optional<int> minor;  // N of /dev/nvidiaN; absent without the driver
  std::string uuid;          // "GPU-...": absent without the driver
  std::string model;
};

enum class GidType { unknown, roce_v1, roce_v2, infiniband };

struct Gid {  // a set row of a port's table; unset rows are left out
  int index = 0;
  std::array<uint8_t, 16> bytes{};
  GidType type = GidType::unknown;
  std::string netdev;  // "" when the row's interface is of another namespace or unknown

  bool is_ipv4() const;        // ::ffff:a.b.c.d
  bool is_link_local() const;  // fe80::/10, or an IPv4-mapped 169.254/16
  std::string text() const;    // "10.0.0.1" for an IPv4-mapped one, else RFC 5952
};

struct RdmaPort {
  int number = 1;
  std::string state;       // "ACTIVE", "DOWN", "INIT" (the words after the number in sysfs); "" when unknown
  std::string phys_state;  // "LinkUp", "Polling", "Disabled"
  std::string link_layer;  // "InfiniBand", "Ethernet"; "" when unknown
  std::optional<double> rate_gbps;
  std::optional<uint32_t> lid, sm_lid;
  std::string netdev;  // the interface that the port's GIDs (or the device) belong to; "" when none
  std::vector<Gid> gids;

  bool active() const { return state == "ACTIVE"; }
};

struct RdmaDevice {
  std::string name;    // "mlx5_0"; names prove nothing
  std::string bdf;     // "" for a software device (rxe, siw)
  std::string driver;  // of the PCI function: "mlx5_core", "efa", "bnxt_en"; "" when unknown
  std::string hca_type, fw_ver, board_id, node_guid, node_type, node_desc;
  std::string parent_netdev;         // soft-RoCE: the interface it sits on
  std::vector<std::string> uverbs;   // "uverbs0"
  std::optional<bool> openable;      // may this process open /dev/infiniband/uverbsN; absent where that was not asked
  std::vector<std::string> netdevs;  // interfaces of the same PCI function
  std::vector<RdmaPort> ports;
};

enum class NetKind {
  physical,
  loopback,
  bond,
  vlan,
  bridge,
  veth,
  tun,
  macvlan,
  ipvlan,
  dummy,
  ipoib,
  wireguard,
  tunnel,
  virtual_other
};

struct IpAddress {
  bool v6 = false;
  std::array<uint8_t, 16> bytes{};  // IPv4 in the first four
  int prefix = 0;

  bool is_link_local() const;  // 169.254/16, fe80::/10
  bool is_loopback() const;
  bool contains(const IpAddress& other) const;  // other lies in this subnet; false for mixed families
  std::string text() const;                     // "10.0.0.1", "fd00::1"
  bool operator==(const IpAddress& other) const = default;
};

struct NetInterface {
  std::string name;
  int index = 0;
  NetKind kind = NetKind::physical;
  std::string bdf;  // of the PCI function it sits on, also through virtio; "" for a virtual one
  std::string driver;
  bool usb = false;      // its device path crosses USB: a BMC or a dongle
  bool up = false;       // IFF_UP
  bool running = false;  // IFF_RUNNING, or operstate up (unknown counts as up)
  std::optional<bool> carrier;
  std::string operstate;
  std::optional<int> arphrd;  // /sys/class/net/X/type: 1 Ethernet, 32 InfiniBand, 772 loopback
  std::optional<int> speed_mbps;
  std::optional<int> mtu;
  std::string mac;
  std::string master;        // bond or bridge that it is a member of
  bool bond_member = false;  // master is a bond
  std::string lower;         // VLAN, macvlan: the interface below
  std::vector<IpAddress> addresses;
};

struct Route {
  std::string netdev;
  IpAddress destination;  // prefix 0: the default route
  std::optional<IpAddress> gateway;
  uint32_t metric = 0;
};

// One line of a file that NCCL reads at start (nccl: src/misc/param.cc). Values as NCCL takes them: no trimming.
struct ConfLine {
  std::string name, value;
  std::string file;
  int line = 0;
};

// A vendor's NCCL topology file (XML): on a flat guest the only source of locality.
struct TopologyFile {
  std::string path;
  struct Device {
    std::string bdf;                   // lower case, with domain
    std::optional<int> numa;           // numaid of the <cpu> around it
    CpuSet cpus;                       // affinity of that <cpu>
    std::vector<std::string> bridges;  // busids of the <pci> elements around it, outermost first
  };
  std::vector<Device> devices;
};

struct NvidiaDriver {
  std::string version;        // "580.82.07"; "" without the driver
  bool open_modules = false;  // "Open Kernel Module": DMA-BUF can work
};

struct Node {
  std::string hostname;
  std::vector<NumaNode> numa;  // by id
  CpuSet online_cpus;
  std::map<std::string, PciDevice> pci;  // by BDF
  std::vector<Gpu> gpus;                 // by BDF: PCI order
  std::vector<RdmaDevice> rdma;          // by PCI address, then name
  std::vector<NetInterface> net;         // by index
  std::vector<Route> routes;
  std::map<std::string, std::string> dmi;  // product_name, sys_vendor, chassis_asset_tag, ...
  NvidiaDriver driver;
  std::optional<bool> peermem;  // nvidia_peermem (or nv_mem) is loaded
  std::string kernel_release;
  bool hypervisor = false;                   // a guest (cpuinfo flag "hypervisor")
  std::vector<ConfLine> nccl_conf;           // in the order of precedence: the first line for a name wins
  std::map<std::string, bool> files;         // every path of ReadOptions::probe: does it exist and can it be read
  std::vector<TopologyFile> topology_files;  // those of ReadOptions::topology_files that could be parsed
  bool imex_channels = false;                // /dev/nvidia-caps-imex-channels has a channel
  std::vector<Note> notes;

  // GPUDirect RDMA by DMA-BUF can be: Linux 5.12 or newer and the open GPU kernel modules (NVIDIA GPUDirect RDMA guide,
  // CUDA 11.7). Absent: kernel or driver are not told.
  std::optional<bool> dma_buf() const;

  // nullptr: there is none.
  const NumaNode* find_numa(int id) const;
  const PciDevice* find_pci(const std::string& bdf) const;
  const Gpu* find_gpu(const std::string& bdf) const;
  const RdmaDevice* find_rdma(const std::string& name) const;
  const NetInterface* find_net(const std::string& name) const;
};

// Of the kernel's "5.15.0-1042-azure" what matters: {5, 15}. Absent: no such text.
std::optional<std::pair<int, int>> kernel_version(const std::string& release);

}  // namespace nccltune
