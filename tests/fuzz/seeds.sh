#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Writes the seed corpora: seeds.sh OUTPUT-FOLDER FOLDER. From the recorded machines, as the tool dumps them, and from the
# shipped policy; FOLDER/TARGET/ holds a file an input.
set -eu
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
O=$1 to=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

seed() { # TARGET: an input from stdin, named by its content
  mkdir -p "$to/$1"
  cat >"$work/seed"
  cp "$work/seed" "$to/$1/$(sha1sum <"$work/seed" | cut -c1-16)"
}

env_of() { # the shape's letter, then variables: tests/fuzz/node_targets.cc
  printf '%s\nNCCL_DEBUG=INFO\nSLURM_STEP_GPUS=0,1\nCUDA_VISIBLE_DEVICES=0,1\nMASK=0-15\nHOME=/root\nSLURM_LOCALID=0\n' "$1"
  printf 'NCCLTUNE_SET=NCCL_IB_HCA\nNCCL_IB_HCA=mlx5_0\nSLURMD_TRES_BIND=gres/gpu:per_task:1\nSLURMD_NODENAME=n1\n'
}

policy=$top/etc/nccl-tune.yaml
letters=(A C Q a i B p O)
n=0
for record in "$top"/tests/machines/*.json; do
  python3 "$top/tests/machines/mktree.py" "$record" "$work/tree" >/dev/null
  "$O/nccl-tune" dump --root "$work/tree" "$work/dump" >/dev/null 2>&1 || { rm -rf "$work/tree"; continue; }
  seed dump <"$work/dump"
  seed redump <"$work/dump"
  { env_of "${letters[n % 8]}"; printf '\0'; cat "$policy"; printf '\0'; cat "$work/dump"; } | seed machine
  { printf 'strict,verbose\0default=on\0'; env_of B; printf '\0'; cat "$policy"; printf '\0'; cat "$work/dump"; } | seed plugin
  rm -rf "$work/tree" "$work/dump"
  n=$((n + 1))
done
[ "$n" -gt 5 ] || { echo "seeds.sh: only $n of the recorded machines could be dumped" >&2; exit 1; }

seed policy <"$policy"
printf 'mode: show\nbind: false\nexclude_hcas: [mlx5_0, mlx5_1]\nfabric_subnet: 10.0.0.0/8\nsocket_ifname: eth0\n' | seed policy
printf 'profiles:\n  - name: a\n    when: {dmi: {sys_vendor: "X*"}, gpu: "10de:*", gpu_count: 8, files: [/etc/x]}\n    env: {NCCL_IB_TC: 106}\n' | seed policy
for text in on off show env bind 'strict,verbose' 'profile=azure-ndv4,sharp,torch' '(null)' 'from-NCCLTUNE,on' 'turbo'; do
  printf '%s' "$text" | seed option
done
printf 'default=on\0policy=/etc/x.yaml\0gpu_order=minor\0root=/x\0inside' | seed plugstack
for text in 512 8M 1.5G 64KiB 0x1f 007 ' 12 , 13' 999999999999999999999; do printf '%s' "$text" | seed sizes; done
for text in 0-3,8,16-31:2 00000001,0000000f 0xff 0-65535 ''; do printf '%s' "$text" | seed cpulist; done
printf 'a*b[c-e]?\\*\0axxbd.*' | seed glob
printf '^=mlx5_0:1,mlx5_1\0mlx5_0' | seed nccl-list
printf 'NCCL_IB_HCA,NCCL_SOCKET_IFNAME,PATH' | seed marks
printf '\x12\x34\x81\x80\0\x01\0\x01\0\0\0\0\x02n1\x07cluster\0\0\x01\0\x01\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04\x0a\0\0\x07' | seed dns
{ printf '# site\nNCCL_DEBUG=WARN\nNCCL_IB_HCA=mlx5_0\n\0'
  printf '<system version="1"><cpu numaid="0" affinity="00000000,0000ffff" arch="x86_64"><pci busid="ffff:ff:01.0" class="0x060400">'
  printf '<pci busid="0001:00:00.0" class="0x030200"/></pci></cpu></system>'; } | seed files
for text in 1.5 95% 10s 2m 1e300 -3 8M; do printf '%s' "$text" | seed numbers; done
printf 'all_reduce\0-b\0008\0-e\000128M\0-f\0002\0-g\0001\0-n\0005' | seed options
printf 'allgather\0-d\0all\0-o\0sum\0--json\0-' | seed options
