// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// A kernel module for a throwaway guest: NVIDIA-like GPUs and ConnectX-like HCAs in the kernel's own PCI and RDMA
// tables. Real are sysfs' layout, NUMA nodes, GID tables and errors, which the kernel's core makes; made up are the
// vendors, rates, LIDs and GUIDs. It is not the vendors' drivers: no uverbs, no hca_type, no board_id, nothing behind a
// BAR.
//
// At load, for each of `nodes` NUMA nodes N, PCI domain N + 1, and /proc/driver/nvidia/gpus with minors in reverse
// order:
//     00:00.0 root port - 01:00.0 switch -+- 02:00.0 - 03:00.0 GPU
//                                         +- 02:01.0 - 04:00.0 HCA, PIX to the GPU
//     00:01.0 root port - 05:00.0 HCA, PHB to the GPU
// Then, by writing to the parameter `hca` ("NAME NETDEV" or "NAME BDF [down]"), an RDMA device: RoCE v1 and v2 with the
// interface's addresses, below the interface's own PCI function, or InfiniBand below one of the HCAs above.
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/pci.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include <rdma/ib_mad.h>
#include <rdma/ib_verbs.h>

enum { kMaxNodes = 8, kFunctions = 8, kBridge = 0x060400, kGpu = 0x030200, kHca = 0x020700, kCapability = 0x40 };

static int nodes = 4;
module_param(nodes, int, 0444);

struct function {
  u8 bus, slot;
  u8 type;                    // PCI_EXP_TYPE_*
  u8 secondary, subordinate;  // bridges: the buses below
  u16 vendor, device;
  u32 class;
  u8 width;
};

static const struct function functions[kFunctions] = {
    {0, 0, PCI_EXP_TYPE_ROOT_PORT, 1, 4, 0x8086, 0x352a, kBridge, 16},
    {0, 1, PCI_EXP_TYPE_ROOT_PORT, 5, 5, 0x8086, 0x352b, kBridge, 16},
    {1, 0, PCI_EXP_TYPE_UPSTREAM, 2, 4, 0x1000, 0xc030, kBridge, 16},
    {2, 0, PCI_EXP_TYPE_DOWNSTREAM, 3, 3, 0x1000, 0xc030, kBridge, 16},
    {2, 1, PCI_EXP_TYPE_DOWNSTREAM, 4, 4, 0x1000, 0xc030, kBridge, 16},
    {3, 0, PCI_EXP_TYPE_ENDPOINT, 0, 0, 0x10de, 0x2330, kGpu, 16},
    {4, 0, PCI_EXP_TYPE_ENDPOINT, 0, 0, 0x15b3, 0x1021, kHca, 16},
    {5, 0, PCI_EXP_TYPE_ENDPOINT, 0, 0, 0x15b3, 0x101d, kHca, 8},
};

// ---- PCI: a host bridge a NUMA node, with configuration space in memory
// -------------------------------------------------
struct host {
  struct pci_sysdata sysdata;
  u8 config[kFunctions][PCI_CFG_SPACE_SIZE];
};
static struct host hosts[kMaxNodes];

static void put16(u8* config, int at, u16 value) {
  config[at] = value & 0xff;
  config[at + 1] = value >> 8;
}

static void put32(u8* config, int at, u32 value) {
  put16(config, at, value & 0xffff);
  put16(config, at + 2, value >> 16);
}

static void fill_config(const struct function* f, u8* config) {
  const u16 link = PCI_EXP_LNKCAP_SLS_32_0GB | f->width << 4;  // speed code 5, and the width, in capability and status
  const bool is_port = f->type == PCI_EXP_TYPE_ROOT_PORT || f->type == PCI_EXP_TYPE_DOWNSTREAM;

  put16(config, PCI_VENDOR_ID, f->vendor);
  put16(config, PCI_DEVICE_ID, f->device);
  put16(config, PCI_STATUS, PCI_STATUS_CAP_LIST);
  put32(config, PCI_CLASS_REVISION, f->class << 8 | 1);
  config[PCI_CAPABILITY_LIST] = kCapability;
  if (f->class == kBridge) {
    config[PCI_HEADER_TYPE] = PCI_HEADER_TYPE_BRIDGE;
    config[PCI_PRIMARY_BUS] = f->bus;
    config[PCI_SECONDARY_BUS] = f->secondary;
    config[PCI_SUBORDINATE_BUS] = f->subordinate;
  } else {
    put16(config, PCI_SUBSYSTEM_VENDOR_ID, f->vendor);
    put16(config, PCI_SUBSYSTEM_ID, f->device);
  }
  config[kCapability] = PCI_CAP_ID_EXP;
  put16(config, kCapability + PCI_EXP_FLAGS, 2 | f->type << 4);
  put32(config, kCapability + PCI_EXP_LNKCAP, link | (is_port ? PCI_EXP_LNKCAP_DLLLARC : 0));
  put16(config, kCapability + PCI_EXP_LNKSTA, link | (is_port ? PCI_EXP_LNKSTA_DLLLA : 0));
  put32(config, kCapability + PCI_EXP_LNKCAP2, 0x3e);  // 2.5 to 32 GT/s
}

