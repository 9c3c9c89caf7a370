#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turn the record of a machine into the sys/ and proc/ folders that its kernel would show.

usage: mktree.py RECORD.json FOLDER [--no-topo-file]

FOLDER must be absent or empty. A value that the record does not have (null) becomes no file. Where the platform ships an
NCCL topology file (expected.nccl_topo_file), it is written at that path too, unless --no-topo-file is given.

Two things that plain files cannot show: the attributes of an unset GID row are absent here (a kernel has the files and
fails their read with EINVAL), and /dev is empty (tests make the character devices they need).
"""

import ipaddress
import json
import os
import pathlib
import sys

SYSFS_PCI_FILES = (
    "class",
    "vendor",
    "device",
    "numa_node",
    "local_cpulist",
    "max_link_width",
    "current_link_width",
    "max_link_speed",
    "current_link_speed",
)
IFF_UP, IFF_BROADCAST, IFF_LOOPBACK, IFF_RUNNING, IFF_MULTICAST = 0x1, 0x2, 0x8, 0x40, 0x1000
ARPHRD_LOOPBACK = 772
RTF_UP, RTF_GATEWAY = 0x1, 0x2
INET6_SCOPE = {"link": 0x20, "host": 0x10, "global": 0x00}
UNSET_GID = ":".join(["0000"] * 8)


# ---- lists of CPUs ----------------------------------------------------------------------------------------------------


def cpus_of(cpulist):
    """The numbers in a kernel list such as "0-2,8"; nothing for "" and None."""
    numbers = []
    for word in (cpulist or "").split(","):
        if word:
            first, _, last = word.partition("-")
            numbers.extend(range(int(first), int(last or first) + 1))
    return numbers


def as_cpulist(numbers):
    """The shortest kernel list of some numbers."""
    runs = []
    for number in sorted(set(numbers)):
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def as_cpumask(cpulist):
    """The kernel's mask of a list: groups of 32 bits in hex, the highest first."""
    bits = sum(1 << cpu for cpu in set(cpus_of(cpulist)))
    groups = []
    while bits or not groups:
        groups.insert(0, f"{bits & 0xFFFFFFFF:08x}")
        bits >>= 32
    return ",".join(groups)


# ---- the tree ---------------------------------------------------------------------------------------------------------


