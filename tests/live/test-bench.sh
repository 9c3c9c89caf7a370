# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016 # the tasks expand those
# The benchmark as job steps: PMIx over two nodes, the host worker, the report.
# slurm: --cpus 16 --record baidu-a100-roce-9nic --record dgx-a100-80gb
# shellcheck disable=SC2154 # n1, n2, top: the nodes, the tree

need_bench() {
  [ -x "$LIVE_DIR/bin/nccl-tune-worker-host" ] || skip "built without the host worker"
  nccl-tune bench --help >/dev/null 2>&1 || skip "built without the benchmark"
  command srun --mpi=list 2>&1 | grep -q pmix || skip "this Slurm has no mpi/pmix (test-pmi2 has its steps)"
}

rows() { grep -E '^ *[0-9]+ ' "$1"; }

# The size column, in one line.
sizes() { rows "$1" | awk '{ print $1 }' | paste -sd' '; }

want_report() { # FILE SIZES
  [ -s "$1" ] || fail "$1: not there; here is: $(ls)"
  want "sizes" "$2" "$(sizes "$1")"
  want "columns of each row" 13 "$(rows "$1" | awk '{ print NF }' | sort -u | paste -sd' ')"
  want "wrong elements" 0 "$(rows "$1" | awk '{ print $9; print $13 }' | sort -u | grep -v N/A | paste -sd' ')"
  has "$(cat "$1")" '^# Out of bounds values : 0 OK$'
  has "$(cat "$1")" '^# Avg bus bandwidth    : [0-9.e-]+ *$'
}

test_example_runs_as_it_is() {
  need_bench
  local job
  job=$(sbatch --parsable --wait --nccl-tune -N2 "$top/examples/nccl-test.slurm" all_reduce -b 1K -e 16K -f 4 -n 5) ||
    fail "sbatch --wait: exit status $?: $(cat ./*.out)"
  want_report "nccl_test_$job.out" "1024 4096 16384"
  want "reports" 1 "$(find . -name 'nccl_test_*' | wc -l)"
  want "ranks" 2 "$(grep -cE '^#  Rank' "nccl_test_$job.out")"
}

test_example_with_more_tasks() {
  need_bench
  local job
  job=$(sbatch --parsable --wait --nccl-tune -N2 --ntasks-per-node=2 --gpus-per-node=2 "$top/examples/nccl-test.slurm" \
    all_gather -b 4K -e 8K -f 2 -n 5) || fail "sbatch --wait: exit status $?: $(cat ./*.out)"
  want_report "nccl_test_$job.out" "4096 8192"
  want "ranks" 4 "$(grep -cE '^#  Rank' "nccl_test_$job.out")"
}

test_two_steps_write_two_reports() {
  need_bench
  local job
  batch -N2 >out <<'SCRIPT'
#!/bin/bash
echo "$SLURM_JOB_ID" >job
srun --mpi=pmix nccl-tune bench all_reduce -b 1K -e 1K -n 2
srun --mpi=pmix nccl-tune bench broadcast -b 2K -e 2K -n 2
SCRIPT
  job=$(cat job)
  want_report "nccl_test_$job.out" 1024
  want_report "nccl_test_$job.1.out" 2048
}

test_as_an_ordinary_user() {
  need_bench
  local job
  as_user srun -N2 --mpi=pmix --nccl-tune bash -c 'echo $SLURM_JOB_ID >job; exec nccl-tune bench -b 1K -e 2K -f 2 -n 2' \
    >out 2>stderr || fail "exit status $?: $(cat out)"
  job=$(cat job)
  want_report "nccl_test_$job.out" "1024 2048"
  want "owner" nobody "$(stat -c %U "nccl_test_$job.out")"
}

test_an_existing_report_is_not_overwritten() {
  need_bench
  batch -N1 >out <<'SCRIPT'
#!/bin/bash
echo mine >"nccl_test_$SLURM_JOB_ID.out"
echo "$SLURM_JOB_ID" >job
srun --mpi=pmix nccl-tune bench -b 1K -e 1K -n 2
SCRIPT
  want "the file that was there" mine "$(cat "nccl_test_$(cat job).out")"
}

