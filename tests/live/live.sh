#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The live tests: live.sh [OUTPUT FOLDER [PATTERN]]. Each group of tests (tests/live/test-*.sh) names in its first lines
# the throwaway Slurms that it is run on ("# slurm: OPTION..."). PATTERN picks groups and tests by name.
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
top=$(cd "$here/../.." && pwd)
export LC_ALL=C

tests_of() { sed -n 's/^\(test_[a-z0-9_]*\)() .*/\1/p' "$1"; }

# What the caller's environment says to NCCL and Slurm is not part of a test. The benchmark's tests keep NCCL's: a
# machine may set some to stay usable (NCCL_NVLS_ENABLE=0).
forget_environment() {
  local name
  for name in $(compgen -e); do
    case $name in
      SLURM_CONF) ;;
      NCCLTUNE* | SLURM* | SBATCH_* | SALLOC_* | CUDA_VISIBLE_DEVICES) unset "$name" ;;
      NCCL_* | UCX_* | GLOO_*) [ "$1" = test-bench ] || unset "$name" ;;
    esac
  done
}

# What a test has written as nccl_test_<jobid>.out must be what every program reads that reads nccl-tests' output.
read_as_others() { # FOLDER
  local reports
  readarray -t reports < <(find "$1" -name 'nccl_test_*.out' -type f)
  [ "${#reports[@]}" = 0 ] || python3 "$top/tests/readers.py" "${reports[@]}"
}

# In the throwaway Slurm: every test_* of the group; a line each to stdout, "passed", "failed", "skipped" to the tally.
run_group() { # FILE PATTERN TALLY
  local name group label work rc log variant
  export top
  group=$(basename "$1" .sh)
  # shellcheck source=tests/live/assert.sh
  . "$here/assert.sh"
  # shellcheck disable=SC1090
  . "$1"
  forget_environment "$group"
  read -r n1 n2 <<<"$LIVE_NODES"
  export n1 n2
  log=$LIVE_DIR/test.log variant=''
  [ "$LIVE_CONSTRAINED" = no ] || variant+=', devices constrained'
  [ "$LIVE_GRES_ORDER" != minor ] || variant+=', gres by minor'
  save_plugstacks
  while read -r name <&3; do
    [[ $name =~ $2 || $group =~ $2 ]] || continue
    label="${group#test-}: ${name#test_}$variant"
    if [ "$LIVE_WANT_CONSTRAINED" = yes ] && [ "$LIVE_CONSTRAINED" = no ]; then
      echo "skipped $label: this host cannot constrain devices"
      echo skipped >>"$3"
      continue
    fi
    work=$(mktemp -d "$LIVE_DIR/work.XXXXXX")
    chmod 1777 "$work"
    (cd "$work" && "$name") >"$log" 2>&1
    rc=$?
    [ "$rc" != 0 ] || read_as_others "$work" >>"$log" || rc=1
    restore_plugstacks
    case $rc in
      0) echo "ok      $label"; echo passed >>"$3" ;;
      77) echo "skipped $label: $(tail -n 1 "$log" | sed 's/^ *//')"; echo skipped >>"$3" ;;
      *) echo "FAILED  $label"; cat "$log"; sed 's/^/    stderr: /' "$work/stderr" 2>/dev/null; echo failed >>"$3" ;;
    esac
  done 3< <(tests_of "$1")
}

main() {
  local group options tally pattern=${2:-.}
  export O=${1:-${O:-build}}
  case $O in /*) ;; *) O=$top/$O ;; esac
  if [ "$(id -u)" != 0 ]; then
    echo "live tests need root: slurmd starts tasks as the job's user"
    echo "0 passed, 0 failed, 1 skipped"
    return
  fi
  tally=$(mktemp)
  # shellcheck disable=SC2064
  trap "rm -f '$tally'" EXIT
  for group in "$here"/test-*.sh; do
    { basename "$group" .sh; tests_of "$group"; } | grep -qE -- "$pattern" || continue
    while read -r options <&4; do
      export LIVE_WANT_CONSTRAINED=no
      [[ $options != *--constrain-devices* ]] || LIVE_WANT_CONSTRAINED=yes
      # shellcheck disable=SC2086
      (cd "$here" && ./slurm.sh $options -- ./live.sh --group "$group" "$pattern" "$tally" </dev/null) ||
        { echo "FAILED  $(basename "$group" .sh): slurm.sh $options"; echo failed >>"$tally"; }
    done 4< <(sed -n 's/^# slurm: //p' "$group")
  done
  local passed failed skipped
  passed=$(grep -c passed "$tally") failed=$(grep -c failed "$tally") skipped=$(grep -c skipped "$tally")
  echo "$passed passed, $failed failed, $skipped skipped"
  [ "$failed" = 0 ]
}

if [ "${1-}" = --group ]; then
  run_group "$2" "$3" "$4"
else
  main "$@"
fi
