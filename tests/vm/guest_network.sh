#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# In the guest: addresses, a VLAN, a bond, a link-local rail, a rail that is down; ends with 1 when they do not come up.
# With "settle" it only waits until they are up again.
#   mgmt    192.168.77.1/24 and the default route: the node's own address
#   rail0, rail1   an IPv4 address each       rail2   one, and a VLAN 100 with IPv4 and IPv6
#   rail3   two IPv4 addresses and an IPv6    rail4, rail5   bond0
#   rail6   link-local alone                  rail7   down
set -eu
sysctl() { echo "$2" >"/proc/sys/net/ipv4/conf/$1"; }

set_up() {
  local rail net
  # Two rails of one host reach each other over the wire, not over lo, and only the rail that owns an address answers for it.
  sysctl all/rp_filter 0
  sysctl default/rp_filter 0
  sysctl all/accept_local 1
  sysctl all/arp_ignore 1

  ip link add bond0 type bond mode active-backup miimon 100
  for rail in 4 5; do ip link set rail$rail master bond0; done
  ip link set bond0 type bond primary rail4
  for net in mgmt rail0 rail1 rail2 rail3 rail6 bond0; do ip link set $net up; done
  ip link add link rail2 name rail2.100 type vlan id 100
  ip link set rail2.100 up

  ip addr add 192.168.77.1/24 dev mgmt
  ip route add default via 192.168.77.254
  ip addr add 10.0.0.1/24 dev rail0
  ip addr add 10.0.1.1/24 dev rail1
  ip addr add 10.0.2.1/24 dev rail2
  ip addr add 10.100.2.1/24 dev rail2.100
  ip -6 addr add fd00:100:2::1/64 dev rail2.100 nodad
  ip addr add 10.0.3.1/24 dev rail3
  ip addr add 10.33.3.1/24 dev rail3
  ip -6 addr add fd00:3::1/64 dev rail3 nodad
  ip addr add 10.0.4.1/24 dev bond0
}

# e1000e takes seconds to see its link and can lose it once more; IPv6 takes a second to settle its link-local address.
is_up() {
  local net
  for net in mgmt rail0 rail1 rail2 rail2.100 rail3 rail4 rail5 bond0 rail6; do
    [ "$(cat /sys/class/net/$net/carrier 2>/dev/null)" = 1 ] || return 1
  done
  ! ip -6 addr show tentative | grep -q inet6
}

[ "${1-}" = settle ] || set_up
times=0
for _ in $(seq 120); do
  if is_up; then times=$((times + 1)); else times=0; fi
  [ $times -lt 4 ] || exit 0
  sleep 0.5
done
echo 'guest_network.sh: the network did not come up'
ip -br addr
exit 1
