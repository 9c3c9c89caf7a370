#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Load on a throwaway Slurm: load.sh [OUTPUT-FOLDER [STEPS [AT-ONCE]]] runs STEPS steps in a row (1000), in turn tuned, with
# the plugin loaded and not asked, and with no plugin in any plugstack.conf; then AT-ONCE tuned ones at the same time (64). It
# holds slurmd's memory and descriptors, processes and files against what was there before. Ends with `N passed, N failed`.
# Not part of `make check`: minutes.
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tests/live/processes.sh
. "$here/processes.sh" # ours: what the throwaway Slurm in $dir has started

rss() { awk '/^VmRSS/ { print $2 }' "/proc/$1/status"; }
descriptors() { find "/proc/$1/fd" -mindepth 1 2>/dev/null | wc -l; }
slurmds() { cat "$LIVE_DIR"/*/slurmd.pid; }
# What a step could leave: in /dev/shm, in /tmp by our name, in the nodes' spool and temporary folders.
files() {
  find /dev/shm /tmp -maxdepth 1 -iname '*nccl*tune*' ! -name 'nccl-tune-unit*' ! -name 'nccl-tune-test*' 2>/dev/null
  find "$LIVE_DIR"/*/spool "$LIVE_DIR"/*/tmp -mindepth 1 ! -name 'cred_state*' 2>/dev/null | sort
}

passed=0 failed=0
verdict() { # NAME FAULT
  if [ -z "$2" ]; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAIL $1: $2"; fi
}

# One step of two tasks; counts what does not end with 0 or, when tuned, is not.
# shellcheck disable=SC2016  # the task expands it
step() { # tuned|untuned|bare
  local out
  if [ "$1" = tuned ]; then
    out=$(srun -Q --overlap -N1 -n2 --nccl-tune sh -c 'echo "$NCCLTUNE_SET"' 2>&1) && [ "$(grep -c NCCL_ <<<"$out")" = 2 ]
  else
    out=$(srun -Q --overlap -N1 -n2 sh -c 'echo "${NCCLTUNE_SET-none}"' 2>&1) && [ "$(grep -c none <<<"$out")" = 2 ]
  fi
}

# The plugstack files are read anew by every srun and slurmstepd: for bare steps they are empty.
set_plugstacks() { # saved|empty
  local file
  for file in "$LIVE_DIR"/etc/plugstack.conf "$LIVE_DIR"/*/etc/plugstack.conf; do
    [ -e "$file.saved" ] || cp "$file" "$file.saved"
    if [ "$1" = empty ]; then : >"$file"; else cp "$file.saved" "$file"; fi
  done
}

median() { printf '%s\n' "$@" | sort -n | awk '{ t[NR] = $1 } END { printf "%.1f", (t[int((NR + 1) / 2)] + t[int(NR / 2) + 1]) / 2 }'; }
mean() { printf '%s\n' "$@" | awk '{ sum += $1 } END { printf "%.1f", sum / NR }'; }

in_a_row() { # STEPS
  local i start bad=0 tuned=() untuned=() bare=() kind kinds=(tuned untuned bare)
  for ((i = 0; i < $1; i++)); do
    kind=${kinds[i % 3]}
    if [ "$kind" = bare ]; then set_plugstacks empty; fi
    start=${EPOCHREALTIME/./}
    step "$kind" || bad=$((bad + 1))
    local -n times=$kind
    times+=("$(awk -v a="$start" -v b="${EPOCHREALTIME/./}" 'BEGIN { print (b - a) / 1000 }')")
    if [ "$kind" = bare ]; then set_plugstacks saved; fi
  done
  echo "$1 steps in a row, in turn tuned, untuned and bare (without the plugin): $bad failed"
  echo "ms a step, median and mean: tuned $(median "${tuned[@]}") $(mean "${tuned[@]}"), untuned $(median "${untuned[@]}") $(mean "${untuned[@]}"), bare $(median "${bare[@]}") $(mean "${bare[@]}")"
  verdict 'steps in a row' "$([ "$bad" = 0 ] || echo "$bad failed")"
}

