#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Breaks benchmark runs on a throwaway Slurm over network namespaces, and holds the reports to what was broken.

Started by chaos.sh in the cluster's hub. Each fault is one job step: `srun --mpi=pmix nccl-tune bench` that never ends by
itself, broken at a random moment, and then judged by what a user has afterwards: exit status, time, processes, files and
messages. A seed gives the same faults; their moments depend on the machine's load too.
"""

import argparse
import collections
import dataclasses
import datetime
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
CLUSTER = os.environ["CHAOS_CLUSTER"]
LIVE = Path(os.environ["LIVE_DIR"])
NODES = os.environ["LIVE_NODES"].split()
TIMEOUT = 4  # --timeout of the runs, in seconds: no progress for so long is a hang
# From the fault to the end of srun. A death is told at once: others hear the alarm within 2 s, rank 0 asks for every
# state within 12 s. A hang is one TIMEOUT later, and ten times what the size before took: Run.patience. A lost node
# answers nobody: rank 0 waits 3 s for it (the others for rank 0: 17 s, and 4 s for the states), then the step is ended,
# and srun gives that node up after 10 s more.
BOUND_DEATH, BOUND_HANG, BOUND_NODE = 20, 40, 60
BOUND_PROCESSES = 5  # from the end of srun to the end of the last process of the step

RANK_LINE = re.compile(r"(?:ranks?|task) (\d+)\b")  # where a supervisor dies early, the launcher's word
ROW = re.compile(r"^ *\d+ +\d+ +\w+ +\w+ +-?\d+( +(\d\S*|N/A)){8} *$")


@dataclasses.dataclass
class Process:
    pid: int
    ppid: int
    rank: int  # Slurm's task
    role: str  # "keeper", "supervisor", "worker"


def read_bytes(path):
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""


def field(name, environ):
    found = re.search(rb"(?:^|\0)" + name + rb"=([^\0]*)", environ)
    return found.group(1).decode() if found else None


def leads_to(link, path):
    """Whether a link of /proc leads there, whatever it reads as: `ip netns exec` gives its processes a mount namespace of their
    own, and a path in another one is shown from that one's root, which in a chroot is not ours."""
    try:
        return os.path.samefile(link, path)
    except OSError:
        return False


def processes_of(job):
    """The processes of a job of this cluster that run our programs, each with its part in the task."""
    found = []
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        environ = read_bytes(f"/proc/{entry.name}/environ")
        if field(b"SLURM_JOB_ID", environ) != str(job) or field(b"SLURM_PROCID", environ) is None:
            continue
        try:
            name = os.path.basename(os.readlink(f"/proc/{entry.name}/exe"))
        except OSError:
            continue
        status = read_bytes(f"/proc/{entry.name}/stat").rsplit(b")", 1)[-1].split()
        # Other throwaway clusters on this host have a job of that number too.
        if not leads_to(f"/proc/{entry.name}/exe", LIVE / "bin" / name) or not status or status[0] == b"Z":
            continue
        role = "worker" if "worker" in name else "supervisor"
        found.append(Process(int(entry.name), int(status[1]), int(field(b"SLURM_PROCID", environ)), role))
    tasks = {p.pid for p in found if p.role == "supervisor"}
    for process in found:
        if process.role == "supervisor" and process.ppid not in tasks:
            process.role = "keeper"
    return found


def netns(*words):
    subprocess.run([HERE / "netns.sh", words[0], CLUSTER, *map(str, words[1:])], check=True)


