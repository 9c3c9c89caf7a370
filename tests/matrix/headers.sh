#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The plugin's sources against the headers of every release series of Slurm since 22.05, warnings as errors, with g++ and
# clang++: headers.sh CLONE, a clone of Slurm's repository with its tags. A line a series; ends with `N passed, N failed`.
set -u
clone=${1:?a clone of github.com/SchedMD/slurm}
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
passed=0 failed=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The newest tag of each series, such as slurm-23-11-11-1.
newest() { git -C "$clone" tag -l 'slurm-[0-9][0-9]-[0-9][0-9]-[0-9]*-[0-9]' | sort -V | awk -F- '{ tag[$2 "-" $3] = $0 } END { for (s in tag) print tag[s] }' | sort; }

# Its headers below $work/TAG/include, as an installed Slurm has them.
take_headers() { # TAG
  local include=$work/$1/include number
  mkdir -p "$include"
  git -C "$clone" archive "$1" slurm | tar -x -C "$include" --wildcards '*.h' || return
  number=$(awk -F- '{ printf "0x%02x%02x%02x", $2, $3, $4 }' <<<"$1")
  [ -e "$include/slurm/slurm_version.h" ] || echo "#define SLURM_VERSION_NUMBER $number" >"$include/slurm/slurm_version.h"
}

# What includes Slurm's headers, directly or through ours.
sources=()
for file in spank/plugin/*.cc; do
  ! g++ -std=c++20 -Ispank -M "$file" 2>/dev/null | grep -q 'slurm/spank\.h' || sources+=("$file")
done

for tag in $(newest); do
  [[ $tag > slurm-22-05 ]] || continue
  take_headers "$tag" || { echo "FAIL $tag: no headers"; failed=$((failed + 1)); continue; }
  for compiler in g++ clang++; do
    command -v "$compiler" >/dev/null || continue
    if printf '%s\n' "${sources[@]}" | xargs -n 1 "$compiler" -std=c++20 -fsyntax-only -Wall -Wextra -Wno-missing-field-initializers -Werror -Ispank \
      -I"$work/$tag/include" -DNCCLTUNE_VERSION='""' -DNCCLTUNE_SYSCONFDIR='""' -DNCCLTUNE_LIBEXECDIR='""'; then
      echo "ok   $tag, $compiler: ${#sources[@]} files"
      passed=$((passed + 1))
    else
      echo "FAIL $tag, $compiler"
      failed=$((failed + 1))
    fi
  done
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
