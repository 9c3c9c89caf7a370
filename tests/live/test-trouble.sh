# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Whatever is wrong with the site, the job runs, and one line says what happened; under strict the task fails instead.
# slurm: --cpus 16 --record dgx-a100-80gb
# shellcheck disable=SC2154 # n1, n2: the nodes

# told NODE REGEX SRUN-OPTION...: the task runs, and one line of ours matches.
told() {
  local node=$1 line=$2
  shift 2
  rm -f ran
  srun -N1 -w "$node" --nccl-tune "$@" touch ran 2>stderr || fail "srun: exit status $?"
  [ -e ran ] || fail "the task did not run"
  once "$(cat stderr)" "nccl-tune: $line"
  once "$(cat stderr)" "nccl-tune: "
}

# The same, as a user.
told_user() {
  local node=$1 line=$2
  as_user srun -N1 -w "$node" --nccl-tune touch ran 2>stderr || fail "srun: exit status $?"
  [ -e ran ] || fail "the task did not run"
  once "$(cat stderr)" "nccl-tune: $line"
}

strict_fails() {
  rm -f ran
  srun -N1 -w "$1" --nccl-tune=strict touch ran 2>>stderr && fail "strict: exit status 0"
  [ ! -e ran ] || fail "strict: the task ran"
}

policy() { # NODE TEXT
  printf '%s\n' "$2" >"$PWD/policy.yaml"
  plugstack "$1" "root=$(root_of "$1")" "policy=$PWD/policy.yaml"
}

test_policy_missing() {
  plugstack "$n1" "root=$(root_of "$n1")" "policy=$PWD/nosuch.yaml"
  told "$n1" "$PWD/nosuch.yaml: .*No such file or directory"
  strict_fails "$n1"
}

test_policy_with_an_unknown_key() {
  policy "$n1" 'exclud_hcas: [mlx5_1]'
  told "$n1" "$PWD/policy.yaml:1:1: unknown key 'exclud_hcas'; did you mean 'exclude_hcas'\?"
  strict_fails "$n1"
}

test_policy_that_is_no_yaml() {
  policy "$n1" 'profiles: [}'
  told "$n1" "$PWD/policy.yaml:1:[0-9]+: "
  strict_fails "$n1"
}

test_policy_that_a_user_may_not_read() {
  policy "$n1" 'mode: on'
  chmod 600 policy.yaml
  told_user "$n1" "$PWD/policy.yaml: .*Permission denied"
}

test_policy_that_others_may_write() {
  policy "$n1" 'mode: on'
  chmod 666 policy.yaml
  told "$n1" "$PWD/policy.yaml: .*writ"
}

test_policy_of_another_owner() {
  policy "$n1" 'mode: on'
  chown nobody policy.yaml
  told "$n1" "$PWD/policy.yaml: .*own"
}

test_policy_that_is_a_link() {
  policy "$n1" 'mode: on'
  mv policy.yaml real.yaml
  ln -s real.yaml policy.yaml
  told "$n1" "$PWD/policy.yaml: "
}

# A good policy counts, and its hint is in the plan: else the tests above prove nothing.
test_policy_that_is_good() {
  local env
  policy "$n1" 'exclude_hcas: [mlx5_0]'
  env=$(environment "$n1" --nccl-tune)
  has "$env" '^NCCL_IB_HCA==mlx5_1:1,mlx5_2:1'
  want stderr '' "$(said)"
}

test_policy_mode_off() {
  policy "$n1" 'mode: off'
  untouched "$(environment "$n1" --nccl-tune)"
  once "$(cat stderr)" "nccl-tune: .*mode: off"
}

