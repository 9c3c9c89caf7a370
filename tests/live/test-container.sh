# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016 # the tasks expand those
# Steps in containers, with pyxis and enroot as they are installed here (LIVE_PYXIS, LIVE_ENROOT: where they are not
# found by themselves). The nodes' machines are at /sys and /dev, so the containers see them too.
# slurm: --containers --mount-sys --cpus 2 --record two-cpus.json --record baidu-a100-roce-9nic
# shellcheck disable=SC2154 # n1, n2, top: the nodes, the tree

need_containers() { [ "$LIVE_CONTAINERS" = yes ] || skip "$LIVE_CONTAINERS"; }

images=$LIVE_DIR/containers/images
hooks=$LIVE_DIR/containers/etc/hooks.d

# in_image IMAGE SRUN-OPTION...: of a task or several; pyxis says what it does on stderr too.
in_image() {
  local image=$1
  shift
  srun --container-image="$images/$image.sqsh" "$@" 2>stderr || fail "srun: exit status $?: $(cat stderr)"
}

# What NCCL, UCX and Gloo are told, sorted.
tuned() { grep -E '^(NCCL|UCX|GLOO|CUDA_DEVICE_ORDER)' | sort; }

our_lines() { grep -F 'nccl-tune: ' stderr; }

# policy PROFILE-ENV-LINE...: of a profile that every node takes, for this test (a drop-in).
policy() {
  mkdir -p "$LIVE_DIR/etc/nccl-tune.d"
  trap 'rm -rf "$LIVE_DIR/etc/nccl-tune.d"' EXIT
  { printf 'profiles:\n  - name: of-the-test\n    env:\n'; printf '      %s\n' "$@"; } >"$LIVE_DIR/etc/nccl-tune.d/test.yaml"
}

without_hook() { # NAME
  chmod -x "$hooks/$1"
  trap 'chmod 755 "$hooks"/*.sh; rm -rf "$LIVE_DIR/etc/nccl-tune.d"' EXIT
}

both=(-N1 -n2 -c2 -O "--cpu-bind=mask_cpu:3,3" --gpus-per-node=2 "--gpu-bind=map_gpu:1,0")
pins='echo "$SLURM_LOCALID $(sed -n "s/^Cpus_allowed_list:[[:space:]]*//p" /proc/self/status)"'

test_the_task_is_in_the_image_with_the_hosts_plan() {
  need_containers
  want "image" ID=live "$(in_image plain -N1 --nccl-tune cat /etc/os-release)"
  want "variables" "$(environment "$n1" --nccl-tune | tuned)" "$(in_image plain -N1 -n1 -w "$n1" --nccl-tune env | tuned)"
  has "$(in_image plain -N1 -n1 -w "$n1" --nccl-tune env)" '^NCCL_IB_HCA==mlx5_0:1,mlx5_1:1$'
  want "our lines" "" "$(our_lines)"
}

test_each_node_has_its_own_plan() {
  need_containers
  local out
  out=$(in_image plain -N2 --ntasks-per-node=2 --gpus-per-node=2 --nccl-tune bash -c 'echo "$SLURM_PROCID $NCCL_IB_HCA"' | sort)
  want "first node" "0 =mlx5_0:1,mlx5_1:1;1 =mlx5_0:1,mlx5_1:1" "$(head -n 2 <<<"$out" | paste -sd';')"
  has "$out" '^2 =mlx5_1:1,.*,mlx5_8:1$'
  has "$out" '^3 =mlx5_1:1,.*,mlx5_8:1$'
}

test_pins_hold_inside() {
  need_containers
  [ "$(nproc)" -ge 2 ] || skip "needs CPUs 0 and 1"
  want "without" "0 0-1,1 0-1" "$(in_image plain -w "$n1" "${both[@]}" bash -c "$pins" | sort | paste -sd,)"
  want "with" "0 1,1 0" "$(in_image plain -w "$n1" "${both[@]}" --nccl-tune bash -c "$pins" | sort | paste -sd,)"
}

test_an_ordinary_user() {
  need_containers
  local out
  out=$(as_user srun -N2 --ntasks-per-node=2 --gpus-per-node=2 --nccl-tune --container-image="$images/plain.sqsh" \
    bash -c 'echo "$SLURM_PROCID $(id -un) $(sed -n "s/^ID=//p" /etc/os-release) $NCCL_IB_HCA"' 2>stderr) || fail "exit status $?"
  has "$out" '^0 nobody live =mlx5_0:1,mlx5_1:1$'
  has "$out" '^3 nobody live =mlx5_1:1,.*,mlx5_8:1$'
  want "pins" "0 1,1 0" "$(as_user srun -w "$n1" "${both[@]}" --nccl-tune --container-image="$images/plain.sqsh" bash -c "$pins" | sort | paste -sd,)"
}

