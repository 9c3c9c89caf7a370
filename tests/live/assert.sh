# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Sourced by live.sh: what the tests say and ask. A test is a function test_*, run in a subshell in an empty folder that
# any user may write; it fails when one of these does.

fail() { echo "    $*"; exit 1; }
skip() { echo "    $*"; exit 77; }

# want WHAT EXPECTED GOT
want() { [ "$2" = "$3" ] || fail "$1: want '$2', got '$3'"; }

# has TEXT REGEX: some line matches; lacks TEXT REGEX: none does; once TEXT REGEX: one does.
has() { grep -qE -- "$2" <<<"$1" || fail "no line matches '$2' in:"$'\n'"$1"; }
lacks() { ! grep -qE -- "$2" <<<"$1" || fail "a line matches '$2' in:"$'\n'"$1"; }
once() { [ "$(grep -cE -- "$2" <<<"$1")" = 1 ] || fail "not one line matches '$2' in:"$'\n'"$1"; }

# untouched TEXT: the environment of tasks that ran, with nothing of NCCL's or ours in it.
untouched() {
  has "$1" '^([0-9]+: )?SLURM_PROCID='
  lacks "$1" '^([0-9]+: )?(NCCL|NCCLTUNE|UCX|GLOO)_'
}

# value NAME TEXT: of the first NAME=VALUE line.
value() { sed -n "s/^\([0-9]*: \)\?$1=//p" <<<"$2" | head -n 1; }

# A hung step fails its test, not the run.
srun() { timeout 20 srun "$@"; }
salloc() { timeout 20 salloc "$@"; }

# environment NODE SRUN-OPTION...: of a task on that node, sorted.
environment() {
  local node=$1
  shift
  srun -N1 -n1 -w "$node" "$@" env 2>stderr | sort
}

# supervisors [TASK]: the tool's own processes on these nodes, or those of one task. Their keepers have another name.
supervisors() {
  local pid
  for pid in /proc/[0-9]*; do
    [ "$(readlink "$pid/exe")" = "$LIVE_DIR/bin/nccl-tune" ] || continue
    [ "$(cat "$pid/comm")" = nccl-tune ] || continue
    [ $# = 0 ] || tr '\0' '\n' <"$pid/environ" | grep -qx "SLURM_PROCID=$1" || continue
    echo "${pid#/proc/}"
  done 2>/dev/null
}

# What a file holds, but for srun's word that a busy node makes a job, or a step of one, wait.
without_waits() { grep -vE '^srun: ([Jj]ob [0-9]+ (queued and waiting|has been allocated|step creation (temporarily|still) disabled)|Step created for )' "$1"; }
said() { without_waits stderr; }

# batch SBATCH-OPTION...: submits the script on stdin, waits for its end, prints its output; returns 1 when it failed.
batch() {
  local job state
  job=$(sbatch --parsable -o batch.out "$@") || return 1
  for _ in $(seq 300); do
    state=$(scontrol --oneliner show job "$job" | sed -n 's/.* JobState=\([A-Z_]*\) .*/\1/p' | head -n 1)
    case $state in PENDING | RUNNING | COMPLETING | CONFIGURING) sleep 0.1 ;; *) break ;; esac
  done
  without_waits batch.out
  [ "$state" = COMPLETED ]
}

# The variables of a job's environment survive runuser; so does SLURM_CONF.
as_user() { runuser -u nobody -- timeout 30 "$@"; }

# plugstack WHERE ARG...: what the plugin is told there (a node's name, or "client"), for this test alone.
plugstack() {
  local file=$LIVE_DIR/$1/etc/plugstack.conf
  [ "$1" != client ] || file=$LIVE_DIR/etc/plugstack.conf
  shift
  echo "optional $LIVE_PLUGIN $*" >"$file"
}

no_plugin() {
  case $1 in
    client) : >"$LIVE_DIR/etc/plugstack.conf" ;;
    *) : >"$LIVE_DIR/$1/etc/plugstack.conf" ;;
  esac
}

root_of() { echo "$LIVE_DIR/$1/root"; }

# The plugstack files as slurm.sh wrote them.
save_plugstacks() {
  local file
  for file in "$LIVE_DIR"/etc/plugstack.conf "$LIVE_DIR"/*/etc/plugstack.conf; do cp "$file" "$file.saved"; done
}

restore_plugstacks() {
  local file
  for file in "$LIVE_DIR"/etc/plugstack.conf "$LIVE_DIR"/*/etc/plugstack.conf; do cp "$file.saved" "$file"; done
}
