# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# ConnectX-like RoCE HCAs on the NICs: the kernel's GID tables with versions 1 and 2, beside GPUs of the same NUMA nodes.
# shellcheck disable=SC2154 # facts.sh, assert.sh

prepare() {
  local net
  for net in $(rdma link | sed -n 's/^link \([^/]*\).*/\1/p'); do rdma link delete "$net" || return 1; done
  for net in 0 1 2 3 6 7; do echo "mlx5_$net rail$net" >/sys/module/fabric/parameters/hca || return 1; done
  # A bond's device hangs below one of its members; the active one has the bond's rows.
  echo "mlx5_bond_0 rail4" >/sys/module/fabric/parameters/hca || return 1
  until_true grep -qs 0a00:0501 /sys/class/infiniband/mlx5_bond_0/ports/1/gids/3
}

test_ports_are_those_of_rdma_link() {
  want "ports" 7 "$(ports_of_rdma | wc -l)"
  want "states" "$(ports_of_rdma | cut -d' ' -f1-3)" "$(ports_of_topo | cut -d' ' -f1-3)"
  has "$(ports_of_topo)" '^mlx5_bond_0/1 ACTIVE linkup bond0$'
}

test_gid_rows_are_those_of_sysfs() {
  local want
  want=$(rows_of_sysfs)
  has "$want" '^mlx5_0 2 10.0.0.1 RoCE v1 rail0$'
  want "rows" "$want" "$(rows_of_topo)"
}

test_plan() {
  want "NCCL_IB_HCA" "=mlx5_0:1,mlx5_1:1,mlx5_2:1,mlx5_3:1,mlx5_bond_0:1" "$(exported NCCL_IB_HCA)"
  want "NCCL_IB_GID_INDEX" 3 "$(exported NCCL_IB_GID_INDEX)"
  want "NCCL_SOCKET_IFNAME" =mgmt "$(exported NCCL_SOCKET_IFNAME)"
  want "left out" "mlx5_6 unconfigured,mlx5_7 down" \
    "$(plan '.hcas[] | select(.use != "compute") | "\(.name) \(.use)"' | sort | paste -sd,)"
}

test_plan_as_text() {
  local text
  text=$(nccl-tune plan)
  has "$text" '^  NCCL_IB_HCA==mlx5_0:1,mlx5_1:1,mlx5_2:1,mlx5_3:1,mlx5_bond_0:1$'
  has "$text" '^  NCCL_IB_GID_INDEX=3$'
  has "$text" '^  1 +0002:03:00.0 +mlx5_2 mlx5_3 +2-3 +NUMA node 1$'
}

test_minors_are_the_drivers() {
  want "minors" "3 2 1 0" "$(topo '.gpus[].minor' | paste -sd' ')"
}

test_numa_nodes_are_those_of_hwloc() {
  local node
  want "nodes" 4 "$(topo '.numa | length')"
  for node in 0 1 2 3; do want "CPUs of node $node" "$(hwloc_cpus "numa:$node")" "$(topo ".numa[$node].cpus")"; done
  want "distances" "$(lstopo-no-graphics --distances --of console | awk '$1 ~ /^NUMANode:|^[0-3]$/ && NF == 5 { print $2, $3, $4, $5 }' | head -n 4)" \
    "$(topo '.numa[].distances | map(tostring) | join(" ")')"
}

test_locality_is_that_of_hwloc() {
  local name netdev
  want "GPUs" 4 "$(near_gpus | wc -l)"
  want "GPUs" "$(near_gpus_of_hwloc)" "$(near_gpus)"
  want "pins" "$(near_gpus_of_hwloc)" "$(plan '.tasks[] | "\(.gpus[0]) \(.mem_node) \(.cpus)"')"
  for netdev in rail0 rail3 rail6 rail7; do
    name=${netdev/rail/mlx5_}
    want "node of $name" "$(hwloc-calc --po -I NUMAnode "os=$netdev")" "$(topo ".hcas[] | select(.name == \"$name\").numa_node")"
  done
}

test_dump_reads_back_as_the_same_plan() {
  local keys='[.env | map(.name), map(select(.name == "NCCL_IB_GID_INDEX").value)], [.tasks[] | .gpus, .cpus, .mem_node], (.hcas | map(.use))'
  nccl-tune dump node.dump
  want "plan" "$(nccl-tune plan --json | jq -c "$keys")" "$(nccl-tune plan --json --root node.dump | jq -c "$keys")"
  lacks "$(cat node.dump)" '52:54:00:01|5054:00ff:fe01'
}

# VLAN and bond, read through the kernel's own links.
test_interfaces() {
  want "kinds" "bond0 bond,mgmt physical,rail2.100 vlan,rail4 physical" \
    "$(topo '.interfaces[] | "\(.name) \(.kind)"' | grep -E '^(bond0|mgmt|rail2.100|rail4) ' | sort | paste -sd,)"
  want "used" mgmt "$(topo '.interfaces[] | select(.used).name')"
}
