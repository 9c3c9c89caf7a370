#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# An image for pyxis and enroot without a container registry: this host's distribution, made anew by mmdebstrap, with the tool and
# workers that were built here (`make`), PMIx, Open MPI, the RDMA user space and perftest; the content of the Containerfile. NCCL
# and CUDA's runtime come along where the nccl worker was built.
#
#   examples/container/make-squashfs.sh nccl-tune.sqsh             the build in O (build)
#   INCLUDE=vim SUITE=trixie MIRROR=... make-squashfs.sh FILE      more packages, another release, another mirror
#
# Needs mmdebstrap and squashfs-tools; root, or a user that may make user namespaces.
set -euo pipefail

file=${1:?the image to write: make-squashfs.sh nccl-tune.sqsh}
out=$(realpath "${O:-build}")
[ -x "$out/nccl-tune" ] || { echo "make-squashfs.sh: $out/nccl-tune: not there; run make, or set O" >&2; exit 1; }
for program in mmdebstrap mksquashfs; do
  command -v "$program" >/dev/null || { echo "make-squashfs.sh: $program: not found; install mmdebstrap squashfs-tools" >&2; exit 1; }
done
# shellcheck source=/dev/null
suite=${SUITE:-$(. /etc/os-release && echo "$VERSION_CODENAME")}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

programs=("$out/nccl-tune")
for worker in "$out"/nccl-tune-worker-*; do [ ! -x "$worker" ] || programs+=("$worker"); done

# What they load here belongs to packages here, but for NCCL and CUDA of a vendor's own installation, which are copied.
packages=(ca-certificates iproute2 pciutils numactl openmpi-bin openssh-server ibverbs-providers ibverbs-utils perftest)
for name in libpmix2 libpmi2-0; do packages+=("$name"); done
libraries=()
while read -r library; do
  owner=$(dpkg-query -S "$(realpath "$library")" 2>/dev/null | sed 's/[:,].*//' | head -n 1) || owner=
  if [ -n "$owner" ]; then packages+=("$owner"); else libraries+=("$library"); fi
done < <(ldd "${programs[@]}" | grep -oE '=> /[^ ]+' | cut -c4- | sort -u)

install -D -m 755 -t "$work/add/usr/local/bin" "$out/nccl-tune"
install -D -m 755 -t "$work/add/usr/local/libexec/nccl-tune" "${programs[@]:1}"
install -D -m 644 -t "$work/add/etc" "$(dirname "${BASH_SOURCE[0]}")/../../etc/nccl-tune.yaml"
[ "${#libraries[@]}" = 0 ] || install -D -m 755 -t "$work/add/usr/local/lib" "${libraries[@]}"
tar -C "$work/add" --owner=0 --group=0 -cf "$work/add.tar" .

include=$(printf '%s\n' "${packages[@]}" ${INCLUDE:+"${INCLUDE//,/ }"} | tr ' ' '\n' | sort -u | paste -sd,)
# shellcheck disable=SC2016,SC2086 # the hooks have the root as $1; a mirror, or none
mmdebstrap --quiet --variant=minbase --include="$include" --aptopt='APT::Install-Recommends "false"' \
  --customize-hook="tar-in $work/add.tar /" --customize-hook='chroot "$1" ldconfig' --customize-hook='mkdir -p "$1/run/sshd"' \
  --customize-hook='rm -rf "$1"/var/lib/apt/lists/* "$1"/var/cache/apt/*.bin "$1"/usr/share/doc/*' \
  "$suite" "$work/root.tar" ${MIRROR:-}
# No device nodes: an ordinary user could not unpack them.
mkdir "$work/root"
tar -C "$work/root" --exclude='./dev/*' -xf "$work/root.tar"
mksquashfs "$work/root" "$file" -noappend -all-root -no-xattrs -no-progress >"$work/log" || { cat "$work/log" >&2; exit 1; }
echo "$file: $suite, $(du -h "$file" | cut -f1)"
