#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The releases of Slurm: builds and tests in a Debian root of each. See --help.
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
top=$(cd "$here/../.." && pwd)

usage() {
  cat <<'HELP'
usage: run.sh [OPTION]... [RELEASE]...

RELEASE: bookworm (Slurm 22.05), trixie (24.11), sid (26.05 and on), arm64 (cross-built on trixie, under qemu-user), packages
(.deb and .rpm, built here and each used in a fresh root); all of them when none is named. Each gets a debootstrap root, in which a copy of this tree is built with g++ and with clang, and
the tests are run: the plugin through the fake SPANK host, and with a real slurmctld and slurmd of that release. A table at
the end; the exit status is 1 when anything failed. Needs root, debootstrap and a mirror; some minutes a release.

  --dir DIR        where roots and logs lie; a root that is there is used again (/var/tmp/nccl-tune-matrix)
  --mirror URL     (debootstrap's own)
  --live PATTERN   the groups of live tests (submit, trouble, pin, gpus, nogres, slow, bench, pmi2)
  --quick          what depends on Slurm alone: the plugin with g++, through the fake host and a real slurmd
  --flags FLAGS    CXXFLAGS (-O2 -g0)
  --fresh          make the roots anew
HELP
}

dir=/var/tmp/nccl-tune-matrix mirror='' live='^test-(submit|trouble|pin|gpus|nogres|slow|bench|pmi2)$' quick=no fresh=no
flags='-O2 -g0'
releases=()
while [ $# -gt 0 ]; do
  case $1 in
    --dir) dir=$2; shift ;;
    --mirror) mirror=$2; shift ;;
    --live) live=$2; shift ;;
    --quick) quick=yes ;;
    --flags) flags=$2; shift ;;
    --fresh) fresh=yes ;;
    -h | --help) usage; exit 0 ;;
    -*) usage >&2; exit 2 ;;
    *) releases+=("$1") ;;
  esac
  shift
done
[ "$quick" = no ] || live=${live/|bench|pmi2/}
[ "${#releases[@]}" -gt 0 ] || releases=(bookworm trixie sid arm64 packages)
[ "$(id -u)" = 0 ] || { echo "run.sh: must be root" >&2; exit 2; }
command -v debootstrap >/dev/null || { echo "run.sh: debootstrap is not here" >&2; exit 2; }
log=$dir/log
mkdir -p "$log"
# shellcheck source=tests/matrix/root.sh
. "$here/root.sh"

rows='' failed=0
row() { # RELEASE WHAT RESULT
  rows+=$(printf '%-9s %-26s %s' "$1" "$2" "$3")$'\n'
  printf '%-9s %-26s %s\n' "$1" "$2" "$3"
}

