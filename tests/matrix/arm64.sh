#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh: the tree cross-built for aarch64 in trixie's root, its unit and golden tests under qemu-user. Slurm's
# own daemons are not run there: an emulated slurmd tells nothing about a real one.
# shellcheck disable=SC2154,SC2034  # dir, log, failed: of run.sh

arm64_packages='crossbuild-essential-arm64 qemu-user libyaml-cpp-dev:arm64 libpugixml-dev:arm64 libfmt-dev:arm64 libslurm-dev:arm64
  libgtest-dev:arm64 libgmock-dev:arm64 libstdc++6:arm64'

arm64() {
  local root=$dir/arm64 file=$log/arm64.root
  # A root of its own: libraries of a second architecture take the places of some of the first.
  if [ ! -e "$root/.arm64" ]; then
    make_root trixie || return
    rm -rf --one-file-system "$root"
    cp -a "$dir/trixie" "$root"
    # shellcheck disable=SC2086  # a list of words
    { enter "$root" dpkg --add-architecture arm64 && enter "$root" apt-get -q update &&
      enter "$root" apt-get -qy install --no-install-recommends $arm64_packages && touch "$root/.arm64"; } >"$file" 2>&1 ||
      { row arm64 root "FAILED: $file"; failed=1; return; }
  fi
  copy_tree "$root"
  row arm64 versions "$(enter "$root" aarch64-linux-gnu-g++ --version | head -n 1), $(enter "$root" qemu-aarch64 --version | head -n 1)"
  step arm64 'cross-build' make -k -j"$(nproc)" CI=1 CXX=aarch64-linux-gnu-g++ PMIX_HOME=/nowhere CXXFLAGS="$flags" plugin tool unit fake || return
  # What the tests execute by its name; the kernel would not.
  printf '#!/bin/sh\nexec qemu-aarch64 -L / /src/build/nccl-tune "$@"\n' >"$root/src/nccl-tune-arm64"
  chmod 755 "$root/src/nccl-tune-arm64"
  step arm64 'unit tests, qemu' env NCCLTUNE_TOOL=/src/nccl-tune-arm64 qemu-aarch64 -L / build/unit-tests --gtest_brief=1
  step arm64 'fake SPANK host, qemu' env NCCLTUNE_PLUGIN=build/nccl_tune.so qemu-aarch64 -L / build/fake-tests --gtest_brief=1
  step arm64 'golden, qemu' tests/golden/golden.sh ./nccl-tune-arm64
}