# A drop-in with a fault is left out with one line; the main file and the other drop-ins count.
test_drop_in_that_is_broken() {
  local env
  mkdir policy.d
  chmod 755 policy.d
  printf 'profiles: [{name: a, env: {NCCL_IB_TC: 41}}]\n' >policy.d/10.yaml
  printf 'profles: []\n' >policy.d/20.yaml
  policy "$n1" 'exclude_hcas: [mlx5_0]'
  env=$(environment "$n1" --nccl-tune)
  has "$env" '^NCCL_IB_HCA==mlx5_1:1,mlx5_2:1'
  has "$env" '^NCCL_IB_TC=41$'
  once "$(cat stderr)" "nccl-tune: $PWD/policy.d/20.yaml:1:1: unknown key 'profles'; .*; left out, the rest of the policy stands"
  once "$(cat stderr)" "nccl-tune: "
  strict_fails "$n1"
}

test_mode_off_of_a_broken_file() {
  policy "$n1" 'mode: off
exclud_hcas: [mlx5_1]'
  untouched "$(environment "$n1" --nccl-tune)"
}

test_sysfs_empty() {
  mkdir -p empty/sys empty/proc
  plugstack "$n1" "root=$PWD/empty"
  told "$n1" .
}

test_root_missing() {
  plugstack "$n1" "root=$PWD/nosuch"
  told "$n1" "$PWD/nosuch: .*No such file or directory"
  strict_fails "$n1"
}

test_unknown_argument_in_plugstack() {
  plugstack "$n1" "root=$(root_of "$n1")" defualt=on
  told "$n1" "plugstack.conf: unknown argument 'defualt=on'"
}

test_plugin_on_the_client_alone() {
  no_plugin "$n1"
  srun -N1 -w "$n1" --nccl-tune env >out 2>stderr || fail "srun: exit status $?"
  untouched "$(cat out)"
  has "$(cat "$LIVE_DIR/$n1/slurmd.log")" 'SPANK plugin "nccl_tune" option "nccl-tune" not found'
}

test_plugin_on_one_node_alone() {
  local out
  no_plugin "$n1"
  out=$(srun -l -N2 --nccl-tune env 2>stderr) || fail "srun: exit status $?"
  lacks "$out" '^ *0: NCCL_'
  has "$out" '^ *1: NCCL_IB_HCA='
}

test_plugin_on_the_nodes_alone() {
  no_plugin client
  srun -N1 -w "$n1" --nccl-tune true 2>stderr && fail "srun took an option that it does not know"
  has "$(cat stderr)" "unrecognized option '--nccl-tune'"
  srun -N1 -w "$n1" true || fail "srun: exit status $?"
}

test_plugin_file_missing_on_a_node() {
  echo "optional $LIVE_DIR/lib/nosuch.so" >"$LIVE_DIR/$n1/etc/plugstack.conf"
  srun -N1 -w "$n1" --nccl-tune touch ran 2>stderr || fail "srun: exit status $?"
  [ -e ran ] || fail "the task did not run"
}

test_required_in_plugstack() {
  sed -i 's/^optional/required/' "$LIVE_DIR/$n1/etc/plugstack.conf"
  has "$(environment "$n1" --nccl-tune)" '^NCCL_IB_HCA='
  plugstack "$n1" "root=$PWD/nosuch"
  sed -i 's/^optional/required/' "$LIVE_DIR/$n1/etc/plugstack.conf"
  told "$n1" "$PWD/nosuch: "
  strict_fails "$n1"
}

test_long_argument() {
  local long
  long=verbose$(printf ',verbose%.0s' $(seq 200))
  srun -N1 -w "$n1" --nccl-tune="$long" true 2>stderr && fail "exit status 0"
  once "$(cat stderr)" 'nccl-tune: --nccl-tune: the argument is longer than 1024 bytes'
}

# A user's environment reaches slurmstepd: nothing in it may stop a step.
test_hostile_environment() {
  local long
  long=$(head -c 100000 /dev/zero | tr '\0' x)
  NCCLTUNE_SET="$long,,=,PATH" NCCL_IB_HCA=$'\n^%s%n' srun -N1 -w "$n1" --nccl-tune=verbose true 2>stderr ||
    fail "exit status $?"
  lacks "$(cat stderr)" '^[^ns].*%n' # ours begin with nccl-tune or slurmstepd, whatever they quote
}