test_without_pmix_it_says_how_to_start() {
  need_bench
  srun -n2 -N2 --mpi=none nccl-tune bench -b 1K -e 1K >out 2>stderr && fail "exit status 0"
  has "$(cat stderr)" 'nccl-tune: .*--mpi=pmix'
}

test_wrong_data_is_found_and_named() {
  need_bench
  srun -N2 --mpi=pmix nccl-tune bench -b 1K -e 1K -n 2 --inject-fault flip:1:5 >out 2>stderr
  want "exit status" 4 $?
  has "$(cat out stderr)" 'rank 1.*5'
}

test_runs_of_one_input_are_compared_bit_by_bit() {
  need_bench
  timeout 60 srun -N2 --mpi=pmix nccl-tune bench reduce_scatter -d half -b 1K -e 4K -f 4 -n 2 --repeatable 4 >out 2>stderr ||
    fail "exit status $?: $(cat out stderr)"
  has "$(cat out)" '^# repeatable: 4 runs of one input gave the same bits in each of 4 measurements'
  timeout 60 srun -N2 --mpi=pmix nccl-tune bench reduce_scatter -d half -b 1K -e 1K -n 2 --repeatable 4 \
    --inject-fault waver:1:5 --json repeat.json >out 2>stderr
  want "exit status" 1 $?
  has "$(cat out)" '^# not repeatable: 1 KiB half sum, out of place: 1 of 4 runs .*run 4 in 1 elements of 1 ranks; first: rank 1 .*element 5,'
  has "$(python3 -c 'import json; print(json.load(open("repeat.json"))["rows"][0]["in_place"]["repeats"]["first"]["rank"])')" '^1$'
}

# late FILE EXPRESSION: over `halves`, the figures of each placement's iterations.
late() { python3 -c 'import json,sys; halves = [r[p]["iterations"] for r in json.load(open(sys.argv[1]))["rows"] for p in ("out_of_place", "in_place")]
print(eval(sys.argv[2]))' "$@"; }

# Its host comes to 60 % of the iterations 2 ms later than the others.
test_a_late_rank_is_named() {
  need_bench
  timeout 60 srun -N2 --ntasks-per-node=2 --mpi=pmix nccl-tune bench -b 4K -e 4K -n 100 --inject-fault slow:2:60 \
    --json late.json >out 2>stderr || fail "exit status $?: $(cat out stderr)"
  has "$(cat out)" "^# rank 2 \(.+\) comes late in [0-9]+ % of the iterations of 2 of 2 measurements; the others wait for it, [0-9]+ us"
  has "$(cat out)" '^# +4 KiB +float +sum +out .* 2( drifts)?( settled after [0-9]+)?$'
  want "late ranks" "[2, 2]" "$(late late.json '[h["late_rank"] for h in halves]')"
  # Of a busy host; what is planted is 60 % and 2,000 us.
  want "share, wait and skew" True "$(late late.json 'all(0.2 < h["late_share"] < 0.8 and 1000 < h["late_wait_us"] and 1000 < h["arrival_skew_us"] for h in halves)')"
}

# The root of a broadcast is done first, and nobody waits for it. A busy host can make a rank late, not three times the
# same.
test_nobody_late_names_nobody() {
  need_bench
  local named=''
  for _ in 1 2 3; do
    timeout 60 srun -N2 --ntasks-per-node=2 --mpi=pmix nccl-tune bench broadcast -b 4K -e 4K -n 100 >out 2>stderr ||
      fail "exit status $?: $(cat out stderr)"
    named+=$(sed -n 's/^# \(rank [0-9]*\) .*comes late.*/\1/p' out)$'\n'
    [ -n "$(tail -n 1 <<<"${named%$'\n'}")" ] || return 0
  done
  [ "$(sort -u <<<"${named%$'\n'}" | wc -l)" -gt 1 ] || fail "named each time: $named"
}

# A worker that does what the variant's MANNER says before, or in the middle of, the real one's work.
make_moody_worker() {
  mkdir -p moody
  cat >moody/nccl-tune-worker-host <<WORKER
#!/bin/sh
case \$MANNER in
  crash) exit 3 ;;
  hang) exec sleep 100 ;;
  die) (sleep 0.2; kill -KILL \$\$) & ;;
