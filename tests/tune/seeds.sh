#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The planted optimum, once for each seed, with the real host worker: seeds.sh [OUTPUT FOLDER [SEEDS [BUDGET]]]. Two ranks
# in one process each run; ends with `N passed, N failed`. A seed takes its budget at most.
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd) || exit 1
O=$(realpath "${1:-${O:-build}}") || exit 1
seeds=${2:-20} budget=${3:-90s}
export NCCLTUNE_WORKER_DIR=$O HOST_WORKER_SLOW_US=20000 HOST_WORKER_SLOW_MORE_US=15000
for name in $(compgen -e); do
  case $name in SLURM* | PMI* | NCCLTUNE_SET | NCCL_*) unset "$name" ;; esac
done
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

# shellcheck source=tests/counts.sh
. "$here/../counts.sh"
trials=0
for seed in $(seq "$seeds"); do
  rm -f nccl-tune-tuned.yaml
  "$O/nccl-tune" tune all_reduce -b 1K -e 1K -n 6 -w 1 -g 2 --worker host --budget "$budget" --seed "$seed" \
    --space "$here/space.yaml" --state none --no-progress >out 2>stderr
  rc=$?
  found=$(sed -n 's/^ *\(HOST_WORKER_[A-Z_]*\): "\(.*\)"$/\1=\2/p' nccl-tune-tuned.yaml 2>/dev/null | paste -sd' ')
  trials=$((trials + $(sed -n 's/^cost *\([0-9]*\) trials.*/\1/p' out)))
  if [ "$rc" = 0 ] && [ "$found" = "HOST_WORKER_SLOW_US=1000 HOST_WORKER_SLOW_MORE_US=500" ]; then
    pass
  else
    fail "seed $seed: exit status $rc, found '$found'"
    cat out stderr
  fi
done
echo "$((trials / seeds)) trials on average; the full grid has $(sed -n 's/^space .*, \([0-9]*\) settings.*/\1/p' out) settings"
tell_counts
