# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# The search for bad nodes as a job step: two nodes of two tasks, the host worker. Figures of a busy host scatter, so only
# faults that no noise makes are judged here; tests/chaos/pairs.sh has links of a known speed.
# slurm: --plugin none --cpus 8
# shellcheck disable=SC2154 # n1, n2: the nodes

need_pairs() {
  [ -x "$LIVE_DIR/bin/nccl-tune-worker-host" ] || skip "built without the host worker"
  nccl-tune pairs --help >/dev/null 2>&1 || skip "built without the benchmark"
}

pairs() { # SRUN-OPTION... PAIRS-OPTION...
  local own=()
  while [[ ${1-} == -N* || ${1-} == --ntasks* ]]; do own+=("$1"); shift; done
  timeout 60 srun --mpi=pmix "${own[@]}" nccl-tune pairs --threshold 0.001 -b 64K -n 2 -w 1 --timeout 15 "$@" 2>stderr
}

# json FILE EXPRESSION: over `lines`, the objects of the file.
json() { python3 -c 'import json,sys; lines = list(map(json.loads, open(sys.argv[1]))); print(eval(sys.argv[2]))' "$@"; }

test_every_rail_of_good_nodes_is_measured() {
  need_pairs
  srun -N2 --ntasks-per-node=2 --mpi=pmix nccl-tune pairs --threshold 0.001 -b 64K -n 2 --json f >out 2>stderr ||
    fail "exit status $?: $(cat out stderr)"
  has "$(cat out)" "^# good +: .*\(2\)$"
  want "pairs by rail" "[0, 1]" "$(json f 'sorted({l["rail"] for l in lines if l["kind"] == "pair"})')"
  want "nodes" "['$n1', '$n2']" "$(json f 'sorted(n["node"] for n in lines[0]["nodes"])')"
  want "the end" "True" "$(json f 'lines[-1]["complete"] and lines[-1]["good"] != ""')"
}

test_a_worker_that_dies_names_its_rail() {
  need_pairs
  pairs -N2 --ntasks-per-node=2 --inject-fault crash:3 --json f >out
  want "exit status" 1 $?
  has "$(cat out)" "^$n2 +1 .*rail .*killed by SIGABRT"
  has "$(cat out)" "^scontrol update nodename=$n2 state=drain reason=\"nccl-tune pairs: rail 1 fails\"$"
  want "rails blamed" "[('$n2', 1)]" \
    "$(json f 'sorted({(l["node"], r["rail"]) for l in lines if l["kind"] == "finding" and l["verdict"] != "transient" for r in l["rails"]})')"
}

test_a_worker_that_hangs_ends_in_bounded_time() {
  need_pairs
  local began=$SECONDS
  timeout 100 srun -N2 --ntasks-per-node=1 --mpi=pmix nccl-tune pairs -b 64K -n 2 --timeout 3 --inject-fault hang:1 >out 2>stderr
  want "exit status" 1 $?
  [ $((SECONDS - began)) -lt 60 ] || fail "took $((SECONDS - began)) s"
  has "$(cat out)" 'no progress: timing'
}

test_wrong_data_is_a_failure() {
  need_pairs
  pairs -N2 --ntasks-per-node=1 --inject-fault flip:0 >out
  want "exit status" 1 $?
  has "$(cat out)" 'wrong data: 1 elements'
}

# broken_pairs TASK SIGNAL: a search that is at work for seconds loses that task's supervisor. Sets status.
broken_pairs() {
  local victim search
  rm -f f
  timeout 100 srun --mpi=pmix -N2 --ntasks-per-node=2 nccl-tune pairs --threshold 0.05 -b 64K -n 1500 -w 1 --timeout 20 \
    --inject-fault slow:2 --json f >out 2>stderr &
  search=$!
  for _ in $(seq 100); do # until a round is under way
    [ -s f ] && sleep 1 && break
    sleep 0.1
  done
  victim=$(supervisors "$1")
  [ -n "$victim" ] || fail "task $1 is not there: $(cat out stderr)"
  kill "-$2" "$victim"
  wait "$search"
  status=$?
}

test_a_supervisor_that_is_killed_costs_its_rail() {
  need_pairs
  broken_pairs 3 KILL
  want "exit status" 5 "$status"
  once "$(cat stderr)" "^nccl-tune: rank 3 at $n2: its supervisor was killed by SIGKILL.*; at work on timing"
  has "$(cat out)" "^$n2 +1 .*supervisor was killed by SIGKILL"
  want "rails blamed" "[('$n2', 1)]" \
    "$(json f 'sorted({(l["node"], r["rail"]) for l in lines if l["kind"] == "finding" and l["verdict"] != "transient" for r in l["rails"]})')"
  want "the end" "True 1" "$(json f '" ".join(map(str, (lines[-1]["complete"], lines[-1]["exit_status"])))')"
}

test_the_first_supervisor_of_a_node_that_crashes_costs_the_node() {
  need_pairs
  broken_pairs 2 SEGV
  want "exit status" 5 "$status"
  once "$(cat stderr)" "^nccl-tune: rank 2 at $n2: its supervisor was killed by SIGSEGV"
  has "$(cat out)" "^# unreachable +: $n2"
  has "$(cat out)" "supervisor was killed by SIGSEGV"
  want "the end" "True $n2" "$(json f '" ".join(map(str, (lines[-1]["complete"], lines[-1]["unreachable"])))')"
}

test_rank_0_that_is_killed_is_told() {
  need_pairs
  broken_pairs 0 KILL
  want "exit status" 5 "$status"
  once "$(cat stderr)" "^nccl-tune: rank 0 at $n1: its supervisor was killed by SIGKILL"
  lacks "$(cat stderr)" 'did not say what comes next|Killed'
  want "the end" "False 5" "$(json f '" ".join(map(str, (lines[-1]["complete"], lines[-1]["exit_status"])))')"
}

# One task with all GPUs of its node, and tasks that stand for nodes.
test_other_ways_to_start_it() {
  need_pairs
  pairs -N2 --ntasks-per-node=1 -g 2 --json f >out || fail "-g 2: exit status $?: $(cat out stderr)"
  want "pairs by rail" "[0, 1]" "$(json f 'sorted({l["rail"] for l in lines if l["kind"] == "pair"})')"
  pairs -N2 --ntasks-per-node=2 --tasks-as-nodes --json g >out || fail "--tasks-as-nodes: exit status $?: $(cat out stderr)"
  want "nodes" 4 "$(json g 'len(lines[0]["nodes"])')"
}

# As in a container without the server's shared memory.
test_a_client_without_shared_memory() {
  need_pairs
  local layout
  for layout in "-N1 --ntasks-per-node=2" "-N2 --ntasks-per-node=2"; do
    # shellcheck disable=SC2086 # two options
    PMIX_MCA_gds="hash" pairs $layout >out || fail "$layout: exit status $?: $(cat out stderr)"
    has "$(cat out)" "^# good +: "
  done
}

test_one_gpu_alone_is_told() {
  need_pairs
  srun -N1 -n1 --mpi=pmix nccl-tune pairs >out 2>stderr
  want "exit status" 2 $?
  has "$(cat stderr)" 'nobody to be paired with'
}
