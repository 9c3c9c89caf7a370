#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `nccl-tune pairs` on eight nodes of network namespaces with real faults, drawn by seed: one node is slow, the path
# between two others is, and a third loses its cable in the middle of the run.
#   pairs.sh [OUTPUT FOLDER [FIRST SEED [LAST SEED]]]      one seed takes about 40 s; ends with `N passed, N failed`
# With an odd seed the bad path is one that a quick search runs, with an even one it is any, and all are tried
# (--pairs=full).
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd) || exit 1
netns=$here/netns.sh
nodes=8

# Two of eight that are not in $taken; each pair of seeds draws alike everywhere.
draw() { # COUNT
  local left=$1 node
  while [ "$left" -gt 0 ]; do
    node=$((RANDOM % nodes + 1))
    case " $taken " in *" $node "*) continue ;; esac
    taken+=" $node" left=$((left - 1))
    echo "$node"
  done
}

# A link of 50 Mbit/s: the host's CPUs are then no part of the figures.
set_up_links() {
  local i
  "$netns" heal "$cluster"
  for ((i = 1; i <= nodes; i++)); do
    ip netns exec "$cluster$i" tc qdisc replace dev eth0 root tbf rate 50mbit burst 32kb latency 100ms
  done
}

expect() { # FILE VERDICT NODE [PEER]
  python3 - "$@" <<'PYTHON'
import json, sys
file, verdict, node, peer = sys.argv[1], sys.argv[2], sys.argv[3], (sys.argv[4:] or [None])[0]
found = [line for line in map(json.loads, open(file)) if line["kind"] == "finding" and line["verdict"] == verdict]
ends = {tuple(sorted(filter(None, (line["node"], line["peer"])))) for line in found}
sys.exit(tuple(sorted(filter(None, (node, peer)))) not in ends)
PYTHON
}

# Nothing else is blamed but what was planted; a disturbance that passed is no blame.
blamed() { # FILE
  python3 -c 'import json,sys; print(sum(l["kind"] == "finding" and l["verdict"] != "transient" for l in map(json.loads, open(sys.argv[1]))))' "$1"
}

status_told() { # FILE
  python3 -c 'import json,sys; print([l["exit_status"] for l in map(json.loads, open(sys.argv[1])) if l["kind"] == "end" and l["complete"]][0])' "$1" 2>/dev/null
}

run_seed() { # SEED
  local seed=$1 slow a b dead taken='' full='' rounds iterations rc=0 out=$LIVE_DIR/pairs.$1 faults='' wait watcher
  RANDOM=$seed
  if [ $((seed % 2)) = 1 ]; then
    a=$((RANDOM % 4 + 1)) b=$((a + 4)) taken="$a $b" rounds=6 iterations=8
  else
    read -r a b < <(draw 2 | paste -sd' ')
    taken="$a $b" full=--pairs=full rounds=40 iterations=2
  fi
  # Rank 0 is on node 1: that one may be slow and have a bad path, but not be cut off.
  slow=$(draw 1)
  taken+=" $slow 1"
  dead=$(draw 1)
  # Tenths of a second after the start: within the first round of a quick search, for who dies when all is measured is
  # not missed by anybody; within seven rounds of a full one. A round of 8 iterations takes 3 s, for a busy host's `ip` is
  # slow to pull the cable.
  wait=$((RANDOM % rounds))
  set_up_links
  "$netns" slow "$cluster" "$slow" 20mbit
  "$netns" slow-path "$cluster" "$a" "$b" 20mbit
  (
    until [ -s "$out.jsonl" ]; do sleep 0.1; done
    sleep "$(printf '%d.%d' $((wait / 10)) $((wait % 10)))"
    "$netns" cut "$cluster" "$dead"
  ) &
  watcher=$!
  # shellcheck disable=SC2086
  timeout 200 srun -N$nodes --ntasks-per-node=1 --mpi=pmix --no-kill -W 2 nccl-tune pairs $full -b 512K -n "$iterations" -w 1 \
    --timeout 10 --json "$out.jsonl" >"$out.txt" 2>"$out.err" || rc=$?
  kill "$watcher" 2>/dev/null
  wait "$watcher" 2>/dev/null
  # srun's own status is the dead node's, once Slurm has killed what it could not reach.
  case $rc in 1 | 137) ;; *) faults+=" exit status $rc;" ;; esac
  [ "$(status_told "$out.jsonl")" = 1 ] || faults+=" the report is not complete;"
  expect "$out.jsonl" node "$cluster$slow" || faults+=" slow node $slow missed;"
  expect "$out.jsonl" path "$cluster$a" "$cluster$b" || faults+=" path $a-$b missed;"
  expect "$out.jsonl" unreachable "$cluster$dead" || faults+=" dead node $dead missed;"
  [ "$(blamed "$out.jsonl")" = 3 ] || faults+=" $(blamed "$out.jsonl") findings in place of 3;"
  printf '  seed %2d: slow %d, path %d-%d, dead %d after %2d.%d s: %s%s\n' "$seed" "$slow" "$a" "$b" "$dead" \
    $((wait / 10)) $((wait % 10)) "$(sed -n '2s/^# //p' "$out.txt")" "${faults:+:$faults}"
  [ -z "$faults" ] || sed 's/^/    /' "$out.txt" "$out.err" | cut -c1-180
  "$netns" join "$cluster" "$dead"
  [ -z "$faults" ]
}

if [ "${1-}" = --inside ]; then
  cluster=$2
  run_seed "$3"
  exit
fi

O=$(realpath "${1:-build}") || exit 1
export O
# shellcheck source=tests/counts.sh
. "$here/../counts.sh"
why=$("$netns" why-not) || { skip "pairs on network namespaces: $why"; tell_counts; exit; }
if [ ! -x "$O/nccl-tune-worker-host" ] || ! command -v slurmctld >/dev/null; then
  skip "pairs on network namespaces: no host worker, or no Slurm"
  tell_counts
  exit
fi
cluster=pr$((RANDOM % 10000))
trap '"$netns" destroy "$cluster"' EXIT
trap 'exit 143' INT TERM HUP
# A cluster of its own for each: a node that lost its cable leaves a step behind that Slurm is long in clearing up.
for ((seed = ${2:-1}; seed <= ${3:-${2:-1}}; seed++)); do
  "$netns" create "$cluster" "$nodes" || exit 1
  if "$netns" exec "$cluster" hub "$here/../live/slurm.sh" --cluster "$cluster" --plugin none --nodes "$nodes" \
    --cpus 2 -- "$here/pairs.sh" --inside "$cluster" "$seed"; then
    pass
  else
    fail "seed $seed"
  fi
  "$netns" destroy "$cluster"
done 2> >(grep -v '^[^ ]*slurm.sh: line .*Killed' >&2)
tell_counts
