# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Soft-RoCE devices on every kind of interface: the kernel's own GID tables, and which of their rows carry data.
# shellcheck disable=SC2154 # facts.sh, assert.sh

prepare() {
  local net
  for net in rail0 rail1 rail2 rail3 rail6 rail7 bond0; do
    rdma link add "${net/rail/mlx5_}" type rxe netdev $net || return 1
  done
  chmod 666 /dev/infiniband/*
  # An address that goes leaves a hole in the table, and the rows after it where they are.
  ip addr add 10.0.5.1/24 dev bond0
  until_true grep -qs 0a00:0501 /sys/class/infiniband/bond0/ports/1/gids/2 || return 1
  ip addr del 10.0.4.1/24 dev bond0
  until_true grep -qs 0000:0000$ /sys/class/infiniband/bond0/ports/1/gids/1
}

test_ports_are_those_of_rdma_link() {
  want "ports" 7 "$(ports_of_rdma | wc -l)"
  want "ports" "$(ports_of_rdma)" "$(ports_of_topo)"
  has "$(ports_of_rdma)" '^mlx5_7/1 DOWN disabled rail7$'
}

test_gid_rows_are_those_of_sysfs() {
  local want
  want=$(rows_of_sysfs)
  has "$want" '^mlx5_2 2 10.100.2.1 RoCE v2 rail2.100$'
  want "rows" "$want" "$(rows_of_topo)"
}

test_gid_rows_are_those_of_ibv_devinfo() {
  local want
  want=$(rows_of_verbs)
  has "$want" '^mlx5_0 1 10.0.0.1 RoCE v2$'
  want "rows" "$want" "$(rows_of_topo | sed 's/ [^ ]*$//')"
}

test_link_layers_and_states_are_those_of_ibv_devinfo() {
  want "ports" "$(ibv_devinfo | awk '$1 == "hca_id:" { name = $2 } $1 == "state:" { state = substr($2, 6) }
      $1 == "link_layer:" { print name, state, $2 }' | sort)" "$(topo '.hcas[] | "\(.name) \(.state) \(.link_layer)"' | sort)"
}

test_rows_that_fail_with_einval_are_unset() {
  local at=/sys/class/infiniband/bond0/ports/1 rows
  want "row 1" 0000:0000:0000:0000:0000:0000:0000:0000 "$(cat $at/gids/1)"
  has "$(cat $at/gid_attrs/types/1 2>&1)" 'Invalid argument'
  has "$(cat $at/gid_attrs/ndevs/1 2>&1)" 'Invalid argument'
  rows=$(rows_of_topo)
  lacks "$rows" '^bond0 1 '
  has "$rows" '^bond0 2 10.0.5.1 '
}

test_first_routable_row_of_each_port_is_chosen() {
  want "rows" "bond0 2,mlx5_0 1,mlx5_1 1,mlx5_2 1,mlx5_3 1,mlx5_6 null,mlx5_7 null" \
    "$(topo '.hcas[] | "\(.name) \(.gid_index)"' | sort | paste -sd,)"
}

test_soft_rdma_is_not_for_nccl() {
  want "NCCL_IB_HCA" null "$(exported NCCL_IB_HCA)"
  want "uses" "down software" "$(plan '.hcas[].use' | sort -u | paste -sd' ')"
}

chosen() { topo ".hcas[] | select(.name == \"$1\").gid_index"; }

# pingpong DEVICE ROW DEVICE ROW: an RC connection between the two, ten messages there and back. The exit status is the
# client's, or the server's where that is worse.
port=20000
pingpong() {
  local server rc=0 hex
  port=$((port + 1))
  hex=$(printf '%04X' $port)
  timeout 20 ibv_rc_pingpong -p $port -n 10 -s 1024 -d "$1" -g "$2" >server 2>&1 &
  server=$!
  for _ in $(seq 50); do
    ! grep -q ":$hex .* 0A " /proc/net/tcp /proc/net/tcp6 || break
    sleep 0.1
  done
  timeout 15 ibv_rc_pingpong -p $port -n 10 -s 1024 -d "$3" -g "$4" 127.0.0.1 >client 2>&1 || rc=$?
  [ $rc = 0 ] || kill "$server" 2>/dev/null
  wait "$server" || [ $rc != 0 ] || rc=$?
  return $rc
}

carries() { pingpong "$@" || fail "pingpong $*: exit status $?: $(cat server client)"; }
fails() { ! pingpong "$@" || fail "pingpong $*: carries data: $(cat server client)"; }

test_chosen_row_carries_data() {
  local device
  for device in mlx5_0 mlx5_2 mlx5_3 bond0; do carries $device "$(chosen $device)" $device "$(chosen $device)"; done
  carries mlx5_0 "$(chosen mlx5_0)" mlx5_1 "$(chosen mlx5_1)"
}

# The row before is link-local, on the bond the hole; the row after is unset, on mlx5_2 the VLAN's.
test_rows_beside_the_chosen_one_do_not() {
  local row beside
  row=$(chosen mlx5_0)
  for beside in $((row - 1)) $((row + 1)); do fails mlx5_0 "$row" mlx5_1 $beside; done
  fails mlx5_0 $((row + 1)) mlx5_1 $((row + 1))
  row=$(chosen bond0)
  fails bond0 $((row - 1)) bond0 $((row - 1))
  row=$(chosen mlx5_2)
  fails mlx5_2 $((row + 1)) mlx5_1 "$(chosen mlx5_1)"
}

# Its address stays in the table, so only the port's state tells.
test_port_that_is_down_carries_nothing() {
  fails mlx5_7 0 mlx5_7 0
  ip link set rail1 down
  has "$(rows_of_sysfs)" '^mlx5_1 [0-9]* 10.0.1.1 '
  want "use" down "$(topo '.hcas[] | select(.name == "mlx5_1").use')"
  fails mlx5_1 1 mlx5_1 1
  ip link set rail1 up
  /source/tests/vm/guest_network.sh settle
}
