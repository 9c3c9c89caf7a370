# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# GPUs that Slurm knows nothing of: what the user says in CUDA_VISIBLE_DEVICES arrives as it is.
# slurm: --nodes 1 --cpus 16 --record levante-a100-4gpu --gres-order none
# shellcheck disable=SC2154 # n1: the node

# shown SRUN-OPTION...: the plan's line of each task, sorted.
shown() {
  srun -N1 --nccl-tune=show "$@" true 2>stderr || fail "srun: exit status $?"
  sed -n 's/.*nccl-tune: \(task [0-9]*: \)/\1/p' stderr | sort
}

test_a_task_a_gpu() {
  local lines
  lines=$(shown -n4)
  has "$lines" '^task 0: GPU 0000:03:00.0, '
  has "$lines" '^task 3: GPU 0000:c4:00.0, '
}

test_index_in_the_environment() {
  has "$(CUDA_VISIBLE_DEVICES=2 shown -n1)" '^task 0: GPU 0000:84:00.0, '
}

test_uuid_in_the_environment() {
  has "$(CUDA_VISIBLE_DEVICES=GPU-15a2c860-2b6b-b2d6-2f42-38bf9b4e3236 shown -n1)" '^task 0: GPU 0000:c4:00.0, '
}

test_short_uuid_in_the_environment() {
  has "$(CUDA_VISIBLE_DEVICES=GPU-15a2 shown -n1)" '^task 0: GPU 0000:c4:00.0, '
}

test_mig_in_the_environment() {
  local lines
  lines=$(CUDA_VISIBLE_DEVICES=MIG-11111111-2222-3333-4444-555555555555 shown -n1)
  has "$lines" '^task 0: no GPU of its own.*CPUs as Slurm gave them: .*MIG'
}

test_no_device_in_the_environment() {
  has "$(CUDA_VISIBLE_DEVICES=-1 shown -n1)" '^task 0: no GPU of its own.*CPUs as Slurm gave them'
}
