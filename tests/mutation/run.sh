#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Disables each rule of the plan in turn and runs the tests that expect answers: run.sh OUTPUT-FOLDER [PATTERN]. A rule whose
# loss no test notices is a failure. OUTPUT-FOLDER holds the built unit tests, and stays as it is. Some
# seconds a rule, so it is no part of `make check`.
set -u
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
O=$1 pattern=${2:-.}
case $O in /*) ;; *) O=$top/$O ;; esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Every mutant: ID FILE SUBSTITUTION.
mutants() {
  sed -n 's/^ *{"\(hca\.[a-z-]*\)", \(drop_[a-z_]*\)},.*/\1 hcas.cc s%^ *\\{"\1", \2\\},%%/p' "$top/spank/policy/hcas.cc" | sed 's/%$/%/'
  grep -vE '^(#|$)' "$top/tests/mutation/rules.txt"
}

# Not asked: the test that each HCA rule matters to some plan. It is made of this very question.
build_and_test() { # LOG
  g++ -std=c++20 -O0 -w -I"$top/spank" -I"$top/stepd" -c -o "$work/o/policy-${file%.cc}.o" "$source" >"$1" 2>&1 || return 2
  g++ -o "$work/tests.bin" "$work"/o/*.o -lgtest -lgmock -lgtest_main -lyaml-cpp -lpugixml -lpthread >>"$1" 2>&1 || return 2
  timeout 300 "$work/tests.bin" --gtest_brief=1 --gtest_filter='-HcaRules.EachOneChangesSomePlan' >>"$1" 2>&1
}

# Links to the built objects of the rooms and of the tests of the policy; a mutant takes the place of one.
lay_out() {
  local object
  rm -rf "$work/o" && mkdir "$work/o"
  for object in "$O"/spank/{base,node,policy}/*.o "$O"/tests/unit/{policy_*,machine}.o; do
    ln -s "$object" "$work/o/$(basename "$(dirname "$object")")-$(basename "$object")"
  done
}

file=hcas.cc source=$top/spank/policy/hcas.cc
lay_out
rm "$work/o/policy-hcas.o"
build_and_test "$work/log" || { cat "$work/log"; echo 'the tests fail on the tree as it is'; echo '0 passed, 1 failed'; exit 1; }
passed=0 failed=0
while read -r id file change <&3; do
  [[ $id =~ $pattern ]] || continue
  source=$work/mutant.cc
  lay_out
  rm "$work/o/policy-${file%.cc}.o"
  perl -pe "$change" "$top/spank/policy/$file" >"$source"
  if cmp -s "$source" "$top/spank/policy/$file"; then
    printf '%-24s the substitution changes nothing in %s\n' "$id" "$file"
    failed=$((failed + 1))
    continue
  fi
  build_and_test "$work/log"
  rc=$?
  killers=$(grep -aE '^\[  FAILED  \] [A-Za-z]+.*\.' "$work/log" | sed 's/^\[  FAILED  \] //; s/ (.*//; s/,.*//' | sort -u)
  case $rc in
    0) result='SURVIVED'; failed=$((failed + 1)) ;;
    2) result="does not build: $(grep -m 1 -a error "$work/log")"; failed=$((failed + 1)) ;;
    *)
      result="$(wc -l <<<"$killers") tests, among them $(head -n 1 <<<"$killers")"
      [ -n "$killers" ] || result="status $rc"
      passed=$((passed + 1))
      ;;
  esac
  printf '%-24s %s\n' "$id" "$result"
done 3< <(mutants)
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
