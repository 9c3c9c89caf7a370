#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Makes what boot.sh boots, from Debian's packages alone: image.sh FOLDER. What is there and current stays.
#   vmlinux      the kernel that linux-image-amd64 stands for (the -cloud- one has no rdma_rxe, no e1000e, no 9p),
#                uncompressed: the guest need not unpack it in software emulation
#   initrd       busybox, the kernel's modules that the tests need, fabric.ko
#   root.ext4    Debian 12 with Slurm, PMIx, verbs' tools and hwloc; nothing of this project, which comes in over 9p
set -eu -o pipefail
PATH=$PATH:/usr/sbin:/sbin
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
mkdir -p "$1"
dir=$(cd "$1" && pwd)
packages=iproute2,ibverbs-utils,ibverbs-providers,hwloc-nox,numactl,kmod,slurmctld,slurmd,slurm-client,munge,libpmix2
packages+=,libyaml-cpp0.7,libpugixml1v5,libfmt9,libgloo0,jq
modules='virtio_pci virtio_blk crc32c_generic ext4 9p 9pnet_virtio virtio_net e1000e bonding 8021q'
modules+=' crc32_generic ib_uverbs rdma_ucm rdma_rxe'

say() { echo "image.sh: $*" >&2; }

# current NAME WORD...: true when NAME was made from those words; else notes that it is to be made.
current() {
  local name=$1
  shift
  [ -e "$dir/$name" ] && [ "$(cat "$dir/$name.of" 2>/dev/null)" = "$*" ] && return 0
  rm -rf "${dir:?}/$name" "$dir/$name.of"
  return 1
}
made_of() { # NAME WORD...
  local name=$1
  shift
  echo "$*" >"$dir/$name.of"
}

# The newest downloaded file of a package.
fetch() { # PACKAGE
  mkdir -p "$dir/debs"
  compgen -G "$dir/debs/$1_*.deb" >/dev/null || (cd "$dir/debs" && apt-get -q download "$1") >>"$dir/apt.log" 2>&1 ||
    { say "$1: apt-get could not download it; $dir/apt.log says why"; exit 1; }
  find "$dir/debs" -name "$1_*.deb" | sort -V | tail -n 1
}

unpack_kernel() {
  current kernel "$release" && return
  say "unpacking Linux $release"
  dpkg-deb -x "$(fetch "linux-image-$release")" "$dir/kernel"
  depmod -b "$dir/kernel" "$release"
  # The setup sectors, the payload's offset and length: Documentation/x86/boot.rst, fields 0x1f1, 0x248, 0x24c. The payload
  # is xz (Debian's CONFIG_KERNEL_XZ), followed by four bytes of its length.
  python3 - "$dir/kernel/boot/vmlinuz-$release" "$dir/vmlinux" <<'PY'
import lzma, struct, sys
image = open(sys.argv[1], "rb").read()
start = ((image[0x1F1] or 4) + 1) * 512
offset, length = struct.unpack_from("<II", image, 0x248)
payload = image[start + offset : start + offset + length]
open(sys.argv[2], "wb").write(lzma.LZMADecompressor().decompress(payload))
PY
  made_of kernel "$release"
}

# Out of tree, from Debian's headers, which are unpacked and not installed.
build_module() {
  local headers=$dir/headers package sum
  sum=$(sha256sum <"$here/fabric.c")
  current module "$release $sum" && return
  if ! current headers "$release"; then
    mkdir "$headers"
    for package in "linux-headers-$release" "linux-headers-${release%-amd64}-common" linux-kbuild-6.1; do
      dpkg-deb -x "$(fetch "$package")" "$headers"
    done
    sed -i "s#/usr/src/#$headers/usr/src/#" "$headers/usr/src/linux-headers-$release/Makefile"
    made_of headers "$release"
  fi
  say "building fabric.ko"
  mkdir "$dir/module"
  cp "$here/fabric.c" "$dir/module/"
  echo 'obj-m := fabric.o' >"$dir/module/Makefile"
  make -C "$headers/usr/src/linux-headers-$release" M="$dir/module" modules >"$dir/module.log" 2>&1 ||
    { grep -E 'error|warning' "$dir/module.log" >&2 || tail "$dir/module.log" >&2; exit 1; }
  made_of module "$release $sum"
}

# The modules' files, each after those that it needs.
list_modules() {
  local name
  for name in $modules; do modprobe -d "$dir/kernel" -S "$release" --show-depends "$name"; done |
    awk '$1 == "insmod" && !seen[$2]++ { print $2 }'
}

build_initrd() {
  local at=$dir/initrd.d file
  local of
  of="$release $modules $(cat "$dir/module.of" "$here/guest_initrd.sh" | sha256sum)"
  current initrd "$of" && return
  rm -rf "$at"
  mkdir -p "$at"/{bin,dev,proc,root,modules}
  cp /bin/busybox "$at/bin/"
  install -m 755 "$here/guest_initrd.sh" "$at/init"
  list_modules | while read -r file; do
    cp "$file" "$at/modules/"
    basename "$file"
  done >"$at/modules/order"
  cp "$dir/module/fabric.ko" "$at/"
  (cd "$at" && find . | cpio -o -H newc --quiet) >"$dir/initrd"
  made_of initrd "$of"
}

build_root() {
  local at=$dir/root kilobytes
  local -a sources
  mapfile -t sources < <(find /etc/apt/sources.list /etc/apt/sources.list.d -type f '(' -name '*.list' -o -name '*.sources' ')' 2>/dev/null)
  current root.ext4 "$packages" && return
  say "installing Debian 12 for the guest (two minutes)"
  rm -rf "$at"
  # The host's own sources: its mirror is the one that can be reached.
  mmdebstrap --mode=root --variant=minbase --format=directory --aptopt='APT::Install-Recommends "false"' \
    --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
    --include="$packages" bookworm "$at" "${sources[@]}" >"$dir/mmdebstrap.log" 2>&1 ||
    { tail -n 5 "$dir/mmdebstrap.log" >&2; exit 1; }
  rm -rf "${at:?}"/dev/* "$at"/var/lib/apt/lists/* "$at"/var/cache/apt/*
  mkdir "$at/source" "$at/build" "$at/share"
  # Slurm's mpi_pmix opens the library by its development name.
  ln -s libpmix.so.2 "$at/usr/lib/x86_64-linux-gnu/pmix2/lib/libpmix.so"
  kilobytes=$(du -sk "$at" | cut -f1)
  mke2fs -q -t ext4 -O '^has_journal' -m 0 -d "$at" "$dir/root.ext4" $((kilobytes * 115 / 100 + 65536))k
  rm -rf "$at"
  made_of root.ext4 "$packages"
}

release=$(apt-cache depends linux-image-amd64 | sed -n 's/.*Depends: linux-image-//p' | head -n 1)
[ -n "$release" ] || { say "apt-cache knows no linux-image-amd64; apt-get update?"; exit 1; }
unpack_kernel
build_module
build_initrd
build_root
