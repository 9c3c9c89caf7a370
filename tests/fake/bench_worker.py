#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# A worker that speaks stepd/worker/protocol.h and misbehaves on demand: FAKE_WORKER=MANNER[:KIND], where KIND is the
# command at which it happens (setup, connect, run). FAKE_SPEED is a factor on its times, and gives those of
# a launch a noise of 0.2 % in common.
# As a worker with a GPU: FAKE_BDF is its address, FAKE_LOG the file that NCCL's log is a copy of.
import os
import random
import signal
import struct
import sys
import time

SETUP, MAKE_ID, CONNECT, RUN, DISCONNECT, QUIT = range(1, 7)
READY, ID, CONNECTED, PHASE, RESULT, DISCONNECTED, _, _, FAILURE = range(100, 109)
MAGIC = 0x4E544E03
WRONG = "q i4x i4x q 40s 40s"
PLACEMENT = f"ii d d {WRONG} iii4x {WRONG} I4x d"

manner, _, at = os.environ.get("FAKE_WORKER", "good").partition(":")
speed = 1.0
if "FAKE_SPEED" in os.environ:
    speed = float(os.environ["FAKE_SPEED"]) * random.Random(os.getpid()).uniform(0.998, 1.002)
command_at = {"setup": SETUP, "connect": CONNECT, "run": RUN}.get(at, RUN)


rank = int(os.environ.get("PMIX_RANK", "0"))
bdf = os.environ.get("FAKE_BDF", "").encode()
if os.environ.get("FAKE_LOG") and os.environ.get("NCCL_DEBUG_FILE"):
    with open(os.environ["FAKE_LOG"]) as source, open(os.environ["NCCL_DEBUG_FILE"], "w") as log:
        log.write(source.read())


def read(count):
    data = b""
    while len(data) < count:
        more = os.read(3, count - len(data))
        if not more:
            sys.exit(0)
        data += more
    return data


def send(kind, sequence, payload=b""):
    os.write(4, struct.pack("<IIII", MAGIC, kind, len(payload), sequence) + payload)


def misbehave(sequence):
    print("about to", manner, flush=True)
    if manner == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    elif manner == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    elif manner == "leave":
        sys.exit(3)
    elif manner == "hang":
        time.sleep(1000)
    elif manner == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif manner == "garbage":
        os.write(4, b"Segmentation fault\n" * 3)
        time.sleep(1000)
    elif manner == "huge":
        os.write(4, struct.pack("<IIII", MAGIC, RESULT, 0xFFFFFFFF, sequence))
        time.sleep(1000)
    elif manner == "wrong-turn":
        send(CONNECTED, sequence, struct.pack("<dQQ", 0, 0, 0))
        time.sleep(1000)
    elif manner in ("fail", "no-device"):
        kind = 2 if manner == "no-device" else 4
        send(FAILURE, sequence, struct.pack("<I400s200s", kind, b"ncclThing: it broke", b"mend it"))
        sys.exit(1)


def placement(size, wrong):
    first = (1, 77, b"1.5", b"2.5") if wrong else (-1, 0, b"", b"")
    repeats = (0, 0, 0, 0, 0, -1, 0, b"", b"")
    return struct.pack("<" + PLACEMENT, 1, 1, speed * (10e-6 + size / 1e10), 1e-5, wrong, 1 if wrong else 0, *first, *repeats, 8, 0)


runs = 0
while True:
    magic, kind, length, sequence = struct.unpack("<IIII", read(16))
    payload = read(length)
    if kind == RUN:
        collective, data_type, op, root, size, limit = struct.unpack_from("<IIIiQQ", payload)
        warm_only = struct.unpack_from("<i", payload, 32 + 4 * 9)[0]
        runs += not warm_only
    if kind == command_at and manner != "good" and (kind != RUN or runs == 3):
        if manner != "wrong":
            misbehave(sequence)
    if kind == SETUP:
        send(PHASE, 0, struct.pack("<48s", b"device"))
        send(READY, sequence, struct.pack("<96s16s64s256s64s6i3QI4xq", b"fake memory", bdf, b"", b"fakehost-%d" % rank, b"fake 1.0",
                                          0, 0, 0, 0, 0, 1, 8 << 30, 16 << 30, 1 + rank, 0xFFF, os.getpid()))
    elif kind == MAKE_ID:
        send(ID, sequence)
    elif kind == CONNECT:
        send(CONNECTED, sequence, struct.pack("<dQQ", 0.1, (rank + 1) << 20, (rank + 2) << 20))
    elif kind == RUN:
        send(PHASE, 0, struct.pack("<48s", b"timing"))
        wrong = 5 if manner == "wrong" and runs == 3 else 0
        samples = b"".join(struct.pack("<ddii", speed * (1e-5 + i * 1e-8), speed * 9e-6, 0, 0) for i in range(8)) * 2
        send(RESULT, sequence, struct.pack("<QQ", size, size // 4) + placement(size, wrong) + placement(size, 0) +
             struct.pack("<QI4x", (rank + 3) << 20, 0) + samples)
    elif kind == DISCONNECT:
        send(DISCONNECTED, sequence)
    else:
        sys.exit(0)
