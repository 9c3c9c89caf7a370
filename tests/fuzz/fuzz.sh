#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# fuzz.sh OUTPUT-FOLDER [SECONDS [TARGET...]]: libFuzzer on each target in turn, for SECONDS each (600), from the recorded
# machines' seeds and what earlier runs found (OUTPUT-FOLDER/corpus). A table at the end; a finding stays in
# OUTPUT-FOLDER/findings and makes the exit status 1. Built by `make fuzz` with clang, AddressSanitizer and
# UndefinedBehaviorSanitizer.
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
O=$1 seconds=${2:-600}
shift $(($# > 2 ? 2 : $#))
targets=("$@")
[ $# -gt 0 ] || read -ra targets < <("$O/fuzz/fuzz" 2>&1 | sed -n 's/.*known: //p')
# A machine of 300 KB runs once a second under the sanitizers; the small ones hold the same kinds of files.
[ -d "$O/seeds" ] || { "$here/seeds.py" "$O" "$O/seeds" && find "$O/seeds" -type f -size +44k -delete; } || exit 1
mkdir -p "$O/findings"
table='' bad=0
for target in "${targets[@]}"; do
  mkdir -p "$O/corpus/$target" "$O/seeds/$target"
  log=$O/fuzz/$target.log
  # A slow unit is a finding too: a step's launch waits for it.
  nice -n 19 "$O/fuzz/fuzz" "--target=$target" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048 -print_final_stats=1 \
    -dict="$here/nccl-tune.dict" -artifact_prefix="$O/findings/$target-" -use_value_profile=1 \
    "$O/corpus/$target" "$O/seeds/$target" >"$log" 2>&1
  rc=$?
  [ "$rc" = 0 ] || { bad=1; tail -n 30 "$log"; }
  runs=$(sed -n 's/stat::number_of_executed_units: *//p' "$log")
  cover=$(grep -o 'cov: [0-9]*' "$log" | tail -n 1)
  table+=$(printf '%-11s %12s executions  %-12s %s' "$target" "${runs:-?}" "${cover:-}" "$([ "$rc" = 0 ] && echo 'nothing found' || echo "FOUND, status $rc: see $log")")$'\n'
done
printf '%s' "$table"
exit "$bad"
