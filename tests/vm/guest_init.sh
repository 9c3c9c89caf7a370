#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Process 1 of the guest after the initrd: what an init would mount, the interfaces' names, then the host's command.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C

mount_all() {
  mount -t proc proc /proc
  mount -t sysfs sysfs /sys
  mkdir -p /dev/pts /dev/shm
  mount -t devpts devpts /dev/pts
  mount -t cgroup2 cgroup2 /sys/fs/cgroup
  local at
  for at in /dev/shm /run /tmp; do mount -t tmpfs tmpfs $at; done
  chmod 1777 /tmp /dev/shm
  ln -s /proc/self/fd /dev/fd
}

# By the last byte of the addresses that boot.sh gives.
name_interfaces() {
  local net last
  for net in /sys/class/net/*; do
    last=$(cat "$net/address" 2>/dev/null)
    case $last in
      52:54:00:01:00:ff) ip link set "${net##*/}" name mgmt ;;
      52:54:00:01:00:0?) ip link set "${net##*/}" name "rail${last##*:0}" ;;
    esac
  done
}

mount_all
hostname node1
printf '127.0.0.1 localhost\n192.168.77.1 node1\n' >/etc/hosts
ip link set lo up
name_interfaces
cut -d' ' -f1 /proc/uptime >/share/started
cd /
setsid bash /share/command </dev/null >/share/output 2>&1
echo $? >/share/status.new
mv /share/status.new /share/status
sync
echo o >/proc/sysrq-trigger
sleep 60
