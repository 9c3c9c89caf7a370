#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian packages of a folder in this root, uses them, removes them: packages.sh FOLDER. As root, in a root that
# may be thrown away.
set -u
folder=$1 passed=0 failed=0
verdict() { if [ "$2" = 0 ]; then passed=$((passed + 1)); echo "ok   $1"; else failed=$((failed + 1)); echo "FAIL $1"; fi; }

plugin=(/usr/lib/*/slurm-wlm/nccl_tune.so)
apt-get -qy install --no-install-recommends "$folder"/nccl-tune-common_*.deb "$folder"/nccl-tune-plugin_*.deb
verdict 'the plugin alone, without the tool' $?
plugin=(/usr/lib/*/slurm-wlm/nccl_tune.so)
[ -e "${plugin[0]}" ]; verdict 'it lies among the plugins of Slurm' $?
! ldd "${plugin[0]}" | grep -E 'not found|cuda|nccl|pmix'; verdict 'it finds its libraries, and needs no CUDA' $?
echo 'ClusterName=x' >/tmp/slurm.conf
echo 'SlurmctldHost=localhost' >>/tmp/slurm.conf
echo "PlugStackConfig=/etc/slurm/plugstack.conf" >>/tmp/slurm.conf
SLURM_CONF=/tmp/slurm.conf srun --help 2>/dev/null | grep -q -- '--nccl-tune'; verdict 'srun lists its option' $?
apt-get -qy install --no-install-recommends "$folder"/nccl-tune_*.deb "$folder"/nccl-tune-worker-host_*.deb
verdict 'tool and worker' $?
nccl-tune --version; verdict 'the tool starts' $?
nccl-tune plan --json | python3 -m json.tool >/dev/null; verdict 'the tool plans' $?
man -w nccl-tune >/dev/null 2>&1 || [ -e /usr/share/man/man1/nccl-tune.1.gz ] || grep -qs '^path-exclude.*/man/' /etc/dpkg/dpkg.cfg.d/*
verdict 'its manual page is there' $?
apt-get -qy purge nccl-tune-common nccl-tune-plugin nccl-tune nccl-tune-worker-host
verdict 'purged' $?
left=$(find /etc /usr /var/lib -iname '*nccl*tune*' ! -path '/var/lib/apt/*' 2>/dev/null)
[ -z "$left" ]; verdict "nothing is left${left:+: $left}" $?
SLURM_CONF=/tmp/slurm.conf srun --help >/dev/null 2>&1; verdict 'srun goes on' $?
rm -f /tmp/slurm.conf
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
