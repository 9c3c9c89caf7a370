#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh: the packages of the commit, looked over, each kind installed, used and removed in a fresh root of this
# host's release.
# shellcheck disable=SC2154,SC2034  # dir, log, failed, top: of run.sh

package_tools='dpkg-dev debhelper lintian rpm rpmlint'
slurm_packages='slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge python3 procps psmisc iproute2 rpm'

# on_host WHAT COMMAND...: a row for a command on this host; FAILED when it fails.
on_host() {
  local what=$1 file=$log/packages.${1//[^a-z0-9+]/-} start=$SECONDS
  shift
  if "$@" >"$file" 2>&1; then row packages "$what" "ok, $((SECONDS - start)) s"; return; fi
  row packages "$what" "FAILED ($file)"
  failed=1
  return 1
}

# lintian's exit status is 0 with warnings: what it says counts.
look_over_deb() { lintian --tag-display-limit 0 "$1"/deb/*.changes 2>&1 | tee /dev/stderr | grep -cE '^[EW]:' | grep -qx 0; }
look_over_rpm() { rpmlint -c "$top/etc/packaging/rpm/rpmlint.toml" "$1"/rpm/RPMS/*/*.rpm "$1"/rpm/SRPMS/*.rpm; }

# The tarball of two clones: other folders, time zones, masks and days of the files give the same bytes.
same_tarball() { # FOLDER
  local at=$1/dist-twice
  rm -rf "$at" && mkdir -p "$at"
  git clone -q --no-hardlinks "$top" "$at/one" && git clone -q --no-hardlinks "$top" "$at/another folder" || return
  find "$at/another folder" -name .git -prune -o -type f -exec touch -d 2001-01-01 {} +
  (cd "$at/one" && TZ=Asia/Tokyo make O="$at/one/out" dist) || return
  (cd "$at/another folder" && umask 077 && TZ=America/Lima LC_ALL=C make O=out dist) || return
  sha256sum "$at"/*/out/*.tar.gz
  cmp "$at"/*/out/*.tar.gz
}

# The Debian packages of the libraries that the rpm's programs need: rpm can ask for none of them there.
libraries() { # FOLDER
  rpm -qp --requires "$1"/rpm/RPMS/*/*.rpm | grep -oE '^lib[^(]+\.so[^(]*' | sort -u |
    awk 'NR == FNR { wanted[$1] = 1; next } $1 in wanted { print $NF; delete wanted[$1] }' - <(ldconfig -p) |
    xargs realpath | xargs dpkg -S 2>/dev/null | cut -d: -f1 | sort -u
}

packages() {
  local out=$dir/packages.out suite root=$dir/packages kind
  # shellcheck disable=SC2086  # a list of words
  "$top/.ci/deps" $package_tools || { row packages tools FAILED; failed=1; return; }
  suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
  on_host 'make dist twice' same_tarball "$out"
  on_host 'make deb' env DEB_BUILD_OPTIONS=parallel="$(nproc)" make -C "$top" O="$out" deb && on_host lintian look_over_deb "$out"
  on_host 'make rpm' env RPMBUILD_ARGS='--nodeps --with gloo' make -C "$top" O="$out" rpm && on_host rpmlint look_over_rpm "$out"
  # shellcheck disable=SC2086
  make_root "$suite" bare $slurm_packages || { row packages root "FAILED: $log/bare.root"; failed=1; return; }
  for kind in deb rpm; do
    rm -rf --one-file-system "$root"
    cp -a "$dir/bare" "$root"
    mkdir "$root/packages"
    find "$out/$kind" -maxdepth 3 -name "*.$kind" ! -name '*dbgsym*' ! -name '*debuginfo*' ! -name '*.src.rpm' -exec cp {} "$root/packages/" \;
    copy_tree "$root"
    # shellcheck disable=SC2046  # a list of words
    [ "$kind" = deb ] || on_host 'libraries for the rpm' enter "$root" apt-get -qy install --no-install-recommends $(libraries "$out")
    step packages "$kind in a fresh root" tests/matrix/installed.sh /packages
  done
  rm -rf --one-file-system "$root"
}
