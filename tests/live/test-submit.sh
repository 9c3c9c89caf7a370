# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016 # the tasks expand those
# The option's ways from sbatch, salloc and srun to the tasks, and what it does there.
# slurm: --cpus 16 --record baidu-a100-roce-9nic --record dgx-a100-80gb
# shellcheck disable=SC2154 # n1, n2: the nodes, in this order

roce_hcas='=mlx5_1:1,mlx5_2:1,mlx5_3:1,mlx5_4:1,mlx5_5:1,mlx5_6:1,mlx5_7:1,mlx5_8:1'
ib_hcas='=mlx5_0:1,mlx5_1:1,mlx5_2:1,mlx5_3:1,mlx5_6:1,mlx5_7:1,mlx5_8:1,mlx5_9:1'

# What both nodes' tasks must have: each node its own values.
want_roce() {
  want "NCCL_IB_HCA of the RoCE node" "$roce_hcas" "$(value NCCL_IB_HCA "$1")"
  want "NCCL_SOCKET_IFNAME of the RoCE node" =eth0 "$(value NCCL_SOCKET_IFNAME "$1")"
  want "NCCL_IB_GID_INDEX of the RoCE node" 3 "$(value NCCL_IB_GID_INDEX "$1")"
}

want_ib() {
  want "NCCL_IB_HCA of the InfiniBand node" "$ib_hcas" "$(value NCCL_IB_HCA "$1")"
  want "NCCL_SOCKET_IFNAME of the InfiniBand node" =enp226s0 "$(value NCCL_SOCKET_IFNAME "$1")"
  lacks "$1" '^([0-9]*: )?NCCL_IB_GID_INDEX='
}

# The lines of one task of `srun -l`.
of_task() { sed -n "s/^ *$1: //p" <<<"$2"; }

# Node by node, from `srun -l -N2 ... env`: task 0 is on the first node.
want_both() {
  want_roce "$(of_task 0 "$1")"
  want_ib "$(of_task 1 "$1")"
}

test_srun_gives_each_node_its_own_values() {
  want_both "$(srun -l -N2 --nccl-tune env)"
}

# The shipped policy, through policy= in plugstack.conf.
test_profiles_of_the_policy() {
  local env
  env=$(environment "$n1" --nccl-tune)
  want "NCCL_IB_TIMEOUT of the RoCE node" 22 "$(value NCCL_IB_TIMEOUT "$env")"
  want "NCCL_IB_QPS_PER_CONNECTION of the RoCE node" 8 "$(value NCCL_IB_QPS_PER_CONNECTION "$env")"
  lacks "$(environment "$n2" --nccl-tune)" '^NCCL_IB_(TIMEOUT|QPS_PER_CONNECTION)='
}

test_without_the_option_nothing_is_set() {
  untouched "$(srun -N2 env)"
}

test_off_sets_nothing() {
  untouched "$(srun -N2 --nccl-tune=off env)"
}

test_the_mark_names_what_is_set() {
  local env
  env=$(environment "$n1" --nccl-tune)
  has "$(value NCCLTUNE_SET "$env" | tr , '\n')" '^NCCL_IB_HCA$'
  local name
  for name in $(value NCCLTUNE_SET "$env" | tr , ' '); do has "$env" "^$name=."; done
}

test_sbatch_is_inherited_by_srun() {
  want_both "$(batch -N2 --nccl-tune <<<'#!/bin/bash
srun -l env')"
}

