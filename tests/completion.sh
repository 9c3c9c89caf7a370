#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The shell completion against what the tool itself says: completion.sh [OUTPUT FOLDER]. No option of `bench --help`, no
# collective, datatype or operation of `bench --list` may be missing, and nothing else may be offered.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
O=${1:-${O:-build}}
PATH=$(realpath "$O"):$PATH
# shellcheck source=etc/bash_completion.d/nccl-tune
. etc/bash_completion.d/nccl-tune
# shellcheck source=tests/counts.sh
. tests/counts.sh

offered() { # WORD... the last of them is being typed
  COMP_WORDS=(nccl-tune bench "$@")
  COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
  COMPREPLY=()
  _nccl_tune
  printf '%s\n' "${COMPREPLY[@]}" | sort
}

want() { # WHAT EXPECTED FOUND, words in lines
  if [ "$2" = "$3" ] && [ -n "$2" ]; then
    pass
  else
    fail "$1: help < > completion"
    diff <(echo "$2") <(echo "$3")
  fi
}

help=$(nccl-tune bench --help) || { fail "no nccl-tune in $O"; tell_counts; exit; }
# "  -b,--minbytes TEXT   smallest size (32M)", "  --no-progress{false}   ...": all names in front of the first blank.
options=$(awk '/^ +-/ { gsub(/\{[^}]*\}/, "", $1); n = split($1, names, ","); for (i = 1; i <= n; i++) print names[i] }' <<<"$help" | sort)
list=$(nccl-tune bench --list)
words() { tr -d , <<<"$1" | tr ' ' '\n' | sort; }

want "options" "$options" "$(offered -)"
want "long options" "$(grep '^--' <<<"$options")" "$(offered --)"
want "options after a flag" "$options" "$(offered --no-progress -)"
want "collectives" "$(awk '/^  [a-z]/ { print $1 }' <<<"$list" | sort)" "$(offered '')"
want "datatypes" "$(words "$(sed -n 's/^datatypes: //p' <<<"$list") all")" "$(offered -d '')"
want "operations" "$(words "$(sed -n 's/^operations: //p' <<<"$list") all")" "$(offered --op '')"
want "nothing where a number is due" x "x$(offered -n '')"
# What the help's examples and the manual name must be options.
for page in "$help" "$(sed 's/\\-/-/g' etc/man/nccl-tune.1 | sed -n '/^nccl-tune.* bench \|^srun .*nccl-tune bench /p')"; do
  unknown=$(grep -oE '(^| )--?[a-zA-Z][a-z_-]*' <<<"$(grep 'nccl-tune bench ' <<<"$page" | sed 's/.*nccl-tune bench //')" |
    tr -d ' ' | sort -u | comm -23 - <(echo "$options"))
  want "options in examples" "none" "${unknown:-none}"
done
tell_counts
