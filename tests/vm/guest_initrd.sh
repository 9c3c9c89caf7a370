#!/bin/busybox sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# The guest's first process: loads the modules, mounts the root and what the host shares, and hands over to guest_init.sh.
b=/bin/busybox
$b mount -t devtmpfs none /dev
while read -r module; do
  case $module in
    bonding.ko) $b insmod "/modules/$module" max_bonds=0 ;; # else a bond0 of its own making
    *) $b insmod "/modules/$module" ;;
  esac
done </modules/order
$b mount -t ext4 -o noatime /dev/vda /root || exec $b poweroff -f
share() { $b mount -t 9p -o "trans=virtio,version=9p2000.L,msize=262144,$2" "$1" "/root/$1"; }
share source ro
share build ro
share share rw
$b cp /fabric.ko /root/
$b mount --move /dev /root/dev
exec $b switch_root /root /bin/bash /source/tests/vm/guest_init.sh