static u8* find_config(struct pci_bus* bus, unsigned int devfn) {
  struct host* host = container_of((struct pci_sysdata*)bus->sysdata, struct host, sysdata);
  int i;

  for (i = 0; i < kFunctions; i++)
    if (functions[i].bus == bus->number && devfn == PCI_DEVFN(functions[i].slot, 0)) return host->config[i];
  return NULL;
}

static int read_config(struct pci_bus* bus, unsigned int devfn, int where, int size, u32* value) {
  const u8* config = find_config(bus, devfn);
  int i;

  *value = config ? 0 : ~0u;
  if (!config) return PCIBIOS_DEVICE_NOT_FOUND;
  for (i = 0; i < size && where + i < PCI_CFG_SPACE_SIZE; i++) *value |= (u32)config[where + i] << (8 * i);
  return PCIBIOS_SUCCESSFUL;
}

// What the core sets and reads back: command, interrupt line, a bridge's bus numbers, device and link control. All else
// is read-only; BARs then have no size.
static bool may_write(const u8* config, int at) {
  if (at == PCI_COMMAND || at == PCI_COMMAND + 1 || at == PCI_INTERRUPT_LINE) return true;
  if (config[PCI_HEADER_TYPE] && at >= PCI_PRIMARY_BUS && at <= PCI_SEC_LATENCY_TIMER) return true;
  at -= kCapability;
  return at == PCI_EXP_DEVCTL || at == PCI_EXP_DEVCTL + 1 || at == PCI_EXP_LNKCTL;
}

static int write_config(struct pci_bus* bus, unsigned int devfn, int where, int size, u32 value) {
  u8* config = find_config(bus, devfn);

  if (!config) return PCIBIOS_DEVICE_NOT_FOUND;
  for (; size-- && where < PCI_CFG_SPACE_SIZE; where++, value >>= 8)
    if (may_write(config, where)) config[where] = value & 0xff;
  return PCIBIOS_SUCCESSFUL;
}

static struct pci_ops config_ops = {.read = read_config, .write = write_config};

static int add_host(int node) {
  struct host* host = &hosts[node];
  struct pci_bus* bus;
  LIST_HEAD(resources);
  int i;

  host->sysdata.domain = node + 1;
  host->sysdata.node = node;
  for (i = 0; i < kFunctions; i++) fill_config(&functions[i], host->config[i]);
  pci_lock_rescan_remove();
  bus = pci_scan_root_bus(NULL, 0, &config_ops, &host->sysdata, &resources);
  if (bus) pci_bus_add_devices(bus);
  pci_unlock_rescan_remove();
  return bus ? 0 : -ENODEV;
}

// ---- what the NVIDIA driver shows of a GPU
// ------------------------------------------------------------------------------
static int show_gpu(struct seq_file* out, void* unused) {
  const int node = (int)(long)out->private;

  seq_printf(out, "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 0\n");
  seq_printf(out, "GPU UUID: \t GPU-00000000-0000-4000-8000-%012d\n", node + 1);
  seq_printf(out, "Bus Type: \t PCIe\nBus Location: \t %04x:03:00.0\nDevice Minor: \t %d\n", node + 1,
             nodes - 1 - node);
  return 0;
}

static int show_gpus(void) {
  struct proc_dir_entry* gpus;
  char name[16];
  int node;

  proc_mkdir("driver/nvidia", NULL);
  gpus = proc_mkdir("driver/nvidia/gpus", NULL);
  for (node = 0; gpus && node < nodes; node++) {
    snprintf(name, sizeof(name), "%04x:03:00.0", node + 1);
    proc_create_single_data("information", 0444, proc_mkdir(name, gpus), show_gpu, (void*)(long)node);
  }
  return gpus ? 0 : -ENOMEM;
}

// ---- RDMA devices
// -------------------------------------------------------------------------------------------------------
struct hca {
  struct ib_device ib;
  struct net_device* netdev;  // NULL: InfiniBand
  bool down;
  int number;
};

static struct hca* hca_of(struct ib_device* device) { return container_of(device, struct hca, ib); }

static int query_device(struct ib_device* device, struct ib_device_attr* attr, struct ib_udata* udata) {
  attr->vendor_id = 0x2c9;
  attr->max_pkeys = 1;
  attr->sys_image_guid = device->node_guid;
  return 0;
}

static int query_port(struct ib_device* device, u32 port, struct ib_port_attr* attr) {
  const struct hca* hca = hca_of(device);
  const bool down = hca->netdev ? !netif_running(hca->netdev) || !netif_carrier_ok(hca->netdev) : hca->down;

  attr->state = down ? IB_PORT_DOWN : IB_PORT_ACTIVE;
  attr->phys_state = !down         ? IB_PORT_PHYS_STATE_LINK_UP
                     : hca->netdev ? IB_PORT_PHYS_STATE_DISABLED
                                   : IB_PORT_PHYS_STATE_POLLING;
  attr->max_mtu = attr->active_mtu = IB_MTU_4096;
  attr->gid_tbl_len = hca->netdev ? 256 : 8;
  attr->pkey_tbl_len = 1;
  attr->lid = hca->netdev || down ? 0 : 16 + hca->number;
  attr->sm_lid = hca->netdev ? 0 : 1;
  attr->active_width = IB_WIDTH_4X;
  attr->active_speed = hca->netdev ? IB_SPEED_EDR : IB_SPEED_NDR;
  return 0;
}

