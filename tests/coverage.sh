#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# coverage.sh OUTPUT-FOLDER: runs the tests of an instrumented build and shows which lines of spank/ they reach. Made by
# `make coverage`. Root adds the live tests, whose slurmstepd writes its counters where it may.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
O=$1
find "$O" -name '*.gcda' -delete
"$O/spank-tests" --gtest_brief=1 | tail -n 1
NCCLTUNE_PLUGIN=$O/nccl_tune.so "$O/fake-tests" --gtest_brief=1 | tail -n 1
# What a task of an ordinary user counts goes into the same files.
if [ "$(id -u)" = 0 ]; then
  find "$O" -type d -exec chmod a+rwx {} +
  find "$O" -name '*.gcda' -exec chmod a+rw {} +
  tests/live/live.sh "$O" '^test-(submit|trouble|gpus|nogres|pin|slow)$' | tail -n 1
fi
gcovr --root . --filter spank/ --object-directory "$O" --exclude-throw-branches --exclude-unreachable-branches --sort-percentage \
  --txt "$O/coverage.txt" --html-details "$O/coverage.html" "$O"
cat "$O/coverage.txt"
