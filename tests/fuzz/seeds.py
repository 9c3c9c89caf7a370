#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seed corpora: seeds.py OUTPUT-FOLDER FOLDER. From the recorded machines, as the tool dumps them, and from the
shipped policy; FOLDER/TARGET/ holds a file an input, named by its content."""

import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests/machines"))
sys.dont_write_bytecode = True
import mktree  # noqa: E402

# The shapes of a step that a machine is given to in turn, by the first letter: tests/fuzz/node_targets.cc.
SHAPES = "ACQaiBpO"
ENVIRONMENT = """NCCL_DEBUG=INFO
SLURM_STEP_GPUS=0,1
CUDA_VISIBLE_DEVICES=0,1
MASK=0-15
HOME=/root
SLURM_LOCALID=0
NCCLTUNE_SET=NCCL_IB_HCA
NCCL_IB_HCA=mlx5_0
SLURMD_TRES_BIND=gres/gpu:per_task:1
SLURMD_NODENAME=n1
"""

# What needs no machine. Sections of an input are parted by NUL: tests/fuzz/targets.h.
WRITTEN = {
    "policy": [
        "mode: show\nbind: false\nexclude_hcas: [mlx5_0, mlx5_1]\nfabric_subnet: 10.0.0.0/8\nsocket_ifname: eth0\n",
        'profiles:\n  - name: a\n    when: {dmi: {sys_vendor: "X*"}, gpu: "10de:*", gpu_count: 8, files: [/etc/x]}\n'
        "    env: {NCCL_IB_TC: 106}\n",
    ],
    "option": [
        "on", "off", "show", "env", "bind", "strict,verbose", "profile=azure-ndv4,sharp,torch", "(null)",
        "from-NCCLTUNE,on", "turbo",
    ],
    "plugstack": ["default=on\0policy=/etc/x.yaml\0gpu_order=minor\0root=/x\0inside"],
    "sizes": ["512", "8M", "1.5G", "64KiB", "0x1f", "007", " 12 , 13", "999999999999999999999"],
    "cpulist": ["0-3,8,16-31:2", "00000001,0000000f", "0xff", "0-65535", ""],
    "glob": ["a*b[c-e]?\\*\0axxbd.*"],
    "nccl-list": ["^=mlx5_0:1,mlx5_1\0mlx5_0"],
    "marks": ["NCCL_IB_HCA,NCCL_SOCKET_IFNAME,PATH"],
    "dns": [
        b"\x12\x34\x81\x80\0\x01\0\x01\0\0\0\0\x02n1\x07cluster\0\0\x01\0\x01\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04\x0a\0\0\x07"
    ],
    "files": [
        "# site\nNCCL_DEBUG=WARN\nNCCL_IB_HCA=mlx5_0\n\0"
        '<system version="1"><cpu numaid="0" affinity="00000000,0000ffff" arch="x86_64"><pci busid="ffff:ff:01.0"'
        ' class="0x060400"><pci busid="0001:00:00.0" class="0x030200"/></pci></cpu></system>'
    ],
    "numbers": ["1.5", "95%", "10s", "2m", "1e300", "-3", "8M"],
    "options": [
        "all_reduce\0-b\0008\0-e\000128M\0-f\0002\0-g\0001\0-n\0005",
        "allgather\0-d\0all\0-o\0sum\0--json\0-",
    ],
    "tune-files": [
        "work:\n  - {collective: all_reduce, sizes: [64M, 1M], calls: 40, type: bfloat16}\n",
        "variants:\n  - {name: simple, env: {NCCL_PROTO: Simple, NCCL_ALGO: null}}\n",
        "NCCL_PROTO=Simple,LL,\0NCCL_ALGO=Ring,Tree",
    ],
    "journal": [
        '{"kind": "nccl-tune tune: state 1", "identity": {"space": "a"}, "trials": [{"setting": [0, 2], "times": [0.5],'
        ' "fault": "", "wrong_data": false, "seconds": 1.5}]}'
    ],
    "nccl-log": [
        "n1:7:9 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB/SHARP [RO]; OOB eth0:10.0.0.1<0>\n"
        "n1:7:9 [0] NCCL INFO Using network IB\n"
        "n1:7:9 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA\n"
        "n1:7:9 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[1] via P2P/CUMEM\n"
        "n1:7:9 [0] NCCL INFO NCCL_PROTO set by environment to Simple\n"
        "n1:7:9 [0] misc/socket.cc:64 NCCL WARN Connect to 10.0.0.2<43555> failed\n"
    ],
    "kernel-log": [
        "6,1234,98765432,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=7, GPU has fallen off the bus.\n SUBSYSTEM=pci\n",
    ],
    "lists": ["node[1-3,07],login", "r[1-2]n[1-4]", "(vector,(0,2,4),(2,1,3))", "2.AAAA\0BBBB"],
}


def write(folder, target, content):
    content = content.encode() if isinstance(content, str) else content
    place = folder / target
    place.mkdir(parents=True, exist_ok=True)
    (place / hashlib.sha1(content).hexdigest()[:16]).write_bytes(content)


def wire_of(dump, output, work):
    """The facts of a dump as the plugin's reader sends them, from the fuzzer's program or the plain one."""
    program = next((p for p in (output / "fuzz/fuzz", output / "fuzz-replay") if p.exists()), None)
    if program is None:
        return b""
    file = work / "wire.dump"
    file.write_bytes(dump)
    return subprocess.run([program, f"--wire-of={file}"], stdout=subprocess.PIPE, check=True).stdout


def dump_of(tool, record, work):
    """The machine as the tool dumps it; None for a record that lays out to nothing that it could dump."""
    tree = work / "tree"
    mktree.lay_out(json.loads(record.read_text(encoding="utf-8")), tree, True)
    done = subprocess.run([tool, "dump", "--root", tree], capture_output=True, check=False)
    shutil.rmtree(tree)
    return done.stdout if done.returncode == 0 else None


def main(arguments):
    output, folder = pathlib.Path(arguments[0]), pathlib.Path(arguments[1])
    policy = (TOP / "etc/nccl-tune.yaml").read_bytes()
    count = 0
    # In memory: a tree is thousands of small files.
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as work:
        for record in sorted((TOP / "tests/machines").glob("*.json")):
            dump = dump_of(output / "nccl-tune", record, pathlib.Path(work))
            if dump is None:
                continue
            environment = ENVIRONMENT.encode()
            shape = SHAPES[count % len(SHAPES)].encode()
            write(folder, "dump", dump)
            write(folder, "redump", dump)
            for target in ("machine", "show"):
                write(folder, target, b"\0".join([shape + b"\n" + environment, policy, dump]))
            write(folder, "plugin", b"\0".join([b"strict,verbose", b"default=on", b"B\n" + environment, policy, dump]))
            # Nodes of other sizes hold the same kinds of facts, and the fuzzer is slow with long inputs.
            if len(dump) < 24 << 10 and (wire := wire_of(dump, output, pathlib.Path(work))):
                write(folder, "wire", wire)
            count += 1
    if count < 6:
        print(f"seeds.py: only {count} of the recorded machines could be dumped", file=sys.stderr)
        return 1
    write(folder, "policy", policy)
    figures = b"platform,gpu,gpus,collective,size_bytes,busbw_gbs,source\nx,H100-SXM,8,all_reduce,1073741824,480.1,here\n"
    for result in [*(TOP / "tests/report/outputs").iterdir(), TOP / "tests/report/run.json", TOP / "tests/report/pairs.jsonl"]:
        write(folder, "report", result.read_bytes() + b"\0" + figures)
    write(folder, "expected", (TOP / "etc/expected.yaml").read_bytes()[:16000])
    write(folder, "tune-files", (TOP / "etc/tune-space.yaml").read_bytes())
    for target, inputs in WRITTEN.items():
        for content in inputs:
            write(folder, target, content)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
