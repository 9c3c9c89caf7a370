#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Disables each rule of the plan in turn and runs the tests that expect answers, up to the first that fails:
# run.sh OUTPUT-FOLDER [PATTERN]. A rule whose loss no test notices is a failure, and so is one whose loss ends the tests
# before one has failed. OUTPUT-FOLDER holds the built objects of the plan and of its unit tests, and stays as it is. Some
# seconds a rule, so `make check` only asks whether each rule is still found in its source: rules.sh.
set -u
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
O=$1 pattern=${2:-.}
case $O in /*) ;; *) O=$top/$O ;; esac
# In memory, where it can be had: the recorded machines are thousands of small files.
work=$(TMPDIR=$([ -w /dev/shm ] && echo /dev/shm || echo "${TMPDIR:-/tmp}") mktemp -d)
trap 'rm -rf "$work"' EXIT
export TMPDIR=$work NCCLTUNE_TEST_MACHINES=$work/machines
mkdir "$NCCLTUNE_TEST_MACHINES"

# shellcheck source=tests/mutation/mutants.sh
. "$top/tests/mutation/mutants.sh"

# Not asked: the test that each HCA rule matters to some plan. It is made of this very question.
# Status 2: does not build; the compiler's or the tests' words are in the log.
build_and_test() { # FILE SOURCE
  local room name objects=()
  # A substitution must leave a program: what falls off the end of a function does anything.
  g++ -std=c++20 -O0 -Werror=return-type -I"$top/spank" -I"$top/stepd" -c -o "$work/mutant.o" "$2" >"$work/log" 2>&1 || return 2
  # The tests run in the order that they are linked in: those of one rule, then the machines, then the made-up ones.
  for name in machine policy_hca_cases policy_gid_cases policy_interface_cases policy_settings_cases policy_tasks policy_text \
    policy_owner policy_unseen policy_machines policy_random; do
    objects+=("$O/tests/unit/$name.o")
  done
  for name in "$O"/tests/unit/policy_*.o; do
    [[ " ${objects[*]} " == *" $name "* ]] || objects+=("$name")
  done
  for room in base node policy; do
    for name in "$O/spank/$room"/*.o; do
      [ "$room/${name##*/}" = "policy/${1%.cc}.o" ] || objects+=("$name")
    done
  done
  g++ -fuse-ld=gold -o "$work/tests.bin" "${objects[@]}" "$work/mutant.o" -lgtest -lgmock -lgtest_main -lyaml-cpp -lpugixml \
    -lpthread >>"$work/log" 2>&1 || return 2
  timeout 300 "$work/tests.bin" --gtest_brief=1 --gtest_fail_fast --gtest_filter='-HcaRules.EachOneChangesSomePlan' >>"$work/log" 2>&1
}

build_and_test hcas.cc "$top/spank/policy/hcas.cc" ||
  { cat "$work/log"; echo 'the tests fail on the tree as it is'; echo '0 passed, 1 failed'; exit 1; }
passed=0 failed=0
while read -r id file change <&3; do
  [[ $id =~ $pattern ]] || continue
  if ! mutate "$file" "$change" "$work/mutant.cc"; then
    printf '%-24s the substitution changes nothing in %s\n' "$id" "$file"
    failed=$((failed + 1))
    continue
  fi
  build_and_test "$file" "$work/mutant.cc"
  rc=$?
  killer=$(sed -n 's/^\[  FAILED  \] \([A-Za-z]*[A-Za-z0-9_/]*\.[A-Za-z0-9_/]*\).*/\1/p' "$work/log" | head -n 1)
  case $rc in
    0) result='SURVIVED' ;;
    2) result="does not build: $(grep -m 1 -a error "$work/log")" ;;
    *) result=${killer:-status $rc, and no test failed} ;;
  esac
  if [ "$rc" = 0 ] || [ "$rc" = 2 ] || [ -z "$killer" ]; then failed=$((failed + 1)); else passed=$((passed + 1)); fi
  printf '%-24s %s\n' "$id" "$result"
done 3< <(mutants)
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
