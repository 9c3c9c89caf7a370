#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs every suite and counts: check.sh [OUTPUT FOLDER]. A suite is the unit tests or a script of this folder that ends with
# a line `N passed, N failed[, N skipped]`. One that dies without it, or fails with no failure counted, counts as a failure.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
O=${1:-${O:-build}}
export O
passed=0 failed=0 skipped=0 broken=()

# Of GoogleTest's own summary; a brief one counts no failures.
count_gtest() {
  awk '/^\[  PASSED  \] [0-9]+ test/ { p = $4; seen = 1 } /^\[  FAILED  \] .* ms\)$/ { ++f } /^\[  SKIPPED \] [0-9]+ test/ { s = $4 }
       END { if (seen) printf "%d passed, %d failed, %d skipped\n", p, f, s }'
}

suite() { # NAME COMMAND...
  local name=$1 log line rc p=0 f=0 s=0 start=$SECONDS
  shift
  log=$(mktemp)
  echo "== $name"
  "$@" 2>&1 | tee "$log"
  rc=${PIPESTATUS[0]}
  line=$(grep -E '^[0-9]+ passed, [0-9]+ failed' "$log" | tail -n 1)
  [ -n "$line" ] || line=$(count_gtest <"$log")
  rm -f "$log"
  if [[ $line =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed(,\ ([0-9]+)\ skipped)? ]]; then
    p=${BASH_REMATCH[1]} f=${BASH_REMATCH[2]} s=${BASH_REMATCH[4]:-0}
  fi
  if [ "$f" = 0 ] && { [ "$rc" != 0 ] || [ "$p$s" = 00 ]; }; then
    echo "$name: exit status $rc, and no count of its own"
    f=1
  fi
  [ "$f" = 0 ] || broken+=("$name")
  passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
  echo "== $name: $p passed, $f failed, $s skipped, $((SECONDS - start)) s"
}

# What waits more than it computes runs beside the rest: the live tests, whose steps wait for each other, and those on
# networks of their own. Their lines come last.
late=$(mktemp -d)
trap 'rm -rf "$late"' EXIT
beside() { # SCRIPT...
  local script running=
  # A session each: what they have started ends with them.
  trap 'kill -- "-$running"; wait "$running"; exit 143' INT TERM
  for script; do
    setsid "$script" "$O" >"$late/${script##*/}" 2>&1 </dev/null &
    running=$!
    wait "$running"
    echo $? >"$late/${script##*/}.status"
  done
}
# shellcheck disable=SC2046 # numbers
trap 'kill $(jobs -p) 2>/dev/null; wait; exit 130' INT TERM
networks=(tests/bench/compare.sh tests/chaos/pairs.sh tests/chaos/chaos.sh)
beside tests/live/live.sh &
beside "${networks[@]}" &

suite unit "$O/unit-tests" --gtest_brief=1
NCCLTUNE_PLUGIN=$O/nccl_tune.so suite fake "$O/fake-tests" --gtest_brief=1
for script in tests/arrows.sh tests/completion.sh tests/golden/golden.sh tests/report/report.sh tests/examples/examples.sh tests/portable.sh tests/mutation/rules.sh tests/fuzz/regress.sh; do
  [ ! -e "$script" ] || suite "$(basename "${script%/regress.sh}" .sh)" "$script" "$O"
done
echo "== live and others, that ran beside"
wait
for script in tests/live/live.sh "${networks[@]}"; do
  # shellcheck disable=SC2016 # expanded there
  suite "$(basename "$script" .sh)" bash -c 'cat "$1"; exit "$(cat "$1.status")"' _ "$late/${script##*/}"
done

[ "$skipped" = 0 ] || echo "$skipped skipped"
[ "${#broken[@]}" = 0 ] || echo "failed: ${broken[*]}"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
