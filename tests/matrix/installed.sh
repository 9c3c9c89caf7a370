#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Installs the packages of a folder (*.deb or *.rpm) in this root, uses them with a real Slurm, removes them, and looks for
# what is left: installed.sh FOLDER. As root, in a Debian root that may be thrown away.
set -u
folder=$1 top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
passed=0 failed=0
verdict() { if [ "$2" = 0 ]; then passed=$((passed + 1)); echo "ok   $1"; else failed=$((failed + 1)); echo "FAIL $1"; fi; }
all=(nccl-tune-common nccl-tune-plugin nccl-tune nccl-tune-worker-host)

# The two kinds. rpm knows nothing of Debian's libraries, so it is told not to ask for them.
if compgen -G "$folder/*.deb" >/dev/null; then
  file_of() { echo "$folder/$1"_*.deb; }
  put() { apt-get -qqy -o Dpkg::Use-Pty=0 install --no-install-recommends "$@"; }
  take_away() { apt-get -qqy -o Dpkg::Use-Pty=0 purge "$@" && apt-get -qqy -o Dpkg::Use-Pty=0 autoremove --purge; }
  holds() { dpkg -L "$1"; }
else
  file_of() { echo "$folder/$1"-[0-9]*.rpm; }
  put() { rpm -ivh --nodeps --nosignature "$@"; }
  take_away() { rpm -evh --nodeps "$@"; }
  holds() { rpm -ql "$1"; }
fi
install_them() {
  local name files=()
  for name in "$@"; do files+=("$(file_of "$name")"); done
  put "${files[@]}"
}
# All that a package could leave. The databases of apt, dpkg and rpm (/root/.rpmdb here), and what the loader and man keep,
# change anyway; two folders of the rpm are other packages' there: slurm's and filesystem's.
listing() {
  find /etc /usr /opt /var /root /dev/shm -xdev \( -path '/var/lib/*' -prune -o -path '/var/cache/*' -prune -o -path '/var/log/*' -prune \
    -o -path /root/.rpmdb -prune -o -path /etc/ld.so.cache -o -print \) | grep -vxE '/usr/lib64/slurm|/usr/share/licenses' | sort
}

# In a throwaway Slurm whose plugstack.conf has the one line that the installation asks for, on the node and on the client.
if [ "$folder" = --in-slurm ]; then
  verdict_of=$2
  for file in "$LIVE_DIR"/etc/plugstack.conf "$LIVE_DIR"/*/etc/plugstack.conf; do echo 'include /etc/slurm/plugstack.conf.d/*.conf' >>"$file"; done
  case $verdict_of in
    installed)
      srun --help 2>&1 | grep -q -- '--nccl-tune'; verdict 'srun lists its option' $?
      # shellcheck disable=SC2016  # the task expands it
      out=$(srun -n2 --nccl-tune sh -c 'echo "$SLURM_PROCID ${NCCLTUNE_SET-none}"' 2>&1)
      [ "$(grep -cE '^[01] .*NCCL_SOCKET_IFNAME' <<<"$out")" = 2 ]; verdict "a step is tuned: ${out//$'\n'/;}" $?
      out=$(srun -n1 --nccl-tune=show true 2>&1)
      grep -q 'nccl-tune: ' <<<"$out"; verdict "a step is shown its plan" $?
      srun -n1 --nccl-tune=nonsense true 2>&1 | grep "nccl-tune: .*nonsense"; verdict 'an unknown key is told' "${PIPESTATUS[1]}" ;;
    removed)
      out=$(srun -n1 true 2>&1); verdict "after the removal steps go on${out:+: $out}" $?
      ! srun -n1 --nccl-tune true >/dev/null 2>&1; verdict 'and the option is gone' $? ;;
  esac
  [ "$failed" = 0 ]
  exit
fi
with_slurm() { "$top/tests/live/slurm.sh" --nodes 1 --cpus 2 --plugin none -- "$0" --in-slurm "$1"; verdict "with Slurm, $1" $?; }

before=$(listing)
install_them nccl-tune-common nccl-tune-plugin; verdict 'the plugin alone, without the tool' $?
plugin=$(holds nccl-tune-plugin | grep '/nccl_tune\.so$')
[ -e "$plugin" ]; verdict "the plugin is there: $plugin" $?
! ldd "$plugin" | grep -E 'not found|cuda|nccl|pmix'; verdict 'it finds its libraries, and needs no CUDA' $?
! command -v nccl-tune; verdict 'no tool yet' $?
with_slurm installed
install_them nccl-tune nccl-tune-worker-host; verdict 'tool and worker' $?
nccl-tune --version; verdict 'the tool starts' $?
nccl-tune topo >/dev/null && nccl-tune plan --json | python3 -m json.tool >/dev/null; verdict 'topo and plan' $?
nccl-tune check >/tmp/check.out; rc=$?
tail -n 1 /tmp/check.out; [ "$rc" -le 1 ] && grep -qE '^[0-9]+ ok, ' /tmp/check.out; verdict "check (status $rc)" $?
nccl-tune bench all_reduce -g 2 -b 1K -e 1K -n 3 >/dev/null; verdict 'bench finds the worker' $?
# What each holds of the rest, by the parts of the names.
for want in common:etc/nccl-tune.yaml common:man5/nccl-tune.yaml.5 plugin:nccl_tune_inside.so plugin:plugstack.conf.d/nccl-tune.conf \
  plugin:enroot/hooks.d/60-nccl-tune.sh plugin:man8/spank_nccl_tune.8 tool:man1/nccl-tune.1 tool:etc/nccl-tune/tune-space.yaml \
  tool:etc/nccl-tune/expected.yaml tool:nccl-tune-bench.schema.json tool:nccl-tune-compare.schema.json \
  tool:bash-completion/completions/nccl-tune tool:examples/nccl-test.slurm tool:examples/healthcheck/health-check.sh; do
  package=nccl-tune-${want%%:*}
  holds "${package%-tool}" | grep -qF "${want#*:}"; verdict "${package%-tool} holds ${want#*:}" $?
done
take_away "${all[@]}"; verdict 'removed' $?
left=$(comm -13 <(echo "$before") <(listing))
[ -z "$left" ]; verdict "nothing is left${left:+: ${left//$'\n'/ }}" $?
with_slurm removed
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
