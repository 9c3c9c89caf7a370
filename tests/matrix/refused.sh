#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# In a throwaway Slurm whose plugin was built for another release: the job runs, the option is not there, and Slurm names
# the plugin and the release that it was built for.
set -u
passed=0 failed=0
verdict() { if [ "$2" = 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAIL $1"; fi; }

out=$(srun -n1 true 2>&1)
verdict 'the job runs' $?
# 25.11 and on: an optional plugin that cannot be loaded is passed over in silence, on stderr; its logs still say it.
if ! grep -q 'Incompatible Slurm plugin' <<<"$out"; then
  out+=$(cat "$LIVE_DIR"/*/slurmd.log "$LIVE_DIR"/slurmctld.log 2>/dev/null; srun -vvv -n1 true 2>&1)
fi
grep -E 'Incompatible Slurm plugin .*nccl_tune\.so version \([0-9.]+\)' <<<"$out" | head -n 1
verdict 'Slurm says why' "${PIPESTATUS[0]}"
! srun --nccl-tune -n1 true >/dev/null 2>&1
verdict 'the option is unknown' $?
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
