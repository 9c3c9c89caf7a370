# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016 # the tasks expand those
# `check` across the nodes of a step: two nodes of one kind, the second with one HCA that is gone.
# slurm: --plugin none
# shellcheck disable=SC2154 # n1, n2, top: the nodes, the tree

lay_out_two() {
  local node
  for node in "$n1" "$n2"; do
    mkdir "$node"
    python3 "$top/tests/machines/mktree.py" "$top/tests/machines/dgx-a100-80gb.json" "$node" || fail "no machine"
  done
  install -m 644 "$top/etc/nccl-tune.yaml" .
  chmod -R a+rX .
}

check_step() {
  srun -N2 --ntasks-per-node=1 --mpi=pmix bash -c "cd '$PWD' && nccl-tune check --policy nccl-tune.yaml --only job $*" 2>stderr
}

test_nodes_that_are_alike() {
  lay_out_two
  local out
  out=$(check_step '--root $SLURMD_NODENAME') || fail "exit status $?: $out"
  has "$out" '^ok +job.same +2 nodes '
  has "$out" '^ok +job.clock +2 nodes +within '
}

test_the_node_that_differs_is_named() {
  lay_out_two
  local state
  state=$(readlink -f "$n2/sys/class/infiniband/mlx5_3")/ports/1/state
  echo '1: DOWN' >"$state"
  local out rc=0
  out=$(check_step '--root $SLURMD_NODENAME') || rc=$?
  want "exit status" 1 "$rc"
  has "$out" "^fail +job.same +$n2 +HCA count: 7"
}

# The machine itself: each node reaches rank 0 and the next one.
test_nodes_reach_each_other() {
  lay_out_two
  local out
  out=$(check_step) || fail "exit status $?: $out"
  has "$out" "^(ok +job.reach +$n1 to $n2|skip .*job.reach)"
}

# The task waits for the other, which comes when it is killed.
killed_check() { # TASK
  local check victims=''
  srun -N2 --ntasks-per-node=1 --mpi=pmix bash -c "cd '$PWD' && { [ \$SLURM_PROCID = $1 ] || until [ -e killed ]; do sleep 0.1; done; } && exec nccl-tune check --policy nccl-tune.yaml --only job" \
    >out 2>stderr &
  check=$!
  for _ in $(seq 200); do
    victims=$(supervisors)
    [ -z "$victims" ] || break
    sleep 0.1
  done
  [ -n "$victims" ] || fail "no check to kill: $(cat out stderr)"
  sleep 1 # until it waits
  # shellcheck disable=SC2046 # numbers
  kill -KILL $(supervisors)
  touch killed
  wait "$check"
  status=$?
}

test_a_task_that_is_killed_is_named() {
  lay_out_two
  killed_check 1
  want "exit status" 5 "$status"
  has "$(cat out)" "^fail +job.tasks +rank 1 at $n2 +its supervisor was killed by SIGKILL"
  once "$(cat stderr)" "^nccl-tune: rank 1 at $n2: its supervisor was killed by SIGKILL"
}

test_rank_0_that_is_killed_is_told() {
  lay_out_two
  killed_check 0
  want "exit status" 5 "$status"
  once "$(cat stderr)" "^nccl-tune: rank 0 at $n1: its supervisor was killed by SIGKILL"
}