test_without_the_option_nothing_is_tuned() {
  need_containers
  untouched "$(in_image plain -N1 env)"
  want "our lines" "" "$(our_lines)"
}

test_what_the_image_sets_wins_and_is_told_once() {
  need_containers
  local out
  out=$(in_image sets -N2 --ntasks-per-node=2 --gpus-per-node=2 --nccl-tune --label env)
  want "values" 4 "$(grep -c ': NCCL_IB_HCA=^mlx5_9$' <<<"$out")"
  has "$out" ': NCCLTUNE_SET=.*NCCL_SOCKET_IFNAME'
  lacks "$out" ': NCCLTUNE_SET=.*NCCL_IB_HCA'
  once "$(our_lines)" "nccl-tune: NCCL_IB_HCA: kept the image's '\^mlx5_9'; the plan has '=mlx5.*'; --container-env=NCCL_IB_HCA keeps the plan's$"
  want "our lines" 1 "$(our_lines | wc -l)"
}

test_verbose_tells_all_that_the_image_sets() {
  need_containers
  in_image sets -N1 -n2 --nccl-tune=verbose true
  once "$(our_lines)" "nccl-tune: NCCL_VERSION: '2.26.3' is the image's$"
  once "$(our_lines)" "nccl-tune: NCCL_IB_HCA: kept the image's"
}

test_container_env_keeps_the_plans_value() {
  need_containers
  has "$(in_image sets -N1 -w "$n1" --nccl-tune --container-env=NCCL_IB_HCA env)" '^NCCL_IB_HCA==mlx5_0:1,mlx5_1:1$'
  lacks "$(our_lines)" NCCL_IB_HCA
}

test_the_image_hides_a_users_value() {
  need_containers
  has "$(NCCL_MADE_UP=mine in_image sets -N1 --nccl-tune env)" '^NCCL_MADE_UP=of the image$'
  once "$(our_lines)" "nccl-tune: NCCL_MADE_UP: the image's 'of the image' hides the user's 'mine'; --container-env=NCCL_MADE_UP keeps the user's$"
}

test_the_topology_file_is_mounted() {
  need_containers
  echo '<system version="1"/>' >"$LIVE_DIR/topo.xml"
  policy "NCCL_TOPO_FILE: $LIVE_DIR/topo.xml"
  want "inside" "$LIVE_DIR/topo.xml <system version=\"1\"/>" \
    "$(in_image plain -N1 --nccl-tune bash -c 'echo "$NCCL_TOPO_FILE $(cat "$NCCL_TOPO_FILE")"')"
  want "our lines" "" "$(our_lines)"
  want "as a user" "<system version=\"1\"/>" \
    "$(as_user srun --nccl-tune --container-image="$images/plain.sqsh" bash -c 'cat "$NCCL_TOPO_FILE"')"
}

test_the_users_own_topology_file_is_mounted() {
  need_containers
  echo mine >mine.xml
  want "inside" mine "$(NCCL_TOPO_FILE=$PWD/mine.xml in_image plain -N1 --nccl-tune bash -c 'cat "$NCCL_TOPO_FILE"')"
}

test_a_topology_file_that_is_not_inside_is_taken_back() {
  need_containers
  echo '<system version="1"/>' >"$LIVE_DIR/topo.xml"
  policy "NCCL_TOPO_FILE: $LIVE_DIR/topo.xml"
  without_hook 60-nccl-tune.sh
  local out
  out=$(in_image plain -N1 -n2 --nccl-tune env)
  lacks "$out" '^NCCL_TOPO_FILE='
  lacks "$out" '^NCCLTUNE_SET=.*NCCL_TOPO_FILE'
  once "$(our_lines)" "nccl-tune: NCCL_TOPO_FILE: taken back: '$LIVE_DIR/topo.xml' cannot be read in the container: No such file or directory; .*60-nccl-tune.sh"
}

test_the_hosts_conf_file_reaches_the_container() {
  need_containers
  echo 'NCCL_IB_TIMEOUT=21' >nccl.conf
  has "$(NCCL_CONF_FILE=$PWD/nccl.conf in_image plain -N1 -w "$n1" --nccl-tune env)" '^NCCL_IB_TIMEOUT=21$'
}

# NCCL takes ranks with one host name and boot id for one node.
test_tasks_of_a_node_are_one_host_to_nccl() {
  need_containers
  local option
  for option in '' --container-unshare=uts; do
    want "host names ($option)" 1 "$(in_image plain -N1 -n2 --nccl-tune ${option:+"$option"} \
      bash -c 'echo "$(hostname) $(cat /proc/sys/kernel/random/boot_id) $NCCL_HOSTID"' | sort -u | wc -l)"
  done
}

