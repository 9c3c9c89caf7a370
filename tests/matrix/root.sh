#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh: Debian roots of their own, and commands in them.
# shellcheck disable=SC2154  # dir, log, mirror: of run.sh

# What build and tests need. Each is asked for alone when the list as a whole cannot be had: a release may lack one.
packages='g++ clang make binutils git ca-certificates python3 procps psmisc iproute2 libyaml-cpp-dev libpugixml-dev libcli11-dev
  nlohmann-json3-dev libfmt-dev libgloo-dev libpmix-dev libslurm-dev libgtest-dev libgmock-dev
  slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge libpmi2-0 openmpi-bin valgrind'

# enter ROOT COMMAND...: in the root, in mount and process name spaces that end with the command and take all that it left
# running along. /sys is the host's, for the cgroups; /dev/shm is the root's own; /tmp is empty (make names a pipe there by
# its process id, which comes again in each name space).
enter() {
  local root=$1
  shift
  # shellcheck disable=SC2016
  unshare --mount --pid --ipc --fork --kill-child --propagation private bash -c '
    root=$1; shift
    mount --bind "$root" "$root" && mount -t proc proc "$root/proc" && mount --rbind /sys "$root/sys" &&
    mount -t tmpfs -o mode=755 dev "$root/dev" && mkdir "$root/dev/shm" "$root/dev/pts" &&
    mount -t tmpfs -o mode=1777 shm "$root/dev/shm" && mount -t devpts -o newinstance,ptmxmode=666 pts "$root/dev/pts" &&
    for n in null zero full random urandom tty; do cp -a /dev/$n "$root/dev/"; done &&
    { [ ! -e /dev/fuse ] || cp -a /dev/fuse "$root/dev/"; } &&
    ln -s pts/ptmx "$root/dev/ptmx" && ln -s /proc/self/fd "$root/dev/fd" && mount -t tmpfs -o mode=1777 tmp "$root/tmp" &&
    exec chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 TERM=dumb \
      DEBIAN_FRONTEND=noninteractive "$@"' enter "$root" "$@"
}

# make_root SUITE [NAME [PACKAGE...]]: a root of that Debian release, $dir/NAME (SUITE) with those packages (all that build
# and tests need), made once and used again.
make_root() {
  local suite=$1 name=${2:-$1} root list package
  root=$dir/$name list=$packages
  [ $# -lt 3 ] || list=${*:3}
  [ ! -e "$root/.ready" ] || return 0
  rm -rf --one-file-system "$root"
  debootstrap --variant=minbase "$suite" "$root" ${mirror:+"$mirror"} >"$log/$name.root" 2>&1 || return 1
  cp /etc/resolv.conf "$root/etc/"
  grep -E '^(127|::1)|localhost' /etc/hosts >"$root/etc/hosts"
  echo "127.0.1.1 $(hostname)" >>"$root/etc/hosts"
  printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"  # apt starts no daemon there
  chmod 755 "$root/usr/sbin/policy-rc.d"
  # The Release file of a rolling release can be past its date where a mirror lags: no check there, and there alone.
  [ "$suite" != sid ] || echo 'Acquire::Check-Valid-Until "false";' >"$root/etc/apt/apt.conf.d/99-no-date"
  # shellcheck disable=SC2086  # a list of words
  { enter "$root" apt-get -q update &&
    { enter "$root" apt-get -qy install --no-install-recommends $list ||
      for package in $list; do
        enter "$root" apt-get -qy install --no-install-recommends "$package" || echo "not to be had: $package"
      done; }; } >>"$log/$name.root" 2>&1 || return 1
  enter "$root" useradd -m -u 4242 user >>"$log/$name.root" 2>&1
  touch "$root/.ready"
}