# step RELEASE WHAT COMMAND...: in the release's root, in the tree's copy; the row is the last count that the command printed.
step() {
  local release=$1 what=$2 root=$dir/$1 file rc line start=$SECONDS
  shift 2
  file=$log/$release.${what//[^a-z0-9+]/-}
  # shellcheck disable=SC2016
  enter "$root" bash -c 'cd /src && "$@"; exit $?' step "$@" >"$file" 2>&1
  rc=$?
  line=$(grep -aE '^[0-9]+ passed' "$file" | tail -n 1)
  [ -n "$line" ] || line=$(awk '/^\[  PASSED  \]/ { p = $4 } /^\[  FAILED  \] .* ms\)$/ { ++f } /^\[  SKIPPED \] [0-9]+ test/ { s = $4 }
    END { if (p != "") printf "%d passed, %d failed, %d skipped", p, f, s }' "$file")
  if [ "$rc" = 0 ]; then
    row "$release" "$what" "ok${line:+: $line}, $((SECONDS - start)) s"
  else
    row "$release" "$what" "FAILED${line:+: $line} (status $rc, $file)"
    failed=1
  fi
  return "$rc"
}

# The working tree as it stands, what git ignores left out. What was built there before stays, so a file that has not
# changed keeps its time, and one that has gets today's: make goes by that.
copy_tree() { # ROOT
  local file
  mkdir -p "$1/src"
  (cd "$top" && git ls-files -z --cached --others --exclude-standard) | while IFS= read -r -d '' file; do
    [ -e "$top/$file" ] || continue
    cmp -s "$top/$file" "$1/src/$file" || install -D -m "$(stat -c %a "$top/$file")" "$top/$file" "$1/src/$file"
  done
  find "$1/src" -mindepth 1 -path "$1/src/build*" -prune -o -type f -print0 | while IFS= read -r -d '' file; do
    [ -e "$top/${file#"$1/src/"}" ] || rm "$file"
  done
}

version_of() { # RELEASE PACKAGE
  # shellcheck disable=SC2016
  enter "$dir/$1" dpkg-query -W -f '${Version}' "$2" 2>/dev/null || echo none
}

versions() { # RELEASE
  local pmix
  pmix=$(enter "$dir/$1" sh -c 'ls /usr/lib/*/slurm-wlm/ 2>/dev/null' | sed -n 's/^\(mpi_pmix_v[0-9]*\)\.so$/\1/p' | tr '\n' ' ')
  row "$1" 'versions' "Slurm $(version_of "$1" slurmd), $(enter "$dir/$1" g++ --version | head -n 1 | grep -o '[0-9.]*$') g++, $(enter "$dir/$1" clang --version 2>/dev/null | grep -oE 'version [0-9.]+' | cut -d' ' -f2) clang, yaml-cpp $(version_of "$1" libyaml-cpp-dev), PMIx $(version_of "$1" libpmix-dev), ${pmix:-no mpi_pmix}"
}

# The plugin built here with the headers of the other releases: it compiles, and this Slurm refuses it by name and runs the
# job all the same. What was not built with Slurm's headers is taken as it is; CPATH puts theirs before the system's own.
other_releases() { # RELEASE
  local other root=$dir/$1
  for other in bookworm trixie sid; do
    if [ "$other" = "$1" ] || [ ! -e "$dir/$other/usr/include/slurm/spank.h" ]; then continue; fi
    rm -rf "$root/src/build-other"
    mkdir -p "$root/src/build-other/include"
    cp -a "$root/src/build/." "$root/src/build-other/"
    cp -a "$dir/$other/usr/include/slurm" "$root/src/build-other/include/"
    rm -f "$root"/src/build-other/nccl_tune.so "$root"/src/build-other/spank/plugin/*.o
    step "$1" "build, headers of $other" env CPATH=/src/build-other/include make -j"$(nproc)" CI=1 O=build-other CXXFLAGS="$flags" plugin || continue
    step "$1" "refuses that of $other" tests/live/slurm.sh --nodes 1 --cpus 2 --plugin build-other/nccl_tune.so -- tests/matrix/refused.sh
  done
  rm -rf "$root/src/build-other"
}

release() { # RELEASE
  make_root "$1" || { row "$1" root "FAILED: $log/$1.root"; failed=1; return; }
  copy_tree "$dir/$1"
  versions "$1"
  # What the release lacks a library for, `all` leaves out.
  local parts=(plugin fake)
  [ "$quick" = yes ] || parts=(all fake unit)
  step "$1" 'build, g++' make -k -j"$(nproc)" CI=1 CXXFLAGS="$flags" "${parts[@]}" || return
  [ "$quick" = yes ] || step "$1" 'unit tests' build/unit-tests --gtest_brief=1
  step "$1" 'fake SPANK host' env NCCLTUNE_PLUGIN=build/nccl_tune.so build/fake-tests --gtest_brief=1
  [ "$quick" = yes ] || step "$1" golden tests/golden/golden.sh build
  [ "$quick" = yes ] || step "$1" 'symbols, hardening' tests/arrows.sh build
  step "$1" 'live' env O=build tests/live/live.sh build "$live"
  other_releases "$1"
  [ "$quick" = yes ] || step "$1" 'build, clang' make -k -j"$(nproc)" CI=1 O=build-clang CXX=clang++ CXXFLAGS="$flags" plugin tool || return
  [ "$quick" = yes ] || step "$1" 'fake SPANK host, clang' env NCCLTUNE_PLUGIN=build-clang/nccl_tune.so build/fake-tests --gtest_brief=1
  [ "$quick" = yes ] || step "$1" 'golden, clang' tests/golden/golden.sh build-clang
}

for name in "${releases[@]}"; do
  if [ "$fresh" = yes ]; then rm -rf --one-file-system "${dir:?}/$name"; fi
  case $name in
    arm64 | packages)
      # shellcheck source=/dev/null
      . "$here/$name.sh"
      "$name" ;;
    *) release "$name" ;;
  esac
done
echo
echo "release   what                       result"
printf '%s' "$rows"
exit "$failed"
