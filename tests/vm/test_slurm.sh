# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016 # the tasks expand those
# The plugin under Slurm with PMIx on four real NUMA nodes: what tasks are given, and where they and their memory are.
# shellcheck disable=SC2154 # facts.sh, assert.sh

prepare() { sinfo; }

srun() { timeout 120 srun "$@"; }

# Four tasks that may run on every CPU, a GPU each.
four=(-n4 -c2 "--cpu-bind=mask_cpu:ff,ff,ff,ff" --gpus-per-node=4)
show_pin='echo $SLURM_LOCALID $(sed -n "s/^Cpus_allowed_list:[[:space:]]*//p" /proc/self/status)'
pins() { srun "${four[@]}" "$@" bash -c "$show_pin" 2>stderr | sort | paste -sd,; }

test_tasks_get_what_the_plan_says() {
  local env name
  env=$(environment "$LIVE_NODES" --gpus-per-node=4 --nccl-tune)
  for name in $(plan '.env[].name'); do want "$name" "$(exported "$name")" "$(value "$name" "$env")"; done
  has "$env" '^NCCL_IB_HCA==mlx5_0:1,mlx5_1:1,mlx5_2:1,mlx5_3:1,mlx5_bond_0:1$'
  has "$env" '^NCCL_IB_GID_INDEX=3$'
  untouched "$(environment "$LIVE_NODES" --gpus-per-node=4)"
}

test_each_task_runs_beside_its_gpu() {
  want "without" "0 0-7,1 0-7,2 0-7,3 0-7" "$(pins --gpu-bind=map_gpu:0,1,2,3)"
  want "in order" "0 0-1,1 2-3,2 4-5,3 6-7" "$(pins --gpu-bind=map_gpu:0,1,2,3 --nccl-tune)"
  want "crossed" "0 6-7,1 4-5,2 2-3,3 0-1" "$(pins --gpu-bind=map_gpu:3,2,1,0 --nccl-tune)"
}

# numactl asks get_mempolicy.
show_memory='echo $SLURM_LOCALID $(numactl --show | sed -n "s/^policy: *//p; s/^preferred node: *//p")'

test_memory_is_preferred_beside_the_gpu() {
  want "policies" "0 preferred 3,1 preferred 2,2 preferred 1,3 preferred 0" \
    "$(srun "${four[@]}" --gpu-bind=map_gpu:3,2,1,0 --nccl-tune bash -c "$show_memory" 2>stderr | sort | paste -sd,)"
  has "$(srun "${four[@]}" --gpu-bind=map_gpu:0,1,2,3 bash -c "$show_memory" 2>stderr)" '^0 default'
}

# 16 MiB that a task touches lie on its node: more pages of it than of all others together.
test_memory_lies_beside_the_gpu() {
  srun "${four[@]}" --gpu-bind=map_gpu:3,2,1,0 --nccl-tune bash -c '
    text=$(head -c 16777216 /dev/zero | tr "\0" x)
    echo $SLURM_LOCALID $(awk -v own="N$((3 - SLURM_LOCALID))" "/ anon=/ { for (i = 1; i <= NF; i++) if (split(\$i, part, \"=\") == 2 && part[1] ~ /^N[0-9]+$/)
      pages[part[1] == own] += part[2] } END { print (pages[1] > 4096 && pages[1] > pages[0]) ? \"own\" : \"others \" pages[1] \" \" pages[0] }" /proc/$$/numa_maps) ${#text}' \
    >out 2>stderr
  want "pages" "0 own 16777216,1 own 16777216,2 own 16777216,3 own 16777216" "$(sort out | paste -sd,)"
}

test_pin_keeps_to_the_mask() {
  want "pins" "0 3,1 4-5" "$(srun -n2 -c4 --cpu-bind=mask_cpu:38,38 --gpus-per-node=4 --gpu-bind=map_gpu:1,2 --nccl-tune \
    bash -c "$show_pin" 2>stderr | sort | paste -sd,)"
}

test_under_pmix() {
  srun --mpi=pmix "${four[@]}" --gpu-bind=map_gpu:0,1,2,3 --nccl-tune bash -c \
    'echo $PMIX_RANK $(sed -n "s/^Cpus_allowed_list:[[:space:]]*//p" /proc/self/status) $NCCL_IB_GID_INDEX' >out 2>stderr
  want "ranks" "0 0-1 3,1 2-3 3,2 4-5 3,3 6-7 3" "$(sort out | paste -sd,)"
}
