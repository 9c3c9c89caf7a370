#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# In a new mount namespace: in-machine.sh FOLDER COMMAND... runs COMMAND where FOLDER/root/sys is /sys and the GPUs of
# FOLDER/root/dev stand in /dev, beside the devices that any process needs.
set -eu
at=$1
shift
mkdir -p "$at/root/sys/fs/cgroup" "$at/dev"
mount --rbind /sys/fs/cgroup "$at/root/sys/fs/cgroup"
mount --rbind "$at/root/sys" /sys
mount -t tmpfs -o mode=755 tmpfs "$at/dev"
for device in null zero full random urandom tty fuse; do [ ! -c "/dev/$device" ] || cp -a "/dev/$device" "$at/dev/"; done
[ ! -c "$at/dev/fuse" ] || chmod 666 "$at/dev/fuse" # as udev has it; squashfuse runs as the job's user
for gpu in "$at"/root/dev/nvidia*; do [ ! -c "$gpu" ] || cp -a "$gpu" "$at/dev/"; done
for folder in shm pts mqueue; do
  [ -d "/dev/$folder" ] || continue
  mkdir "$at/dev/$folder"
  mount --rbind "/dev/$folder" "$at/dev/$folder"
done
ln -s pts/ptmx "$at/dev/ptmx"
for link in fd:/proc/self/fd stdin:/proc/self/fd/0 stdout:/proc/self/fd/1 stderr:/proc/self/fd/2; do ln -s "${link#*:}" "$at/dev/${link%%:*}"; done
mount --rbind "$at/dev" /dev
exec "$@"
