#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Drives workers without the supervisor: N ranks of one worker program on this host, over stepd/worker/protocol.h.

    drive_worker.py WORKER [-n RANKS] [--collectives a,b] [--types a,b] [--ops a,b] [--bytes N,N] ... [--env RANK-WISE]

Prints one line a case; ends with 1 when a result is wrong (or, with --fault flip, when one is not)."""
import argparse
import ctypes
import os
import select
import subprocess
import sys
import time
from ctypes import c_char, c_double, c_int32, c_int64, c_uint32, c_uint64

COLLECTIVES = "all_reduce all_gather reduce_scatter broadcast reduce alltoall alltoallv gather scatter sendrecv hypercube".split()
TYPES = "int8 uint8 int32 uint32 int64 uint64 half float double bfloat16 f8e4m3 f8e5m2".split()
OPS = "sum prod max min avg mulsum".split()
FAULTS = {"none": 0, "flip": 1, "hang": 2, "crash": 3, "slow": 4, "waver": 5}
REDUCING = {"all_reduce", "reduce_scatter", "reduce"}
ROOTED = {"broadcast", "reduce", "gather", "scatter"}
SETUP, MAKE_ID, CONNECT, RUN, DISCONNECT, QUIT, STORE_REPLY = range(1, 8)
READY, ID, CONNECTED, PHASE, RESULT, DISCONNECTED, STORE_SET, STORE_GET, FAILURE = range(100, 109)


def struct(name, *fields):
    return type(name, (ctypes.Structure,), {"_fields_": list(fields)})


Header = struct("Header", ("magic", c_uint32), ("kind", c_uint32), ("length", c_uint32), ("sequence", c_uint32))
Setup = struct("Setup", ("device", c_int32), ("max_bytes", c_uint64), ("registration", c_int32), ("check", c_int32),
               ("unalign", c_uint32), ("null_stream", c_int32), ("memory", c_int32),
               ("repeat", c_int32), ("fault", c_uint32), ("fault_rank", c_int32), ("fault_element", c_int64))
Ready = struct("Ready", ("name", c_char * 96), ("bdf", c_char * 16), ("uuid", c_char * 64), ("hostname", c_char * 256),
               ("library", c_char * 64), ("library_code", c_int32), ("header_code", c_int32), ("cuda_runtime", c_int32),
               ("cuda_driver", c_int32), ("device", c_int32), ("visible_devices", c_int32), ("free_bytes", c_uint64),
               ("total_bytes", c_uint64), ("host_hash", c_uint64), ("types", c_uint32), ("pid", c_int64))
Connect = struct("Connect", ("ranks", c_int32), ("rank", c_int32), ("ids", c_int32), ("id_bytes", c_uint32),
                 ("generation", c_uint32), ("max_bytes", c_uint64), ("blocking", c_int32), ("cta_policy", c_int32), ("groups", c_int32))
Connected = struct("Connected", ("seconds", c_double), ("device_bytes", c_uint64), ("buffer_bytes", c_uint64))
Case = struct("Case", ("collective", c_uint32), ("type", c_uint32), ("op", c_uint32), ("root", c_int32), ("bytes", c_uint64),
              ("max_bytes", c_uint64), ("iterations", c_int32), ("warmup", c_int32), ("aggregate", c_int32),
              ("cycles", c_int32), ("check", c_int32), ("blocking", c_int32), ("graph", c_int32), ("average", c_int32),
              ("cpu_time", c_int32), ("warm_only", c_int32), ("per_iteration", c_int32), ("timeout_ms", c_int32), ("repeat", c_int32))
Wrong = struct("Wrong", ("rank", c_int32), ("element", c_int64), ("expected", c_char * 40), ("found", c_char * 40))
WrongTotal = struct("WrongTotal", ("elements", c_int64), ("bad_ranks", c_int32), ("first", Wrong))
Repeats = struct("Repeats", ("runs", c_int32), ("differing", c_int32), ("run", c_int32), ("wrong", WrongTotal))
Placement = struct("Placement", ("ran", c_int32), ("checked", c_int32), ("seconds", c_double), ("own_seconds", c_double),
                   ("wrong", WrongTotal), ("repeats", Repeats), ("samples", c_uint32), ("cpu_seconds", c_double))
CaseResult = struct("CaseResult", ("bytes", c_uint64), ("elements", c_uint64), ("out_of_place", Placement), ("in_place", Placement),
                    ("device_bytes", c_uint64), ("groups", c_uint32))
Sample = struct("Sample", ("max_seconds", c_double), ("own_max_seconds", c_double), ("own_min_seconds", c_double),
                ("max_rank", c_int32), ("own_min_rank", c_int32), ("late_rank", c_int32))
GroupTime = struct("GroupTime", ("seconds", c_double), ("wrong", c_int64))
StoreReply = struct("StoreReply", ("found", c_int32), ("length", c_uint32))
Failure = struct("Failure", ("kind", c_uint32), ("text", c_char * 400), ("remedy", c_char * 200))


class WorkerFailed(Exception):
    pass


class Worker:
    def __init__(self, program, rank, environment):
        self.rank, self.buffer = rank, b""
        command_read, self.command = os.pipe()
        self.reply, reply_write = os.pipe()

        def place():  # descriptors 3 and 4, without one overwriting the other
            a, b = os.dup(command_read), os.dup(reply_write)
            high = [os.dup2(a, 50), os.dup2(b, 51)]
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        self.process = subprocess.Popen([program], env={**os.environ, **environment}, preexec_fn=place, pass_fds=(3, 4))
        os.close(command_read)
        os.close(reply_write)

    def send(self, kind, payload=b""):
        data = bytes(Header(0x4E544E03, kind, len(payload), 1)) + payload
        while data:
            data = data[os.write(self.command, data):]

    def messages(self):
        """Whole messages that have arrived; reads once."""
        chunk = os.read(self.reply, 1 << 20)
        if not chunk:
            raise WorkerFailed(f"rank {self.rank}: ended with status {self.process.wait()}")
        self.buffer += chunk
        size = ctypes.sizeof(Header)
        while len(self.buffer) >= size:
            header = Header.from_buffer_copy(self.buffer)
            if len(self.buffer) < size + header.length:
                return
            payload, self.buffer = self.buffer[size:size + header.length], self.buffer[size + header.length:]
            yield header.kind, payload


class Crew:
    def __init__(self, workers):
        self.workers, self.store, self.waiting = workers, {}, []

    def answers(self, wanted, seconds, workers=None):
        """One answer of kind `wanted` from each worker, serving the store meanwhile."""
        workers = workers or self.workers
        answers, end = {}, time.monotonic() + seconds
        while len(answers) < len(workers):
            ready, _, _ = select.select([w.reply for w in self.workers], [], [], max(0, end - time.monotonic()))
            if not ready:
                raise WorkerFailed(f"no answer {wanted} in {seconds} s from ranks "
                                   f"{[w.rank for w in workers if w.rank not in answers]}")
            for worker in (w for w in self.workers if w.reply in ready):
                for kind, payload in worker.messages():
                    self.take(worker, kind, payload, wanted, answers)
        return [answers[w.rank] for w in workers]

    def take(self, worker, kind, payload, wanted, answers):
        if kind == wanted:
            answers[worker.rank] = payload
        elif kind == STORE_SET:
            key, value = payload.split(b"\0", 1)
            self.store[key] = value
            self.waiting = [(w, k) for w, k in self.waiting if not self.give(w, k)]
        elif kind == STORE_GET:
            if not self.give(worker, payload):
                self.waiting.append((worker, payload))
        elif kind == FAILURE:
            failure = Failure.from_buffer_copy(payload)
            raise WorkerFailed(f"rank {worker.rank}: {failure.text.decode()}; {failure.remedy.decode()} (kind {failure.kind})")
        elif kind != PHASE:
            raise WorkerFailed(f"rank {worker.rank}: unexpected message {kind}")

    def give(self, worker, key):
        if key not in self.store:
            return False
        worker.send(STORE_REPLY, bytes(StoreReply(1, len(self.store[key]))) + self.store[key])
        return True

    def tell(self, kind, payload=b""):
        for worker in self.workers:
            worker.send(kind, payload)

    def quit(self, patience=20):
        for worker in self.workers:
            try:
                worker.send(QUIT)
            except BrokenPipeError:
                pass
        for worker in self.workers:
            try:
                worker.process.wait(patience)
            except subprocess.TimeoutExpired:
                worker.process.kill()


def describe_wrong(wrong):
    if not wrong.elements:
        return ""
    first = wrong.first
    return (f" [{wrong.bad_ranks} ranks, first {first.rank} element {first.element} "
            f"expected {first.expected.decode()} found {first.found.decode()}]")


def describe(placement):
    if not placement.ran:
        return "-"
    text = f"{placement.seconds * 1e6:10.2f} us"
    if not placement.checked:
        return text + "   N/A"
    text += f" {placement.wrong.elements:5d}" + describe_wrong(placement.wrong)
    repeats = placement.repeats
    if repeats.runs:
        text += f", {repeats.differing} of {repeats.runs} differ" + describe_wrong(repeats.wrong)
    return text


def as_it_should(injected, spoiled, found):
    """Wrong elements of each placement: one where a fault that was injected spoils one, else none."""
    if not injected:
        return not any(found)
    return not spoiled or (len(found) > 0 and all(f == 1 for f in found))


def group_times(payload, result):
    """GroupTime of each group, out of place then in place: what follows the samples."""
    at = ctypes.sizeof(CaseResult) + ctypes.sizeof(Sample) * (result.out_of_place.samples + result.in_place.samples)
    return [GroupTime.from_buffer_copy(payload, i) for i in range(at, len(payload), ctypes.sizeof(GroupTime))]


def cases(options, types_bits):
    for collective in options.collectives:
        for type_name in options.types:
            if not types_bits >> TYPES.index(type_name) & 1:
                continue
            for op in options.ops if collective in REDUCING else ["sum"]:
                for size in options.bytes:
                    yield collective, type_name, op, size


def run(options, crew, types_bits):
    count = bad = 0
    roots = [0] if not options.all_roots else range(options.ranks // options.groups)
    for collective, type_name, op, size in cases(options, types_bits):
        size_of_group = options.ranks // options.groups
        if collective == "hypercube" and size_of_group & (size_of_group - 1):
            continue
        for root in roots if collective in ROOTED else [-1]:
            case = Case(COLLECTIVES.index(collective), TYPES.index(type_name), OPS.index(op), root, size, options.max_bytes,
                        options.iterations, 1, options.aggregate, 1, options.check, options.blocking, options.graph, 1,
                        options.cpu_time, 0, options.per_iteration, options.timeout_ms, options.repeat)
            start = time.monotonic()
            crew.tell(RUN, bytes(case))
            payloads = crew.answers(RESULT, options.patience)
            results = [CaseResult.from_buffer_copy(p) for p in payloads]
            result, count = results[0], count + 1
            halves = (result.out_of_place, result.in_place)
            wrong = [h.wrong.elements for h in halves if h.checked]
            unlike = [h.repeats.wrong.elements for h in halves if h.repeats.runs]
            # The fault's rank is one of the world, the root one of its group.
            spoiled = size >= 64 and not (
                collective in ("reduce", "gather") and root != options.fault_rank % options.ranks // options.groups)
            ok = all(as_it_should(options.fault == fault, spoiled, found) for fault, found in (("flip", wrong), ("waver", unlike)))
            ok = ok and halves[0].repeats.runs == options.repeat
            if options.groups > 1:  # every group tells a time, for both placements, and the wrong elements are somebody's
                told = group_times(payloads[0], result)
                ok = ok and result.groups == options.groups and len(told) == 2 * options.groups and all(
                    g.seconds > 0 for g in told) and sum(g.wrong for g in told) == sum(wrong)
            bad += not ok
            if options.verbose or not ok:
                print(f"{collective:15s} {type_name:9s} {op:7s} root {root:2d} {result.bytes:12d} {result.elements:12d} "
                      f"{describe(halves[0])} | {describe(halves[1])}  ({time.monotonic() - start:.3f} s){'' if ok else '   <--'}", flush=True)
    return count, bad


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("worker")
    parser.add_argument("-n", "--ranks", type=int, default=1)
    for name, known in (("collectives", COLLECTIVES), ("types", TYPES), ("ops", OPS)):
        parser.add_argument("--" + name, type=lambda text: text.split(","), default=known)
    parser.add_argument("--bytes", type=lambda text: [int(t) for t in text.split(",")], default=[0, 8, 4096, 65552])
    parser.add_argument("--max-bytes", type=int, default=0)
    parser.add_argument("--fault", choices=FAULTS, default="none")
    for name, value in (("fault-rank", 0), ("fault-element", 0), ("iterations", 3), ("aggregate", 1), ("check", 1),
                        ("blocking", 0), ("graph", 0), ("registration", 0), ("unalign", 0), ("cpu-time", 0),
                        ("per-iteration", 0), ("timeout-ms", 0), ("patience", 120), ("device", 0), ("ids", 1), ("groups", 1), ("null-stream", 0), ("memory", 0), ("repeat", 0)):
        parser.add_argument("--" + name, type=int, default=value)
    parser.add_argument("--host-ids", action="store_true", help="a NCCL_HOSTID for each rank: several ranks on one GPU")
    parser.add_argument("--all-roots", action="store_true")
    parser.add_argument("-v", "--verbose", action="store_true")
    options = parser.parse_args()
    options.max_bytes = options.max_bytes or max(options.bytes)
    crew = Crew([Worker(options.worker, rank, {"NCCL_HOSTID": f"rank{rank}"} if options.host_ids else {})
                 for rank in range(options.ranks)])
    patience = 3
    try:
        crew.tell(SETUP, bytes(Setup(options.device, options.max_bytes, options.registration, 1, options.unalign,
                                     options.null_stream, options.memory, options.repeat, FAULTS[options.fault], options.fault_rank % options.ranks, options.fault_element)))
        ready = [Ready.from_buffer_copy(p) for p in crew.answers(READY, options.patience)]
        first = ready[0]
        print(f"{first.name.decode()} {first.bdf.decode()} {first.uuid.decode()} {first.library.decode()} "
              f"code {first.library_code} headers {first.header_code} cuda {first.cuda_runtime}/{first.cuda_driver} "
              f"types {first.types:#x} free {first.free_bytes >> 20} MiB")
        givers = crew.workers[:options.ids]
        for worker in givers:
            worker.send(MAKE_ID)
        ids = crew.answers(ID, options.patience, givers)
        # As NCCL_TESTS_SPLIT="MOD groups".
        groups = b"".join(bytes(c_int32(rank % options.groups)) for rank in range(options.ranks)) if options.groups > 1 else b""
        for worker in crew.workers:
            worker.send(CONNECT, bytes(Connect(options.ranks, worker.rank, options.ids, len(ids[0]), 1, options.max_bytes, 1, -1, options.groups))
                        + b"".join(ids) + groups)
        connected = [Connected.from_buffer_copy(p) for p in crew.answers(CONNECTED, options.patience)]
        print(f"connected {options.ranks} ranks in {max(c.seconds for c in connected):.3f} s, {connected[0].device_bytes >> 20} MiB, "
              f"buffers {connected[0].buffer_bytes >> 20} MiB")
        count, bad = run(options, crew, first.types)
        crew.tell(DISCONNECT)
        crew.answers(DISCONNECTED, options.patience)
        patience = 20
        print(f"{count} cases, {bad} not as they should be")
        return 1 if bad or count == 0 else 0
    except WorkerFailed as failed:
        print(f"FAILED: {failed}")
        return 2
    finally:
        crew.quit(patience)


if __name__ == "__main__":
    sys.exit(main())
