#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A cluster of network namespaces on this host: nodes with a name, an address and an Ethernet of their own, joined by a
# bridge, and what can go wrong with them.
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

usage() {
  cat <<'HELP'
usage: netns.sh COMMAND CLUSTER [ARG]...       (root)

CLUSTER is a short name: its nodes are CLUSTER1 to CLUSTERn, network namespaces of that name (ip netns) with eth0 at
10.77.0.1 to 10.77.0.n. CLUSTER-hub is the namespace with the bridge, at 10.77.0.254: what reaches every node runs there.
The host's own network stays as it is; several clusters may be there at once.

  why-not                        says why this host cannot have such a cluster, and ends with 1; nothing and 0 when it can
  create CLUSTER N               N nodes, 250 at most
  destroy CLUSTER                and all processes in it
  nodes CLUSTER                  the names
  exec CLUSTER NODE COMMAND...   in that node: its network, its host name, its /etc/hosts. NODE: 1 to n, or "hub"
  wrap CLUSTER NODE              the words that exec puts before COMMAND, for a script that wants the process itself

  slow CLUSTER NODE RATE         what leaves and reaches the node, in tc's units: 20mbit
  slow-path CLUSTER A B RATE     between two nodes, both ways; the paths of either to others stay fast
  delay CLUSTER NODE MS [LOSS]   each packet, both ways, by MS milliseconds; LOSS percent of them vanish
  cut CLUSTER NODE               the cable is out; join CLUSTER NODE: it is in again
  misname CLUSTER NODE ADDRESS   every node's /etc/hosts has that address for NODE
  heal CLUSTER                   no more of all these
HELP
}

say() { echo "netns.sh: $*" >&2; }
die() { say "$*"; exit 1; }

address_of() { if [ "$1" = hub ]; then echo 10.77.0.254; else echo "10.77.0.$1"; fi; }
in_hub() { ip netns exec "$cluster-hub" "$@"; }
count_nodes() { ip netns list | awk -v name="$cluster" '$1 ~ "^" name "[0-9]+$"' | wc -l; }

need_node() {
  [ "$1" = hub ] && return
  ip netns list | awk '{ print $1 }' | grep -qx "$cluster$1" || die "$cluster: no node '$1'"
}

# Makes a namespace, a bridge and a veth pair, and takes them away again.
why_not() {
  local probe=probe$$ fault=''
  [ "$(id -u)" = 0 ] || { echo "network namespaces need root"; return 1; }
  local program
  for program in ip tc unshare; do
    command -v "$program" >/dev/null || { echo "$program: not found (iproute2, util-linux)"; return 1; }
  done
  fault=$({ ip netns add "$probe" && ip netns exec "$probe" ip link add br0 type bridge &&
    ip netns exec "$probe" ip link add v0 type veth peer name v1 &&
    ip netns exec "$probe" tc qdisc add dev v0 root tbf rate 1mbit burst 16kb latency 50ms &&
    ip netns exec "$probe" unshare --uts hostname x; } 2>&1) || fault=${fault:-"ip netns: failed"}
  ip netns del "$probe" 2>/dev/null
  [ -z "$fault" ] || { echo "no network namespaces here: ${fault//$'\n'/; }"; return 1; }
}

write_hosts() { # the names of all nodes, in each; the folder is that of ip-netns(8)
  local i name text='127.0.0.1 localhost'$'\n'
  for ((i = 1; i <= $1; i++)); do text+="$(address_of "$i") $cluster$i"$'\n'; done
  text+="$(address_of hub) $cluster-hub"
  for name in $(names "$1") "$cluster-hub"; do
    mkdir -p "/etc/netns/$name"
    echo "$text" >"/etc/netns/$name/hosts"
  done
}

names() { local i; for ((i = 1; i <= $1; i++)); do echo "$cluster$i"; done; }

create() {
  local count=$1 i name
  if ! [[ $count =~ ^[0-9]{1,3}$ ]] || [ "$count" -lt 1 ] || [ "$count" -gt 250 ]; then
    die "create: '$count' is not 1 to 250 nodes"
  fi
  [[ $cluster =~ ^[a-z][a-z0-9]{0,9}$ ]] || die "create: '$cluster': a letter, then letters and digits, 10 in all"
  [ "$(count_nodes)" = 0 ] || die "$cluster: is there already; destroy it first"
  # What each node's is bound over; a minimal root has none.
  [ -e /etc/hosts ] || { echo "netns.sh: /etc/hosts is missing, made with localhost" >&2; echo '127.0.0.1 localhost' >/etc/hosts; }
  write_hosts "$count"
  ip netns add "$cluster-hub" || return 1
  in_hub ip link set lo up
  in_hub ip link add br0 type bridge || return 1
  in_hub ip addr add "$(address_of hub)/24" dev br0
  in_hub ip link set br0 up
  for ((i = 1; i <= count; i++)); do
    name=$cluster$i
    ip netns add "$name" || return 1
    in_hub ip link add "to$i" type veth peer name eth0 netns "$name" || return 1
    in_hub ip link set "to$i" master br0 up
    ip netns exec "$name" ip link set lo up
    ip netns exec "$name" ip addr add "$(address_of "$i")/24" dev eth0
    ip netns exec "$name" ip link set eth0 up
  done
}

