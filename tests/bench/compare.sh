#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Is compare right? compare.sh OUTPUT-FOLDER [RUNS [PLANTED-RUNS [FIRST SEED]]]: RUNS comparisons of two settings that
# are alike, each with a seed of its own, and PLANTED-RUNS of two network interfaces of which one is slower. Two ranks
# of the host worker, in network namespaces of their own that two veth pairs join, under mpirun. Ends with 1 when more
# than 5 % of the former tell a difference, or one of the latter misses it. Root. Short by default; `compare.sh build 100
# 20` takes a quarter of an hour.
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
top=$(cd "$here/../.." && pwd)
export LC_ALL=C

O=${1:-build} runs=${2:-3} planted=${3:-1} first=${4:-1}
case $O in /*) ;; *) O=$top/$O ;; esac
work='' a=ncmp$$a b=ncmp$$b

skip() { echo "skipped compare: $*"; echo "0 passed, 0 failed, 1 skipped"; exit 0; }
cleanup() {
  ip netns del "$a" 2>/dev/null
  ip netns del "$b" 2>/dev/null
  rm -rf "$work"
}

need() {
  [ -x "$O/nccl-tune-worker-host" ] || skip "built without the host worker"
  [ "$(id -u)" = 0 ] || skip "network namespaces need root"
  local program
  for program in mpirun ip tc; do command -v "$program" >/dev/null || skip "$program: not found"; done
  ip netns add "$a" 2>/dev/null || skip "no network namespaces here"
  ip netns add "$b" || skip "no network namespaces here"
}

# fast0 and slow0 in each; the latter at 100 Mbit/s, which the former passes by far.
make_network() {
  local net name=''
  for net in fast slow; do
    ip -n "$a" link add "${net}0" type veth peer name "${net}0" netns "$b" || skip "no veth here"
  done
  for net in "$a 1" "$b 2"; do
    read -r name number <<<"$net"
    ip -n "$name" link set lo up
    ip -n "$name" addr add "10.78.0.$number/24" dev fast0
    ip -n "$name" addr add "10.78.1.$number/24" dev slow0
    ip -n "$name" link set fast0 up
    ip -n "$name" link set slow0 up
    ip netns exec "$name" tc qdisc add dev slow0 root tbf rate 100mbit burst 32kb latency 50ms || skip "no tbf qdisc here"
  done
}

# The supervisors stay where PMIx is; each worker goes into the namespace of its rank.
make_worker() {
  work=$(mktemp -d /tmp/nccl-tune-compare-XXXXXX)
  cat >"$work/nccl-tune-worker-host" <<WORKER
#!/bin/sh
[ "\$PMIX_RANK" = 0 ] && space=$a || space=$b
exec ip netns exec \$space $O/nccl-tune-worker-host
WORKER
  chmod +x "$work/nccl-tune-worker-host"
}

compare() { # SEED ARGUMENT...
  local seed=$1
  shift
  NCCLTUNE_WORKER_DIR=$work NCCL_SOCKET_IFNAME=fast0 timeout --foreground 300 mpirun --allow-run-as-root --oversubscribe --bind-to none \
    -n 2 "$O/nccl-tune" compare --worker host --launches 5 --seed "$seed" --csv "$work/csv" -b 64K -e 1M -f 4 -n 10 -c 0 \
    "$@" >"$work/out" 2>"$work/err" || { cat "$work/out" "$work/err"; echo "compare: exit status $?"; return 1; }
}

verdicts() { awk -F, -v want="$1" 'NR > 1 && $18 == want' "$work/csv" | wc -l; }

main() {
  local seed alike=0 found=0 failed=0
  need
  trap cleanup EXIT
  trap 'exit 143' INT TERM HUP
  make_network
  make_worker
  for ((seed = first; seed < first + runs; seed++)); do
    compare "$seed" --env UNUSED=1 || continue
    if [ "$(verdicts 'no difference')" = 3 ]; then
      alike=$((alike + 1))
    else
      grep -E ' (better|worse)$' "$work/out" | sed "s/^/seed $seed: /"
    fi
  done
  for ((seed = first; seed < first + planted; seed++)); do
    compare "$seed" --env NCCL_SOCKET_IFNAME=slow0 || continue
    if [ "$(verdicts worse)" != 0 ] && [ "$(verdicts better)" = 0 ]; then
      found=$((found + 1))
    else
      grep -E '^ *[0-9]+ ' "$work/out" | sed "s/^/seed $seed, planted: /"
    fi
  done
  echo "settings that are alike: $alike of $runs runs tell no difference"
  echo "the slower interface: found in $found of $planted runs"
  [ $((alike * 100)) -ge $((runs * 95)) ] || failed=$((failed + 1))
  [ "$found" = "$planted" ] || failed=$((failed + 1))
  echo "$((2 - failed)) passed, $failed failed, 0 skipped"
  [ "$failed" = 0 ]
}

main