at_once() { # STEPS
  local i pids=() bad=0 pid
  for ((i = 0; i < $1; i++)); do
    step tuned &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid" || bad=$((bad + 1)); done
  echo "$1 steps at once: $bad failed"
  verdict 'steps at once' "$([ "$bad" = 0 ] || echo "$bad failed")"
}

# While a step runs: how many descriptors its slurmstepd has, and how many children that ended and were not waited for (the
# plugin's reader of facts is a child of slurmstepd), and whether it holds the plugin. A tuned step and one that is not must
# be alike.
inside() { # OPTION...
  local pid left='' at=$LIVE_DIR/inside
  rm -rf "$at" && mkdir "$at"
  srun -Q --overlap -N1 -n1 "$@" sh -c "touch $at/begun; until [ -e $at/seen ]; do sleep 0.1; done" &
  for _ in $(seq 300); do [ ! -e "$at/begun" ] || break; sleep 0.1; done
  for pid in $(pgrep slurmstepd); do
    is_ours "$pid" || continue
    left+="$(descriptors "$pid") descriptors, $(pgrep -c -r Z -P "$pid") dead"
    ! grep -q /nccl_tune.so "/proc/$pid/maps" || left+=', plugin loaded'
    left+='; '
  done
  touch "$at/seen"
  wait $!
  echo "${left:-no slurmstepd was found; }"
}

loaded() { # STEPS AT-ONCE, in the throwaway Slurm
  local pid before after grown tuned untuned bare ours_before dir=$LIVE_DIR
  local -A memory handles
  for _ in 1 2 3 4 5 6; do step tuned; step untuned; done # slurmd's caches and threads
  sleep 1
  for pid in $(slurmds); do memory[$pid]=$(rss "$pid") handles[$pid]=$(descriptors "$pid"); done
  set_plugstacks saved
  before=$(files) ours_before=$(ours)
  in_a_row "$1"
  at_once "$2"
  for _ in $(seq 50); do [ -n "$(squeue -h -o %i)" ] || break; sleep 0.1; done
  sleep 1
  for pid in $(slurmds); do
    grown=$(($(rss "$pid") - memory[$pid]))
    echo "slurmd $pid: memory ${memory[$pid]} KiB and $grown more, descriptors ${handles[$pid]}, now $(descriptors "$pid")"
    # A leak of 100 bytes a step would be 100 KiB in a thousand; malloc's arenas of the threads at once take more.
    verdict 'memory of slurmd' "$([ "$grown" -le $((2048 + ($1 + $2))) ] || echo "$grown KiB more")"
    verdict 'descriptors of slurmd' "$([ "$(descriptors "$pid")" -le "${handles[$pid]}" ] || echo "${handles[$pid]} before, $(descriptors "$pid") after")"
  done
  after=$(files)
  verdict 'files left' "$(comm -13 <(sort <<<"$before") <(sort <<<"$after"))"
  verdict 'processes left' "$(comm -13 <(sort <<<"$ours_before") <(ours | sort) | xargs -r -n 1 ps -o pid=,stat=,args= -p)"
  untuned=$(inside) tuned=$(inside --nccl-tune)
  set_plugstacks empty
  bare=$(inside)
  set_plugstacks saved
  echo "slurmstepd of a step: untuned ${untuned}tuned ${tuned}bare $bare"
  verdict 'inside a step' "$([[ $tuned = "$untuned" && $tuned == *' 0 dead, plugin loaded'* ]] || echo "untuned $untuned tuned $tuned")"
  verdict 'no plugin in a bare step' "$([[ $bare == *' 0 dead; '* && $bare != *'plugin loaded'* ]] || echo "$bare")"
  echo "$passed passed, $failed failed"
  [ "$failed" = 0 ]
}

if [ "${1-}" = --loaded ]; then
  loaded "$2" "$3"
else
  export O=${1:-${O:-build}}
  exec "$here/slurm.sh" --nodes 2 --cpus 128 --record dgx-a100-80gb -- "$here/load.sh" --loaded "${2:-1000}" "${3:-64}"
fi
