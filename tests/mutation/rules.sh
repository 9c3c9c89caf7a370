#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Whether each rule that `make mutation` disables is still found in its source: one that was renamed would be tested by
# nothing. Ends with `N passed, N failed`.
set -u
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck source=tests/counts.sh
. "$top/tests/counts.sh"
# shellcheck source=tests/mutation/mutants.sh
. "$top/tests/mutation/mutants.sh"

if ! command -v perl >/dev/null; then
  skip 'no perl'
  tell_counts
  exit
fi
mutant=$(mktemp)
trap 'rm -f "$mutant"' EXIT
while read -r id file change <&3; do
  if mutate "$file" "$change" "$mutant"; then pass; else fail "$id: the substitution changes nothing in $file"; fi
done 3< <(mutants)
[ "$passed" -gt 90 ] || fail "only $passed rules were found"
tell_counts
