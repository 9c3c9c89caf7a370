# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016 # the tasks expand those
# Which GPUs the plan gives to each task, for what people ask of Slurm: the same whether devices are constrained or
# not, and whether gres.conf lists them in PCI order or by minor. On this machine the two differ.
# slurm: --nodes 1 --cpus 16 --record levante-a100-4gpu
# slurm: --nodes 1 --cpus 16 --record levante-a100-4gpu --gres-order minor --plugin-arg gpu_order=minor
# slurm: --nodes 1 --cpus 16 --record levante-a100-4gpu --constrain-devices
# slurm: --nodes 1 --cpus 16 --record levante-a100-4gpu --constrain-devices --gres-order minor --plugin-arg gpu_order=minor
# shellcheck disable=SC2154 # n1: the node

# By minor, and in PCI order.
bdf_of_minor=(0000:44:00.0 0000:03:00.0 0000:c4:00.0 0000:84:00.0)
pci_order=(1 0 3 2)

# gres FIRST..: the BDFs behind gres indexes.
gres() {
  local index out=()
  for index in "$@"; do
    if [ "$LIVE_GRES_ORDER" = minor ]; then out+=("${bdf_of_minor[index]}"); else out+=("${bdf_of_minor[${pci_order[index]}]}"); fi
  done
  printf '%s\n' "${out[@]}" | sort | paste -sd' '
}

# asked SRUN-OPTION...: "TASK: GPU GPU" of each task, as the plan has it, "none" for a task with no GPU of its own.
asked() {
  srun -N1 --nccl-tune=show "$@" true 2>stderr || fail "srun: exit status $?"
  sed -n 's/.*nccl-tune: task \([0-9]*\): \(no GPU\|GPU \)/\1 \2/p' stderr | sort -n |
    while read -r task rest; do
      echo "$task: $(grep -oE '[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9]' <<<"${rest%%: *}" | sort | paste -sd' ' | sed 's/^$/none/')"
    done
}

