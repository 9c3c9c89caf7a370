# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016 # the tasks expand those
# Each job script of examples/ as it is, with node count and sizes from sbatch's command line, as a user would give them.
# The nodes' machines are at /sys, for what reads them in the task: two GPUs, one beside each of the two CPUs.
# slurm: --mount-sys --cpus 2 --record two-cpus.json --record two-cpus.json
# shellcheck disable=SC2154 # n1, n2, top: the nodes, the tree

examples=$top/examples

need_bench() {
  [ -x "$LIVE_DIR/bin/nccl-tune-worker-host" ] || skip "built without the host worker"
  command srun --mpi=list 2>&1 | grep -q pmix || skip "this Slurm has no PMIx"
}

need_machine() {
  srun -N1 -n1 nccl-tune topo 2>/dev/null | grep -q GPU0 || skip "the nodes show this host's own /sys"
}

# job SCRIPT-AND-ARGUMENTS...: submits, waits; its output is in out, its number in $job.
job() {
  job=$(timeout 60 sbatch --parsable --wait -o out "$@") || fail "sbatch --wait: exit status $?: $(cat out)"
}

measures() { # SCRIPT
  need_bench
  job --nccl-tune -N2 --ntasks-per-node=1 --gpus-per-node=1 "$examples/$1" all_reduce -b 1K -e 16K -f 4 -n 3
  want "sizes of $1" "1024 4096 16384" "$(grep -E '^ *[0-9]+ ' "nccl_test_$job.out" | awk '{ print $1 }' | paste -sd' ')"
  want "ranks of $1" 2 "$(grep -cE '^#  Rank' "nccl_test_$job.out")"
  has "$(cat "nccl_test_$job.out")" '^# Out of bounds values : 0 OK$'
}

test_slurm_a100() { measures slurm/a100.slurm; }
test_slurm_h100() { measures slurm/h100.slurm; }
test_slurm_b200() { measures slurm/b200.slurm; }
test_slurm_gb200() { measures slurm/gb200.slurm; }

test_slurm_over_pmi2() {
  ldconfig -p | grep -q 'libpmi2\.so\.0' || skip "no libpmi2.so.0"
  MPI=pmi2 measures slurm/h100.slurm
  has "$(cat "nccl_test_$job.out")" 'PMI-2 of Slurm$'
}

# Without arguments of its own a script has the shape that its comment tells; where the cluster is smaller, sbatch says so.
test_slurm_shapes() {
  local script
  for script in a100:2:8 h100:2:8 b200:2:8 gb200:18:4; do
    local name nodes gpus
    IFS=: read -r name nodes gpus <<<"$script"
    has "$(cat "$examples/slurm/$name.slurm")" "^#SBATCH --nodes=$nodes$"
    has "$(cat "$examples/slurm/$name.slurm")" "^#SBATCH --gpus-per-node=$gpus$"
    has "$(cat "$examples/slurm/$name.slurm")" "^#SBATCH --ntasks-per-node=$gpus$"
  done
}

test_gdrcopy() {
  need_bench
  nccl-tune compare --help >/dev/null 2>&1 || skip "this build has no compare"
  job --nccl-tune -N2 --ntasks-per-node=1 --gpus-per-node=1 "$examples/gdrcopy/gdrcopy.slurm" all_reduce -b 1K -e 1K -n 3 --launches 3
  has "$(cat out)" 'NCCL_GDRCOPY_ENABLE=1'
  has "$(cat out)" 'no /dev/gdrdrv: GDRCopy is not used here'
}

# A launcher of torchrun's arguments and variables, in its place: starts the workers of its node.
stand_in_torchrun() {
  cat >torchrun <<'SCRIPT'
#!/bin/bash
while [[ ${1-} == --* ]]; do
  case $1 in
    --no_python) shift ;;
    *) printf -v "arg_${1#--}" %s "$2"; shift 2 ;;
  esac
done
echo "rendezvous $arg_rdzv_endpoint $arg_rdzv_backend, nodes $arg_nnodes"
for ((i = 0; i < arg_nproc_per_node; i++)); do
  LOCAL_RANK=$i LOCAL_WORLD_SIZE=$arg_nproc_per_node RANK=$((SLURM_NODEID * arg_nproc_per_node + i)) \
    WORLD_SIZE=$((arg_nnodes * arg_nproc_per_node)) "$@" &
