#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compare `nccl-tune bench` with NVIDIA's nccl-tests on this machine, in one run.

    versus_nccl_tests.py --theirs DIR --ours FILE [options] [-- OPTIONS OF BOTH]

DIR holds nccl-tests' binaries (all_reduce_perf, ...), FILE is nccl-tune. Both run alternately, with the order swapped
each round, under the same launcher and with the same options (default: -b 8 -e 4G -f 2). For each row the table
prints the median time of either over the rounds and their ratio (ours / theirs: below 1 is faster); for each
collective the time from process start to the first row. The exit status is 1 when a run fails.
"""
import argparse
import json
import os
import re
import select
import shlex
import statistics
import subprocess
import sys
import time

ROW = re.compile(rb"^\s+\d+\s+\d+\s")


def run(command, env, limit):
    """One run: {(bytes, place): microseconds}, seconds to the first row, and the text of a failure or None."""
    start = time.monotonic()
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env)
    first, out = None, b""
    while True:
        left = start + limit - time.monotonic()
        if left <= 0:
            child.kill()
            break
        if not select.select([child.stdout], [], [], left)[0]:
            continue
        chunk = os.read(child.stdout.fileno(), 65536)
        if not chunk:
            break
        out += chunk
        if first is None and any(ROW.match(line) for line in out.split(b"\n")):
            first = time.monotonic() - start
    status = child.wait()
    rows = {}
    for line in out.split(b"\n"):
        if not ROW.match(line):
            continue
        words = line.split()
        if len(words) < 12:  # nccl-tests leaves the redop of hypercube empty
            continue
        for place, at in (("out", -8), ("in", -4)):
            try:
                rows[(int(words[0]), place)] = float(words[at])
            except ValueError:
                pass
            if words[at + 3] not in (b"0", b"N/A"):
                return rows, first, f"wrong data: {line.decode()}"
    if status != 0 or not rows:
        tail = b"\n".join(out.split(b"\n")[-12:]).decode(errors="replace")
        return rows, first, f"exit status {status}:\n{tail}"
    return rows, first, None


def median(values):
    return statistics.median(values) if values else float("nan")


def compare(name, options, both, launch, env):
    commands = {
        "theirs": launch + [os.path.join(options.theirs, name + "_perf")] + both,
        "ours": launch + [options.ours, "bench", name] + shlex.split(options.ours_options) + both,
    }
    times = {"theirs": {}, "ours": {}}
    starts = {"theirs": [], "ours": []}
    failed = False
    for round_ in range(options.rounds):
        for who in ("theirs", "ours") if round_ % 2 == 0 else ("ours", "theirs"):
            rows, first, fault = run(commands[who], env, options.limit)
            if fault:
                failed = True
                print(f"{name}: {who}: {shlex.join(commands[who])}: {fault}", flush=True)
                continue
            starts[who].append(first)
            for key, value in rows.items():
                times[who].setdefault(key, []).append(value)
    keys = sorted(set(times["theirs"]) & set(times["ours"]))
    rows = []
    for key in keys:
        theirs, ours = median(times["theirs"][key]), median(times["ours"][key])
        rows.append({"collective": name, "bytes": key[0], "place": key[1], "theirs_us": theirs, "ours_us": ours,
                     "ratio": ours / theirs if theirs > 0 else None,
                     "theirs_all": times["theirs"][key], "ours_all": times["ours"][key]})
    return rows, {who: median(starts[who]) for who in starts}, failed


def main():
    argv, both = sys.argv[1:], ["-b", "8", "-e", "4G", "-f", "2"]
    if "--" in argv:
        at = argv.index("--")
        argv, both = argv[:at], argv[at + 1:]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--theirs", required=True)
    parser.add_argument("--ours", required=True)
    parser.add_argument("--ours-options", default="--worker nccl")
    parser.add_argument("--launch", default="", help="launcher and its options, as one word")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--limit", type=float, default=120, help="seconds for one run")
    parser.add_argument("--collectives", default="all_reduce,all_gather,reduce_scatter,broadcast,reduce,alltoall,"
                                                 "gather,scatter,sendrecv,hypercube")
    parser.add_argument("--floor-us", type=float, default=10, help="rows below this are left out of the summary")
    parser.add_argument("--json", help="write every figure to this file")
    parser.add_argument("--quiet", action="store_true", help="summaries only")
    options = parser.parse_args(argv)
    launch = shlex.split(options.launch)
    every, summary, failed = [], [], False
    for name in options.collectives.split(","):
        rows, starts, bad = compare(name, options, both, launch, dict(os.environ))
        failed |= bad
        every += rows
        if not options.quiet:
            for row in rows:
                ratio = f"{row['ratio']:.3f}" if row["ratio"] else "-"
                print(f"{name:16s} {row['bytes']:12d} {row['place']:3s} {row['theirs_us']:12.2f} "
                      f"{row['ours_us']:12.2f} {ratio:>7s}")
        ratios = [r["ratio"] for r in rows if r["ratio"] and r["theirs_us"] >= options.floor_us]
        line = f"{name:16s} rows {len(rows):3d}"
        if ratios:
            worst = max((r for r in rows if r["ratio"] and r["theirs_us"] >= options.floor_us), key=lambda r: r["ratio"])
            line += (f"  ratio median {median(ratios):.3f} min {min(ratios):.3f} max {max(ratios):.3f}"
                     f" (at {worst['bytes']} {worst['place']})")
        line += f"  first row: theirs {starts['theirs']:.2f} s, ours {starts['ours']:.2f} s"
        summary.append(line)
        print("== " + line, flush=True)
    print("\nsummary (ours / theirs; rows of at least %g us)" % options.floor_us)
    print("\n".join(summary))
    if options.json:
        with open(options.json, "w") as f:
            json.dump({"options": both, "launch": options.launch, "rounds": options.rounds, "rows": every}, f, indent=1)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
