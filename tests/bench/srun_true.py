#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a plugin adds to `srun true`: srun_true.py NOTHING.so ROUNDS, in an allocation of the one node of
tests/live/slurm.sh, which shows a recorded machine. Each round runs every condition once, in an order that rotates, so
that drift of the host falls on all of them alike. The table has each condition's median and the median of its
differences from the bare run of the same round."""
import os
import statistics
import subprocess
import sys
import time


def plugstack_files():
    base = os.environ["LIVE_DIR"]
    return os.path.join(base, "etc/plugstack.conf"), os.path.join(base, os.environ["LIVE_NODES"], "etc/plugstack.conf")


def write(path, text):
    with open(path, "w") as f:
        f.write(text)


def run(condition):
    lines, options = condition
    for path, line in zip(plugstack_files(), lines):
        write(path, line)
    start = time.perf_counter()
    subprocess.run(["srun", "-Q", "-N1", "-n1", *options, "true"], check=True)
    return (time.perf_counter() - start) * 1000


def main():
    nothing, rounds = sys.argv[1], int(sys.argv[2])
    ours = [open(path).read() for path in plugstack_files()]
    live = [" ".join(word for word in line.split() if not word.startswith("root=")) + "\n" for line in ours]
    conditions = {
        "bare": (["", ""], []),
        "a plugin that does nothing": ([f"optional {nothing}\n"] * 2, []),
        "off": (ours, []),
        "on, this machine": (live, ["--nccl-tune"]),
        "on, the recorded machine": (ours, ["--nccl-tune"]),
    }
    names = list(conditions)
    times = {name: [] for name in names}
    for name in names:
        run(conditions[name])  # once for the caches
    for i in range(rounds):
        for name in names[i % len(names):] + names[:i % len(names)]:
            times[name].append(run(conditions[name]))
    print(f"\nsrun -N1 -n1 true, {rounds} rounds{'':<4}  median ms   paired difference ms")
    for name in names:
        difference = statistics.median(t - b for t, b in zip(times[name], times["bare"]))
        print(f"  {name:<36}{statistics.median(times[name]):8.1f}   {difference:+8.2f}")


if __name__ == "__main__":
    main()
