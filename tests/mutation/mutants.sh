# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# The mutants of the plan, for those who source this file with $top, the checkout.
: "${top:?}"

# Every one: ID FILE SUBSTITUTION.
mutants() {
  sed -n 's/^ *{"\(hca\.[a-z-]*\)", \(drop_[a-z_]*\)},.*/\1 hcas.cc s%^ *\\{"\1", \2\\},%%/p' "$top/spank/policy/hcas.cc" | sed 's/%$/%/'
  grep -vE '^(#|$)' "$top/tests/mutation/rules.txt"
}

# Writes the source without the rule; false where the substitution finds nothing to change.
mutate() { # FILE SUBSTITUTION TO
  perl -pe "$2" "$top/spank/policy/$1" >"$3" && ! cmp -s "$3" "$top/spank/policy/$1"
}