class Run:
    """One job step, from its start to its end."""

    def __init__(self, folder, streams, rank_of, tasks_per_node=1, workers=1, options=None, bad_exit=0):
        self.folder, self.workers = folder, workers
        self.tasks = len(NODES) * tasks_per_node
        self.hosts = [NODES[rank // workers // tasks_per_node] for rank in range(self.tasks * workers)]
        command = ["srun", f"-N{len(NODES)}", f"-n{self.tasks}", "--overcommit", "--distribution=block", "--mpi=pmix",
                   f"--kill-on-bad-exit={bad_exit}", "nccl-tune", "bench", "all_reduce", "-b", "1K", "-e", "64K",
                   "-f", "2", "-n", "5", "-N", "0", "--timeout", str(TIMEOUT), "-J", "run.json"]
        command += ["-g", str(workers)] if workers > 1 else []
        self.rank = rank_of(self)
        command += options(self.rank) if options else []
        # Beside the working folder: that may be full.
        self.stderr, self.stdout = Path(f"{streams}.err"), Path(f"{streams}.txt")
        with open(self.stdout, "wb") as out, open(self.stderr, "wb") as err:
            # The workers pause in each operation: what is tested is no matter of this host's CPUs.
            self.srun = subprocess.Popen(command, cwd=folder, stdout=out, stderr=err, stdin=subprocess.DEVNULL,
                                         env={**os.environ, "HOST_WORKER_SLOW_US": "10000"})
        self.began, self.job = time.monotonic(), None

    def wait_for(self, what, seconds=30):
        while not what():
            if time.monotonic() - self.began > seconds or self.srun.poll() is not None:
                return False
            time.sleep(0.01)
        return True

    def find_job(self):
        for entry in os.scandir("/proc"):
            if not entry.name.isdigit() or not leads_to(f"/proc/{entry.name}/cwd", self.folder):
                continue
            job = field(b"SLURM_JOB_ID", read_bytes(f"/proc/{entry.name}/environ"))
            if job:
                self.job = int(job)
                return True
        return False

    def processes(self, role=None, task=None):
        return [p for p in processes_of(self.job) if role in (None, p.role) and task in (None, p.rank)]

    def one(self, role, rank):
        """The process of that role that serves a rank."""
        found = sorted(self.processes(role, rank // self.workers), key=lambda p: p.pid)
        index = rank % self.workers if role == "worker" else 0
        return found[index].pid if index < len(found) else None

    def table(self):
        files = list(self.folder.glob("nccl_test_*.out"))
        return files[0] if files and self.folder.name != "full" else self.stdout

    def rows(self):
        return [line for line in self.table().read_text(errors="replace").splitlines() if ROW.match(line)]

    def patience(self):
        """Seconds that a size may take beyond TIMEOUT: ten times what one took so far, on a busy host a long time."""
        try:
            run = json.loads((self.folder / "run.json").read_text())
        except (OSError, ValueError):
            return 0
        stamps = [run["started"], *(row["time"] for row in run["rows"])]
        times = [datetime.datetime.fromisoformat(stamp.rstrip("Z")) for stamp in stamps]
        return 10 * max(((b - a).total_seconds() for a, b in zip(times, times[1:])), default=0)

    def end(self, seconds):
        """Waits for srun; None: it was still there, and was killed."""
        try:
            return self.srun.wait(max(0.1, seconds))
        except subprocess.TimeoutExpired:
            self.srun.kill()
            self.srun.wait()
            if self.job:
                subprocess.run(["scancel", "--signal=KILL", "--full", str(self.job)], check=False)
                subprocess.run(["scancel", str(self.job)], check=False)
            return None

    def left_behind(self, deadline):
        deadline = max(deadline, time.monotonic() + BOUND_PROCESSES)
        while (left := self.processes()) and time.monotonic() < deadline:
            time.sleep(0.05)
        for process in left:
            try:
                os.kill(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        return left


# ---- what is broken ---------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Fault:
    kind: str
    bound: float
    act: object = None  # (run, rank, rng): breaks something; may give another rank than was asked for
    before: object = None  # (): before the run
    where: str = ""  # the variable that names its working folder
    options: object = None  # (rank): more of the benchmark's
    files: str = "all"  # "full": the disk is, rows may be missing at the end; "none": nothing can be written
    mend: object = None
    victim: str = "any"  # "any", "zero", "other": which rank
    word: str = ""  # regex that the report has beside the rank
    named_by: str = "report"  # or "srun": the task's own process is Slurm's to report
    moments: tuple = ("start", "run", "run", "run")
    status: tuple = (5,)


def send_signal(number, role):
    def act(run, rank, _rng):
        pid = run.one(role, rank)
        if pid is None:
            return None
        os.kill(pid, number)
        return rank
    return act


def cut(run, rank, _rng):
    netns("cut", NODES.index(run.hosts[rank]) + 1)
    return rank


def heal(*_):
    """Slurm has given up a node that was cut off."""
    netns("heal")
    subprocess.run(["scontrol", "reconfigure"], check=False)  # asks all nodes now, not in a minute
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        idle = subprocess.run(["sinfo", "-h", "-t", "idle", "-o", "%D"], capture_output=True, text=True, check=False)
        if idle.stdout.strip() == str(len(NODES)):
            return
        subprocess.run(["scontrol", "update", f"nodename={','.join(NODES)}", "state=resume"], check=False,
                       stderr=subprocess.DEVNULL)
        time.sleep(0.5)


def then_kill(prepare):
    """The run goes on under that trouble for a while; the death in it is still told in time."""
    def act(run, rank, rng):
        prepare(run, rank)
        time.sleep(rng.uniform(0, 1))
        return send_signal(signal.SIGKILL, "worker")(run, rank, rng)
    return act


def node_of(run, rank):
    return NODES.index(run.hosts[rank]) + 1


lossy_and_killed = then_kill(lambda run, rank: netns("delay", node_of(run, rank), 5, 2))
slow_and_killed = then_kill(lambda run, rank: netns("slow", node_of(run, rank), "5mbit"))


def fill_and_kill(run, rank, rng):
    run.wait_for(lambda: "No space left" in run.stderr.read_text(errors="replace"), 60)
    return send_signal(signal.SIGKILL, "worker")(run, rank, rng)


def empty(folder):
    for file in folder.iterdir():
        file.unlink()


def misname():
    netns("misname", 2, "10.99.99.99")


def with_all(kind, bound, role, victims, word, **more):
    """One kind of death for a role, as a row for each signal."""
    signals = {"kill": signal.SIGKILL, "segv": signal.SIGSEGV, "abrt": signal.SIGABRT}
    return [Fault(f"{kind} SIG{name.upper()}", bound, send_signal(number, role), victim=victims,
                  word=word.format(name.upper()), **more) for name, number in signals.items()]


FAULTS = [
    *with_all("worker", BOUND_DEATH, "worker", "any", "killed by SIG{}"),
    Fault("worker SIGSTOP", BOUND_HANG, send_signal(signal.SIGSTOP, "worker"), word=r"\(stopped\)"),
    *with_all("supervisor", BOUND_DEATH, "supervisor", "other", "supervisor was killed by SIG{}"),
    *with_all("rank 0's supervisor", BOUND_DEATH, "supervisor", "zero", "supervisor was killed by SIG{}"),
    Fault("supervisor SIGSTOP", BOUND_HANG, send_signal(signal.SIGSTOP, "supervisor"), victim="other",
          word="supervisor was stopped"),
    Fault("rank 0's supervisor SIGSTOP", BOUND_HANG, send_signal(signal.SIGSTOP, "supervisor"), victim="zero",
          word="supervisor was stopped"),
    Fault("task SIGKILL", BOUND_HANG, send_signal(signal.SIGKILL, "keeper"), victim="other", named_by="srun",
          status=(5, 137)),
    Fault("node cut off", BOUND_NODE, cut, mend=heal, victim="other", moments=("run",), status=(5, 137)),
    Fault("rank 0's node cut off", BOUND_NODE, cut, mend=heal, victim="zero", word="no answer", moments=("run",),
          status=(1, 5, 137, 143)),
    Fault("node lossy, worker SIGKILL", BOUND_DEATH, lossy_and_killed, mend=heal, word="killed by SIGKILL",
          moments=("run",)),
    Fault("node slow, worker SIGKILL", BOUND_DEATH, slow_and_killed, mend=heal, word="killed by SIGKILL",
          moments=("run",)),
    Fault("disk full, worker SIGKILL", BOUND_DEATH, fill_and_kill, where="CHAOS_FULL",
          word="killed by SIGKILL", moments=("run",), files="full"),
    Fault("working folder read-only, worker SIGKILL", BOUND_DEATH, send_signal(signal.SIGKILL, "worker"),
          where="CHAOS_READ_ONLY", word="killed by SIGKILL", moments=("run",), files="none"),
    Fault("name resolves elsewhere, worker SIGKILL", BOUND_DEATH, send_signal(signal.SIGKILL, "worker"),
          before=misname, mend=heal, word="killed by SIGKILL", moments=("run",)),
]


# ---- what is asked of a run afterwards --------------------------------------------------------------------------------


def judge_files(run, rows_before, fault, problems):
    if fault.files == "none" and not re.search(r"cannot write.*Read-only", run.stderr.read_text()):
        problems.append("no word about the working folder")
    rows = run.rows()
    table = run.table().read_text(errors="replace")
    if len(rows) < rows_before:
        problems.append(f"{run.table().name}: {len(rows)} rows, {rows_before} were there before the fault")
    for line in table.splitlines():
        if line.strip() and not line.startswith("#") and not ROW.match(line):
            problems.append(f"{run.table().name}: neither a row nor a comment: {line!r}")
    for file in run.folder.glob("nccl_test_*.out"):  # half a row is worse than none
        for line in file.read_text(errors="replace").splitlines():
            if line.strip() and not line.startswith("#") and not ROW.match(line):
                problems.append(f"{file.name}: neither a row nor a comment: {line!r}")
    document = None
    if (run.folder / "run.json").exists():
        try:
            document = json.loads((run.folder / "run.json").read_text())
        except ValueError as error:
            problems.append(f"run.json: {error}")
        if document and len(document["rows"]) != len(rows) and fault.files == "all":
            problems.append(f"run.json: {len(document['rows'])} rows, the table has {len(rows)}")
    elif rows_before and fault.files == "all":
        problems.append("run.json: not there")
    if rows_before and fault.named_by == "report":
        if "# error: " not in table:
            problems.append(f"{run.table().name}: no '# error:' line")
        if document and fault.files == "all" and not document.get("trouble"):
            problems.append("run.json: no 'trouble'")
        if document and document.get("complete"):
            problems.append("run.json: says that it is complete")
    return table


def report_of(run):
    """The lines of rank 0's report, as the user sees them."""
    return [line.removeprefix("nccl-tune: ") for line in run.stderr.read_text(errors="replace").splitlines()
            if line.startswith("nccl-tune: ")]


def judge_names(run, rank, moment, fault, problems):
    host = run.hosts[rank]
    if fault.named_by == "srun":
        text = run.stderr.read_text(errors="replace")
        task = rank // run.workers
        if not re.search(rf"rank {rank}\b.*{host}|{host}.*task {task}\b|(NODE FAILURE|not responding).*{host}|{host}.*(fail|not respond)", text):
            problems.append(f"neither we nor srun named rank {rank} on {host}")
        return
    lines = report_of(run)
    if not lines:
        problems.append("no report on stderr")
        return
    # The line that stands first is what a reader takes for the cause.
    cause = next((line for line in lines if RANK_LINE.search(line)), lines[0])
    named = RANK_LINE.search(cause)
    if not named or int(named.group(1)) not in (rank, rank // run.workers if "task" in named.group(0) else rank):
        problems.append(f"named in the first line: '{cause}', it was rank {rank} on {host}")
    of_rank = [line for line in lines if re.match(rf"ranks? {rank}\b|task {rank // run.workers}\b", line)]
    if not any(host in line for line in of_rank):
        problems.append(f"rank {rank}: its host {host} is not told")
    if not any(re.search(fault.word, line) for line in of_rank):
        problems.append(f"rank {rank}: no line matches '{fault.word}'")
    if moment == "run":
        if not any(re.search(r"(timing|verify|warm-up|statistics|samples|exchange)", line) for line in lines):
            problems.append("no phase is told")
        if not any(re.search(r"all_reduce, \d+ (KiB|B)", line) for line in lines):
            problems.append("no size is told")


def judge(run, fault, rank, moment, rows_before, broke_at):
    problems = []
    bound = fault.bound + (run.patience() if fault.bound > BOUND_DEATH else 0)
    status = run.end(bound - (time.monotonic() - broke_at))
    seconds = time.monotonic() - broke_at
    if status is None:
        problems.append(f"srun still ran {bound:.0f} s after the fault")
    # A supervisor that dies within PMIx_Init has not handed its connection over yet, and Slurm kills the step.
    elif status not in fault.status and not (moment == "start" and "supervisor" in fault.kind and status == 137):
        problems.append(f"exit status {status}, not {fault.status}")
    left = run.left_behind(broke_at + (bound if fault.kind.endswith("cut off") else 0))
    if left:
        problems.append(f"left behind: {left}")
    if fault.mend:
        fault.mend(run)
    judge_files(run, rows_before, fault, problems)
    names = []
    judge_names(run, rank, moment, fault, names)
    return seconds, problems, names


SHAPES = [dict(), dict(), dict(tasks_per_node=2), dict(workers=2)]


def try_fault(fault, number, rng, work):
    """One fault: gives (seconds, problems, names) or None when there was nothing to break."""
    shape = rng.choice(SHAPES)
    moment = rng.choice(fault.moments)
    folder = Path(os.environ[fault.where]) if fault.where else work / f"{number:03d}"
    if not fault.where:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    elif fault.files == "full":
        empty(folder)
    work.mkdir(parents=True, exist_ok=True)
    if fault.before:
        fault.before()

    def rank_of(run):
        ranks = run.tasks * run.workers
        rank = {"zero": 0, "other": rng.randrange(run.workers, ranks), "any": rng.randrange(ranks)}[fault.victim]
        # What befalls a supervisor befalls its first rank, and the others with it.
        return rank if "worker" in fault.kind else rank - rank % run.workers

    run = Run(folder, work / f"{number:03d}", rank_of, bad_exit=rng.choice((0, 1)), options=fault.options, **shape)
    rank = run.rank
    # At the start: when the tasks are there, somewhere between exec and communicator.
    alive = lambda: run.job is not None and run.one("worker" if fault.kind.startswith("worker") else "supervisor", rank)
    if moment == "start":
        ready = run.wait_for(lambda: run.find_job() or run.job) and run.wait_for(alive)
        time.sleep(rng.uniform(0, 0.2))
    else:
        ready = run.wait_for(lambda: len(run.rows()) > 0) and run.find_job() and run.wait_for(alive)
        time.sleep(rng.uniform(0, 1.5))
    rows_before = len(run.rows())
    broken = ready and fault.act(run, rank, rng) is not None
    broke_at = time.monotonic()
    if not broken:
        run.end(5)
        return None, run, moment, rank
    outcome = judge(run, fault, rank, moment, rows_before, broke_at)
    return outcome, run, moment, rank


def show_failure(run, problems):
    for problem in problems:
        print(f"    {problem}")
    for file in (run.stderr, run.table()):
        lines = [line for line in file.read_text(errors="replace").splitlines() if not ROW.match(line)]
        print(f"    {file.name}:")
        for line in lines[-12:]:
            print(f"      {line}")
    sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--faults", type=int, default=0, help="0: one of each kind that takes no long wait")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", default="", help="regex: only these")
    parser.add_argument("--keep", default="", help="folder for the runs' files")
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)
    work = Path(arguments.keep or LIVE / "chaos").resolve()
    kinds = [fault for fault in FAULTS if re.search(arguments.kind, fault.kind)]
    if not arguments.faults:
        kinds = [fault for fault in kinds if fault.bound == BOUND_DEATH and "SIGABRT" not in fault.kind]
        arguments.faults = len(kinds)
    tally = collections.defaultdict(list)
    failed, number, started = 0, 0, time.monotonic()
    while number < arguments.faults:
        fault = kinds[number % len(kinds)]
        number += 1
        outcome, run, moment, rank = try_fault(fault, number, rng, work)
        label = f"{fault.kind}, rank {rank} on {run.hosts[rank]}, at {moment}"
        if outcome is None:
            print(f"FAILED  {label}: nothing to break: the run was not there")
            show_failure(run, [])
            failed += 1
            continue
        seconds, problems, names = outcome
        tally[fault.kind].append((seconds, not problems, not names))
        print(f"{'FAILED' if problems or names else 'ok    '}  {label}: {seconds:.1f} s", flush=True)
        if problems or names:
            failed += 1
            show_failure(run, problems + names)
    print(f"\n{'fault':30} {'times':>5} {'complete':>8} {'named':>5} {'slowest':>8} {'bound':>6}")
    for fault in kinds:
        if tally[fault.kind]:
            seconds, complete, named = zip(*tally[fault.kind])
            print(f"{fault.kind:30} {len(seconds):5} {sum(complete):8} {sum(named):5} {max(seconds):6.1f} s {fault.bound:4.0f} s")
    total = [outcome for outcomes in tally.values() for outcome in outcomes]
    print(f"{'all':30} {len(total):5} {sum(o[1] for o in total):8} {sum(o[2] for o in total):5}"
          f"   seed {arguments.seed}, {time.monotonic() - started:.0f} s")
    print(f"{number - failed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
