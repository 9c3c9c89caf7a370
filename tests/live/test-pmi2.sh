# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016 # the tasks expand those
# Steps of a Slurm without PMIx: the same world over PMI-2.
# slurm: --cpus 16 --record baidu-a100-roce-9nic --record dgx-a100-80gb
# shellcheck disable=SC2154 # n1, n2: the nodes

need_pmi2() {
  [ -x "$LIVE_DIR/bin/nccl-tune-worker-host" ] || skip "built without the host worker"
  command srun --mpi=list 2>&1 | grep -q pmi2 || skip "this Slurm has no mpi/pmi2"
  ldconfig -p | grep -q 'libpmi2\.so\.0' || skip "no libpmi2.so.0 (libpmi2-0, slurm-libpmi)"
}

rows() { grep -E '^ *[0-9]+ ' "$1"; }

test_bench_between_two_nodes() {
  need_pmi2
  srun -N2 -n4 --mpi=pmi2 nccl-tune bench -b 1K -e 4K -f 2 -n 3 >out 2>stderr || fail "exit status $?: $(cat out)"
  want "sizes" "1024 2048 4096" "$(rows out | awk '{ print $1 }' | paste -sd' ')"
  want "ranks" 4 "$(grep -cE '^#  Rank' out)"
  has "$(cat out)" '^# nccl-tune .*: 4 ranks, 2 nodes, Gloo, PMI-2 of Slurm$'
  has "$(cat out)" '^# Out of bounds values : 0 OK$'
}

# A record of eight workers is longer than a value of PMI-2 may be.
test_records_longer_than_a_value() {
  need_pmi2
  srun -N2 -n2 --mpi=pmi2 nccl-tune bench -g 8 -b 64 -e 64 -n 2 --json doc.json >out 2>stderr || fail "exit status $?: $(cat out)"
  want "ranks" 16 "$(grep -cE '^#  Rank' out)"
  has "$(cat doc.json)" '"world":"PMI-2 of Slurm"'
}

test_as_an_ordinary_user() {
  need_pmi2
  as_user srun -N2 --mpi=pmi2 nccl-tune bench -b 1K -e 1K -n 2 >out 2>stderr || fail "exit status $?: $(cat out)"
  has "$(cat out)" 'PMI-2 of Slurm$'
}

# The others hear of it at once: no deadline has to pass.
test_a_rank_that_dies_ends_the_step() {
  need_pmi2
  local start=$SECONDS
  srun -N2 -n4 --mpi=pmi2 nccl-tune bench -b 1K -e 4K -f 2 -n 3 --timeout 60 --inject-fault crash:1 >out 2>stderr
  want "exit status" 5 $?
  has "$(cat stderr)" '^nccl-tune: rank 1 at .*: the worker killed by SIGABRT'
  [ $((SECONDS - start)) -lt 15 ] || fail "it took $((SECONDS - start)) s"
}

test_a_rank_that_hangs_is_named() {
  need_pmi2
  srun -N2 -n4 --mpi=pmi2 nccl-tune bench -b 1K -e 4K -f 2 -n 3 --timeout 2 --inject-fault hang:2 >out 2>stderr
  want "exit status" 5 $?
  has "$(cat stderr)" 'rank 2'
}

test_wrong_data_is_found() {
  need_pmi2
  srun -N2 --mpi=pmi2 nccl-tune bench -b 1K -e 1K -n 2 --inject-fault flip:1:5 >out 2>stderr
  want "exit status" 4 $?
}

test_check_across_the_nodes() {
  need_pmi2
  local out
  out=$(srun -N2 --ntasks-per-node=1 --mpi=pmi2 nccl-tune check --only job 2>stderr) || fail "exit status $?: $out"
  has "$out" '^ok +job.same +2 nodes '
}

# Rank 0's word goes to the others before any fence, and many launches put many keys.
test_compare_over_many_launches() {
  need_pmi2
  srun -N2 -n2 --mpi=pmi2 nccl-tune compare --env NCCL_PROTO=LL,Simple -b 1K -e 1K -n 2 --launches 3 >out 2>stderr ||
    fail "exit status $?: $(cat out)"
  has "$(cat out)" 'NCCL_PROTO=Simple'
}

test_pairs() {
  need_pmi2
  srun -N2 -n2 --mpi=pmi2 nccl-tune pairs -b 64K >out 2>stderr
  local rc=$?
  [ "$rc" -le 1 ] || fail "exit status $rc: $(cat out)" # on a busy host a node may well look slow
  has "$(cat out)" "$n1"
}

# Nothing of the file is there: as on a node without the package.
test_without_its_library_it_says_what_to_install() {
  need_pmi2
  local library
  library=$(readlink -f "$(ldconfig -p | sed -n 's/.*libpmi2\.so\.0 .*=> //p' | head -n 1)")
  unshare --mount true 2>/dev/null || skip "no mount namespaces here"
  srun -N2 --mpi=pmi2 unshare --mount bash -c "mount --bind /dev/null '$library' && exec nccl-tune bench -b 1K -e 1K" \
    >out 2>stderr
  want "exit status" 3 $?
  has "$(cat stderr)" '^nccl-tune: libpmi2\.so\.0: cannot load, .*install libpmi2-0'
}

test_the_hostfile_of_a_job() {
  local out
  salloc -N2 --ntasks-per-node=2 --gpus-per-node=2 nccl-tune hostfile >out 2>stderr || fail "exit status $?"
  want "hostfile" "$n1 slots=2 $n2 slots=2" "$(paste -sd' ' out)"
  salloc -N2 --ntasks-per-node=3 nccl-tune hostfile --format mpich >out 2>stderr || fail "exit status $?"
  want "hostfile" "$n1:3 $n2:3" "$(paste -sd' ' out)"
  salloc -N2 bash -c 'diff <(nccl-tune hostfile --slots 1 | cut -d" " -f1) <(scontrol show hostnames "$SLURM_JOB_NODELIST")' ||
    fail "scontrol names other hosts"
}
