# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# A node that hangs, and what changes while steps start: they start all the same, and in time.
# slurm: --cpus 16 --record dgx-a100-80gb
# shellcheck disable=SC2154,SC2016 # n1, n2: the nodes; what stands in quotes is the task's to expand

# A machine whose HCAs hang: whoever reads them stays in the kernel, out of reach of any signal, until $hung ends.
let_hcas_hang() {
  cp -r "$(root_of "$n1")" hung
  rm -rf hung/sys/class/infiniband
  mkdir hung/sys/class/infiniband
  # Not in this shell's group of output: a reader that hangs must not hold it.
  "$top/tests/live/hung_fs.py" "$PWD/hung/sys/class/infiniband" >mounted 2>&1 &
  hung=$!
  trap end_hanging EXIT
  for _ in $(seq 50); do
    [ ! -s mounted ] || break
    sleep 0.1
  done
  grep -q '^mounted' mounted || skip "$(cat mounted)"
  plugstack "$n1" "root=$PWD/hung"
}

# The mount goes with it, and with that the readers.
end_hanging() {
  kill "$hung" 2>/dev/null
  umount -l "$PWD/hung/sys/class/infiniband" 2>/dev/null
  wait "$hung" 2>/dev/null
}

readers() { pgrep -f "^slurmstepd: .*" | while read -r pid; do grep -qs request_wait_answer "/proc/$pid/wchan" && echo "$pid"; done; }

test_a_driver_that_hangs() {
  local start=$SECONDS
  let_hcas_hang
  start=$SECONDS
  srun -N1 -n2 -w "$n1" --nccl-tune bash -c 'touch ran.$SLURM_PROCID' 2>stderr || fail "srun: exit status $?"
  want 'tasks that ran' 'ran.0 ran.1' "$(echo ran.*)"
  [ $((SECONDS - start)) -lt 18 ] || fail "it took $((SECONDS - start)) s"
  once "$(cat stderr)" "nccl-tune: $PWD/hung/sys/class/infiniband: not read within 5000 ms: .* hangs; nothing is tuned"
  once "$(cat stderr)" 'nccl-tune: '
  # The reader is still there, and the node takes steps.
  [ -n "$(readers)" ] || fail "no reader hangs: the test proves nothing"
  srun -N1 -w "$n1" true || fail "the next step: exit status $?"
  [ "$(scontrol --oneliner show node "$n1" | grep -oE 'State=[A-Z]+')" = State=IDLE ] || fail "the node is no longer idle"
  end_hanging
  for _ in $(seq 50); do
    [ -n "$(readers)" ] || return 0
    sleep 0.1
  done
  fail "readers are left: $(readers)"
}

test_a_driver_that_hangs_under_strict() {
  let_hcas_hang
  srun -N1 -w "$n1" --nccl-tune=strict touch ran 2>stderr && fail "strict: exit status 0"
  [ ! -e ran ] || fail "strict: the task ran"
  has "$(cat stderr)" 'not read within 5000 ms'
}

test_a_driver_that_hangs_as_an_ordinary_user() {
  let_hcas_hang
  as_user srun -Q -N1 -w "$n1" --nccl-tune touch ran 2>stderr || fail "srun: exit status $?"
  [ -e ran ] || fail "the task did not run"
  has "$(cat stderr)" 'not read within 5000 ms'
}

test_policy_replaced_while_steps_start() {
  local i busy out
  printf 'exclude_hcas: [mlx5_0]\n' >a.yaml
  printf 'exclude_hcas: [mlx5_1]\n' >b.yaml
  cp a.yaml policy.yaml
  plugstack "$n1" "root=$(root_of "$n1")" "policy=$PWD/policy.yaml"
  while :; do
    cp a.yaml next.yaml && mv next.yaml policy.yaml
    cp b.yaml next.yaml && mv next.yaml policy.yaml
  done &
  busy=$!
  for i in $(seq 12); do
    srun -Q -N1 -n2 -w "$n1" --nccl-tune bash -c 'echo "$NCCL_IB_HCA"' >>out 2>>stderr || fail "step $i: exit status $?"
  done
  kill "$busy"
  out=$(sort out | uniq -c)
  want 'lines of all tasks' 24 "$(wc -l <out)"
  lacks "$(sed 's/^=mlx5_1:1,.*\|^=mlx5_0:1,.*//' out)" .
  want 'said on stderr' '' "$(cat stderr)"
  echo "$out"
}
