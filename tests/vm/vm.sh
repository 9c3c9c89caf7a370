#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The tests on a real kernel's tables, in a guest under qemu: vm.sh [OUTPUT FOLDER [PATTERN]]. VM_DIR holds the image
# (/var/tmp/nccl-tune-vm, 1 GB). Ends with `N passed, N failed`.
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
top=${here%/tests/vm}
out=$(realpath "${1:-${O:-build}}") || exit 1
dir=${VM_DIR:-/var/tmp/nccl-tune-vm}

die() {
  echo "vm.sh: $*" >&2
  echo "0 passed, 1 failed"
  exit 1
}

[ "$(id -u)" = 0 ] || die "must be root: the guest's image has root's files and devices"
# The guest is Debian 12, and what is built here runs in it.
# shellcheck source=/dev/null
[ "$(. /etc/os-release && echo "$VERSION_CODENAME")" = bookworm ] || die "needs a Debian 12 host: the programs built here run in a Debian 12 guest"
for file in nccl_tune.so nccl-tune; do [ -e "$out/$file" ] || die "$out/$file: not there; run make"; done
"$top/.ci/deps" qemu-system-x86 mmdebstrap busybox-static e2fsprogs kmod cpio python3 gcc make || die "packages are missing"
"$here/image.sh" "$dir" || die "no image"
# Two to three minutes on two idle cores, ten on busy ones.
"$here/boot.sh" --dir "$dir" --build "$out" --limit 1200 -- /source/tests/vm/guest_tests.sh "${2:-.}"
status=$?
case $status in 124 | 125) die "the guest gave no count" ;; esac
exit $status
