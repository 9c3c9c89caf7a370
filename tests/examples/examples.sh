#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What of examples/ can be judged without a Slurm: examples.sh [OUTPUT FOLDER]; ends with `N passed, N failed, N skipped`. The
# job scripts run in tests/live/test-examples.sh.
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
top=${here%/tests/examples}
cd "$top" || exit 1
# shellcheck source=tests/counts.sh
. tests/counts.sh

judge() { # NAME EXIT-STATUS LOG
  case $2 in
    0) pass ;;
    77) skip "$1: $(tail -n 1 "$3")" ;;
    *) fail "$1"; cat "$3" ;;
  esac
}

out=$(realpath "${1:-${O:-build}}") || exit 1
log=$(mktemp) work=$(mktemp -d)
trap 'rm -rf "$log" "$work"' EXIT

for file in examples/mpi-operator/*.yaml; do
  python3 -W ignore tests/examples/manifests.py "$file" >"$log" 2>&1
  judge "$file" $? "$log"
done

# The launcher's command of each manifest, with two ranks on this node and small sizes: the last option given wins.
runs_here() {
  mpirun --version 2>/dev/null | grep -q 'Open MPI' || { echo "no mpirun of Open MPI here"; return 77; }
  [ -x "$out/nccl-tune-worker-host" ] || { echo "built without the host worker"; return 77; }
  local words
  mapfile -t words < <(python3 -W ignore tests/examples/manifests.py --launcher "$1")
  [[ ${words[0]} = mpirun ]] || { printf '%s\n' "${words[@]}"; return 77; }
  (cd "$work" && PATH=$out:$PATH timeout 60 "${words[@]}" -b 1K -e 2K -n 2) >"$work/out" 2>&1 &&
    grep -q '^# Out of bounds values : 0 OK' "$work/out" && grep -q ': 2 ranks, 1 node, ' "$work/out" && return
  cat "$work/out"
  return 1
}

for file in examples/mpi-operator/*.yaml; do
  runs_here "$file" >"$log" 2>&1
  judge "$file, its launcher's command" $? "$log"
done

# Every file is named in the walk-through, and every file that it names is there.
while read -r file; do
  grep -qF "$file" examples/README.md || echo "examples/README.md does not name $file"
done < <(cd examples && find . -type f ! -name README.md | sed 's|^\./||' | sort) >"$log"
grep -oE '\]\([a-z][^):]*\)' examples/README.md | sed 's/^](//;s/)$//' | while read -r link; do
  [ -e "examples/$link" ] || echo "examples/README.md: $link is not there"
done >>"$log"
[ ! -s "$log" ]
judge "examples/README.md" $? "$log"

# A mount that does not name its target as it names its source hides a file of the image.
awk '!/^#/ && NF && ($1 != $2 || $4 !~ /nofail/ || $4 !~ /(^|,)ro(,|$)/ || $4 !~ /nosuid/) { print FILENAME ": " $0 }' examples/containers/*.fstab >"$log"
[ ! -s "$log" ]
judge "examples/containers" $? "$log"

tell_counts
