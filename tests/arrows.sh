#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The arrows between the rooms, what the finished files export and load, and how they are hardened: arrows.sh [OUTPUT FOLDER].
# Each line of the report is one test; the last line counts them.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
O=${1:-${O:-build}}
# shellcheck source=tests/counts.sh
. tests/counts.sh

# verdict NAME FINDINGS: passes when there are none.
verdict() {
  if [ -z "$2" ]; then
    pass
  else
    fail "$1"$'\n'"$2"
  fi
}

# ---- includes ----
# FILE:LINE:HEADER of each #include below a folder.
includes() { grep -rnoE --include='*.cc' --include='*.h' --include='*.cu' '^[[:space:]]*#[[:space:]]*include[[:space:]]*[<"][^">]+' "$1" | sed -E 's/#[[:space:]]*include[[:space:]]*[<"]//'; }

# room FOLDER ALLOWED...: our own headers that FOLDER may include, as shell patterns.
room() {
  local folder=$1 file line header ok allowed found=''
  shift
  while IFS=: read -r file line header; do
    case $header in base/* | node/* | policy/* | plugin/* | cli/* | check/* | bench/* | worker/* | */spank/* | */stepd/* | ../*) ;; *) continue ;; esac
    ok=
    for allowed in "$@"; do
      # shellcheck disable=SC2053  # a pattern
      [[ $header == $allowed ]] && ok=yes
    done
    [ -n "$ok" ] || found+="$file:$line: $folder may not include '$header'"$'\n'
  done < <(includes "$folder")
  verdict "arrows of $folder" "$found"
}
room spank/base 'base/*'
room spank/node 'base/*' 'node/*'
room spank/policy 'base/*' 'node/*' 'policy/*'
room spank/plugin 'base/*' 'node/*' 'policy/*' 'plugin/*'
room stepd/cli 'base/*' 'node/*' 'policy/*' 'cli/*' 'check/*' 'bench/*'
room stepd/check 'base/*' 'node/*' 'policy/*' 'check/*'
room stepd/bench 'base/*' 'bench/*' 'worker/protocol.h'
room stepd/worker 'worker/*'

# What no file of a folder may include: FOLDER PATTERN.
never() {
  verdict "$1 includes no $2" "$(includes "$1" | grep -E ":($2)")"
}
heavy='cuda|nccl\.h|nccl_|pmix|infiniband/|rdma/|gloo/|hwloc|mpi\.h|nvml'
never spank "$heavy"
never stepd/cli "$heavy"
never stepd/check "$heavy"
never stepd/bench 'cuda|nccl\.h|infiniband/|rdma/|gloo/|hwloc|mpi\.h|nvml'
never spank/base 'slurm/|yaml-cpp|pugixml'
never spank/node 'slurm/|yaml-cpp'
never spank/policy 'slurm/'
never stepd 'slurm/'

# ---- what the built files export, load and forbid ----
needed() { readelf -dW "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'; }
sanitized() { needed "$1" | grep -qE '^lib(a|ub|t)san'; }

hardened() { # FILE
  local dynamic segments found=''
  dynamic=$(readelf -dW "$1") segments=$(readelf -lW "$1")
  grep -q 'GNU_RELRO' <<<"$segments" || found+='no relro'$'\n'
  grep -qE 'BIND_NOW|Flags:.*NOW' <<<"$dynamic" || found+='not linked with -z now'$'\n'
  grep -qE 'GNU_STACK .* RW ' <<<"$segments" || found+='an executable stack'$'\n'
  grep -qE '(TEXTREL|RPATH|RUNPATH)' <<<"$dynamic" && found+='text relocations or a run path'$'\n'
  grep -qE 'LOAD .* RWE' <<<"$segments" && found+='a segment that is writable and executable'$'\n'
  readelf -hW "$1" | grep -q 'Type:.*DYN' || found+='not position independent'$'\n'
  # Of --dyn-syms: a stripped file has no others.
  readelf --dyn-syms -W "$1" | grep -q '__stack_chk_fail' || found+='no stack protector'$'\n'
  # -D_FORTIFY_SOURCE: libc's checked functions, such as __read_chk. Without optimization there are none.
  [[ $(<"$O/flags") != *-O[123s]* ]] || readelf --dyn-syms -W "$1" | grep -qE ' __[a-z]+_chk(@|$)' || found+='not built with _FORTIFY_SOURCE'$'\n'
  # -fcf-protection: indirect branches land on endbr64. (The linker's note is no witness: it goes when one object lacks
  # it, and Debian's C start files do.)
  if readelf -hW "$1" | grep -q 'Machine:.*X86-64'; then
    [ "$(objdump -d --no-show-raw-insn -j .text "$1" | grep -c endbr64)" -gt 50 ] || found+='not built with -fcf-protection'$'\n'
  fi
  verdict "${1##*/} is hardened" "$found"
}

