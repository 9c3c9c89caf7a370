# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# InfiniBand HCAs beside the GPUs come after the RoCE ones: they are the fabric then.
# shellcheck disable=SC2154 # facts.sh, assert.sh

prepare() {
  local domain
  for domain in 1 2 3 4; do echo "ib_$domain 000$domain:04:00.0" >/sys/module/fabric/parameters/hca || return 1; done
  echo "ib_5 0001:05:00.0 down" >/sys/module/fabric/parameters/hca
}

test_ports_are_those_of_rdma_link() {
  want "ports" 12 "$(ports_of_rdma | wc -l)"
  want "states" "$(ports_of_rdma | cut -d' ' -f1-3)" "$(ports_of_topo | cut -d' ' -f1-3)"
}

# Its type reads as RoCE v1, its interface fails with EINVAL.
test_gid_row_is_of_no_interface() {
  local at=/sys/class/infiniband/ib_1/ports/1/gid_attrs
  want "type" "IB/RoCE v1" "$(cat $at/types/0)"
  has "$(cat $at/ndevs/0 2>&1)" 'Invalid argument'
  want "rows" "$(rows_of_sysfs | grep ^ib_)" "$(rows_of_topo | grep ^ib_)"
}

test_plan() {
  want "NCCL_IB_HCA" "=ib_1:1,ib_2:1,ib_3:1,ib_4:1" "$(exported NCCL_IB_HCA)"
  want "NCCL_IB_GID_INDEX" null "$(exported NCCL_IB_GID_INDEX)"
  want "ib_5" down "$(plan '.hcas[] | select(.name == "ib_5").use')"
  want "nearest" "ib_1 ib_2 ib_3 ib_4" "$(plan '.tasks[].hcas[]' | paste -sd' ')"
}

test_distances_within_a_switch_and_a_host_bridge() {
  want "distances" "PIX PHB SYS NODE" \
    "$(topo '.gpus[0].distances | "\(.ib_1) \(.ib_5) \(.ib_2) \(.mlx5_0)"')"
}
