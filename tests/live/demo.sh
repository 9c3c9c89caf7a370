#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The main job on a throwaway Slurm: examples/nccl-test.slurm under `sbatch --nccl-tune`, on this machine's GPUs where it
# has some and the nccl worker is built, else on two recorded machines with the host worker. Arguments go to sbatch
# before the script (-N, --ntasks-per-node), and after a "--" to the benchmark.
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
top=$(cd "$here/../.." && pwd)
out=${O:-build}
case $out in /*) ;; *) out=$top/$out ;; esac

# One node of a RoCE cluster, one of an InfiniBand cluster.
records=(baidu-a100-roce-9nic dgx-a100-80gb)

title() { printf '\n== %s\n' "$*"; }

# What became of the job, as "STATE EXIT:SIGNAL".
job_state() {
  scontrol --oneliner show job "$1" | sed -n 's/.* JobState=\([A-Z_]*\) .* ExitCode=\([0-9:]*\) .*/\1 \2/p'
}

# One line that is written over on a terminal; elsewhere a line for each change of state.
wait_for_job() {
  local job=$1 report=$2 state='' before='' rows start=$SECONDS
  while :; do
    state=$(job_state "$job")
    case ${state%% *} in COMPLETED | FAILED | CANCELLED | TIMEOUT | NODE_FAIL | OUT_OF_MEMORY) break ;; esac
    rows=$(grep -c '^ *[0-9]' "$report" 2>/dev/null)
    if [ -t 1 ]; then
      printf '\rjob %s: %s, %s sizes measured, %s s ' "$job" "${state%% *}" "${rows:-0}" $((SECONDS - start))
    elif [ "$state" != "$before" ]; then
      echo "job $job: ${state%% *}"
    fi
    before=$state
    sleep 0.3
  done
  [ -t 1 ] && printf '\r\033[K'
  echo "job $job: ${state%% *} after $((SECONDS - start)) s"
  [ "${state%% *}" = COMPLETED ]
}

# For a task a GPU, as jobs on such nodes run: the plan is the node's, the pins are each task's.
show_plans() {
  local node gpus where names
  read -ra names <<<"$DEMO_RECORDS"
  for node in $LIVE_NODES; do
    gpus=$(grep -c '^Name=gpu' "$LIVE_DIR/$node/etc/gres.conf")
    [ "$gpus" -gt 0 ] || gpus=1
    where=()
    if [ -d "$LIVE_DIR/$node/root" ]; then where=(--root "$LIVE_DIR/$node/root"); fi
    title "The plan of $node (${names[0]:-this machine}) for a task a GPU: nccl-tune plan --tasks $gpus"
    names=("${names[@]:1}")
    nccl-tune plan "${where[@]}" --policy "$LIVE_DIR/etc/nccl-tune.yaml" --tasks "$gpus" || return 1
  done
}

inside() {
  local job report rc=0 sbatch_args=() script_args=()
  while [ $# -gt 0 ] && [ "$1" != -- ]; do sbatch_args+=("$1"); shift; done
  if [ $# -gt 0 ]; then shift; script_args=("$@"); fi
  title "sbatch --nccl-tune ${sbatch_args[*]} examples/nccl-test.slurm ${script_args[*]}"
  job=$(sbatch --parsable --nccl-tune "${sbatch_args[@]}" "$top/examples/nccl-test.slurm" "${script_args[@]}") || return 1
  report=$PWD/nccl_test_$job.out
  wait_for_job "$job" "$report" || rc=1
  show_plans || rc=1
  title "The report"
  cat "$report" || rc=1
  title "It is in $report"
  return "$rc"
}

main() {
  local gpus=0 device machines=() arguments=()
  if [ "${1-}" = --inside ]; then
    shift
    inside "$@"
    exit
  fi
  for device in /dev/nvidia[0-9]*; do
    [ -c "$device" ] && gpus=$((gpus + 1))
  done
  if [ "$gpus" -gt 0 ] && [ -x "$out/nccl-tune-worker-nccl" ]; then
    echo "demo: $gpus GPUs here: one node, a task each"
    machines=(--nodes 1 --live)
    records=()
    arguments=(-N1 "--ntasks-per-node=$gpus" "--gpus-per-node=$gpus")
  else
    echo "demo: no GPU with the nccl worker here: two recorded machines as nodes, measured with the host worker (memory over TCP)"
    machines=(--nodes 2 --record "${records[0]}" --record "${records[1]}")
    arguments=(-N2)
  fi
  [ "$(nproc)" -ge 16 ] || machines+=(--cpus 16) # room for --ntasks-per-node=8; the tasks share what there is
  rm -rf "$out/demo"
  mkdir -p "$out/demo"
  cd "$out/demo" || exit 1
  DEMO_RECORDS="${records[*]}" exec "$here/slurm.sh" "${machines[@]}" -- "$here/demo.sh" --inside "${arguments[@]}" "$@"
}

main "$@"