# What leaves no trace that one could look for.
for flag in -fstack-clash-protection -fstack-protector-strong; do
  verdict "built with $flag" "$(grep -qe " $flag " "$O/flags" || echo "not in $O/flags")"
done

plugin=$O/nccl_tune.so
if [ -e "$plugin" ]; then
  hooks='slurm_spank_(init|slurmd_init|init_post_opt|local_user_init|user_init|task_init_privileged|task_init|task_post_fork|task_exit|job_prolog|job_epilog|slurmd_exit|exit|options|init_failure_mode)'
  verdict 'the plugin exports its hooks alone' "$(nm -D --defined-only "$plugin" | awk '{ print $3 }' | sed 's/@.*//' | grep -vxE "$hooks|plugin_(name|type|version)|spank_(plugin_version|options)|NCCLTUNE[A-Z0-9_.]*" || :)"
  for symbol in plugin_name plugin_type plugin_version slurm_spank_init slurm_spank_user_init slurm_spank_task_init; do
    verdict "the plugin exports $symbol" "$(nm -D --defined-only "$plugin" | grep -qE " $symbol(@|\$)" || echo missing)"
  done
  # A shared object links with holes; slurmstepd would find them only when it loads it.
  verdict 'the plugin has every symbol of its own' "$(nm -DC --undefined-only "$plugin" | grep -E 'nccltune::' || :)"
  sanitized "$plugin" || verdict 'the plugin loads no other library' \
    "$(needed "$plugin" | grep -vE '^lib(yaml-cpp|pugixml|stdc\+\+|gcc_s|m|c)\.so|^ld-linux' || :)"
  # Two C++ runtimes in one process: an exception of yaml-cpp's then ends slurmstepd even behind the guard.
  verdict 'the plugin shares libstdc++ with yaml-cpp' "$(needed "$plugin" | grep -q '^libstdc++\.so' || echo 'libstdc++ is not loaded dynamically')"
  hardened "$plugin"
else
  verdict 'the plugin is there' "no $plugin"
fi

tool=$O/nccl-tune
if [ -e "$tool" ]; then
  verdict 'the tool starts without CUDA, NCCL, PMIx and Gloo' "$(needed "$tool" | grep -E 'cuda|nccl|pmix|gloo|ibverbs|mpi|slurm|hwloc' || :)"
  hardened "$tool"
fi
[ ! -e "$O/nccl-tune-worker-host" ] || hardened "$O/nccl-tune-worker-host"

# ---- the tree ----
# A tree unpacked from a tarball has no list: there all files but what git would ignore.
tracked=$(git ls-files 2>/dev/null) || tracked=
[ -n "$tracked" ] ||
  tracked=$(find . -type f -not -path './.git/*' -not -path './build/*' -not -path './build-*/*' -not -path "./${O#./}/*" -not -name '*.o' | sed 's|^\./||')
# The tool may have them (PORTABLE=1), the plugin never.
verdict 'static runtimes are not asked for by the plugin' "$(grep -nE -- '-static-lib(stdc\+\+|gcc)' Makefile | grep -v ':STATIC_LIBS := ' || :)"
missing=
for file in $tracked; do
  case $file in
    *.cc | *.h | *.c | *.cu | *.sh | *.slurm | *.py | Makefile) [ ! -e "$file" ] || head -n 3 "$file" | grep -q 'SPDX-License-Identifier: Apache-2.0' || missing+="$file"$'\n' ;;
  esac
done
verdict 'every source names its licence' "$missing"
# Paths of one developer's machine. tests/machines holds what machines said, so it is not asked.
verdict 'no path of one machine' "$(grep -vE '^(tests/(machines|golden|fuzz)/|\.ci/|tests/arrows\.sh)' <<<"$tracked" |
  xargs grep -nE '(^|[^a-zA-Z0-9_.-])/work/|/tmp/o-' /dev/null 2>/dev/null || :)"

tell_counts