# What the kernel and Slurm say, for requests that bind GPUs to tasks: CUDA_VISIBLE_DEVICES counts the gres list, or of
# that what the task may open.
granted() {
  srun -N1 "$@" bash -c 'open=; for i in 0 1 2 3; do
      [ -r '"$(root_of "$n1")"'/dev/nvidia$i ] && [ -w '"$(root_of "$n1")"'/dev/nvidia$i ] && open="$open $i"; done
    echo "$SLURM_LOCALID $CUDA_VISIBLE_DEVICES$open"' 2>>stderr | sort -n |
    while read -r task visible open; do
      echo "$task: $(of_visible "${visible//,/ }" "$open")"
    done
}

of_visible() { # "INDEX..." "OPEN MINOR..."
  local list=() minor index out=() order=(0 1 2 3)
  [ "$LIVE_GRES_ORDER" = minor ] || order=("${pci_order[@]}")
  for minor in "${order[@]}"; do [[ " $2 " == *" $minor "* ]] && list+=("${bdf_of_minor[minor]}"); done
  for index in $1; do out+=("${list[index]}"); done
  printf '%s\n' "${out[@]}" | sort | paste -sd' '
}

same() { # SRUN-OPTION...: the plan has what the task was granted
  local granted
  granted=$(granted "$@")
  has "$granted" '^0: 0000:'
  want "$*" "$granted" "$(asked "$@")"
}

lines() { printf '%s\n' "$@"; }

test_devices_are_constrained_where_asked() {
  [ "$LIVE_CONSTRAINED" = yes ] || skip "not on this Slurm"
  want "devices open to a task without GPUs" "" \
    "$(srun -N1 bash -c "for i in 0 1 2 3; do [ -r $(root_of "$n1")/dev/nvidia\$i ] && echo \$i; done")"
}

test_gpus_per_task_1() { same -n2 --gpus-per-task=1; }
test_gpus_per_task_1_all() { same -n4 --gpus-per-task=1; }
test_gpus_per_task_2() { same -n2 --gpus-per-task=2; }
test_gpu_bind_single() { same -n2 --gpus-per-node=4 --gpu-bind=single:1; }
test_ntasks_per_gpu() { same -n2 --ntasks-per-gpu=1 --gpus=2; }

test_gpu_bind_map() {
  want "map_gpu:3,1" "$(lines "0: $(gres 3)" "1: $(gres 1)")" \
    "$(asked -n2 --gpus-per-node=4 --gpu-bind=map_gpu:3,1)"
  same -n2 --gpus-per-node=4 --gpu-bind=map_gpu:3,1
}

# Nothing bound: as many tasks as GPUs take one each, in the order that they see.
test_gpus_per_node_a_task_each() {
  want "4 tasks" "$(lines "0: $(gres 0)" "1: $(gres 1)" "2: $(gres 2)" "3: $(gres 3)")" "$(asked -n4 --gpus-per-node=4)"
}

test_gpus_per_node_one_task() {
  want "1 task" "0: $(gres 0 1 2 3)" "$(asked -n1 --gpus-per-node=4)"
}

test_gpus_per_node_two_tasks() {
  want "2 tasks" "$(lines "0: $(gres 0 1)" "1: $(gres 2 3)")" "$(asked -n2 --gpus-per-node=4)"
}

# Two tasks for three GPUs: nobody can say whose is whose, so nobody is pinned.
test_three_gpus_two_tasks() {
  asked -n2 --gres=gpu:3 >plan
  lacks "$(cat stderr)" 'task [01]: .*, CPUs [0-9]'
  lacks "$(cat plan)" "$(gres 3)"
}

# Slurm 22.05 takes the variables away and leaves the tasks the step's GPUs; from 23.11 on they have the step's list.
test_gpu_bind_none_on_all_gpus() {
  want "4 tasks" "$(lines "0: $(gres 0)" "1: $(gres 1)" "2: $(gres 2)" "3: $(gres 3)")" \
    "$(asked -n4 --gpus-per-task=1 --gpu-bind=none)"
}

# Without the variables, and with more devices open than the step has: nobody can say which the task will take.
test_gpu_bind_none_on_some_gpus() {
  asked -n2 --gpus-per-task=1 --gpu-bind=none >plan
  if grep -q '^0: none$' plan; then
    has "$(cat stderr)" 'task 0: not pinned: the step has 2 GPUs but the task can open 4'
    lacks "$(cat stderr)" 'task [01]: .*, CPUs [0-9]'
  else
    want "2 tasks" "$(lines "0: $(gres 0)" "1: $(gres 1)")" "$(cat plan)"
  fi
}

test_two_tasks_share_one_gpu() {
  want "sharing" "$(lines "0: $(gres 0)" "1: $(gres 0)")" "$(asked -n2 --gpus-per-node=1)"
}

test_exclusive_without_gres() {
  if [ "$LIVE_CONSTRAINED" = yes ]; then
    want "no device is open" "$(lines "0: none" "1: none")" "$(asked -n2 --exclusive)"
  else
    want "all are open" "$(lines "0: $(gres 0 1)" "1: $(gres 2 3)")" "$(asked -n2 --exclusive)"
  fi
}

# The inner step inherits SLURMD_TRES_BIND of the task that starts it, though nothing is bound in it.
test_step_inside_a_bound_task() {
  salloc -N1 -n4 --gpus-per-node=4 srun -n2 --overlap --gpu-bind=single:1 \
    bash -c '[ "$SLURM_LOCALID" != 0 ] || srun --overlap -n4 --gpus-per-node=4 --nccl-tune=show true' 2>stderr
  local task
  for task in 0 1 2 3; do has "$(cat stderr)" "nccl-tune: task $task: GPU $(gres $task), "; done
}

# A job that holds GPUs 0 and 1 while another asks: what the second is given is not what its local indexes say.
test_partial_node() {
  local job
  job=$(sbatch --parsable -o /dev/null --gpus-per-node=2 --wrap 'sleep 30')
  for _ in $(seq 50); do [ "$(squeue -h -j "$job" -o %t)" = R ] && break; sleep 0.1; done
  (same -n2 --gpus-per-task=1)
  local rc=$?
  scancel "$job"
  while [ -n "$(squeue -h)" ]; do sleep 0.1; done
  return $rc
}

test_gpus_as_an_ordinary_user() {
  as_user srun -N1 -n2 --gpus-per-task=1 --nccl-tune=show true 2>stderr
  has "$(cat stderr)" "nccl-tune: task 1: GPU $(gres 1)"
}
