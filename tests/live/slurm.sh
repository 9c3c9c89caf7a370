#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A throwaway Slurm on this host: munged, slurmctld and some slurmd under a folder of their own, for one command.
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
top=$(cd "$here/../.." && pwd)
# shellcheck source=tests/live/machine.sh
. "$here/machine.sh"
# shellcheck source=tests/live/container.sh
. "$here/container.sh"
# shellcheck source=tests/live/processes.sh
. "$here/processes.sh"

usage() {
  cat <<'HELP'
usage: slurm.sh [OPTION]... -- COMMAND [ARG]...

Starts munged, slurmctld and N slurmd on this host with their own key, ports and folder, each node with a machine of its
own to show and its GPUs made with mknod; runs COMMAND with SLURM_CONF set and the tool in PATH; stops what it started
(also on ^C and on failure). The exit status is COMMAND's; 125 when Slurm did not come up. Needs root, no systemd. Several
may run at once.

  --nodes N             nodes (2)
  --record NAME         a recorded machine for the next node: tests/machines/NAME.json, or a file; used again in turn when
                        there are more nodes
  --root DIR            a machine laid out as DIR/sys, DIR/proc for the next node (copied; DIR stays as it is)
  --live                the next node shows this machine itself, with its GPUs
  --plugin FILE         the plugin (O/nccl_tune.so; O is build unless the environment says otherwise); "none": no plugin
  --plugin-arg ARG      a plugstack argument more, such as default=on or policy=FILE; may be repeated
  --side both|client|nodes   who loads the plugin (both)
  --cpus N              CPUs that each node claims (what this host has)
  --gres-order pci|minor|none   how gres.conf lists a node's GPUs (pci)
  --constrain-devices   proctrack/cgroup, and task/cgroup with ConstrainDevices=yes, over cgroup v1, or v2 for one node;
                        where this host cannot, the script says so and goes on without
  --containers          pyxis after the plugin and enroot, as installed here, with a site configuration of their own and
                        images in LIVE_DIR/containers/images; where they are not, the script says so and goes on without
  --mount-sys           a node's machine is its slurmd's /sys, and its GPUs are in /dev (in a mount namespace), in place of
                        the plugin's root=DIR: what else runs on the node sees it too
  --cluster NAME        the nodes are those of `tests/chaos/netns.sh create NAME N`: each with its own network and host
                        name; start this script in the cluster's hub
  --dir DIR             the folder (a new one under TMPDIR)
  --keep                leave the folder
  --stop DIR            stop what an earlier run left running in DIR, and end
  -h, --help            this text

COMMAND finds in its environment:
  SLURM_CONF            the client's slurm.conf; plugstack.conf lies beside it and is read anew by every command
  LIVE_DIR              the folder; LIVE_DIR/NODE/etc/plugstack.conf is the node's, read anew by every step
  LIVE_PLUGIN           the plugin's path
  LIVE_NODES            the nodes' names
  LIVE_CONTAINERS       yes with containers, else why not; "no" without --containers
  LIVE_CONSTRAINED      yes when devices are constrained; LIVE_GRES_ORDER: what --gres-order says
HELP
}

say() { echo "slurm.sh: $*" >&2; }
die() { say "$*"; exit 125; }

nodes=2 gres_order=pci plugin='' side=both cpus='' constrain=no dir='' keep=no stop='' containers=no mount_sys=no
cluster='' control=127.0.0.1
root_arg='' gpu_count=0
roots=() plugin_args=() node_names=() children=()
command_pid=''

