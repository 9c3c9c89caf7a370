# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Sourced by slurm.sh: what the throwaway Slurm has started, and how it is ended.
# shellcheck disable=SC2154 # dir, command_pid and say are slurm.sh's

# True when the process is one of ours: a Slurm or MUNGE program that has its working directory or an open file in
# the folder. A pid alone proves nothing, it may have been given to another process since.
is_ours() {
  local exe at
  exe=$(readlink "/proc/$1/exe") || return 1
  case ${exe##*/} in munged | slurmctld* | slurmd* | slurmstepd*) ;; *) return 1 ;; esac # Debian: slurmd-wlm
  for at in "/proc/$1/cwd" "/proc/$1"/fd/*; do
    case $(readlink "$at") in *"$dir"/*) return 0 ;; esac # longer in a chroot, from another mount namespace (ip netns exec)
  done
  return 1
}

ours() {
  local exe pid
  for exe in /proc/[0-9]*/exe; do
    pid=${exe#/proc/}; pid=${pid%/exe}
    is_ours "$pid" && echo "$pid"
  done 2>/dev/null
  # What a task left behind in the background: proctrack/linuxproc loses sight of a daemon.
  grep -lzs "^SLURM_CONF=$dir/" /proc/[0-9]*/environ | while IFS=/ read -r _ _ pid _; do
    grep -qzs '^SLURM_JOB_ID=' "/proc/$pid/environ" && echo "$pid"
  done
}

# Ends every process of ours: asks, waits up to 5 s, then kills.
end_processes() {
  local pid left tries
  for tries in $(seq 50); do
    left=$(ours)
    [ -n "$left" ] || return 0
    for pid in $left; do
      if [ "$tries" = 1 ]; then kill -TERM "$pid" 2>/dev/null; fi
      if [ "$tries" = 40 ]; then kill -KILL "$pid" 2>/dev/null; fi
    done
    sleep 0.1
  done
  say "$dir: still running: $left"
}

# Version 1 cgroups are named by node: /sys/fs/cgroup/<controller>/slurm_<node>/uid_*/job_*/step_*.
remove_cgroups() {
  local node
  for node in "$dir"/*/slurmd.pid; do
    node=${node%/slurmd.pid}; node=${node##*/}
    find /sys/fs/cgroup -maxdepth 2 -name "slurm_$node" 2>/dev/null | while read -r top_group; do
      find "$top_group" -depth -type d -exec rmdir {} + 2>/dev/null
    done
  done
}

# COMMAND and all its descendants that are still there.
end_command() {
  local pids
  pids=$(descendants "$command_pid")
  # shellcheck disable=SC2086
  kill -TERM $pids 2>/dev/null
  for _ in $(seq 20); do
    # shellcheck disable=SC2086
    kill -0 $pids 2>/dev/null || return 0
    sleep 0.1
  done
  # shellcheck disable=SC2086
  kill -KILL $pids 2>/dev/null
}

descendants() {
  local child
  echo "$1"
  # shellcheck disable=SC2013
  for child in $(cat "/proc/$1/task/$1/children" 2>/dev/null); do descendants "$child"; done
}
