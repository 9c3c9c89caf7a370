#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What supervisors and PMIx cost before any worker starts, for 2 to 512 tasks on this host, as a table:
#   tests/bench/start_cost.sh [OUTPUT FOLDER [COUNT...]]
# Read: rank 0, all records; digest: the others, until they have what rank 0 made of them. mpirun starts them (Open MPI
# with PMIx), oversubscribed: with more tasks than CPUs the times are those of a crowd, an upper bound. On a
# cluster, one row of it: srun --mpi=pmix -N64 --ntasks-per-node=8 nccl-tune bench --worker none
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
O=${1:-${O:-build}}
[ $# = 0 ] || shift
[ $# != 0 ] || set -- 2 4 8 16 32 64 128 256 512
command -v mpirun >/dev/null || { echo 'start_cost: no mpirun (openmpi-bin)' >&2; exit 3; }
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
echo "$(nproc) CPUs; times in ms, each the most of any task"
printf '%6s %6s %8s %10s %10s %10s %10s %10s %10s %10s\n' tasks nodes record records init put fence read digest wall
for count; do
  start=${EPOCHREALTIME/./}
  row=$(mpirun --oversubscribe --bind-to none -n "$count" "$O/nccl-tune" bench --worker none --timeout 120) || exit 1
  end=${EPOCHREALTIME/./}
  printf '%s %10s   %s\n' "${row%%   PMIx*}" $(((end - start) / 1000)) "PMIx${row##*PMIx}"
done
