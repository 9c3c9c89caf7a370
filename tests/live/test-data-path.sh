# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# What NCCL's log says of each rank, against the plan of its node: the nodes' machines are at /sys.
# slurm: --mount-sys --cpus 2 --record baidu-a100-roce-9nic --record dgx-a100-80gb
# shellcheck disable=SC2154 # top: the tree

test_the_data_path_of_every_rank_is_judged_by_its_node() {
  nccl-tune bench --help >/dev/null 2>&1 || skip "built without the benchmark"
  srun -N1 -n1 nccl-tune topo 2>/dev/null | grep -q GPU0 || skip "the nodes show this host's own /sys"
  mkdir workers
  ln -s "$top/tests/fake/bench_worker.py" workers/nccl-tune-worker-nccl
  cat >task <<'TASK'
#!/bin/bash
read -r FAKE_BDF near other < <(nccl-tune plan --tasks 4 --json 2>/dev/null | python3 -c '
import json, sys
tasks = json.load(sys.stdin)["tasks"]
print(tasks[0]["gpus"][0], tasks[0]["hcas"][0], next(h for t in tasks for h in t["hcas"] if h not in tasks[0]["hcas"]))')
used=$near gdr=/GDRDMA
[ "$SLURM_PROCID" = 0 ] || used=$other gdr=
FAKE_LOG=$PWD/log.$SLURM_PROCID
cat >"$FAKE_LOG" <<LOG
h:1:1 [0] NCCL INFO NET/IB : Using [0]$used:1/RoCE [RO]; OOB eth0:10.0.0.1<0>
h:1:1 [0] NCCL INFO Using network IB
h:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0$gdr
LOG
echo "$SLURM_PROCID $used $near" >"picked.$SLURM_PROCID"
export FAKE_BDF FAKE_LOG NCCLTUNE_WORKER_DIR=$PWD/workers
exec nccl-tune bench --worker nccl -b 1K -e 1K -M 1
TASK
  chmod +x task
  srun -N2 --mpi=pmix ./task >out 2>stderr || fail "exit status $?: $(cat out stderr)"
  read -r _ used near <picked.1
  lacks "$(cat out)" 'WARNING: rank 0'
  has "$(cat out)" "WARNING: rank 1 \(fakehost-1, GPU .*used $used:1; the plan's for this GPU: $near"
  has "$(cat out)" "WARNING: rank 1 \(fakehost-1, .*without GPUDirect RDMA"
  has "$(cat out)" 'data path of all 2 ranks: IB'
  # The fake worker of rank R takes R + 1, R + 2 and R + 3 MB: the report has the most of any rank.
  has "$(cat out)" '^# GPU memory usage     : Initialization 2.00 MB \| User-Allocated 3.00 MB \| Collective 4.00 MB \| Total  9.00 MB$'
}

# The others have measured all when it dies; with and without the server's shared memory (a container has none).
test_a_rank_that_dies_while_others_end_is_heard_of() {
  nccl-tune bench --help >/dev/null 2>&1 || skip "built without the benchmark"
  mkdir workers
  ln -s "$top/tests/fake/bench_worker.py" workers/nccl-tune-worker-nccl
  # shellcheck disable=SC2016 # expanded there
  printf '%s\n' '#!/bin/bash' '[ "$SLURM_PROCID" != 1 ] || export FAKE_WORKER=killed' \
    'exec nccl-tune bench --worker nccl -b 1K -e 1M -f 2' >task
  chmod +x task
  local layout gds start
  export NCCLTUNE_WORKER_DIR=$PWD/workers
  for layout in "-N1 -n2" "-N2 -n2"; do
    for gds in "" hash; do
      start=$SECONDS
      # shellcheck disable=SC2086 # two options
      timeout 60 env ${gds:+PMIX_MCA_gds=$gds} srun --mpi=pmix $layout ./task >out 2>stderr
      want "$layout $gds: exit status" 5 $?
      has "$(cat out stderr)" "rank 1 at .*: the worker killed by SIGKILL"
      lacks "$(cat out stderr)" "no answer|cut off"
      [ $((SECONDS - start)) -lt 10 ] || fail "$layout $gds: $((SECONDS - start)) s"
    done
  done
}