parse() {
  while [ $# -gt 0 ]; do
    case $1 in
      --nodes) nodes=$2; shift ;;
      --record) roots+=("record:$2"); shift ;;
      --root) roots+=("tree:$2"); shift ;;
      --live) roots+=(live:) ;;
      --plugin) plugin=$2; shift ;;
      --plugin-arg) plugin_args+=("$2"); shift ;;
      --side) side=$2; shift ;;
      --cpus) cpus=$2; shift ;;
      --constrain-devices) constrain=yes ;;
      --containers) containers=yes ;;
      --mount-sys) mount_sys=yes ;;
      --cluster) cluster=$2; control=10.77.0.254; shift ;;
      --dir) dir=$2; shift ;;
      --gres-order) gres_order=$2; shift ;;
      --keep) keep=yes ;;
      --stop) stop=$2; shift ;;
      -h | --help) usage; exit 0 ;;
      --) shift; run=("$@"); return ;;
      *) say "unknown option '$1'"; usage >&2; exit 2 ;;
    esac
    shift
  done
  run=()
}

stop_all() {
  trap '' INT TERM HUP
  [ -z "$command_pid" ] || end_command
  [ -d "$dir" ] || return
  # Jobs first, while slurmd can still end their steps in order.
  if [ "${#children[@]}" -gt 0 ] && [ -n "$(timeout 5 squeue -h -o %i 2>/dev/null)" ]; then
    timeout 5 scancel --user root --full 2>/dev/null
    timeout 5 squeue -h -o %i 2>/dev/null | xargs -r timeout 5 scancel 2>/dev/null
    for _ in $(seq 30); do [ -n "$(timeout 5 squeue -h -o %i 2>/dev/null)" ] || break; sleep 0.1; done
  fi
  end_processes
  remove_cgroups
  if [ "$keep" = yes ]; then say "left in $dir"; else rm -rf --one-file-system "$dir"; fi
}

# Four TCP ports in a row below the ephemeral range that nobody listens on. Two copies may still pick the same ones:
# the second fails to bind and tries again.
free_ports() {
  local base port taken
  taken=$(awk '$4 == "0A" { split($2, a, ":"); print a[2] }' /proc/net/tcp /proc/net/tcp6 2>/dev/null)
  for _ in $(seq 100); do
    base=$((20000 + (RANDOM * 32768 + RANDOM) % 12000))
    for port in $(seq "$base" $((base + nodes))); do
      grep -qix "$(printf '%04X' "$port")" <<<"$taken" && continue 2
    done
    echo "$base"
    return 0
  done
  return 1
}

# Says why devices cannot be constrained here; nothing when they can.
why_not_constrain() {
  local base probe
  if [ "$(cgroup_version)" = 2 ]; then
    # Slurm puts a scope of its own below system.slice, one a host; the controllers must have been handed down to it.
    [ "$nodes" = 1 ] || { echo "/sys/fs/cgroup is cgroup v2, where one slurmd a host can constrain"; return; }
    for base in cpuset memory; do
      grep -qw "$base" /sys/fs/cgroup/system.slice/cgroup.subtree_control 2>/dev/null ||
        { echo "/sys/fs/cgroup/system.slice/cgroup.subtree_control: no '$base'"; return; }
    done
    [ -d /run/systemd/system ] && echo "cgroup v2 under systemd: needs slurmd as a service of its own"
    return
  fi
  for base in devices freezer cpuset memory; do
    [ -d "/sys/fs/cgroup/$base" ] || { echo "no cgroup v1 controller '$base' under /sys/fs/cgroup"; return; }
  done
  probe=/sys/fs/cgroup/devices/probe.$$
  if mkdir "$probe" 2>/dev/null; then rmdir "$probe"; else echo "/sys/fs/cgroup/devices: not writable"; fi
}

cgroup_version() {
  if [ "$(stat -fc %T /sys/fs/cgroup 2>/dev/null)" = cgroup2fs ]; then echo 2; else echo 1; fi
}

cgroup_conf() {
  if [ "$constrain" = yes ] && [ "$(cgroup_version)" = 2 ]; then
    printf 'CgroupPlugin=cgroup/v2\nIgnoreSystemd=yes\nConstrainDevices=yes\n'
  else
    printf 'CgroupPlugin=cgroup/v1\nCgroupAutomount=no\nConstrainDevices=%s\n' "$constrain"
  fi
}

