#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What `topo`, `plan` and `check` print for every recorded machine, against the files of this folder:
#   golden.sh [OUTPUT FOLDER|PROGRAM]             compare; ends with `N passed, N failed`
#   golden.sh --write [OUTPUT FOLDER|PROGRAM]     write the files anew: review the diff
# Each machine is laid out as a tree and read through --root, so that the readers are part of the test. The JSON forms are
# also held against the fields that they promise (fields.py), the benchmark's tables against the programs that read them
# (../readers.py).
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd) || exit 1
top=${here%/tests/golden}
write=
if [ "${1-}" = --write ]; then
  write=1
  shift
fi
# shellcheck source=tests/counts.sh
. "$top/tests/counts.sh"
tool=$(find_tool "${1:-$top/${O:-build}}") || exit 1

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
# Relative names in all that is printed; a copy of the policy, since a checkout's own may be writable by its group.
cd "$work" || exit 1
mkdir etc
install -m 644 "$top/etc/nccl-tune.yaml" etc/ || exit 1

# The line numbers of the policy would change every file here with each comment in it.
show() { # COMMAND MACHINE [--json]
  local command=$1 machine=$2
  shift 2
  # CDPATH, NO_COLOR and the caller's NCCL settings have no part in it: a recorded machine is read without them.
  "$tool" "$command" --root "$machine" --policy etc/nccl-tune.yaml "$@" | sed -E 's/(nccl-tune\.yaml):[0-9]+/\1:LINE/g'
  return "${PIPESTATUS[0]}"
}

golden() { # FILE COMMAND MACHINE [--json]
  local file=$1
  shift
  show "$@" >out 2>err
  local rc=$?
  [ "$1" = check ] && [ "$rc" = 1 ] && rc=0 # a check failed: that is what is recorded
  if [ "$rc" != 0 ] || [ -s err ]; then
    fail "nccl-tune $*: exit status $rc: $(head -n 1 err)"
    return
  fi
  [ "${file##*.}" != json ] || cp out "json/$file"
  if [ -n "$write" ]; then
    cp out "$here/$file" && pass
  elif diff -u "$here/$file" out >changes; then
    pass
  else
    fail "nccl-tune $* against tests/golden/$file"
    head -n 40 changes
  fi
}

shopt -s nullglob
lay_out() { # RECORD
  case $1 in
    *.json) python3 "$top/tests/machines/mktree.py" "$1" "$machine" ;;
    *.dump) cp "$1" "$machine" ;;
    *) mkdir "$machine" && tar -xzf "$1" -C "$machine" ;;
  esac
}

mkdir json
for record in "$top"/tests/machines/*.json "$top"/tests/machines/captures/*.{tar.gz,dump}; do
  machine=$(basename "$record")
  machine=${machine%.json}
  machine=${machine%.tar.gz}
  machine=${machine%.dump}
  lay_out "$record" >out 2>&1 || {
    fail "$machine: cannot be laid out: $(tail -n 1 out)"
    continue
  }
  for command in topo plan check; do
    golden "$machine.$command.txt" "$command" "$machine"
    golden "$machine.$command.json" "$command" "$machine" --json
  done
done
[ "$passed" != 0 ] || fail "no recorded machine under tests/machines"
if python3 "$here/fields.py" json/*.json; then pass; else fail "the JSON forms lack what they promise"; fi

# The benchmark's tables are what their readers take them for; hypercube's has nccl-tests' own empty redop, which breaks six.
if python3 "$top/tests/readers.py" "$here"/bench_all_reduce_{plain,c0,M1}.txt "$here"/bench_{alltoall,broadcast}_plain.txt; then
  pass
else
  fail "a reader takes a table for something else"
fi
if python3 "$top/tests/readers.py" "$here"/bench_hypercube_plain.txt >out; then fail "readers.py sees no empty redop"; else pass; fi

# A file of a machine that is gone would pass for ever.
for file in "$here"/*.topo.txt; do
  machine=$(basename "$file" .topo.txt)
  [ -e "$machine" ] || fail "tests/golden/$machine.*: no such recorded machine"
done
tell_counts
