#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What the plugin costs: bench.sh [OUTPUT FOLDER [ROUNDS]]. First the time of its parts on the largest recorded machine;
# then, as root where Slurm is installed, `srun true` with and without it on a throwaway Slurm.
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
O=${1:-${O:-build}}
rounds=${2:-50}
export O

# The tree with the most files.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
largest='' most=0
for record in tests/machines/*.json; do
  name=$(basename "$record" .json)
  python3 tests/machines/mktree.py "$record" "$work/$name" >/dev/null 2>&1 || continue
  files=$(find "$work/$name" -type f -o -type l | wc -l)
  if [ "$files" -gt "$most" ]; then most=$files largest=$name; fi
done
echo "the largest recorded machine: $largest, $most files"
install -m 644 etc/nccl-tune.yaml "$work/nccl-tune.yaml"
NCCLTUNE_BENCH_ROOT=$work/$largest NCCLTUNE_BENCH_POLICY=$work/nccl-tune.yaml "$O/benchmarks" --benchmark_min_time=0.3

if [ "$(id -u)" != 0 ] || ! command -v slurmd >/dev/null || [ ! -e "$O/nccl_tune.so" ]; then
  echo "srun true: left out: needs root, slurmctld, slurmd and the plugin"
  exit 0
fi
${CXX:-g++} -x c -shared -fPIC -O2 -o "$work/nothing.so" tests/bench/nothing.c
tests/live/slurm.sh --nodes 1 --record "$largest" -- salloc -Q -N1 tests/bench/srun_true.py "$work/nothing.so" "$rounds"
