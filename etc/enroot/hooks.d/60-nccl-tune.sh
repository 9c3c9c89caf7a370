#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# enroot hook of nccl-tune: what of the host a tuned task needs in its container. Goes to enroot's hooks.d on every node
# (`make install`). enroot runs it once a container, as the user, with the environment of one of its tasks; it can
# mount no more than that user can read.
#
# For PMIx (nccl-tune bench, Open MPI) copy enroot's own extra hook 50-slurm-pmi.sh there too.
set -euo pipefail

# `make install` writes the folders of the installation here.
bindir=/usr/local/bin
libexecdir=/usr/local/libexec
sysconfdir=/etc

# An fstab line has no way to quote a blank that enroot's own hooks would know of, so such a path is left alone.
is_plain_path() { [[ $1 == /* && $1 != *[[:space:]\\#]* && $1 != *\$\{* ]]; }

bind() { # dir|file PATH [OPTION]: the same path inside
  printf '%s %s none x-create=%s,bind,ro,nosuid,nodev,private,nofail%s\n' "$2" "$2" "$1" "${3:+,$3}" >>"$ENROOT_MOUNTS"
}

# An empty file may be what an earlier start of a named container left behind to mount on.
image_has() { [ -s "$ENROOT_ROOTFS$1" ]; }

image_sets() { grep -q "^$1=" "$ENROOT_ENVIRON" 2>/dev/null; }

is_planned() { [[ ,${NCCLTUNE_SET-}, == *,$1,* ]]; }

# NCCL_TOPO_FILE is the host's, be it the plan's or the user's own; but an image that sets the variable means a file of
# its own, and so does a user who names one that only the image has.
mount_topology_file() {
  local file=${NCCL_TOPO_FILE-}
  is_plain_path "$file" && [ -f "$file" ] && [ -r "$file" ] || return 0
  if image_sets NCCL_TOPO_FILE; then return 0; fi
  if ! is_planned NCCL_TOPO_FILE && image_has "$file"; then return 0; fi
  bind file "$file" noexec
}

# The tool, its workers and the policy, where the host has them. The NCCL that a worker measures is the image's.
mount_tool() {
  [ -x "$bindir/nccl-tune" ] || return 0
  if image_has "$bindir/nccl-tune"; then return 0; fi
  bind file "$bindir/nccl-tune"
  if [ -d "$libexecdir/nccl-tune" ]; then bind dir "$libexecdir/nccl-tune"; fi
  if [ -r "$sysconfdir/nccl-tune.yaml" ]; then bind file "$sysconfdir/nccl-tune.yaml" noexec; fi
  if [ -d "$sysconfdir/nccl-tune.d" ]; then bind dir "$sysconfdir/nccl-tune.d" noexec; fi
  if [ -d "$sysconfdir/nccl-tune" ]; then bind dir "$sysconfdir/nccl-tune" noexec; fi
}

mount_topology_file
mount_tool