esac
exec $LIVE_DIR/bin/nccl-tune-worker-host
WORKER
  chmod +x moody/nccl-tune-worker-host
}

test_compare_goes_on_past_variants_that_crash_or_hang() {
  need_bench
  make_moody_worker
  # A size that takes the loser of the race with `kill` long enough.
  NCCLTUNE_WORKER_DIR=$PWD/moody timeout 150 srun -N2 --mpi=pmix nccl-tune compare --env MANNER=crash,hang,die,good \
    --launches 3 --timeout 10s --json c.json -b 16M -e 16M -n 10 >out 2>stderr || fail "exit status $?: $(cat out)"
  has "$(cat out)" '^# MANNER=good|variant: MANNER=good'
  want "verdict of the good one" 1 "$(sed -n '/variant: MANNER=good/,$p' out | grep -cE '^ +16777216 +3 ')"
  has "$(cat out)" 'MANNER=hang failed \(hung\)'
  has "$(cat out)" 'MANNER=crash failed \((died|failed)\)'
  has "$(cat out)" 'MANNER=die failed \(died\)'
  has "$(cat c.json)" '"complete":true'
}

test_compare_plan_with_none() {
  need_bench
  timeout 90 srun -N2 --nccl-tune --mpi=pmix nccl-tune compare --baseline plan --against none --launches 3 -b 4K -e 8K -n 5 \
    --json c.json >out 2>stderr || fail "exit status $?: $(cat out)"
  has "$(cat c.json)" '"name":"none","environment":\{.*"NCCL_IB_HCA":null'
  want "rows" 2 "$(rows out | wc -l)"
  timeout 90 srun -N2 --nccl-tune=off --mpi=pmix nccl-tune compare --against none -b 4K -e 8K >out 2>stderr &&
    fail "exit status 0 without a plan"
  has "$(cat stderr)" 'NCCLTUNE_SET is empty'
}

# The "Group" of each rank, in one line.
groups() { sed -n 's/^#  Rank .* Group *\([0-9]*\) .*/\1/p' "$1" | paste -sd' '; }

test_split_communicators_as_nccl_tests_has_them() {
  need_bench
  NCCL_TESTS_SPLIT='MOD 2' timeout 60 srun -N2 --ntasks-per-node=2 --mpi=pmix nccl-tune bench all_gather -b 4K -e 8K -f 2 \
    -n 5 --json split.json >out 2>stderr || fail "exit status $?: $(cat out stderr)"
  want "groups" "0 1 0 1" "$(groups out)"
  want "wrong elements" 0 "$(rows out | awk '{ print $9; print $13 }' | sort -u | paste -sd' ')"
  # A group has two ranks: each gathers halves of 4096 bytes.
  want "elements per rank" "512 1024" "$(rows out | awk '{ print $2 }' | paste -sd' ')"
  has "$(cat out)" '^# split in 2 groups \(MOD 2\)'
  has "$(cat out)" '^# +[01] +2 +[0-9.]+ +[0-9.]+ +[0-9]+%  (0,2|1,3) '
  want "groups in the JSON" "[[0, 2], [1, 3]] 2 2" "$(python3 -c 'import json; d = json.load(open("split.json"))
print([g["ranks"] for g in d["groups"]], *[len(r["groups"]) for r in d["rows"]])')"
}