test_a_named_container() {
  need_containers
  batch -N1 -n2 -w "$n1" --nccl-tune >out <<SCRIPT || fail "exit status $?: $(cat out)"
#!/bin/bash
srun -n2 --container-image=$images/sets.sqsh --container-name=live true
srun -n2 --container-name=live env
srun -n2 --container-name=live --nccl-tune=off env >off
SCRIPT
  want "values" 2 "$(grep -c '^NCCL_NET_PLUGIN=none' out)"
  want "the image's" 2 "$(grep -c '^NCCL_IB_HCA=^mlx5_9$' out)"
  want "steps that tell" 2 "$(grep -c "nccl-tune: NCCL_IB_HCA: kept the image's" out)"
  lacks "$(cat off)" '^(NCCLTUNE|NCCL_NET_PLUGIN)'
}

test_a_batch_script_in_an_image_is_left_alone() {
  need_containers
  batch -N1 --nccl-tune --container-image="$images/plain.sqsh" >out <<'SCRIPT' || fail "exit status $?: $(cat out)"
#!/bin/bash
cat /etc/os-release
env
SCRIPT
  has "$(cat out)" '^ID=live$'
  untouched "$(cat out)"
  lacks "$(cat out)" 'nccl-tune: '
}

test_the_shipped_files_are_in_the_right_order() {
  need_containers
  local place=$PWD/plugstack.conf.d file
  mkdir "$place"
  for file in "$top"/etc/plugstack.conf.d/*.conf; do
    sed "s|^optional |optional $LIVE_DIR/lib/|" "$file" >"$place/${file##*/}"
  done
  grep -h pyxis.so "$LIVE_DIR/$n1/etc/plugstack.conf" >"$place/pyxis.conf"
  echo "include $place/*.conf" >"$LIVE_DIR/$n1/etc/plugstack.conf"
  has "$(in_image sets -N1 -n1 -w "$n1" --nccl-tune env)" '^NCCL_NET_PLUGIN=none$'
  once "$(our_lines)" "nccl-tune: NCCL_IB_HCA: kept the image's"
}

test_the_tool_is_usable_inside() {
  need_containers
  in_image libs -N1 -n1 -w "$n2" "$LIVE_DIR/bin/nccl-tune" topo >out
  want "GPUs" 8 "$(grep -cE '^  GPU[0-9] .*[0-9a-f]{2}:00\.0' out)"
  has "$(cat out)" '^  mlx5_8:1 +compute '
}


# The tool by plain mounts of the site (examples/containers), where it wants no hook.
test_the_tool_by_static_mounts() {
  need_containers
  local mounts=$LIVE_DIR/containers/etc/mounts.d/30-nccl-tune.fstab
  chmod -x "$hooks/60-nccl-tune.sh"
  # shellcheck disable=SC2064
  trap "chmod 755 '$hooks'/*.sh; rm -f '$mounts'" EXIT
  srun -N1 -w "$n1" --container-image="$images/libs.sqsh" "$LIVE_DIR/bin/nccl-tune" --version >out 2>&1 && fail "it is there without mounts"
  sed "s|/usr/local/bin/|$LIVE_DIR/bin/|g; s|/usr/local/libexec/|$LIVE_DIR/libexec/|g; s|/etc/nccl|$LIVE_DIR/etc/nccl|g" \
    "$top/examples/containers/30-nccl-tune.fstab" >"$mounts"
  has "$(in_image libs -N1 -w "$n1" "$LIVE_DIR/bin/nccl-tune" --version)" '^nccl-tune [0-9]'
  has "$(in_image libs -N1 -w "$n1" ls "$LIVE_DIR/libexec/nccl-tune" "$LIVE_DIR/etc/nccl-tune.yaml")" 'nccl-tune\.yaml'
}

need_bench() {
  [ -x "$LIVE_DIR/bin/nccl-tune-worker-host" ] || skip "built without the host worker"
  nccl-tune bench --help >/dev/null 2>&1 || skip "built without the benchmark"
  [ -e "$hooks/50-slurm-pmi.sh" ] || skip "enroot's extra hook 50-slurm-pmi.sh is not installed"
  srun --mpi=list 2>&1 | grep -q pmix || skip "this Slurm has no PMIx"
  # The made-up machines have interfaces that this host has not.
  export NCCL_SOCKET_IFNAME=lo
}

