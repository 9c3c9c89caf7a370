#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# In the guest, in /build's programs: guest_tests.sh [PATTERN] runs the groups (tests/vm/test_*.sh) in order and ends with
# `N passed, N failed`. A group's prepare() makes its devices, which the groups after it find there. PATTERN picks tests.
set -u
here=/source/tests/vm
export PATH=/build:$PATH LC_ALL=C
tally=/tmp/tally

# In a process of its own: the group of Slurm runs as slurm.sh's command.
run_group() { # FILE PATTERN
  local name group log=/tmp/log work names
  group=$(basename "$1" .sh)
  group=${group#test_}
  # shellcheck source=tests/live/assert.sh
  . /source/tests/live/assert.sh
  # shellcheck source=tests/vm/facts.sh
  . "$here/facts.sh"
  # shellcheck disable=SC1090
  . "$1"
  if ! (prepare) >"$log" 2>&1; then
    echo "FAILED  $group: its devices could not be made"
    cat "$log"
    echo failed >>$tally
    return
  fi
  mapfile -t names < <(sed -n 's/^\(test_[a-z0-9_]*\)() .*/\1/p' "$1")
  for name in "${names[@]}"; do
    [[ $group:$name =~ $2 ]] || continue
    work=$(mktemp -d /tmp/work.XXXXXX)
    chmod 1777 "$work"
    if (cd "$work" && "$name") >"$log" 2>&1; then
      echo "ok      $group: ${name#test_}"
      echo passed >>$tally
    else
      echo "FAILED  $group: ${name#test_}"
      cat "$log"
      sed 's/^/    stderr: /' "$work/stderr" 2>/dev/null
      echo failed >>$tally
    fi
  done
}

# What all groups need: the network, four GPUs with their device nodes, the administrator's policy.
prepare_guest() {
  local minor
  "$here/guest_network.sh" || return 1
  insmod /fabric.ko nodes=4 || return 1
  for minor in 0 1 2 3; do mknod -m 666 /dev/nvidia$minor c 195 $minor || return 1; done
  install -m 644 /source/etc/nccl-tune.yaml /etc/
}

main() {
  local passed failed
  : >$tally
  if ! prepare_guest; then
    echo "FAILED  the guest's network and GPUs"
    echo "0 passed, 1 failed"
    return 1
  fi
  "$0" --group "$here/test_soft_roce.sh" "$1"
  "$0" --group "$here/test_roce.sh" "$1"
  O=/build /source/tests/live/slurm.sh --live --nodes 1 --cpus 8 -- "$0" --group "$here/test_slurm.sh" "$1" ||
    { echo "FAILED  slurm: slurm.sh"; echo failed >>$tally; }
  "$0" --group "$here/test_infiniband.sh" "$1"
  passed=$(grep -c passed $tally) failed=$(grep -c failed $tally)
  echo "$passed passed, $failed failed"
  [ "$failed" = 0 ] && [ "$passed" != 0 ]
}

if [ "${1-}" = --group ]; then
  run_group "$2" "$3"
else
  main "${1:-.}"
fi
