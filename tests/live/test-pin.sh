# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016 # the tasks expand those
# Real pins: two NUMA nodes of one CPU each, a GPU beside each (the first in PCI order is /dev/nvidia1).
# slurm: --nodes 1 --cpus 2 --record two-cpus.json
# shellcheck disable=SC2154 # n1: the node

need_two_cpus() {
  [[ $(sed -n 's/^Cpus_allowed_list:\t//p' /proc/self/status) == 0-* ]] || skip "needs CPUs 0 and 1"
}

# Two tasks that have both CPUs each; Slurm binds GPUs only where a node has several tasks.
both=(-n2 "--cpu-bind=mask_cpu:3,3" --gpus-per-node=2)

# "TASK CPULIST" of each task, sorted.
masks() {
  srun -N1 "$@" bash -c 'echo "$SLURM_LOCALID $(sed -n "s/^Cpus_allowed_list:[[:space:]]*//p" /proc/self/status)"' 2>stderr |
    sort | paste -sd,
}

test_one_task_beside_its_gpu() {
  need_two_cpus
  want "without" "0 0-1" "$(masks -n1 -c2 --gpus-per-task=1)"
  want "with" "0 0" "$(masks -n1 -c2 --gpus-per-task=1 --nccl-tune)"
}

test_two_tasks_each_beside_its_gpu() {
  need_two_cpus
  want "without" "0 0-1,1 0-1" "$(masks "${both[@]}" --gpu-bind=map_gpu:0,1)"
  want "in order" "0 0,1 1" "$(masks "${both[@]}" --gpu-bind=map_gpu:0,1 --nccl-tune)"
  want "crossed" "0 1,1 0" "$(masks "${both[@]}" --gpu-bind=map_gpu:1,0 --nccl-tune)"
}

test_a_mask_without_local_cpus_stays() {
  need_two_cpus
  want "pins" "0 1,1 0" "$(masks -n2 --cpu-bind=map_cpu:1,0 --gpus-per-node=2 --gpu-bind=map_gpu:0,1 --nccl-tune=verbose)"
  has "$(cat stderr)" 'nccl-tune: task 0: GPU 0000:12:00.0, .*CPUs as Slurm gave them'
}

test_closest_gpus() {
  need_two_cpus
  local lines
  masks -n2 --cpu-bind=map_cpu:1,0 --gpus-per-node=2 --gpu-bind=closest --nccl-tune=verbose >out
  want "pins" "0 1,1 0" "$(cat out)"
  lines=$(cat stderr)
  has "$lines" 'nccl-tune: task 0: GPU 0000:82:00.0, HCA mlx5_1'
  has "$lines" 'nccl-tune: task 1: GPU 0000:12:00.0, HCA mlx5_0'
}

test_cpu_bind_none_is_respected() {
  need_two_cpus
  want "pins" "0 0-1" "$(masks -n1 -c2 --cpu-bind=none --gpus-per-task=1 --nccl-tune)"
}

test_keys_that_do_not_pin() {
  need_two_cpus
  local key
  for key in off show env; do want "$key" "0 0-1" "$(masks -n1 -c2 --gpus-per-task=1 --nccl-tune=$key)"; done
  want "bind" "0 0" "$(masks -n1 -c2 --gpus-per-task=1 --nccl-tune=bind)"
}

test_task_with_gpus_of_both_nodes_is_not_confined() {
  need_two_cpus
  want "pins" "0 0-1" "$(masks -n1 -c2 --gpus-per-task=2 --nccl-tune)"
}

test_no_gpu_no_pin() {
  need_two_cpus
  CUDA_VISIBLE_DEVICES='' masks -n1 -c2 --nccl-tune=verbose >out
  want "pins" "0 0-1" "$(cat out)"
}

test_pin_as_an_ordinary_user() {
  need_two_cpus
  want "CPUs" "Cpus_allowed_list:	0" \
    "$(as_user srun -n1 -c2 --gpus-per-task=1 --nccl-tune grep Cpus_allowed_list /proc/self/status)"
}

test_a_pin_does_not_reach_the_next_step() {
  need_two_cpus
  want "pins" "0 0;0 0-1" "$(batch -n1 -c2 --gpus-per-node=2 --nccl-tune <<'SCRIPT'
#!/bin/bash
show='echo 0 $(sed -n "s/^Cpus_allowed_list:[[:space:]]*//p" /proc/self/status)'
{ srun -c2 --gpus-per-node=1 bash -c "$show"; srun -c2 --nccl-tune=off bash -c "$show"; } | paste -sd';'
SCRIPT
)"
}