test_split_by_name_and_by_mask() {
  need_bench
  timeout 60 srun -N2 --ntasks-per-node=2 --mpi=pmix nccl-tune bench -b 1K -e 1K -n 2 --split node >out 2>stderr ||
    fail "exit status $?: $(cat out stderr)"
  want "groups" "0 0 1 1" "$(groups out)"
  NCCL_TESTS_SPLIT_MASK=0x2 timeout 60 srun -N2 --ntasks-per-node=2 --mpi=pmix nccl-tune bench reduce -r -1 -b 1K -e 1K \
    -n 2 >out 2>stderr || fail "exit status $?: $(cat out stderr)"
  want "groups" "0 0 2 2" "$(groups out)"
  want "roots" "0 1" "$(rows out | awk '{ print $5 }' | paste -sd' ')"
}

test_wrong_data_of_a_group_is_named_by_the_worlds_rank() {
  need_bench
  timeout 60 srun -N2 --ntasks-per-node=2 --mpi=pmix nccl-tune bench -b 1K -e 1K -n 2 --split rail \
    --inject-fault flip:3:5 >out 2>stderr
  want "exit status" 4 $?
  has "$(cat out)" 'first: rank 3 .*element 5'
}

test_nonsense_of_a_split_is_refused() {
  need_bench
  NCCL_TESTS_SPLIT='MOD 0' srun -N1 --mpi=pmix nccl-tune bench -b 1K -e 1K >out 2>stderr
  want "exit status" 2 $?
  has "$(cat stderr)" "NCCL_TESTS_SPLIT: 'MOD 0' is no split"
}

test_several_workers_in_a_task_twice() {
  need_bench
  local job
  batch -N1 >out <<'SCRIPT'
#!/bin/bash
echo "$SLURM_JOB_ID" >job
srun --mpi=pmix nccl-tune bench alltoall -g 3 -b 3K -e 3K -n 2
srun --mpi=pmix nccl-tune bench -t 2 -g 2 -b 2K -e 2K -n 2
SCRIPT
  job=$(cat job)
  want_report_of_alltoall "nccl_test_$job.out" 3
  want_report "nccl_test_$job.1.out" 2048
  want "ranks" 4 "$(grep -cE '^#  Rank' "nccl_test_$job.1.out")"
  has "$(cat "nccl_test_$job.1.out")" '^# nThread 2 nGpus 2 '
}

want_report_of_alltoall() { # FILE RANKS
  want "sizes" 3072 "$(sizes "$1")"
  want "ranks" "$2" "$(grep -cE '^#  Rank' "$1")"
  has "$(cat "$1")" '^# Out of bounds values : 0 OK$'
}

test_the_jobs_own_output_is_the_report() {
  need_bench
  local job
  cat >script <<'SCRIPT'
#!/bin/bash
echo before
srun --mpi=pmix nccl-tune bench -b 1K -e 1K -n 2
echo after
SCRIPT
  job=$(sbatch --parsable --wait -N1 --output=nccl_test_%j.out script) || fail "sbatch: $(cat nccl_test_*)"
  want "reports" "nccl_test_$job.out" "$(echo nccl_test_*)"
  want "what the script wrote" "before after" "$(grep -E '^(before|after)$' "nccl_test_$job.out" | paste -sd' ')"
  want "tables" 1 "$(grep -c '^# Collective test starting' "nccl_test_$job.out")"
  want_report "nccl_test_$job.out" 1024
}

test_the_jobs_own_output_is_kept_where_srun_goes_elsewhere() {
  need_bench
  local job
  cat >script <<'SCRIPT'
#!/bin/bash
echo before
srun --mpi=pmix --output=elsewhere nccl-tune bench -b 1K -e 1K -n 2
SCRIPT
  job=$(sbatch --parsable --wait -N1 --output=nccl_test_%j.out script) || fail "sbatch: $(cat nccl_test_*)"
  want "the script's output" before "$(grep -v '^nccl-tune: ' "nccl_test_$job.out")"
  want_report "nccl_test_$job.0.out" 1024
}

# Workers that tell what NCCL would, on ranks of two nodes: rank 0 by the HCA beside its GPU, rank 1 by another one and
# through host memory.
