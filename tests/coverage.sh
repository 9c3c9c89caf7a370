#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# coverage.sh OUTPUT-FOLDER: runs the tests of an instrumented build and shows which lines of spank/ they reach. Made by
# `make coverage`. Root adds the live tests, whose slurmstepd writes its counters where it may.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
O=$1
find "$O" -name '*.gcda' -delete

# Lines that a failed test did not reach say nothing.
must_pass() { # COMMAND...
  local log
  log=$(mktemp)
  if "$@" >"$log" 2>&1; then
    grep -E '^\[  PASSED  \]|^[0-9]+ passed' "$log"
    rm -f "$log"
  else
    tail -n 30 "$log"
    echo "coverage: $1 failed; all that it said is in $log"
    exit 1
  fi
}
must_pass "$O/spank-tests" --gtest_brief=1
NCCLTUNE_PLUGIN=$O/nccl_tune.so must_pass "$O/fake-tests" --gtest_brief=1
# What a task of an ordinary user counts goes into the same files.
if [ "$(id -u)" = 0 ]; then
  find "$O" -type d -exec chmod a+rwx {} +
  find "$O" -name '*.gcda' -exec chmod a+rw {} +
  must_pass tests/live/live.sh "$O" '^test-(submit|trouble|gpus|nogres|pin|slow)$'
fi
gcovr --root . --filter spank/ --object-directory "$O" --exclude-throw-branches --exclude-unreachable-branches --sort-percentage \
  --txt "$O/coverage.txt" --html-details "$O/coverage.html" "$O"
cat "$O/coverage.txt"
