#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Prolog for Slurm: no job starts on a node that fails a check of nccl-tune. In slurm.conf:
#   Prolog=/usr/local/libexec/nccl-tune/prolog.sh
#   PrologFlags=Alloc
# slurmd runs it as root before a job's first step on the node. A Prolog that fails drains the node with the reason "Prolog
# error" and requeues the job, so the reason is set here first; a check that could not look lets the job pass.
set -u
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:$PATH

# The job waits for this: a bound, and only what fails a job (not the caller's own limits and mask, which are slurmd's).
report=$(timeout 20 nccl-tune check --format nhc --skip limits --skip numa.mask "$@" 2>&1)
[ $? = 1 ] || exit 0
reason=$(grep -m 1 '^ERROR' <<<"$report")
logger -t nccl-tune "prolog of job ${SLURM_JOB_ID-}: $reason"
scontrol update NodeName="${SLURMD_NODENAME:-$(hostname -s)}" State=DRAIN Reason="nccl-tune: ${reason:0:200}"
exit 1
