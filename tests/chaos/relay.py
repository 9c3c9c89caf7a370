#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""relay.py INTERFACE INTERFACE MILLISECONDS LOSS: a cable between two interfaces that delays and loses frames.
relay.py --whole INTERFACE: what that interface sends are whole frames from now on; the peers of both must do so.

What tc's netem does, for kernels that were built without it. Ends when one of the interfaces goes.
"""

import array
import collections
import fcntl
import random
import select
import socket
import struct
import sys
import time

ETH_P_ALL = 3
SIOCETHTOOL = 0x8946
# linux/ethtool.h. A frame whose checksum the card would fill in, or that it would split, is no frame yet.
ETHTOOL_STXCSUM, ETHTOOL_SGSO, ETHTOOL_STSO = 0x17, 0x24, 0x1F
SOL_PACKET, PACKET_ADD_MEMBERSHIP, PACKET_MR_PROMISC = 263, 1, 1
PACKET_OUTGOING = 4
KEPT = 20000  # frames under way in one direction; what comes beyond is lost, as in a full queue


def send_whole_frames(name):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for command in (ETHTOOL_STXCSUM, ETHTOOL_SGSO, ETHTOOL_STSO):
            value = array.array("B", struct.pack("II", command, 0))
            try:
                fcntl.ioctl(any_socket, SIOCETHTOOL, struct.pack("16sP", name.encode(), value.buffer_info()[0]))
            except OSError:
                pass  # this interface has no such switch


def open_end(name):
    end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
    end.bind((name, ETH_P_ALL))
    index = socket.if_nametoindex(name)
    end.setsockopt(SOL_PACKET, PACKET_ADD_MEMBERSHIP, struct.pack("IHH8s", index, PACKET_MR_PROMISC, 0, b""))
    end.setblocking(False)
    return end


def main():
    if sys.argv[1] == "--whole":
        return send_whole_frames(sys.argv[2])
    names = sys.argv[1:3]
    delay, loss = float(sys.argv[3]) / 1000, float(sys.argv[4]) / 100
    ends = [open_end(name) for name in names]
    under_way = [collections.deque(), collections.deque()]
    while True:
        now = time.monotonic()
        waits = [queue[0][0] - now for queue in under_way if queue]
        readable, _, _ = select.select(ends, [], [], max(0, min(waits, default=1)))
        for i, end in enumerate(ends):
            for _ in range(64 if end in readable else 0):
                try:
                    frame, address = end.recvfrom(65536)
                except BlockingIOError:
                    break
                if address[2] == PACKET_OUTGOING or random.random() < loss or len(under_way[i]) >= KEPT:
                    continue
                under_way[i].append((time.monotonic() + delay, frame))
        now = time.monotonic()
        for i, queue in enumerate(under_way):
            while queue and queue[0][0] <= now:
                try:
                    ends[1 - i].send(queue.popleft()[1])
                except (BlockingIOError, InterruptedError):
                    pass
        for name in names:
            socket.if_nametoindex(name)


if __name__ == "__main__":
    try:
        main()
    except OSError:
        sys.exit(0)  # an interface is gone or down
