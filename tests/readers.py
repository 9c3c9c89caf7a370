#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads reports as the programs do that people point at nccl-tests' output, and holds what each takes against the table.

    readers.py FILE...      a line for each reader that takes something else; ends with `N passed, N failed`

The rules are those of each program's source, named beside it, written anew. A report that is not whole is
passed over, as is one whose columns or footer the user changed (-I, -S, -C, NCCL_TESTS_MIN_BW: nccl-tests' own break these
readers too)."""
import re
import sys

FOOTERS = ("# Out of bounds values", "# Avg bus bandwidth")
DECIMAL = r"\d+\.?\d*"


class Report:
    """The truth: what the table says, read by its layout alone."""

    def __init__(self, text):
        self.text = text
        self.lines = text.splitlines()
        start = next(i for i, line in enumerate(self.lines) if line.startswith("#        (B)")) + 1
        end = next(i for i, line in enumerate(self.lines) if line.startswith(FOOTERS[0]))
        self.rows = [line.split() for line in self.lines[start:end] if line.strip() and not line.startswith("#")]
        self.average = self.lines[end + 1].split()[5]
        self.hosts = {line.split()[8] for line in self.lines if re.match(r"#  Rank +\d+ Group", line)}

    def column(self, at):
        return [float(row[at]) for row in self.rows if row[at] != "N/A"]


def indented_rows(report):
    return [line.split() for line in report.lines if re.match(r"\s+[0-9]", line)]


def with_a_blank_before(rows):  # 12 digits fill nccl-tests' first column
    return [row for row in rows if len(row[0]) < 12]


def average_lines(report):
    return [line for line in report.lines if "Avg bus bandwidth" in line]


# Each reader gives what it reads and what that should be.


def superbench(r):  # microsoft/superbenchmark, cuda_nccl_bw_performance.py: columns counted from the end of a row
    first = max(i for i, line in enumerate(r.lines) if "out-of-place" in line)
    last = max(i for i, line in enumerate(r.lines) if "Out of bounds values" in line)
    head = next(line for line in r.lines[first:last] if "time" in line and "busbw" in line).lstrip("#").split()
    time, busbw = head.index("time") - len(head), head.index("busbw") - len(head)
    words = [line.split() for line in r.lines[first + 1:last]]
    read = [(w[0], float(w[time]), float(w[busbw])) for w in words if w and w[0].isdigit() and int(w[0])]
    return read, [(w[0], float(w[5]), float(w[7])) for w in r.rows if int(w[0])]


def cloudai_status(r):  # NVIDIA/cloudai, nccl.py: was the run successful; DeepOps' slurm-validation.yml asks the same
    return all(footer in r.text for footer in FOOTERS) and "Test failure" not in r.text and "Test NCCL failure" not in r.text, True


def cloudai_rows(r):  # performance_report_generation_strategy.py: digit-led lines, 13 words
    digit_led = [line.split() for line in r.lines if re.match(r"\d", line.strip())]
    return [w for w in digit_led if len(w) == 13], r.rows


def cloudai_devices(r):  # the same: lines with three words
    found = [line for line in r.lines if all(word in line for word in ("Rank", "device", "NVIDIA"))]
    return [line for line in found if re.search(r"on\s+[\w\d\-.]+\s+device\s+\d+", line)], [
        line for line in r.lines if re.match(r"#  Rank +\d+ Group", line) and "NVIDIA" in line]


def cloudai_grade(r):  # grading_strategy.py: columns 7 and 10 of long lines that are no comment
    long = [line.split() for line in r.lines if not line.strip().startswith("#") and len(line.split()) > 10]
    return max((max(float(w[7]), float(w[10])) for w in long), default=0), max(r.column(7) + r.column(10), default=0)


def aws_csv(r):  # awsome-distributed-training, nccl_to_csv.py: plain decimals of four types
    half = rf"({DECIMAL})\s+({DECIMAL})\s+({DECIMAL})\s+(\d+|N/A)"
    row = re.compile(rf"\s*(\d+)\s+(\d+)\s+(float|double|int|half)\s+(sum|prod|max|min|none)\s+(-?\d+)\s+{half}\s+{half}\s*$")
    plain = [w for w in r.rows if w[2] in ("float", "double", "half") and w[3] in ("sum", "prod", "max", "min", "none")
             and not any("e" in word for word in w[5:])]
    return [line.split() for line in r.lines if row.match(line)], plain


def aws_health(r):  # awsome-distributed-training, 5-nccl-allreduce.sh: the largest last-but-one word of indented rows
    return max(float(w[-2]) for w in indented_rows(r)), max(float(w[11]) for w in with_a_blank_before(r.rows))


def parallelcluster(r):  # aws-parallelcluster, test_efa.py: word 12 of 1 GiB of floats
    read = [line.split()[11] for line in r.lines if re.search(r"1073741824\s+268435456", line)]
    return read, [w[11] for w in r.rows if w[:2] == ["1073741824", "268435456"]]


def azure_nhc(r):  # azurehpc-health-checks, azure_nccl_allreduce.nhc: dies of FAILED, else word 6 of the first "bandwidth"
    if "FAILED" in r.text:
        return "FAILED", r.average
    return next(line for line in r.lines if "bandwidth" in line).split()[5], r.average


def oci_health(r):  # oci-hpc, active_healthcheck.py: word 6 of each such line, the last counts
    return [line.split()[5] for line in average_lines(r)], [r.average]


def oci_ncclscout(r):  # oci-hpc, ncclscout.py: the first line that is no comment and whose last-but-one word is a number
    for line in r.lines:
        words = line.split()
        if len(words) < 2 or line.lstrip().startswith("#") or "UTC" in line or "mpi" in line.lower() or words[0].lower() == "fri":
            continue
        if words[-2].replace(".", "", 1).isdigit():
            return words[-2], r.rows[0][11]
    return None, r.rows[0][11]


def gcp_scanner(r):  # cluster-health-scanner, nccl_startup.py: 13 words, floats; the whole part of the average
    rows = [line.split() for line in r.lines if line.strip() and not line.strip().startswith("#")]
    whole = re.search(r"# Avg bus bandwidth\s*:\s*(\d+)", r.text)
    return ([w for w in rows if len(w) == 13 and w[2] == "float"], whole and whole[1]), (
        [w for w in r.rows if w[2] == "float"], r.average.split(".")[0].split("e")[0])


def gcp_validation(r):  # cluster-health-scanner, cluster-validation.sh: drains whatever follows " on "
    nodes = {host for host in re.findall(r" on \s*([^\s]+)", r.text)}
    return (nodes, [line.split(":")[1].split()[0] for line in average_lines(r)]), (r.hosts, [r.average])


def gcp_toolkit(r):  # cluster-toolkit, test-gke-a3-*.yml: four blanks
    return re.findall(r"# Avg bus bandwidth    : ([0-9.]*)", r.text), [r.average.split("e")[0]]


def flagperf(r):  # FlagPerf, interconnect-*/main.sh: the last word
    return [line.split()[-1] for line in average_lines(r)], [r.average]


def gcm(r):  # facebookresearch/gcm, check_nccl.py: the first number of the first such line
    return re.search(r"[-+]?(\d*\.*\d+)", average_lines(r)[0])[0], r.average.split("e")[0]


def ramble(r):  # ramble, applications/nccl-tests/application.py
    half = rf"\s+{DECIMAL}\s+{DECIMAL}\s+{DECIMAL}\s+\S+"
    read = [line.split() for line in r.lines if re.search(rf"\s+\d+\s+\d+\s+\S+\s+\S+\s+\S+{half}{half}", line)]
    checks = re.findall(r"Out of bounds values\s*:\s+(\d+)", r.text)
    return (read, len(checks)), ([w for w in with_a_blank_before(r.rows) if not any("e" in word for word in w[5:])], 1)


def nccl_tests_cluster(r):  # xxrjun/nccl-tests-cluster, summarize_nccl_logs.py
    started = re.findall(r"(?m)^#\s*Collective test starting:\s*(\S+)", r.text)
    head = re.findall(r"(?m)^#\s*nThread\s+\d+\s+nGpus\s+\d+\s+minBytes\s+(\d+)\s+maxBytes\s+(\d+)\s+step:", r.text)
    return (len(started), len(head)), (1, 1)


READERS = (superbench, cloudai_status, cloudai_rows, cloudai_devices, cloudai_grade, aws_csv, aws_health, parallelcluster, azure_nhc,
           oci_health, oci_ncclscout, gcp_scanner, gcp_validation, gcp_toolkit, flagperf, gcm, ramble, nccl_tests_cluster)


def is_plain(text):
    head = re.search(r"(?m)^#       size .*$", text)
    average = re.search(r"(?m)^# Avg bus bandwidth .*$", text)
    columns = head[0].lstrip("#").split() if head else []
    return len(columns) == 13 and "time" in columns and bool(average) and len(average[0].split()) == 6


def main():
    passed = failed = 0
    for name in sys.argv[1:]:
        with open(name, encoding="utf-8", errors="replace") as file:
            text = file.read()
        if not is_plain(text):
            print(f"{name}: passed over: not whole, or with columns or a verdict that were asked for")
            continue
        report = Report(text)
        bad_checks = not re.search(r"(?m)^# Out of bounds values : 0 OK", text)
        for reader in READERS:
            try:
                read, truth = reader(report)
            except (IndexError, ValueError, TypeError, StopIteration) as error:
                read, truth = f"{type(error).__name__}: {error}", "something"
            # A run with wrong data is to be seen as failed by this one, which the word tells.
            if reader is azure_nhc and bad_checks:
                truth = "FAILED"
            if read == truth:
                passed += 1
                continue
            failed += 1
            print(f"{name}: {reader.__name__} reads {read!r:.300} for {truth!r:.300}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
