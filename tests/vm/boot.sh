#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Boots what image.sh made, under qemu without KVM, for one command: 4 NUMA nodes, each with a PCIe host bridge of its own,
# a switch below it and two NICs below that; no network beyond the qemu process.
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

usage() {
  cat <<'HELP'
usage: boot.sh [OPTION]... -- COMMAND [ARG]...

Runs COMMAND as root in the guest, in /, prints what it printed and ends with its exit status; else 124 past the limit,
125 when the guest gave no status back. In the guest: /source (this tree, read-only), /build (the build folder, read-only),
/share (writable; FOLDER/share here), /fabric.ko.

Software emulation now and then hangs or dies while the guest's kernel starts. As long as COMMAND has not started, the
guest is booted again, up to 3 times, and that is said; once it may have started nothing is tried again.

  --dir FOLDER     where image.sh made the image (/var/tmp/nccl-tune-vm)
  --build FOLDER   the build folder to share (build)
  --limit SECONDS  for COMMAND (300); each boot has 120
HELP
}

say() { echo "boot.sh: $*" >&2; }

dir=/var/tmp/nccl-tune-vm build=$here/../../build limit=300 boot_limit=120
while [ $# -gt 0 ]; do
  case $1 in
    --dir) dir=$2; shift ;;
    --build) build=$2; shift ;;
    --limit) limit=$2; shift ;;
    -h | --help) usage; exit 0 ;;
    --) shift; break ;;
    *) say "unknown option '$1'"; usage >&2; exit 2 ;;
  esac
  shift
done
[ $# -gt 0 ] || { usage >&2; exit 2; }
for file in vmlinux initrd root.ext4; do
  [ -e "$dir/$file" ] || { say "$dir/$file: not there; run image.sh $dir"; exit 125; }
done
# One guest a folder: two share the host's cores and its patience.
exec 9>"$dir/lock"
flock -w 900 9 || { say "$dir: another guest still runs"; exit 125; }

share=$dir/share
machine=()

# 4 packages of 2 CPUs and 320 MiB; 0 and 1 are near each other, 2 and 3 are.
add_numa() {
  local from to near
  for from in 0 1 2 3; do
    machine+=(-object "memory-backend-ram,id=memory$from,size=320M"
      -numa "node,nodeid=$from,memdev=memory$from,cpus=$((2 * from))-$((2 * from + 1))")
  done
  for from in 0 1 2 3; do
    for to in 0 1 2 3; do
      near=$((from / 2 == to / 2 ? 12 : 32))
      [ "$from" = "$to" ] || machine+=(-numa "dist,src=$from,dst=$to,val=$near")
    done
  done
}

# rail0 to rail7, two a NUMA node, on one hub; guest_init.sh names them by the last byte of their address. The last is
# virtio: its interface is a grandchild of the PCI function. mgmt is on the root bus, of no NUMA node.
add_nics() {
  local node port rail model
  for node in 0 1 2 3; do
    machine+=(-device "pxb-pcie,id=bridge$node,bus=pcie.0,addr=$((0x10 + node)),bus_nr=$((0x20 * (node + 1))),numa_node=$node"
      -device "pcie-root-port,id=root$node,bus=bridge$node,addr=0,chassis=$((node + 1)),slot=0"
      -device "x3130-upstream,id=switch$node,bus=root$node")
    for port in 0 1; do
      rail=$((2 * node + port)) model=e1000e
      [ "$rail" != 7 ] || model=virtio-net-pci
      machine+=(-device "xio3130-downstream,id=port$rail,bus=switch$node,chassis=$((100 + rail)),slot=$port"
        -netdev "hubport,id=net$rail,hubid=0"
        -device "$model,netdev=net$rail,bus=port$rail,mac=52:54:00:01:00:0$rail,romfile=")
    done
  done
  machine+=(-netdev "hubport,id=netmgmt,hubid=1"
    -device "virtio-net-pci,netdev=netmgmt,bus=pcie.0,mac=52:54:00:01:00:ff,romfile=")
}

add_folder() { # TAG PATH [READONLY]
  machine+=(-fsdev "local,id=$1,path=$2,security_model=none,multidevs=remap${3:+,readonly=on}"
    -device "virtio-9p-pci,bus=pcie.0,fsdev=$1,mount_tag=$1")
}

# thread=single: with a thread a CPU qemu hung in 2 of 32 boots, in none of 32 with one.
describe_machine() {
  machine=(-nodefaults -no-user-config -display none -no-reboot -monitor none -serial "file:$dir/console.log"
    -machine "q35,usb=off,vmport=off,sata=off,smbus=off" -accel "tcg,thread=single,tb-size=256" -cpu "max,la57=off"
    -m 1280 -smp "8,sockets=4,cores=2,threads=1"
    -kernel "$dir/vmlinux" -initrd "$dir/initrd"
    -append "console=ttyS0 quiet panic=-1 net.ifnames=0 random.trust_cpu=on nokaslr mitigations=off audit=0 apparmor=0 nowatchdog
 rcupdate.rcu_cpu_stall_suppress=1 tsc=reliable no_timer_check lpj=4000000"
    -drive "if=none,id=root,file=$dir/root.ext4,format=raw,snapshot=on" -device "virtio-blk-pci,bus=pcie.0,drive=root"
    -device "virtio-rng-pci,bus=pcie.0" -nic none)
  add_numa
  add_nics
  add_folder source "$(cd "$here/../.." && pwd)" readonly
  add_folder build "$(cd "$build" && pwd)" readonly
  add_folder share "$share"
}

# Until the guest is off: 0; the boot's limit: 1; the command's: 124.
wait_for_guest() {
  local start=$SECONDS started=''
  while kill -0 "$qemu" 2>/dev/null; do
    sleep 0.3
    if [ -z "$started" ] && [ -e "$share/started" ]; then started=$SECONDS; fi
    if [ -n "$started" ]; then
      [ $((SECONDS - started)) -lt "$limit" ] || return 124
    else
      [ $((SECONDS - start)) -lt $boot_limit ] || return 1
    fi
  done
  return 0
}

end_guest() {
  kill "$qemu" 2>/dev/null
  wait "$qemu" 2>/dev/null
}

boot() {
  local ended
  rm -rf "$share"
  mkdir "$share"
  printf '%q ' "$@" >"$share/command"
  : >"$dir/console.log"
  qemu-system-x86_64 "${machine[@]}" >"$dir/qemu.log" 2>&1 9>&- &
  qemu=$!
  trap end_guest EXIT
  trap 'exit 130' INT TERM HUP
  wait_for_guest
  ended=$?
  end_guest
  trap - EXIT INT TERM HUP
  return "$ended"
}

mkdir -p "$share"
describe_machine
start=$SECONDS
for attempt in 1 2 3; do
  boot "$@"
  ended=$?
  [ ! -e "$share/started" ] || break
  say "boot $attempt ended before the command started: $(cat "$dir/qemu.log" "$dir/console.log" | tail -n 1)"
done
say "boots: $attempt, $((SECONDS - start)) s in all, guest ready after $(cat "$share/started" 2>/dev/null || echo '-') s"
cat "$share/output" 2>/dev/null
status=$(cat "$share/status" 2>/dev/null) || status=125
if [ "$ended" = 124 ] && [ ! -e "$share/status" ]; then
  say "the command did not end within $limit s"
  status=124
fi
[ "$status" != 125 ] || { say "no exit status came back; the console's end:"; tail -n 15 "$dir/console.log" >&2; }
exit "$status"
