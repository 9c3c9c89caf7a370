#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Faults in benchmark runs over network namespaces: chaos.sh [OUTPUT FOLDER [OPTION OF chaos.py]...]. Short: a few faults
# of each family, in under a minute; `make chaos` for many.
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
top=$(cd "$here/../.." && pwd)
export LC_ALL=C
nodes=4

skip() { echo "skipped chaos: $*"; echo "0 passed, 0 failed, 1 skipped"; exit 0; }

take_down() {
  "$here/netns.sh" destroy "$CHAOS_CLUSTER"
  umount "$CHAOS_FULL" "$CHAOS_READ_ONLY"
  rmdir "$CHAOS_FULL" "$CHAOS_READ_ONLY" "$folder"
}

main() {
  export O=${1:-${O:-build}}
  case $O in /*) ;; *) O=$top/$O ;; esac
  [ $# = 0 ] || shift
  local why
  why=$("$here/netns.sh" why-not) || skip "$why"
  command -v python3 >/dev/null || skip "python3: not found"
  [ -x "$O/nccl-tune-worker-host" ] || skip "built without the host worker"
  command -v srun >/dev/null || skip "srun: not found"
  compgen -G '/usr/lib*/*slurm*/mpi_pmix.so' >/dev/null || compgen -G '/usr/lib/*/*slurm*/mpi_pmix.so' >/dev/null ||
    skip "Slurm without mpi/pmix"
  CHAOS_CLUSTER=c$(od -An -N3 -tx1 /dev/urandom | tr -d ' ')n
  export CHAOS_CLUSTER
  # Before the nodes: each has a copy of the mounts.
  folder=$(mktemp -d) || exit 1
  export CHAOS_FULL=$folder/full CHAOS_READ_ONLY=$folder/read-only
  mkdir "$CHAOS_FULL" "$CHAOS_READ_ONLY"
  mount -t tmpfs -o size=24k tmpfs "$CHAOS_FULL" || skip "mount: not permitted"
  mount -t tmpfs -o ro,size=4k tmpfs "$CHAOS_READ_ONLY" || skip "mount: not permitted"
  "$here/netns.sh" create "$CHAOS_CLUSTER" "$nodes" || exit 1
  trap take_down EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP
  "$here/netns.sh" exec "$CHAOS_CLUSTER" hub "$top/tests/live/slurm.sh" --cluster "$CHAOS_CLUSTER" --nodes "$nodes" \
    --cpus 16 --plugin none -- "$here/chaos.py" "$@"
}

main "$@"
