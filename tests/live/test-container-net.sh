# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Containers with a network namespace of their own: enroot then mounts a new sysfs, which the kernel allows only where
# /sys itself is not covered.
# slurm: --containers --nodes 1 --cpus 2 --record two-cpus.json
# shellcheck disable=SC2154 # n1: the node

test_a_network_namespace_of_its_own_is_left_alone() {
  [ "$LIVE_CONTAINERS" = yes ] || skip "$LIVE_CONTAINERS"
  local image=$LIVE_DIR/containers/images/plain.sqsh
  # With cgroup version 1 this hook of enroot's mounts below /sys/fs/cgroup, which is empty in a new sysfs.
  chmod -x "$LIVE_DIR/containers/etc/hooks.d/10-cgroups.sh"
  srun --gpus-per-node=1 --nccl-tune --container-image="$image" --container-unshare=net env >out 2>stderr || fail "exit status $?"
  lacks "$(cat out)" '^NCCL_(IB|SOCKET)'
  has "$(cat out)" '^CUDA_DEVICE_ORDER=PCI_BUS_ID$'
  once "$(cat stderr)" 'nccl-tune: network: the tasks get a network namespace of their own'
  srun --nccl-tune --container-image="$image" --container-unshare=uts env >out 2>stderr || fail "exit status $?"
  has "$(cat out)" '^NCCL_IB_HCA='
}
