# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Sourced in the guest: the node's facts as nccl-tune has them and as others tell them, in the same lines.

topo() { nccl-tune topo --json | jq -r "$1"; }
plan() { nccl-tune plan --json | jq -r "$1"; }

# Runs a command until it succeeds, for 10 s: the kernel fills its tables in the background.
until_true() {
  for _ in $(seq 50); do
    if "$@"; then return 0; fi
    sleep 0.2
  done
  echo "never true: $*"
  return 1
}

# The value that the plan exports under a name; "null" when it exports none.
exported() { plan ".env | map(select(.name == \"$1\"))[0].value"; }

# NAME/PORT STATE PHYSICAL-STATE NETDEV of every port, sorted.
ports_of_topo() {
  topo '.hcas[] | "\(.name)/\(.port) \(.state) \(.phys_state | ascii_downcase) \(.netdev // "-")"' | sort
}
ports_of_rdma() {
  rdma link | awk '{ for (i = 3; i < NF; i += 2) told[$i] = $(i + 1); net = "-"; if ($(NF - 1) == "netdev") net = $NF
    print $2, told["state"], tolower(told["physical_state"]), net }' | sed 's/ link_up / linkup /' | sort
}

# NAME INDEX GID TYPE NETDEV of every set GID row, sorted.
rows_of_topo() {
  # shellcheck disable=SC2016 # $name is jq's
  topo '.hcas[] | .name as $name | .gids[] | "\($name) \(.index) \(.gid) \(.type) \(.netdev // "-")"' | sort
}
# As NVIDIA's show_gids does it: a row that reads zeros is unset. libc writes the address.
rows_of_sysfs() {
  local port device row gid type netdev
  for port in /sys/class/infiniband/*/ports/*; do
    device=${port#/sys/class/infiniband/}
    for row in "$port"/gids/*; do
      gid=$(<"$row")
      [ "${gid//[0:]/}" ] || continue
      row=${row##*/}
      gid=$(getent ahostsv6 "$gid")
      gid=${gid%% *}
      type=$(cat "$port/gid_attrs/types/$row" 2>/dev/null) || type=-
      netdev=$(cat "$port/gid_attrs/ndevs/$row" 2>/dev/null) || netdev=-
      [ "$(<"$port/link_layer")" != InfiniBand ] || type=InfiniBand
      echo "${device%%/*} $row ${gid#::ffff:} ${type#IB/} $netdev"
    done
  done | sort
}
# ibv_devinfo -v: "GID[  1]: ::ffff:10.0.0.1, RoCE v2"; it does not tell the interface.
rows_of_verbs() {
  ibv_devinfo -v | awk '$1 == "hca_id:" { name = $2 }
    $1 ~ /^GID\[/ { sub(/.*GID\[ */, ""); sub(/\]:[ \t]*/, " "); sub(/,/, ""); sub(/::ffff:/, ""); print name, $0 }' | sort
}

# NUMA-NODE CPULIST of every GPU in PCI order, as we have it and as hwloc has it.
near_gpus() { topo '.gpus[] | "\(.bdf) \(.numa_node) \(.cpus)"'; }
near_gpus_of_hwloc() {
  local bdf
  for bdf in $(topo '.gpus[].bdf'); do
    echo "$bdf $(hwloc-calc --po -I NUMAnode "pci=$bdf") $(hwloc_cpus "pci=$bdf")"
  done
}
# As a cpulist; the CPUs of an object of this guest are always a range.
hwloc_cpus() { hwloc-calc --po -I PU "$1" | awk -F, '{ print $1 "-" $NF }'; }
