#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The short pass over the fuzz targets in the plain build, a few seconds: regress.sh OUTPUT-FOLDER. Every seed, every input
# that once was a finding (tests/fuzz/found), and some changes to each.
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
O=${1:-${O:-build}}
seeds=$(mktemp -d)
trap 'rm -rf "$seeds"' EXIT
"$here/seeds.py" "$O" "$seeds" || { echo '0 passed, 1 failed'; exit 1; }
for found in "$here"/found/*; do  # TARGET-NAME
  [ ! -e "$found" ] || { name=${found##*/}; mkdir -p "$seeds/${name%-*}"; cp "$found" "$seeds/${name%-*}/"; }
done
"$O/fuzz-replay" "$seeds" 3
