# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Sourced by slurm.sh: pyxis and enroot as they are installed here, under a site configuration of the throwaway Slurm's
# own, and small images made of this host's programs.
# shellcheck disable=SC2154 # dir, top, node_names and say are slurm.sh's

# The pyxis plugin: LIVE_PYXIS, or where pyxis' and Slurm's installations put it.
find_pyxis() {
  local file
  for file in "${LIVE_PYXIS-}" /usr/local/lib/slurm/spank_pyxis.so /usr/lib*/slurm/spank_pyxis.so \
    /usr/lib/*/slurm*/spank_pyxis.so /opt/slurm/lib*/slurm/spank_pyxis.so; do
    if [ -f "$file" ]; then echo "$file"; return; fi
  done
}

# The enroot program: LIVE_ENROOT, or in PATH.
find_enroot() {
  if [ -n "${LIVE_ENROOT-}" ]; then echo "$LIVE_ENROOT"; else command -v enroot; fi
}

# Says what is missing for containers; nothing when they are to be had.
why_no_containers() {
  local program
  [ -n "$(find_pyxis)" ] || { echo "no pyxis (spank_pyxis.so; set LIVE_PYXIS)"; return; }
  [ -x "$(find_enroot)" ] || { echo "no enroot in PATH (set LIVE_ENROOT)"; return; }
  for program in mksquashfs unsquashfs; do
    command -v "$program" >/dev/null || { echo "no $program (squashfs-tools)"; return; }
  done
  unshare --user --map-root-user true 2>/dev/null || echo "no user namespaces on this host"
}

# enroot's configuration folder, as its program has it built in.
enroot_sysconf() { sed -n 's/^config::export ENROOT_SYSCONF_PATH *"\(.*\)"$/\1/p' "$1"; }

# A site of its own: folders, hooks and mounts by this folder, whatever the host's enroot.conf says. Nodes of one host
# need a data path each.
make_site() {
  local site=$dir/containers enroot share hook worker
  enroot=$(readlink -f "$(find_enroot)")
  share=$(dirname "$enroot")/../share/enroot
  mkdir -p "$site/bin" "$site/etc" "$site/run" "$site/data" "$site/cache" "$site/images"
  chmod 1777 "$site/run" "$site/data" "$site/cache"
  cp -a "$(enroot_sysconf "$enroot")"/{hooks.d,mounts.d,environ.d} "$site/etc/"
  hook=$share/hooks.d/50-slurm-pmi.sh
  if [ -e "$hook" ]; then install -m 755 "$hook" "$site/etc/hooks.d/"; fi
  sed -e "s|^bindir=.*|bindir=$dir/bin|" -e "s|^libexecdir=.*|libexecdir=$dir/libexec|" \
    -e "s|^sysconfdir=.*|sysconfdir=$dir/etc|" "$top/etc/enroot/hooks.d/60-nccl-tune.sh" >"$site/etc/hooks.d/60-nccl-tune.sh"
  chmod 755 "$site/etc/hooks.d/60-nccl-tune.sh"
  cat >"$site/bin/enroot" <<SCRIPT
#!/bin/bash
at=$site
node=\${SLURM_TOPOLOGY_ADDR##*.}
mkdir -p "\$at/data/\$UID" "\$at/run/\$UID"
export ENROOT_SYSCONF_PATH=\$at/etc ENROOT_RUNTIME_PATH=\$at/run/\$UID/\$node ENROOT_DATA_PATH=\$at/data/\$UID/\$node
export ENROOT_CACHE_PATH=\$at/cache/\$UID
export PATH=${enroot%/*}:\$PATH
exec $enroot "\$@"
SCRIPT
  chmod 755 "$site/bin/enroot"
  mkdir -p "$dir/libexec/nccl-tune"
  for worker in "$dir"/bin/nccl-tune-worker-*; do [ ! -e "$worker" ] || cp -l "$worker" "$dir/libexec/nccl-tune/"; done
  ln -s nccl_tune.so "$dir/lib/nccl_tune_inside.so"
}

# pyxis' line for the plugstack file of a node or the client, and ours after it.
container_lines() { # FOLDER of the node or the client
  local fuse=0
  if command -v squashfuse >/dev/null && [ -c /dev/fuse ]; then fuse=1; fi
  echo "required $(find_pyxis) runtime_path=$1/pyxis use_squashfuse=$fuse"
  echo "optional $dir/lib/nccl_tune_inside.so inside"
}

# Copies programs and what they load to TREE, at their own paths.
copy_programs() { # TREE FILE...
  local tree=$1 file
  shift
  for file in "$@" $(ldd "$@" 2>/dev/null | grep -oE '/[^ :)]+' | sort -u); do
    [ -e "$tree$file" ] || install -D -m 755 "$file" "$tree$file"
  done
}

# The tree of an image with a shell and what tests call, and nothing else.
make_tree() { # TREE
  local tree=$1 name at programs=()
  mkdir -p "$tree"/{bin,dev,etc,home,proc,root,run,sys,tmp,usr/bin,usr/local/bin,var/tmp}
  for name in bash cat chmod env grep hostname id ls mkdir readlink sed sleep sort tr true; do
    programs+=("$(type -P "$name")")
  done
  copy_programs "$tree" "${programs[@]}"
  for name in "${programs[@]}"; do
    for at in bin usr/bin; do [ -e "$tree/$at/${name##*/}" ] || ln -s "$name" "$tree/$at/${name##*/}"; done
  done
  ln -s bash "$tree/bin/sh"
  cp /etc/passwd /etc/group "$tree/etc/"
  : >"$tree/etc/environment"
  echo 'ID=live' >"$tree/etc/os-release"
}

# All files root's: an ordinary user could not make others' (nor device nodes, of which there are none).
make_image() { # TREE NAME
  mksquashfs "$1" "$dir/containers/images/$2.sqsh" -noappend -all-root -no-xattrs -noI -noD -noF -no-progress >"$dir/containers/$2.log" 2>&1 ||
    die "$dir/containers/$2.log: mksquashfs failed"
}

# The images: "plain"; "libs", with what the tool and its workers load and PMIx' client library; "sets", which sets NCCL_
# variables itself.
make_images() {
  local tree=$dir/containers/tree pmix
  make_tree "$tree"
  make_image "$tree" plain
  printf 'NCCL_IB_HCA=^mlx5_9\nNCCL_VERSION=2.26.3\nNCCL_MADE_UP="of the image"\n' >"$tree/etc/environment"
  make_image "$tree" sets
  : >"$tree/etc/environment"
  pmix=$(ldconfig -p | sed -n 's/.*libpmix\.so\.2 .* => //p' | head -n 1)
  if [ -n "$pmix" ]; then
    pmix=$(readlink -f "$pmix")
    copy_programs "$tree" "$pmix" "${pmix%/*}"/pmix/*.so
    mkdir -p "$tree/usr/lib"
    [ ! -e "${pmix%/lib/*}/share" ] || { mkdir -p "$tree${pmix%/lib/*}"; cp -a "${pmix%/lib/*}/share" "$tree${pmix%/lib/*}/"; }
    mkdir -p "$tree/etc/ld.so.conf.d"
    ln -sf "${pmix##*/}" "$tree${pmix%/*}/libpmix.so.2"
    echo "${pmix%/*}" >"$tree/etc/ld.so.conf"
  fi
  copy_programs "$tree" "$dir"/bin/*
  rm -rf "${tree:?}$dir"
  ldconfig -r "$tree" 2>/dev/null
  make_image "$tree" libs
  rm -rf "$tree"
}

make_containers() {
  make_site
  make_images
}
