#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `nccl-tune report` on outputs that people published (outputs/, the source in each first line), against what it printed when
# that was reviewed (read/), and its page in a real browser:
#   report.sh [OUTPUT FOLDER|PROGRAM]             compare; ends with `N passed, N failed, N skipped`
#   report.sh --write [OUTPUT FOLDER|PROGRAM]     write read/ anew: review the diff
# SHOTS=FOLDER keeps screenshots of the page: desktop and phone, light and dark.
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd) || exit 1
top=${here%/tests/report}
write=
if [ "${1-}" = --write ]; then
  write=1
  shift
fi
# shellcheck source=tests/counts.sh
. "$top/tests/counts.sh"
tool=$(find_tool "${1:-$top/${O:-build}}") || exit 1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

# ---- every published output ----
cd "$here/outputs" || exit 1
for file in *; do
  "$tool" report "$file" >"$work/out" 2>"$work/err"
  rc=$?
  if [ "$rc" -gt 2 ] || [ -s "$work/err" ]; then
    fail "report $file: exit status $rc: $(head -n 1 "$work/err")"
  elif [ -n "$write" ]; then
    mkdir -p "$here/read"
    cp "$work/out" "$here/read/$file" && pass
  elif diff -u "$here/read/$file" "$work/out" >"$work/changes"; then
    pass
  else
    fail "report $file against tests/report/read/$file"
    head -n 20 "$work/changes"
  fi
  # Counted by other means: every line that is a row by its shape is read or refused.
  lines=$(sed -E 's/^ *\[[0-9]+,[0-9]+\]<std[a-z]+>://; s/^ *[0-9]+: / /' "$file" |
    grep -cE '^ *[0-9]+ +[0-9]+ +(float|double|half|int8|uint8|int32|uint64) ')
  rows=$("$tool" report --json "$file" 2>"$work/err" |
    python3 -c 'import json,sys; d=json.load(sys.stdin); print(sum(len(r["rows"]) for r in d["runs"]) + sum(x["why"] != "rows are left out here" for f in d["files"] for x in f["refused"]))')
  case $file in
    *json*) pass ;; # no columns
    *) if [ "$rows" = "$lines" ]; then pass; else fail "$file: $lines rows by grep, $rows read or refused"; fi ;;
  esac
done

# ---- hostile input ----
printf '%s\n' '# <script>alert(1)</script>' '8 2 float sum -1 1 1 1 0 1 1 1 0' 'n1: Test NCCL failure a.cu:1 </script><img src=x onerror=alert(1)>' >"$work/hostile.out"
head -c 100000 /dev/urandom >"$work/random.out"
: >"$work/empty.out"
for file in hostile random empty; do
  "$tool" report "$work/$file.out" >/dev/null 2>"$work/err"
  rc=$?
  if [ "$rc" = 0 ] || [ "$rc" = 2 ]; then pass; else fail "report $file.out: exit status $rc"; fi
done

# ---- nccl-tune pairs ----
"$tool" report "$here/pairs.jsonl" >"$work/out" 2>"$work/err"
if grep -q '^  node6: rail: slow in ' "$work/out" && grep -q '^  unreachable: node8$' "$work/out"; then
  pass
else
  fail "report pairs.jsonl: $(cat "$work/out" "$work/err")"
fi
head -n 9 "$here/pairs.jsonl" >"$work/pairs-cut.jsonl"
if "$tool" report "$work/pairs-cut.jsonl" | grep -q 'did not come to its end'; then
  pass
else
  fail "report of a search that was cut"
fi

# ---- the page ----
cd "$work" || exit 1
mkdir machine
python3 "$top/tests/machines/mktree.py" "$top/tests/machines/dgx-a100-80gb.json" machine >/dev/null || exit 1
install -m 644 "$top/etc/nccl-tune.yaml" . || exit 1
for command in topo plan check; do
  "$tool" "$command" --root machine --policy nccl-tune.yaml --json >$command.json
done
cp "$here/run.json" "$here/pairs.jsonl" .
cp "$here/outputs/08_v2.17.6_sendrecv_2node_SLOWPAIR_1.7e+07us.txt" slow-pair.out
cp "$here/outputs/08_v2.17.6_alltoall_FAIL_after_header_network_error.txt" failed.out
cp "$here/outputs/09_v2.17.8_all_reduce_perf_10node_80gpu_reducing_maxBytes.txt" ten-nodes.out
"$tool" report --html page.html run.json ten-nodes.out slow-pair.out failed.out topo.json plan.json check.json pairs.jsonl hostile.out >/dev/null 2>err
rc=$?
if [ "$rc" = 3 ]; then
  skip "the page: $(sed -n 's/^nccl-tune: //p' err)"
elif [ "$rc" != 0 ]; then
  fail "report --html: exit status $rc: $(head -n 1 err)"
else
  if grep -qE '(src|href)="(https?:)?//' page.html; then fail "the page refers to a network"; else pass; fi
  if grep -qE '<img src=x|<script>alert' page.html; then fail "text of a file became part of the page"; else pass; fi
  browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome || :)
  if [ -z "$browser" ]; then
    skip "the page in a browser: no chromium (apt-get install chromium)"
  else
    # A window of its own folder, no network, no sandbox where root runs it.
    chrome() { timeout 120 "$browser" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars --user-data-dir="$work/profile" --virtual-time-budget=4000 "$@"; }
    # A copy of the page that then does what a person does, and writes down what came of it.
    { sed 's|</body>.*||' page.html && printf '<script>' && cat "$here/in_browser.js" && printf '</script></body></html>'; } >driven.html
    chrome --window-size=1280,900 --enable-logging=stderr --dump-dom "file://$work/driven.html" >dom.html 2>console
    errors=$(grep -E 'CONSOLE' console | grep -iE 'error|refused|uncaught' | head -n 3)
    if [ -z "$errors" ]; then pass; else fail "the browser reports: $errors"; fi
    results=$(sed -n '/<pre id="results">/,/<\/pre>/p' dom.html | sed 's/<[^>]*>//g')
    [ -n "$results" ] || fail "the page did not come to its end in the browser"
    while read -r verdict what; do
      case $verdict in
        pass) pass ;;
        fail) fail "in the browser: $what" ;;
      esac
    done <<<"$results"
    if [ -n "${SHOTS-}" ]; then
      mkdir -p "$SHOTS"
      for theme in light dark; do
        sed "s|<html lang=\"en\">|<html lang=\"en\" data-theme=\"$theme\">|" page.html >"$theme.html"
        chrome --window-size=1280,4200 --screenshot="$SHOTS/desktop-$theme.png" "file://$work/$theme.html" 2>/dev/null
        # A window of headless Chromium is never narrower than 500 pixels: a frame of a phone's width is.
        printf '<!doctype html><body style="margin:0"><iframe src="%s.html" style="border:0;width:390px;height:7000px"></iframe>' "$theme" >phone.html
        chrome --window-size=500,7000 --screenshot="$SHOTS/phone-$theme.png" "file://$work/phone.html" 2>/dev/null
      done
      cp page.html "$SHOTS/"
    fi
  fi
fi
tell_counts