destroy() {
  local count name pid
  count=$(count_nodes)
  for name in $(names "$count") "$cluster-hub"; do
    for pid in $(ip netns pids "$name" 2>/dev/null); do
      [ "$pid" = $$ ] || kill -KILL "$pid" 2>/dev/null
    done
    ip netns del "$name" 2>/dev/null
    rm -rf "/etc/netns/$name"
  done
}

# The host name is the node's too: programs compare names to find out who shares a host.
wrap() {
  local name=$cluster$1
  [ "$1" != hub ] || name=$cluster-hub
  # shellcheck disable=SC2016 # the inner shell expands those
  words=(ip netns exec "$name" unshare --uts sh -c 'hostname "$0" && exec "$@"' "$name")
}

# What the node sends is shaped at its own end, what it gets at the bridge's.
shape() { # NODE QDISC...
  local node=$1
  shift
  ip netns exec "$cluster$node" tc qdisc replace dev eth0 root "$@" && in_hub tc qdisc replace dev "to$node" root "$@"
}

# On the bridge's end of `to`, what comes from `from` has a class of its own; all else passes at full rate.
slow_one_way() { # FROM TO RATE
  local dev=to$2
  if ! in_hub tc qdisc show dev "$dev" | grep -q '^qdisc htb 1:'; then
    in_hub tc qdisc replace dev "$dev" root handle 1: htb default ffff || return 1
    in_hub tc class add dev "$dev" parent 1: classid 1:ffff htb rate 40gbit quantum 60000 || return 1
  fi
  in_hub tc class replace dev "$dev" parent 1: classid "1:$(printf '%x' "$1")" htb rate "$3" quantum 60000 || return 1
  in_hub tc filter add dev "$dev" parent 1: protocol ip prio "$1" u32 match ip src "$(address_of "$1")/32" \
    flowid "1:$(printf '%x' "$1")"
}

# netem where the kernel has it; else a relay in the cable does the same.
delay() { # NODE MS [LOSS]
  local node=$1 ms=$2 loss=${3:-0}
  if shape "$node" netem delay "${ms}ms" loss "$loss%" limit 10000 2>/dev/null; then return; fi
  end_relay "$node"
  in_hub ip link add "in$node" type veth peer name "out$node" || return 1
  in_hub ip link set "in$node" up
  in_hub ip link set "out$node" up
  in_hub "$here/relay.py" --whole "out$node"
  ip netns exec "$cluster$node" "$here/relay.py" --whole eth0
  in_hub setsid "$here/relay.py" "to$node" "in$node" "$ms" "$loss" </dev/null >/dev/null 2>&1 &
  for _ in $(seq 50); do
    # The cable is changed at once, when the new one works: on a busy host it takes seconds to come up.
    if in_hub ip -d link show "in$node" | grep -q 'promiscuity [1-9]'; then
      in_hub sh -c "ip link set to$node nomaster && ip link set out$node master br0"
      return
    fi
    sleep 0.1
  done
  say "relay.py did not start"
  return 1
}

end_relay() { # NODE
  in_hub ip link show "in$1" >/dev/null 2>&1 || return 0
  in_hub ip link del "in$1" # its relay ends by itself
  in_hub ip link set "to$1" master br0
}

heal() {
  local i
  for ((i = 1; i <= $(count_nodes); i++)); do
    ip netns exec "$cluster$i" tc qdisc del dev eth0 root 2>/dev/null
    in_hub tc qdisc del dev "to$i" root 2>/dev/null
    end_relay "$i"
    in_hub ip link set "to$i" up
  done
  write_hosts "$(count_nodes)"
}

# In place: the file is mounted in running processes' namespaces.
misname() { # NODE ADDRESS
  local file text
  for file in /etc/netns/"$cluster"*/hosts; do
    text=$(sed "s/^[0-9.]* $cluster$1$/$2 $cluster$1/" "$file")
    echo "$text" >"$file"
  done
}

main() {
  local command=${1-}
  case $command in
    why-not) why_not; return ;;
    -h | --help) usage; return ;;
    create | destroy | nodes | exec | wrap | slow | slow-path | delay | cut | join | misname | heal) ;;
    *) usage >&2; return 2 ;;
  esac
  [ $# -ge 2 ] || { usage >&2; return 2; }
  cluster=$2
  shift 2
  case $command in
    exec | wrap | slow | delay | cut | join | misname) need_node "${1-}" ;;
    slow-path) need_node "${1-}"; need_node "${2-}" ;;
  esac
  case $command in
    create) create "$@" || { destroy; die "$cluster: cannot be made"; } ;;
    destroy) destroy ;;
    nodes) names "$(count_nodes)" ;;
    exec) wrap "$1"; shift; exec "${words[@]}" "$@" ;;
    wrap) wrap "$1"; printf '%q ' "${words[@]}"; echo ;;
    slow) shape "$1" tbf rate "$2" burst 64kb latency 100ms ;;
    slow-path) slow_one_way "$1" "$2" "$3" && slow_one_way "$2" "$1" "$3" ;;
    delay) delay "$@" ;;
    cut) in_hub ip link set "to$1" down ;;
    join) in_hub ip link set "to$1" up ;;
    misname) misname "$1" "$2" ;;
    heal) heal ;;
  esac
}

[ "${BASH_SOURCE[0]}" != "$0" ] || main "$@"
