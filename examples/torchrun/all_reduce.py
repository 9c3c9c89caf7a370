# SPDX-License-Identifier: Apache-2.0
"""A worker under torchrun: adds up one tensor between all ranks, and says where it ran. With GPUs over NCCL, else over Gloo."""
import os
import time

import torch
import torch.distributed as dist

gpu = torch.cuda.is_available()
dist.init_process_group("nccl" if gpu else "gloo")
rank, size, local = dist.get_rank(), dist.get_world_size(), int(os.environ["LOCAL_RANK"])
if gpu:
    torch.cuda.set_device(local)
data = torch.full((1 << 20,), float(rank), device="cuda" if gpu else "cpu")
start = time.monotonic()
dist.all_reduce(data)
if gpu:
    torch.cuda.synchronize()
seconds = time.monotonic() - start
assert data[0].item() == size * (size - 1) / 2, "wrong sum"
cpus = sorted(os.sched_getaffinity(0))
print(f"rank {rank} of {size}, local {local}: CPUs {cpus[0]}..{cpus[-1]} ({len(cpus)}), {seconds * 1e3:.1f} ms, sum right\n", end="", flush=True)
dist.destroy_process_group()