# Copies: a job's user may not reach the build folder (below /root, say), and a build may replace what runs.
take_programs() {
  local program
  mkdir -p "$dir/bin"
  for program in "$out"/nccl-tune "$out"/nccl-tune-worker-*; do
    if [ -f "$program" ] && [ -x "$program" ]; then install -m 755 "$program" "$dir/bin/"; fi
  done
  [ "$plugin" != none ] || return
  install -D -m 644 "$plugin" "$dir/lib/nccl_tune.so"
  plugin=$dir/lib/nccl_tune.so
}

# The tree's policy, as an administrator installs it: root's, and nobody else may write it.
take_policy() {
  case " ${plugin_args[*]}" in *' policy='*) return ;; esac
  [ -e "$top/etc/nccl-tune.yaml" ] || return
  install -D -o root -g root -m 644 "$top/etc/nccl-tune.yaml" "$dir/etc/nccl-tune.yaml"
  plugin_args+=("policy=$dir/etc/nccl-tune.yaml")
}

write_plugstack() { # FILE SIDE ARG...
  local file=$1 who=$2 place=${1%/etc/plugstack.conf}
  shift 2
  : >"$file"
  if [ "$plugin" != none ] && { [ "$side" = both ] || [ "$side" = "$who" ]; }; then
    echo "optional $plugin $*" >"$file"
  fi
  [ "$containers" != yes ] || container_lines "$place" >>"$file"
}

place_of() { # INDEX
  if [ -n "$cluster" ]; then
    echo "NodeHostname=$cluster$(($1 + 1)) NodeAddr=10.77.0.$(($1 + 1))"
  else
    echo "NodeHostname=$(hostname) NodeAddr=127.0.0.1"
  fi
}

