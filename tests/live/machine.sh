# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Sourced by slurm.sh: the machine that a node of the throwaway Slurm shows, and its GPUs.
# shellcheck disable=SC2154 # dir, top, cpus, gres_order, mount_sys, say and die are slurm.sh's
# shellcheck disable=SC2034 # root_arg and gpu_count are read there

# The GPUs of a laid out machine in PCI order, one a line: minor, local cpulist.
list_gpus() {
  local root=$1 device bdf info
  if [ -d "$root/proc/driver/nvidia/gpus" ]; then
    for info in "$root"/proc/driver/nvidia/gpus/*/information; do
      [ -e "$info" ] || continue
      bdf=${info%/information}; bdf=${bdf##*/}
      echo "$(sed -n 's/^Device Minor:[[:space:]]*//p' "$info") $(cat "$root/sys/bus/pci/devices/$bdf/local_cpulist" 2>/dev/null)"
    done
    return
  fi
  local minor=0
  for device in "$root"/sys/bus/pci/devices/*; do
    [ "$(cat "$device/vendor" 2>/dev/null)" = 0x10de ] || continue
    case $(cat "$device/class" 2>/dev/null) in
      0x0300* | 0x0302*) echo "$minor $(cat "$device/local_cpulist" 2>/dev/null)"; minor=$((minor + 1)) ;;
    esac
  done
}

# Those of a cpulist that this host's node has; nothing when it is none or all of them: gres Cores= then says nothing.
cores_within() {
  awk -v list="$1" -v cpus="$cpus" 'BEGIN {
    n = split(list, part, ","); count = 0; out = ""
    for (i = 1; i <= n; i++) {
      split(part[i], edge, "-"); last = (edge[2] == "" ? edge[1] : edge[2])
      for (c = edge[1]; c <= last && c < cpus; c++) { out = out (count++ ? "," : "") c }
    }
    if (count < cpus) print out
  }'
}

# Makes DIR/NODE: its root, its GPUs, gres.conf. Sets gpu_count and root_arg.
make_machine() {
  local node=$1 what=$2 at=$dir/$1 file minor local_cpus cores device
  root_arg='' gpu_count=0
  case $what in
    record:*)
      file=${what#record:}
      [ -e "$file" ] || file=$top/tests/machines/$file.json
      python3 "$top/tests/machines/mktree.py" "$file" "$at/root" || die "--record ${what#record:}: cannot be laid out"
      root_arg=root=$at/root
      ;;
    tree:*)
      mkdir -p "$at/root"
      cp -a "${what#tree:}/." "$at/root/" || die "--root ${what#tree:}: cannot be copied"
      root_arg=root=$at/root
      ;;
  esac
  echo AutoDetect=off >"$at/etc/gres.conf"
  local from=${root_arg#root=}
  while read -r minor local_cpus; do
    device=$from/dev/nvidia$minor
    if [ -n "$from" ]; then
      mkdir -p "$from/dev"
      if ! { mknod -m 666 "$device" c 195 "$minor"; } 2>/dev/null; then
        say "$node: mknod: not permitted here; the node has no GPUs"
        break
      fi
    fi
    [ -c "$device" ] || continue
    cores=$(cores_within "$local_cpus")
    [ "$mount_sys" = no ] || device=/dev/nvidia$minor
    echo "Name=gpu File=$device${cores:+ Cores=$cores}" >>"$at/etc/gres.conf"
    gpu_count=$((gpu_count + 1))
  done < <(list_gpus "$from" | if [ "$gres_order" = minor ]; then sort -n; else cat; fi)
}

# Words to put before slurmd so that it starts in the node's machine, with --mount-sys.
machine_of() { # NODE
  if [ "$mount_sys" = yes ] && [ -d "$dir/$1/root/sys" ]; then
    echo unshare --mount --propagation private "$top/tests/live/in-machine.sh" "$dir/$1"
  fi
}
