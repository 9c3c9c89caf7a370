# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016 # the tasks expand those
# The search as a job step over two nodes: an optimum that is planted in the host worker, wrong data, a kill half-way.
# slurm: --cpus 16 --record baidu-a100-roce-9nic --record dgx-a100-80gb
# shellcheck disable=SC2154 # n1, n2, top: the nodes, the tree

need_tune() {
  [ -x "$LIVE_DIR/bin/nccl-tune-worker-host" ] || skip "built without the host worker"
  nccl-tune tune --help >/dev/null 2>&1 || skip "built without the benchmark"
  export HOST_WORKER_SLOW_US=20000 HOST_WORKER_SLOW_MORE_US=15000
}

# As srun, with more time than a step of the other tests.
tune() { # OPTION...
  timeout 240 srun -N2 --mpi=pmix bash -c '[ "$SLURM_PROCID" != 0 ] || echo $$ >pid; exec nccl-tune tune "$@"' tune \
    all_reduce -b 1K -e 1K -n 6 -w 1 --budget 90s --space "$top/tests/tune/space.yaml" "$@"
}

# The report, the profile and the plan that comes of it.
want_optimum() {
  has "$(cat out)" '^HOST_WORKER_SLOW_US=1000 HOST_WORKER_SLOW_MORE_US=500 is faster: [0-9.]+ times'
  has "$(cat out)" 'WRONG DATA: HOST_WORKER_FLIP=1'
  has "$(cat nccl-tune-tuned.yaml)" '^ +HOST_WORKER_SLOW_US: "1000"'
  lacks "$(cat nccl-tune-tuned.yaml)" 'HOST_WORKER_FLIP:'
  unset HOST_WORKER_SLOW_US HOST_WORKER_SLOW_MORE_US # values that are set already are kept
  has "$(nccl-tune plan --policy nccl-tune-tuned.yaml)" '^  HOST_WORKER_SLOW_MORE_US=500'
  has "$(nccl-tune plan --policy nccl-tune-tuned.yaml)" 'nccl-tune-tuned.yaml:[0-9]+'
  [ ! -e nccl-tune-tune.state ] || fail "the state file of a search that is over is still there"
}

test_finds_what_is_planted() {
  need_tune
  tune >out 2>stderr || fail "exit status $?: $(cat out stderr)"
  has "$(cat stderr)" 'HOST_WORKER_FLIP=1: wrong data: .*WRONG DATA, never use these settings'
  has "$(cat stderr)" 'best so far HOST_WORKER_'
  want_optimum
}

test_goes_on_after_a_kill() {
  need_tune
  tune >out 2>stderr &
  local step=$!
  for _ in $(seq 600); do
    [ "$(grep -o '"setting"' nccl-tune-tune.state 2>/dev/null | wc -l)" -lt 8 ] || break
    sleep 0.1
  done
  kill -KILL "$(cat pid)"
  wait "$step"
  [ -s nccl-tune-tune.state ] || fail "no state file: $(cat stderr)"
  [ ! -e nccl-tune-tuned.yaml ] || fail "the search was over already"
  tune --seed 2 >out 2>stderr && fail "a state file of another search was taken"
  has "$(cat stderr)" 'nccl-tune-tune.state: is of another search: its options was'
  tune >out 2>stderr || fail "exit status $?: $(cat out stderr)"
  has "$(cat stderr)" 'goes on after ([89]|[1-9][0-9]) trials from nccl-tune-tune.state'
  want_optimum
}

test_a_signal_keeps_the_state() {
  need_tune
  tune >out 2>stderr &
  local step=$!
  for _ in $(seq 600); do
    [ ! -s nccl-tune-tune.state ] || break
    sleep 0.1
  done
  kill -TERM "$(cat pid)"
  wait "$step" && fail "exit status 0"
  has "$(cat stderr)" 'ended after [0-9]+ trials: .*the same command goes on from nccl-tune-tune.state'
  [ -s nccl-tune-tune.state ] || fail "no state file"
}

test_a_file_that_is_refused() {
  need_tune
  printf 'variables:\n  - {name: NCCL_NET_FORCE_FLUSH, values: [0]}\n' >space.yaml
  srun -N2 --mpi=pmix nccl-tune tune --space space.yaml >out 2>stderr
  want "exit status" 2 $?
  once "$(cat stderr)" 'nccl-tune: space.yaml:2:[0-9]+: NCCL_NET_FORCE_FLUSH is never tried: without the flush'
}