write_conf() {
  local i node what gres port=$1 task=task/affinity proctrack=proctrack/linuxproc
  local hardware sockets
  if [ "$constrain" = yes ]; then task=$task,task/cgroup proctrack=proctrack/cgroup; fi
  hardware="CPUs=$cpus Boards=1 SocketsPerBoard=1 CoresPerSocket=$cpus ThreadsPerCore=1"
  cat >"$dir/etc/slurm.conf" <<CONF
ClusterName=$id
SlurmctldHost=$(hostname)($control)
SlurmctldPort=$port
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$dir/munge/socket
CredType=cred/munge
StateSaveLocation=$dir/state
SlurmctldPidFile=$dir/slurmctld.pid
SlurmctldLogFile=$dir/slurmctld.log
SlurmdSpoolDir=$dir/%n/spool
SlurmdPidFile=$dir/%n/slurmd.pid
SlurmdLogFile=$dir/%n/slurmd.log
# mpi_pmix makes its folders here by job and step: nodes of one host must not share it.
TmpFS=$dir/%n/tmp
PlugStackConfig=$dir/etc/plugstack.conf
ProctrackType=$proctrack
TaskPlugin=$task
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
# A batch job starts at once, not up to 3 s later.
SchedulerParameters=batch_sched_delay=0,sched_interval=1
JobAcctGatherType=jobacct_gather/none
SwitchType=switch/none
MpiDefault=none
MailProg=/bin/true
$([ "$gres_order" = none ] || echo GresTypes=gpu)
ReturnToService=2
KillWait=2
MessageTimeout=30
SlurmdTimeout=300
SlurmdParameters=config_overrides
SlurmctldDebug=info
SlurmdDebug=${LIVE_SLURMD_DEBUG:-info}
# The nodes differ from this file by PlugStackConfig alone.
DebugFlags=NO_CONF_HASH
CONF
  cgroup_conf >"$dir/etc/cgroup.conf"
  local names=''
  for ((i = 0; i < nodes; i++)); do
    node=${node_names[i]}
    what=live:
    [ "${#roots[@]}" -gt 0 ] && what=${roots[i % ${#roots[@]}]}
    mkdir -p "$dir/$node/etc" "$dir/$node/spool"
    mkdir "$dir/$node/tmp"
    chmod 1777 "$dir/$node/tmp"
    make_machine "$node" "$what"
    if [ "$mount_sys" = yes ]; then root_arg=''; fi
    write_plugstack "$dir/$node/etc/plugstack.conf" nodes ${root_arg:+"$root_arg"} "${plugin_args[@]}"
    names=$names${names:+,}$node
    gres=''
    [ "$gres_order" = none ] || [ "$gpu_count" = 0 ] || gres=Gres=gpu:$gpu_count
    sockets=$hardware
    # Since 24.11 the Cores= of a GPU must be whole sockets.
    if grep -qs 'Cores=' "$dir/$node/etc/gres.conf"; then
      sockets="CPUs=$cpus Boards=1 SocketsPerBoard=$cpus CoresPerSocket=1 ThreadsPerCore=1"
    fi
    echo "NodeName=$node $(place_of "$i") Port=$((port + 1 + i)) $sockets $gres" >>"$dir/etc/slurm.conf"
  done
  echo "PartitionName=all Nodes=$names Default=YES MaxTime=60 State=UP OverSubscribe=YES" >>"$dir/etc/slurm.conf"
  write_plugstack "$dir/etc/plugstack.conf" client "${plugin_args[@]}"
  for node in "${node_names[@]}"; do
    cp "$dir/etc/cgroup.conf" "$dir/$node/etc/"
    sed "s|^PlugStackConfig=.*|PlugStackConfig=$dir/$node/etc/plugstack.conf|" "$dir/etc/slurm.conf" >"$dir/$node/etc/slurm.conf"
  done
}

start_munge() {
  mkdir -m 755 "$dir/munge"
  (umask 077; head -c 128 /dev/urandom >"$dir/munge/key")
  setsid munged --foreground --key-file="$dir/munge/key" --socket="$dir/munge/socket" --pid-file="$dir/munge/pid" \
    --log-file="$dir/munge/log" --seed-file="$dir/munge/seed" --num-threads=2 </dev/null >"$dir/munge/out" 2>&1 &
  children+=($!)
  for _ in $(seq 50); do
    timeout 5 munge -S "$dir/munge/socket" -n >/dev/null 2>&1 && return 0
    kill -0 "${children[-1]}" 2>/dev/null || break
    sleep 0.1
  done
  cat "$dir/munge/out" >&2
  return 1
}

# The daemons run in the foreground of sessions of their own: ^C reaches the command alone.
start_slurm() {
  local node machine i=0
  setsid slurmctld -D -f "$dir/etc/slurm.conf" </dev/null >/dev/null 2>"$dir/slurmctld.err" &
  children+=($!)
  for node in "${node_names[@]}"; do
    read -ra machine <<<"$(machine_of "$node")"
    i=$((i + 1))
    [ -z "$cluster" ] || machine=("$top/tests/chaos/netns.sh" exec "$cluster" "$i" "${machine[@]}")
    PATH=$dir/containers/bin:$PATH setsid "${machine[@]}" slurmd -D -N "$node" -f "$dir/$node/etc/slurm.conf" \
      </dev/null >/dev/null 2>"$dir/$node/slurmd.err" &
    children+=($!)
  done
  for _ in $(seq 150); do
    [ "$(timeout 5 sinfo -h -t idle -o %D 2>/dev/null)" = "$nodes" ] && return 0
    for pid in "${children[@]}"; do kill -0 "$pid" 2>/dev/null || return 1; done
    sleep 0.1
  done
  return 1
}

show_logs() {
  local log
  for log in "$dir"/slurmctld.log "$dir"/*/slurmd.log "$dir"/*.err "$dir"/*/*.err; do
    [ -s "$log" ] && { echo "== $log"; tail -n 15 "$log"; }
  done >&2
}

bring_up() {
  local port
  start_munge || die "munged did not start"
  for attempt in 1 2 3; do
    port=$(free_ports) || die "no free TCP ports between 20000 and 32000"
    rm -rf "$dir"/state "$dir"/*/root "$dir"/*/tmp "$dir"/*.log "$dir"/*/*.log
    mkdir -p "$dir/etc" "$dir/state"
    write_conf "$port"
    start_slurm && return 0
    grep -qs 'Address already in use' "$dir"/slurmctld.log "$dir"/*/slurmd.log || break
    end_processes_but_munge
  done
  show_logs
  die "Slurm did not come up (attempt $attempt)"
}

end_processes_but_munge() {
  local pid
  for pid in "${children[@]:1}"; do kill -TERM "$pid" 2>/dev/null; done
  for pid in "${children[@]:1}"; do wait "$pid" 2>/dev/null; done
  children=("${children[0]}")
}

main() {
  parse "$@"
  export PATH=$PATH:/usr/sbin:/sbin
  if [ -n "$stop" ]; then
    dir=$(cd "$stop" && pwd) || exit 125
    stop_all
    exit 0
  fi
  [ "${#run[@]}" -gt 0 ] || { usage >&2; exit 2; }
  [ "$(id -u)" = 0 ] || die "must be root: slurmd starts tasks as the job's user"
  for program in munged slurmctld slurmd srun; do
    command -v "$program" >/dev/null || die "$program: not found; install slurmctld slurmd slurm-client munge"
  done
  out=${O:-build}
  case $out in /*) ;; *) out=$top/$out ;; esac
  [ -n "$plugin" ] || plugin=$out/nccl_tune.so
  if [ "$plugin" != none ]; then
    [ -e "$plugin" ] || die "$plugin: no such plugin; run make"
  fi
  [ -n "$cpus" ] || cpus=$(slurmd -C | sed -n 's/.* CPUs=\([0-9]*\).*/\1/p')
  id=t$(od -An -N3 -tx1 /dev/urandom | tr -d ' ')
  for ((i = 1; i <= nodes; i++)); do node_names+=("${cluster:-${id}n}$i"); done
  if [ "$constrain" = yes ]; then
    local why
    why=$(why_not_constrain)
    if [ -n "$why" ]; then say "$why; devices are not constrained, tasks are tracked by proctrack/linuxproc"; constrain=no; fi
  fi
  if [ -n "$dir" ]; then mkdir -p "$dir"; else dir=$(mktemp -d "${TMPDIR:-/tmp}/slurm.XXXXXX"); fi
  dir=$(cd "$dir" && pwd)
  chmod 755 "$dir"
  trap stop_all EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP
  take_programs
  take_policy
  if [ "$containers" = yes ]; then
    local missing
    missing=$(why_no_containers)
    if [ -z "$missing" ]; then make_containers; else say "no containers: $missing"; containers=$missing; fi
  fi
  # In a chroot whose root is no mount point a namespace cannot be made private, and what is mounted there would show
  # on the host.
  if [ "$mount_sys" = yes ] && ! unshare --mount --propagation private true 2>/dev/null; then
    say "no mount namespaces of their own for the nodes here: going on with root=DIR"
    mount_sys=no
    [ "$containers" != yes ] || containers="no private mount namespace for the nodes on this host"
  fi
  export LIVE_CONTAINERS=$containers
  export SLURM_CONF=$dir/etc/slurm.conf LIVE_DIR=$dir LIVE_PLUGIN=$plugin LIVE_NODES="${node_names[*]}" LIVE_CONSTRAINED=$constrain LIVE_GRES_ORDER=$gres_order
  bring_up
  export PATH=$dir/bin:$PATH
  # Asynchronous, so that a TERM is taken at once; its ^C comes from the terminal, hence the default handler back.
  env --default-signal=INT,QUIT "${run[@]}" <&0 &
  command_pid=$!
  wait "$command_pid"
  local rc=$?
  command_pid=''
  exit "$rc"
}

main "$@"
