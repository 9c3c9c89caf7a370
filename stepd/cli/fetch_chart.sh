#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The chart library that `nccl-tune report --html` writes into its pages: fetch_chart.sh FOLDER
# Puts chart.js and chart.css there, from npm's registry, at one version whose checksum is known. Without npm, or without
# the network, both are empty and FOLDER/chart.why says why: the page is then left out of the build.
set -u
folder=$1
version=1.6.32
sum=2883159c6ebccefbb95d751b0b82d010f9e1c0ec41b8bc96d401eda66e882935c89a46cb824332fa369b8cb8122cc6ac36e186cd09bf7a9ded3a4c93c6989023
mkdir -p "$folder" || exit 1
: >"$folder/chart.js"
: >"$folder/chart.css"
: >"$folder/chart.why"

without() {
  echo "$1" >"$folder/chart.why"
  exit 0
}

command -v npm >/dev/null || without 'no npm (to fetch the chart library uPlot)'
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
(cd "$work" && npm pack --silent --fetch-retries=1 --fetch-timeout=20000 "uplot@$version" >/dev/null 2>npm.log) ||
  without "npm could not fetch uplot@$version"
echo "$sum  $work/uplot-$version.tgz" | sha512sum --check --status || without "uplot@$version has another checksum than it had"
tar -xzf "$work/uplot-$version.tgz" -C "$work" || exit 1
# The MIT licence asks that its notice goes with every copy, so with every page.
{
  echo '/*!'
  cat "$work/package/LICENSE"
  echo '*/'
  cat "$work/package/dist/uPlot.iife.min.js"
} >"$folder/chart.js"
cp "$work/package/dist/uPlot.min.css" "$folder/chart.css"
