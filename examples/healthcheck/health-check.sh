#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# HealthCheckProgram for Slurm: drains this node when a check of nccl-tune fails. slurmd runs it as root; it looks at no exit
# status itself, so the node is drained here. In slurm.conf:
#   HealthCheckProgram=/usr/local/libexec/nccl-tune/health-check.sh
#   HealthCheckInterval=600
#   HealthCheckNodeState=IDLE
# A node that is drained already keeps its reason. What the site lives with goes into ignore_checks of nccl-tune.yaml.
set -u
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:$PATH
node=${SLURMD_NODENAME:-$(hostname -s)}

# A check asks drivers: one that hangs must not hold slurmd's next health check.
report=$(timeout 60 nccl-tune check --format nhc --skip limits --skip numa.mask "$@" 2>&1)
status=$?
[ "$status" = 0 ] && exit 0
case $status in
  1) reason=$(grep -m 1 '^ERROR' <<<"$report") ;;
  124) reason="nccl-tune check did not end within 60 s" ;;
  *) # It could not look: a fault of the installation, not of the node.
    logger -t nccl-tune "health check: exit status $status: $(head -n 1 <<<"$report")"
    exit 0
    ;;
esac
logger -t nccl-tune "health check: $reason"
state=$(scontrol --oneliner show node "$node" | grep -oE 'State=[^ ]+')
case $state in *DRAIN*) exit 1 ;; esac
scontrol update NodeName="$node" State=DRAIN Reason="nccl-tune: ${reason:0:200}"
exit 1