class Folder:
    """The top folder; every path given to it is absolute as on the machine."""

    def __init__(self, top):
        self.top = pathlib.Path(top)

    def place(self, path):
        return self.top / path.lstrip("/")

    def directory(self, path):
        self.place(path).mkdir(parents=True, exist_ok=True)

    def file(self, path, value):
        if value is not None:
            place = self.place(path)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(f"{value}\n", encoding="utf-8")

    def files(self, directory, values):
        for name, value in values.items():
            self.file(f"{directory}/{name}", value)

    def symlink(self, path, target):
        place = self.place(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        # Relative, so that the tree can be moved.
        place.symlink_to(os.path.relpath(target, os.path.dirname(path)))


# ---- one function a subject -------------------------------------------------------------------------------------------


def lay_out_numa(folder, machine):
    nodes = machine["numa"]
    system = "/sys/devices/system"
    for node in nodes:
        memory = node.get("memory_kb")
        folder.files(
            f"{system}/node/node{node['id']}",
            {
                "cpulist": node["cpulist"] or "",
                "distance": " ".join("10" if other is node else "20" for other in nodes),
                "meminfo": f"Node {node['id']} MemTotal:       {memory} kB" if memory else None,
            },
        )
    ids = as_cpulist(node["id"] for node in nodes)
    with_cpus = as_cpulist(node["id"] for node in nodes if node["cpulist"])
    folder.files(f"{system}/node", {"online": ids, "possible": ids, "has_cpu": with_cpus})
    cpus = as_cpulist(cpu for node in nodes for cpu in cpus_of(node["cpulist"]))
    folder.files(f"{system}/cpu", {"online": cpus, "possible": cpus, "present": cpus})


def lay_out_pci(folder, machine):
    """Returns the folder of each function by its address."""
    places = {}
    for function in machine["pci"]:
        bdf = function["bdf"]
        place = "/".join(["/sys/devices", *function["parents"], bdf])
        places[bdf] = place
        folder.directory(place)
        values = {name: function.get(name) for name in SYSFS_PCI_FILES}
        for name, value in values.items():
            if name.endswith("_speed") and value and "PCIe" not in value:
                values[name] = value + " PCIe"
        if values["class"] and values["vendor"] and values["device"]:
            ids = f"{int(values['vendor'], 16):04X}:{int(values['device'], 16):04X}"
            values["uevent"] = f"PCI_CLASS={int(values['class'], 16):X}\nPCI_ID={ids}\nPCI_SLOT_NAME={bdf}"
        folder.files(place, values)
        folder.symlink(f"/sys/bus/pci/devices/{bdf}", place)
    return places


def lay_out_gpus(folder, machine):
    short_name = "NVIDIA " + machine.get("model", "NVIDIA GPU").split(" (")[0][:24]
    for gpu in machine["gpus"]:
        lines = (
            f"Model: \t\t {gpu.get('model') or short_name}",
            "IRQ:   \t\t 64",
            f"GPU UUID: \t {gpu['uuid']}",
            "Bus Type: \t PCIe",
            f"Bus Location: \t {gpu['bdf']}",
            f"Device Minor: \t {gpu['minor']}",
            "GPU Excluded:\t No",
        )
        folder.file(f"/proc/driver/nvidia/gpus/{gpu['bdf']}/information", "\n".join(lines))
    if machine["gpus"]:
        version = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.82.07  Release Build"
        folder.file("/proc/driver/nvidia/version", version)


def lay_out_gid_table(folder, place, gids):
    rows = {row["index"]: row for row in gids}
    for name in ("gids", "gid_attrs/types", "gid_attrs/ndevs"):
        folder.directory(f"{place}/{name}")
    # A few unset rows behind the last set one, as every table has.
    for index in range(max([8, *(index + 3 for index in rows)])):
        row = rows.get(index, {})
        folder.file(f"{place}/gids/{index}", row.get("gid", UNSET_GID))
        folder.file(f"{place}/gid_attrs/types/{index}", row.get("type"))
        folder.file(f"{place}/gid_attrs/ndevs/{index}", row.get("ndev"))


def lay_out_rdma(folder, machine, places):
    for hca in machine["rdma"]:
        name, bdf = hca["name"], hca["bdf"]
        function = places.get(bdf, f"/sys/devices/virtual/{name}")
        place = f"{function}/infiniband/{name}"
        folder.directory(place)
        folder.symlink(f"/sys/class/infiniband/{name}", place)
        if bdf:
            folder.symlink(f"{place}/device", function)
        names = ("node_guid", "fw_ver", "hca_type", "board_id")
        folder.files(place, {"node_type": "1: CA", **{key: hca.get(key) for key in names}})
        for port in hca["ports"]:
            at = f"{place}/ports/{port['num']}"
            names = ("state", "phys_state", "rate", "link_layer", "lid")
            folder.files(at, {key: port.get(key) for key in names})
            lay_out_gid_table(folder, at, port.get("gids", []))


def is_up(interface):
    return interface.get("operstate") in ("up", "unknown")


def lay_out_interface(folder, machine, places, interface, index):
    name, kind = interface["name"], interface.get("kind")
    function = places.get(interface.get("bdf"))
    place = f"{function}/net/{name}" if function else f"/sys/devices/virtual/net/{name}"
    folder.directory(place)
    folder.symlink(f"/sys/class/net/{name}", place)
    if function:
        folder.symlink(f"{place}/device", function)
    if interface.get("master"):
        folder.symlink(f"{place}/master", f"/sys/devices/virtual/net/{interface['master']}")

    loopback = interface.get("type") == ARPHRD_LOOPBACK
    flags = IFF_LOOPBACK if loopback else IFF_BROADCAST | IFF_MULTICAST
    if is_up(interface):
        flags |= IFF_UP | IFF_RUNNING
    uevent = [f"INTERFACE={name}", f"IFINDEX={index}"]
    if kind in ("bond", "vlan", "bridge"):
        uevent.insert(0, f"DEVTYPE={kind}")
    values = {key: interface.get(key) for key in ("operstate", "type", "speed", "address", "mtu")}
    values |= {"ifindex": index, "flags": hex(flags), "carrier": int(is_up(interface)), "uevent": "\n".join(uevent)}
    folder.files(place, values)

    if kind == "bridge":
        folder.directory(f"{place}/bridge")
    elif kind == "bond":
        slaves = [other["name"] for other in machine["net"] if other.get("master") == name]
        folder.file(f"{place}/bonding/slaves", " ".join(slaves))
    elif kind == "vlan":
        folder.file(f"/proc/net/vlan/{name}", f"{name}  VID: {interface.get('vlan', 0)}\t REORDER_HDR: 1")


def route_line(interface, destination, gateway, flags, mask):
    def word(address):
        # The kernel prints the network-order word as a number of a little-endian host.
        return address.packed[::-1].hex().upper()

    fields = (interface, word(destination), word(gateway), f"{flags:04X}", 0, 0, 0, word(mask), 0, 0, 0)
    return "\t".join(str(field) for field in fields)


def lay_out_routes(folder, machine):
    """Every connected IPv4 subnet, and the default route through its interface's first address."""
    zero = ipaddress.IPv4Address(0)
    default, connected = [], []
    for interface in machine["net"]:
        name = interface["name"]
        addresses = [ipaddress.ip_interface(text) for text in interface.get("addresses", []) if ":" not in text]
        for address in addresses:
            network = address.network
            if not address.is_loopback and network.prefixlen < 32:
                connected.append(route_line(name, network.network_address, zero, RTF_UP, network.netmask))
        if name == machine.get("default_route") and addresses:
            network = addresses[0].network
            gateway = network.network_address + (1 if network.num_addresses > 2 else 0)
            default.append(route_line(name, zero, gateway, RTF_UP | RTF_GATEWAY, zero))
    header = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT"
    folder.file("/proc/net/route", "\n".join([header, *default, *connected]))


def lay_out_addresses(folder, machine):
    """/proc tells IPv6 addresses with their interface, and the host's IPv4 addresses without."""
    inet6, local = [], set()
    for index, interface in enumerate(machine["net"], 1):
        for text in interface.get("addresses", []):
            address = ipaddress.ip_interface(text)
            if address.version == 4:
                local.add(address.ip)
                continue
            scope = INET6_SCOPE["link" if address.is_link_local else "host" if address.is_loopback else "global"]
            fields = (address.ip.packed.hex(), f"{index:02x}", f"{address.network.prefixlen:02x}", f"{scope:02x}", "80")
            inet6.append(f"{' '.join(fields)} {interface['name']:>8}")
    folder.file("/proc/net/if_inet6", "\n".join(inet6))
    trie = ["Local:", "  +-- 0.0.0.0/0 3 0 5"]
    for address in sorted(local):
        trie += [f"     |-- {address}", "        /32 host LOCAL"]
    folder.file("/proc/net/fib_trie", "\n".join(trie))


def lay_out_interface_counters(folder, machine):
    header = (
        "Inter-|   Receive                                                |  Transmit",
        " face |bytes    packets errs drop fifo frame compressed multicast"
        "|bytes    packets errs drop fifo colls carrier compressed",
    )
    rows = [f"{interface['name']:>6}:" + " 0" * 16 for interface in machine["net"]]
    folder.file("/proc/net/dev", "\n".join([*header, *rows]))


def lay_out_net(folder, machine, places):
    for index, interface in enumerate(machine["net"], 1):
        lay_out_interface(folder, machine, places, interface, index)
    lay_out_routes(folder, machine)
    lay_out_addresses(folder, machine)
    lay_out_interface_counters(folder, machine)


def lay_out_topology_file(folder, machine):
    """The vendor's XML, from the grouping that the record keeps (topo_file_bridges, topo_file_parents)."""
    path = machine["expected"].get("nccl_topo_file")
    if not path:
        return
    bridges = machine["topo_file_bridges"]
    link = 'link_speed="16 GT/s" link_width="16"'
    lines = ['<system version="1">']
    for numa in sorted({bridge["numa_node"] for bridge in bridges}):
        here = [bridge for bridge in bridges if bridge["numa_node"] == numa]
        affinity = as_cpumask(here[0]["local_cpulist"])
        lines.append(
            f'  <cpu numaid="{numa}" affinity="{affinity}" arch="x86_64" vendor="AuthenticAMD" '
            'familyid="23" modelid="49">'
        )
        for bridge in here:
            lines.append(f'    <pci busid="{bridge["bdf"]}" class="0x060400" {link}>')
            for function in machine["pci"]:
                if bridge["bdf"] in function.get("topo_file_parents", []):
                    lines.append(f'      <pci busid="{function["bdf"]}" class="{function["class"]}" {link}/>')
            lines.append("    </pci>")
        lines.append("  </cpu>")
    folder.file(path, "\n".join([*lines, "</system>"]))


def lay_out(machine, top, with_topology_file):
    folder = Folder(top)
    lay_out_numa(folder, machine)
    places = lay_out_pci(folder, machine)
    lay_out_gpus(folder, machine)
    lay_out_rdma(folder, machine, places)
    lay_out_net(folder, machine, places)
    if with_topology_file:
        lay_out_topology_file(folder, machine)
    folder.files("/sys/class/dmi/id", machine.get("dmi") or {})


def main(arguments):
    options = [word for word in arguments if word.startswith("--")]
    paths = [word for word in arguments if not word.startswith("--")]
    if len(paths) != 2 or set(options) - {"--no-topo-file"}:
        print(__doc__, file=sys.stderr)
        return 2
    record, top = pathlib.Path(paths[0]), pathlib.Path(paths[1])
    if top.is_dir() and any(top.iterdir()):
        print(f"mktree.py: {top}: not empty", file=sys.stderr)
        return 1
    lay_out(json.loads(record.read_text(encoding="utf-8")), top, "--no-topo-file" not in options)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