test_sbatch_with_an_argument() {
  local out
  out=$(batch -N2 --nccl-tune=env,verbose <<<'#!/bin/bash
srun -l env 2>&1')
  want_both "$out"
  has "$out" 'nccl-tune: .*profile'
}

test_directive_in_the_script() {
  want_both "$(batch <<<'#!/bin/bash
#SBATCH -N2 --nccl-tune
srun -l env')"
}

test_the_batch_step_itself_is_left_alone() {
  untouched "$(batch -N1 --nccl-tune <<<'#!/bin/bash
env')"
}

test_inner_srun_can_turn_it_off() {
  untouched "$(batch -N2 --nccl-tune <<<'#!/bin/bash
srun --nccl-tune=off env')"
}

test_inner_srun_can_turn_it_on() {
  want_both "$(batch -N2 <<<'#!/bin/bash
srun -l --nccl-tune env')"
}

test_export_none_keeps_the_option() {
  want_both "$(batch -N2 --export=NONE --nccl-tune <<<'#!/bin/bash
srun -l --export=NONE /usr/bin/env')"
}

test_salloc_is_inherited_by_srun() {
  want_both "$(salloc -N2 --nccl-tune srun -l env 2>/dev/null)"
}

test_as_an_ordinary_user() {
  want_both "$(as_user srun -l -N2 --nccl-tune env)"
  want "uid" "$(id -u nobody)" "$(as_user srun -N1 --nccl-tune id -u)"
}

test_batch_as_an_ordinary_user() {
  printf '#!/bin/bash\nsrun -l env\n' >script
  chmod 755 script
  as_user sbatch --wait -o out -N2 --nccl-tune script >/dev/null || fail "sbatch --wait failed: $(cat out)"
  want_both "$(cat out)"
}

# The batch script's environment names the first node: the others must not take that for their own name.
test_each_node_knows_its_own_name() {
  local out
  out=$(batch -N2 --nccl-tune=verbose <<<'#!/bin/bash
srun true 2>&1')
  once "$out" "nccl-tune: $n1: profile "
  once "$out" "nccl-tune: $n2: profile "
}

test_socket_follows_the_nodes_address_in_a_batch_job() {
  local node env
  for node in "$n1" "$n2"; do
    mkdir -p "$(root_of "$node")/etc"
    printf '10.20.0.32 %s\n10.20.0.99 %s\n' "$n2" "$n1" >"$(root_of "$node")/etc/hosts"
  done
  env=$(batch -N2 --nccl-tune <<<'#!/bin/bash
srun -l env')
  rm "$(root_of "$n1")/etc/hosts" "$(root_of "$n2")/etc/hosts"
  want "NCCL_SOCKET_IFNAME of the second node" =enp97s0f1 "$(value NCCL_SOCKET_IFNAME "$(of_task 1 "$env")")"
}

# A batch script, or a task, that starts srun on the other node: what was computed on one node must not arrive on the
# other as if the user had set it.
test_nested_srun_gets_the_other_nodes_values() {
  local out
  out=$(salloc -N2 --nccl-tune srun -N1 -n1 -w "$n1" --overlap \
    bash -c "env; srun --overlap -N1 -n1 -w $n2 env >inner" 2>/dev/null)
  want_roce "$out"
  want_ib "$(cat inner)"
}

test_nested_srun_off_takes_our_values_away() {
  salloc -N2 --nccl-tune srun -N1 -n1 -w "$n1" --overlap \
    bash -c "srun --nccl-tune=off --overlap -N1 -n1 -w $n2 env >inner" 2>/dev/null
  untouched "$(cat inner)"
}

test_heterogeneous_job() {
  local out
  out=$(batch --nccl-tune -N1 -w "$n1" : -N1 -w "$n2" <<<'#!/bin/bash
srun -l --het-group=0,1 env')
  want_both "$out"
}

test_the_users_value_is_kept() {
  local env
  env=$(NCCL_IB_HCA=mlx5_2 environment "$n1" --nccl-tune)
  want NCCL_IB_HCA mlx5_2 "$(value NCCL_IB_HCA "$env")"
  want NCCL_SOCKET_IFNAME =eth0 "$(value NCCL_SOCKET_IFNAME "$env")"
  lacks "$(value NCCLTUNE_SET "$env" | tr , '\n')" '^NCCL_IB_HCA$'
  once "$(cat stderr)" "nccl-tune: NCCL_IB_HCA: kept the user's 'mlx5_2'; the plan has '$roce_hcas'"
}

test_an_export_in_the_batch_script_is_the_users() {
  local out
  out=$(batch -N2 --nccl-tune <<<'#!/bin/bash
export NCCL_SOCKET_IFNAME=eth9
srun -l env')
  want "task 0" eth9 "$(value NCCL_SOCKET_IFNAME "$(of_task 0 "$out")")"
  want "task 1" eth9 "$(value NCCL_SOCKET_IFNAME "$(of_task 1 "$out")")"
  want "task 1" "$ib_hcas" "$(value NCCL_IB_HCA "$(of_task 1 "$out")")"
}

test_variable_turns_it_on() {
  want_both "$(NCCLTUNE=on srun -l -N2 env)"
  untouched "$(NCCLTUNE='' srun -N2 env | grep -v ^NCCLTUNE=)"
}

test_variable_gives_way_to_the_option() {
  untouched "$(NCCLTUNE=on srun -N2 --nccl-tune=off env | grep -v ^NCCLTUNE=)"
}

test_variable_counts_in_sbatch() {
  want_both "$(NCCLTUNE=on batch -N2 <<<'#!/bin/bash
unset NCCLTUNE
srun -l env')"
}

test_default_on_in_plugstack() {
  local env
  plugstack "$n2" default=on "root=$(root_of "$n2")"
  env=$(environment "$n2")
  want_ib "$env"
  untouched "$(environment "$n2" --nccl-tune=off)"
}

test_show_tells_and_sets_nothing() {
  local env
  env=$(environment "$n1" --nccl-tune=show)
  untouched "$env"
  once "$(cat stderr)" "nccl-tune: $n1: profile .*NCCL_IB_HCA='$roce_hcas'"
  has "$(cat stderr)" 'nccl-tune: mlx5_0: port 1 left out \(management\)'
  has "$(cat stderr)" 'nccl-tune: task 0: '
}

test_env_sets_and_says_nothing() {
  want_roce "$(environment "$n1" --nccl-tune=env)"
  want "stderr" '' "$(said)"
}

test_bind_sets_no_nccl_variable() {
  untouched "$(environment "$n1" --nccl-tune=bind)"
}

test_verbose_gives_reasons() {
  want_roce "$(environment "$n1" --nccl-tune=verbose)"
  has "$(cat stderr)" "nccl-tune: NCCL_IB_GID_INDEX: '3' \(gid\."
}

test_summary_is_said_once_a_node() {
  srun -N2 -n6 --nccl-tune=verbose true 2>stderr
  once "$(cat stderr)" "nccl-tune: $n1: profile "
  once "$(cat stderr)" "nccl-tune: $n2: profile "
}

test_unknown_key_is_refused_at_submission() {
  local command
  printf '#!/bin/sh\n' >script
  for command in "srun --nccl-tune=bnd true" "sbatch --nccl-tune=bnd script" "salloc --nccl-tune=bnd true"; do
    $command >out 2>stderr && fail "$command: exit status 0"
    once "$(cat stderr)" "nccl-tune: --nccl-tune: unknown key 'bnd'; known: on, off, show, env, bind, strict, verbose, profile=NAME"
  done
  want "jobs that were made" '' "$(squeue -h)"
}

test_help_lists_the_option() {
  local command
  for command in srun sbatch salloc; do has "$($command --help)" '--nccl-tune\[?='; done
}

test_unknown_profile_is_told_and_runs() {
  environment "$n1" --nccl-tune=profile=nosuch >env.txt
  has "$(cat env.txt)" '^NCCL_IB_HCA='
  once "$(cat stderr)" "nccl-tune: --nccl-tune: no profile 'nosuch'"
  srun -N1 -w "$n1" --nccl-tune=strict,profile=nosuch touch ran 2>stderr && fail "strict: exit status 0"
  [ ! -e ran ] || fail "strict: the task ran"
}

# The name of the node in the recorded machine's /etc/hosts: its address chooses the interface.
test_socket_follows_the_nodes_address() {
  mkdir -p "$(root_of "$n2")/etc"
  echo "10.20.0.32 $n2" >"$(root_of "$n2")/etc/hosts"
  local env
  env=$(environment "$n2" --nccl-tune)
  rm "$(root_of "$n2")/etc/hosts"
  want NCCL_SOCKET_IFNAME =enp97s0f1 "$(value NCCL_SOCKET_IFNAME "$env")"
}