test_bench_inside() {
  need_containers
  need_bench
  in_image libs -N2 --ntasks-per-node=2 --gpus-per-node=2 --mpi=pmix --nccl-tune --container-mounts="$PWD:/mnt" --container-workdir=/mnt \
    "$LIVE_DIR/bin/nccl-tune" bench all_reduce -b 1K -e 4K -f 2 -n 3 >out
  want "ranks" 4 "$(grep -cE '^#  Rank' out)"
  want "rows" "1024 2048 4096" "$(grep -E '^ *[0-9]+ ' out | sed 's/^ *//' | cut -d' ' -f1 | paste -sd' ')"
  has "$(cat out)" '^# Out of bounds values : 0 OK$'
  lacks "$(cat stderr)" 'PMIX ERROR'
}

test_bench_inside_as_an_ordinary_user() {
  need_containers
  need_bench
  as_user srun -N2 --ntasks-per-node=2 --gpus-per-node=2 --mpi=pmix --nccl-tune --container-image="$images/libs.sqsh" \
    --container-mounts="$PWD:/mnt" --container-workdir=/mnt "$LIVE_DIR/bin/nccl-tune" bench -b 1K -e 1K -n 3 >out 2>stderr ||
    fail "exit status $?: $(cat out)"
  want "ranks" 4 "$(grep -cE '^#  Rank' out)"
  has "$(cat out)" '^# Out of bounds values : 0 OK$'
}

example() { # SCRIPT OPTION-OF-PLUGIN
  need_containers
  need_bench
  local job
  job=$(IMAGE=$images/libs.sqsh sbatch --parsable --wait "$2" -N2 --ntasks-per-node=2 --gpus-per-node=2 \
    "$top/examples/slurm/$1" all_reduce -b 1K -e 4K -f 2 -n 3) || fail "sbatch --wait: exit status $?: $(cat ./*.out)"
  want "ranks" 4 "$(grep -cE '^#  Rank' "nccl_test_$job.out")"
  has "$(cat "nccl_test_$job.out")" '^# Out of bounds values : 0 OK$'
}

test_the_example_runs_as_it_is() { example enroot.slurm --nccl-tune; }
test_the_sharp_example_runs_as_it_is() { example enroot-sharp.slurm --nccl-tune=sharp; }

test_pmix_serves_tasks_of_two_nodes_inside() {
  need_containers
  need_bench
  srun --container-image="$images/libs.sqsh" -N2 --ntasks-per-node=2 --mpi=pmix "$LIVE_DIR/bin/nccl-tune" bench -b 1K -e 1K -n 1 \
    >out 2>stderr
  has "$(cat out)" '^# nccl-tune .*: 4 ranks, 2 nodes, .*PMIx [0-9]'
}

test_a_missing_pmix_folder_is_told() {
  need_containers
  [ -e "$hooks/50-slurm-pmi.sh" ] || skip "enroot's extra hook 50-slurm-pmi.sh is not installed"
  srun --mpi=list 2>&1 | grep -q pmix || skip "this Slurm has no PMIx"
  in_image plain -N1 -n2 --mpi=pmix --nccl-tune true
  lacks "$(our_lines)" PMIx
  without_hook 50-slurm-pmi.sh
  in_image plain -N1 -n2 --mpi=pmix --nccl-tune true
  once "$(our_lines)" "nccl-tune: PMIx: '/.*/pmix\.[0-9]+\.0/?' is not in the container: .*; copy enroot's extra hook 50-slurm-pmi.sh"
}

test_the_users_own_mount_hides_the_hooks() {
  need_containers
  printf '#!/bin/sh\necho mine\n' >tool
  chmod 755 tool
  want "the tool" mine "$(in_image plain -N1 --container-mounts="$PWD/tool:$LIVE_DIR/bin/nccl-tune" "$LIVE_DIR/bin/nccl-tune")"
}

# What examples/container/make-squashfs.sh wrote: the tool, its workers and PMIx are the image's own.
test_the_shipped_image() {
  need_containers
  need_bench
  [ -f "${LIVE_IMAGE-}" ] || skip "no image (set LIVE_IMAGE to what examples/container/make-squashfs.sh writes)"
  # As root: nobody, the tests' ordinary user, has no shell in a distribution, and enroot starts containers with it.
  local kind
  for kind in pmix pmi2; do
    srun -N2 --mpi="$kind" --container-image="$LIVE_IMAGE" /usr/local/bin/nccl-tune bench -b 1K -e 2K -f 2 -n 2 >out 2>stderr ||
      fail "$kind: exit status $?: $(cat stderr)"
    want "ranks" 2 "$(grep -cE '^#  Rank' out)"
    has "$(cat out)" '^# Out of bounds values : 0 OK$'
  done
}