done
wait
SCRIPT
  chmod 755 torchrun
}

show_worker='echo "worker $RANK of $WORLD_SIZE: $(sed -n "s/^Cpus_allowed_list:[[:space:]]*//p" /proc/self/status) ${NCCL_IB_HCA:+tuned}"'

test_torchrun_stand_in_pins_by_local_rank() {
  need_machine
  stand_in_torchrun
  TORCHRUN=$PWD/torchrun job -N2 --gpus-per-node=2 "$examples/torchrun/torchrun.slurm" bash -c "$show_worker"
  want "rendezvous" 2 "$(grep -cE "^rendezvous $n1:2[0-9]{4} c10d, nodes 2$" out)"
  want "workers" "worker 0 of 4: 0 tuned;worker 1 of 4: 1 tuned;worker 2 of 4: 0 tuned;worker 3 of 4: 1 tuned" \
    "$(grep ^worker out | sort | paste -sd';')"
}

test_torchrun_itself() {
  local python
  need_machine
  command -v torchrun >/dev/null || skip "no torchrun (PyTorch) on this host"
  python=$(sed -n '1s/^#! *//p' "$(command -v torchrun)") # the one that has torch
  cp "$examples/torchrun/all_reduce.py" .
  # Node names of the throwaway Slurm do not resolve: one node, and its own name for the rendezvous is this host.
  sed 's/^head=.*/head=127.0.0.1/' "$examples/torchrun/torchrun.slurm" >torchrun.slurm
  # torch 1.13 under Python 3.11 cannot read its own default for these (an IntFlag without its zero); nobody has rank 9.
  PET_REDIRECTS=9:0 PET_TEE=9:0 job -N1 --gpus-per-node=2 torchrun.slurm "$python" all_reduce.py
  want "ranks that have the sum" 2 "$(grep -cE '^rank [01] of 2, local [01]: CPUs ([01])\.\.\1 \(1\), .* sum right$' out)"
}

test_deepspeed_gets_hostfile_and_plan() {
  need_machine
  cat >deepspeed <<'SCRIPT'
#!/bin/bash
# In deepspeed's place: shows the hostfile, and runs one worker of this node.
[ "$1" = --hostfile ] || exit 2
sed 's/^/host /' "$2"
shift 2
echo "options $1 $2"
shift 2
[ "$1 $2" = "--no_python --no_local_rank" ] || exit 2
LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 RANK=1 WORLD_SIZE=4 "${@:3}"
SCRIPT
  chmod 755 deepspeed
  DEEPSPEED=$PWD/deepspeed job -N2 --gpus-per-node=2 "$examples/deepspeed/deepspeed.slurm" --launcher openmpi -- bash -c "$show_worker"
  want "hostfile" "host $n1 slots=2;host $n2 slots=2" "$(grep ^host out | paste -sd';')"
  has "$(cat out)" '^options --launcher openmpi$'
  has "$(cat out)" '^worker 1 of 4: 1 tuned$'
}

# Two checks that drain a node: on a recorded machine with a fault, and on one without.
drains() { # SCRIPT-OF-HEALTHCHECK
  local reason
  mkdir machine
  python3 "$top/tests/machines/mktree.py" "$top/tests/machines/h100-8ib-4down.json" machine || fail "no machine"
  install -m 644 "$top/etc/nccl-tune.yaml" .
  local check=("$examples/healthcheck/$1" --root machine --policy nccl-tune.yaml)
  SLURMD_NODENAME=$n1 "${check[@]}" --only net || fail "a node without a fault: exit status $?"
  lacks "$(scontrol show node "$n1")" 'State=.*DRAIN'
  # shellcheck disable=SC2064
  trap "scontrol update NodeName=$n1 State=RESUME 2>/dev/null" EXIT
  SLURMD_NODENAME=$n1 "${check[@]}" --only gpu.nearest-hca
  want "exit status" 1 $?
  has "$(scontrol show node "$n1")" 'State=.*DRAIN'
  reason=$(scontrol --oneliner show node "$n1" | sed -n 's/.* Reason=\(.*\)/\1/p')
  has "$reason" '^nccl-tune: ERROR.*gpu\.nearest-hca'
  lacks "$(scontrol show node "$n2")" 'State=.*DRAIN'
}

test_healthcheck_program() { drains health-check.sh; }
test_healthcheck_prolog() { drains prolog.sh; }
