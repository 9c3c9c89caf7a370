# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Sourced by suites: counts of tests, and the last line by which check.sh reads them.
passed=0 failed=0 skipped=0

pass() { passed=$((passed + 1)); }
fail() { # WORDS...
  failed=$((failed + 1))
  echo "FAILED: $*"
}
skip() { # WHY...
  skipped=$((skipped + 1))
  echo "skipped: $*"
}

# The last command of a suite: its status is the suite's.
tell_counts() {
  echo "$passed passed, $failed failed, $skipped skipped"
  [ "$failed" = 0 ]
}

# The tool in "${1:-build}", a folder of the build or the program itself.
find_tool() {
  local tool
  tool=$(realpath "$1") || return 1
  [ ! -d "$tool" ] || tool=$tool/nccl-tune
  if [ ! -x "$tool" ]; then
    echo "$tool: not there; run 'make tool'" >&2
    return 1
  fi
  echo "$tool"
}