static int get_immutable(struct ib_device* device, u32 port, struct ib_port_immutable* immutable) {
  const bool roce = hca_of(device)->netdev != NULL;

  immutable->pkey_tbl_len = 1;
  immutable->gid_tbl_len = roce ? 256 : 8;
  immutable->core_cap_flags =
      roce ? RDMA_CORE_CAP_PROT_ROCE | RDMA_CORE_CAP_PROT_ROCE_UDP_ENCAP | RDMA_CORE_CAP_ETH_AH : RDMA_CORE_CAP_PROT_IB;
  return 0;
}

static int query_pkey(struct ib_device* device, u32 port, u16 index, u16* pkey) {
  *pkey = 0xffff;
  return 0;
}

// InfiniBand: row 0 is the port's own GID, all others are unset.
static int query_gid(struct ib_device* device, u32 port, int index, union ib_gid* gid) {
  memset(gid, 0, sizeof(*gid));
  if (index == 0) {
    gid->global.subnet_prefix = cpu_to_be64(0xfe80000000000000ULL);
    gid->global.interface_id = device->node_guid;
  }
  return 0;
}

// RoCE: ib_core fills the table from the interface's addresses and only tells the driver.
static int add_gid(const struct ib_gid_attr* attr, void** context) { return 0; }
static int del_gid(const struct ib_gid_attr* attr, void** context) { return 0; }

static enum rdma_link_layer get_link_layer(struct ib_device* device, u32 port) {
  return hca_of(device)->netdev ? IB_LINK_LAYER_ETHERNET : IB_LINK_LAYER_INFINIBAND;
}

static void get_firmware(struct ib_device* device, char* text) { strscpy(text, "28.39.1002", IB_FW_VERSION_NAME_MAX); }

#define COMMON_OPS                                                                                                \
  .owner = THIS_MODULE, .driver_id = RDMA_DRIVER_UNKNOWN, .query_device = query_device, .query_port = query_port, \
  .get_port_immutable = get_immutable, .query_pkey = query_pkey, .get_link_layer = get_link_layer,                \
  .get_dev_fw_str = get_firmware
static const struct ib_device_ops roce_ops = {COMMON_OPS, .add_gid = add_gid, .del_gid = del_gid};
static const struct ib_device_ops infiniband_ops = {COMMON_OPS, .query_gid = query_gid};

static int add_hca(const char* name, struct device* parent, struct net_device* netdev, bool down) {
  static int count;
  struct hca* hca = ib_alloc_device(hca, ib);
  int error;

  if (!hca) return -ENOMEM;
  hca->netdev = netdev;
  hca->down = down;
  hca->number = count++;
  hca->ib.dev.parent = parent;
  hca->ib.phys_port_cnt = 1;
  hca->ib.node_type = RDMA_NODE_IB_CA;
  hca->ib.num_comp_vectors = 1;
  hca->ib.node_guid = cpu_to_be64(0x0200000000000000ULL + 16 * (hca->number + 1));
  ib_set_device_ops(&hca->ib, netdev ? &roce_ops : &infiniband_ops);
  error = netdev ? ib_device_set_netdev(&hca->ib, netdev, 1) : 0;
  if (!error) error = ib_register_device(&hca->ib, name, NULL);
  if (error) ib_dealloc_device(&hca->ib);
  return error;
}

static int set_hca(const char* text, const struct kernel_param* param) {
  char name[IB_DEVICE_NAME_MAX] = "", where[32] = "", state[8] = "";
  unsigned int domain, bus, slot, function;
  struct net_device* netdev;
  struct pci_dev* pci;

  if (sscanf(text, "%63s %31s %7s", name, where, state) < 2) return -EINVAL;
  if (sscanf(where, "%x:%x:%x.%x", &domain, &bus, &slot, &function) == 4) {
    pci = pci_get_domain_bus_and_slot(domain, bus, PCI_DEVFN(slot, function));
    return pci ? add_hca(name, &pci->dev, NULL, !strcmp(state, "down")) : -ENODEV;
  }
  netdev = dev_get_by_name(&init_net, where);
  return netdev ? add_hca(name, netdev->dev.parent, netdev, false) : -ENODEV;
}

static const struct kernel_param_ops hca_ops = {.set = set_hca};
module_param_cb(hca, &hca_ops, NULL, 0200);

// No exit: what it made stays until the guest ends.
static int __init start(void) {
  int node, error = 0;

  nodes = clamp(nodes, 1, (int)kMaxNodes);
  for (node = 0; !error && node < nodes; node++) error = add_host(node);
  return error ? error : show_gpus();
}
module_init(start);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("made-up GPUs and HCAs for tests of readers");
