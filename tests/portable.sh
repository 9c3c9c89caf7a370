#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The portable tool (make portable): portable.sh [OUTPUT FOLDER]; ends with `N passed, N failed, N skipped`. As root it also runs
# in the roots of other releases that tests/matrix made (ROOTS, /var/tmp/nccl-tune-matrix).
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
top=${here%/tests}
out=$(realpath "${1:-$top/${O:-build}}") || exit 1
tool=$out/portable/nccl-tune
# shellcheck source=tests/counts.sh
. "$here/counts.sh"
judge() { # EXIT-STATUS WORDS: one test
  if [ "$1" = 0 ]; then pass; else fail "$2"; fi
}
finish() {
  tell_counts
  exit
}

[ -x "$tool" ] || { skip "no portable tool in $out: it was left out, or 'make portable' did not run"; finish; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Needed libraries: glibc's own and no more.
others=$(readelf -d "$tool" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -vE '^(libc|libm|libdl|libpthread|librt|ld-linux.*)\.so\.[0-9]+$')
[ -z "$others" ]
judge $? "it needs $(paste -sd' ' <<<"$others")"

# The glibc that its symbols ask for: what the README says of a build on Debian 12, and nowhere more than the host has.
needs=$(objdump -T "$tool" | grep -oE 'GLIBC_[0-9.]+' | sed 's/GLIBC_//' | sort -V | tail -n 1)
host=$(getconf GNU_LIBC_VERSION | cut -d' ' -f2)
[ "$(printf '%s\n%s\n' "$needs" "$host" | sort -V | tail -n 1)" = "$host" ]
judge $? "it needs glibc $needs, and this host has $host"
said=$(sed -n 's/.*glibc \([0-9.]*[0-9]\) .*/\1/p' "$top/README.md" | head -n 1)
# shellcheck source=/dev/null
if [ "$(. /etc/os-release && echo "$ID${VERSION_ID-}")" = debian12 ]; then
  [ "$needs" = "$said" ]
  judge $? "it needs glibc $needs; README.md says $said"
else
  skip "README.md tells the glibc of a build on Debian 12"
fi

# It does what the other does.
record=$top/tests/machines/dgx-a100-80gb.json
python3 "$top/tests/machines/mktree.py" "$record" "$work/machine" || { fail "no machine"; finish; }
install -m 644 "$top/etc/nccl-tune.yaml" "$work/"
same() { # WHERE COMMAND...
  local where=$1
  shift
  "$out/nccl-tune" plan --root "$work/machine" --policy "$work/nccl-tune.yaml" --json >"$work/want" || fail "the tool itself fails"
  "$@" >"$work/got" 2>"$work/err"
  cmp -s "$work/want" "$work/got"
  judge $? "$where: $(head -n 1 "$work/err")"
}
same "with an empty environment" env -i "$tool" plan --root "$work/machine" --policy "$work/nccl-tune.yaml" --json

roots=${ROOTS:-/var/tmp/nccl-tune-matrix}
for root in "$roots"/*/; do
  chroot "$root" env true 2>/dev/null || continue # of another architecture, unfinished, or we are not root
  cp -a "$work" "$root/tmp/" && install -m 755 "$tool" "$root$work/tool"
  same "in $root" chroot "$root" env -i "$work/tool" plan --root "$work/machine" --policy "$work/nccl-tune.yaml" --json
  rm -rf "${root:?}$work"
done
finish
