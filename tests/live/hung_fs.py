#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A file system that never answers: hung_fs.py FOLDER mounts it there and stays. Who touches it waits in the kernel, where
not even SIGKILL reaches him, as with a driver that hangs; when this process ends, so do they, with an error. Needs root
and /dev/fuse; exit status 77 where there is none. Says "mounted" when it is."""

import ctypes
import os
import struct
import sys

FUSE_INIT = 26
IN_HEADER = struct.Struct("=IIQQIIIHH")  # fuse_in_header: len, opcode, unique, nodeid, uid, gid, pid, ...
OUT_HEADER = struct.Struct("=IiQ")  # fuse_out_header: len, error, unique
INIT_OUT = struct.Struct("=IIIIHHIIHH32x")  # fuse_init_out: major, minor, ...


def mount(fd, folder):
    libc = ctypes.CDLL(None, use_errno=True)
    options = f"fd={fd},rootmode=40000,user_id=0,group_id=0,allow_other"
    if libc.mount(b"hung", folder.encode(), b"fuse", 0, options.encode()) != 0:
        raise OSError(ctypes.get_errno(), "mount")


def main(folder):
    try:
        fd = os.open("/dev/fuse", os.O_RDWR)
        mount(fd, folder)
    except OSError as error:
        print(f"hung_fs.py: no FUSE here: {error}", flush=True)
        return 77
    while True:
        request = os.read(fd, 1 << 20)
        _, opcode, unique = IN_HEADER.unpack_from(request)[:3]
        if opcode == FUSE_INIT:
            minor = struct.unpack_from("=II", request, IN_HEADER.size)[1]
            answer = INIT_OUT.pack(7, min(minor, 31), 0, 0, 0, 0, 4096, 1, 0, 0)
            os.write(fd, OUT_HEADER.pack(OUT_HEADER.size + len(answer), 0, unique) + answer)
            print("mounted", flush=True)
        # All else is read, so that the kernel counts on an answer, and gets none.


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
