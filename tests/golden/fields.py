#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds JSON documents of `nccl-tune topo|plan|check --json` against the fields that they promise: all of them, no other,
each of its type. usage: fields.py NAME.topo.json NAME.plan.json ..."""
import json
import sys

text, number, flag = str, (int, float), bool


class Maybe:
    """null or the kind."""

    def __init__(self, kind):
        self.kind = kind


class Map:
    """An object whose names are data; every value is of the kind."""

    def __init__(self, kind):
        self.kind = kind


SETTING = {"name": text, "value": text, "rule": text, "why": text, "where": Maybe(text)}
NOTE = {"object": text, "text": text}
PLAN = {
    "host": text,
    "platform": text,
    "profile": text,
    "profile_why": text,
    "profile_where": Maybe(text),
    "env": [SETTING],
    "kept": [{"name": text, "value": text, "source": text}],
    "tasks": [{"local_id": int, "gpus": [text], "hcas": [text], "cpus": Maybe(text), "mem_node": Maybe(int),
               "env": [SETTING], "why": text}],
    "hcas": [{"name": text, "port": int, "use": text, "why": text}],
    "notes": [NOTE],
}
TOPO = {
    "host": text,
    "platform": text,
    "dmi": Map(text),
    "kernel": Maybe(text),
    "guest": flag,
    "flat": flag,
    "nvidia_driver": {"version": Maybe(text), "open_modules": flag},
    "gpudirect_rdma": {"peermem": Maybe(flag), "dma_buf": Maybe(flag), "text": text},
    "imex_channels": flag,
    "online_cpus": text,
    "numa": [{"id": int, "cpus": text, "memory_kb": Maybe(int), "distances": [int]}],
    "gpus": [{"bdf": text, "minor": Maybe(int), "uuid": Maybe(text), "model": Maybe(text), "numa_node": Maybe(int),
              "cpus": Maybe(text), "distances": Map(text), "nvlinks": Map(int)}],
    "hcas": [{"name": text, "port": int, "bdf": Maybe(text), "driver": Maybe(text), "hca_type": Maybe(text),
              "fw_ver": Maybe(text), "board_id": Maybe(text), "numa_node": Maybe(int), "state": Maybe(text),
              "phys_state": Maybe(text), "link_layer": Maybe(text), "rate_gbps": Maybe(number), "netdev": Maybe(text),
              "gid_index": Maybe(int), "gids": [{"index": int, "gid": text, "type": text, "netdev": Maybe(text)}],
              "use": text, "why": text}],
    "interfaces": [{"name": text, "kind": text, "bdf": Maybe(text), "up": flag, "running": flag, "carrier": Maybe(flag),
                    "speed_mbps": Maybe(int), "mtu": Maybe(int), "master": Maybe(text), "addresses": [text],
                    "used": flag, "why": text}],
    "notes": [NOTE],
}

CHECK = {
    "host": text,
    "counts": {"ok": int, "warn": int, "fail": int, "skip": int},
    "findings": [{"id": text, "family": text, "status": text, "object": text, "observed": text, "wanted": text, "why": text,
                  "remedy": text, "source": text, "ignored": Maybe(text)}],
}

def faults(value, kind, where):
    """Every place where value is not of the kind."""
    if isinstance(kind, Maybe):
        return [] if value is None else faults(value, kind.kind, where)
    if isinstance(kind, Map):
        if not isinstance(value, dict):
            return [f"{where}: not an object"]
        return [f for name, item in value.items() for f in faults(item, kind.kind, f"{where}.{name}")]
    if isinstance(kind, dict):
        if not isinstance(value, dict):
            return [f"{where}: not an object"]
        found = [f"{where}.{name}: missing" for name in kind if name not in value]
        found += [f"{where}.{name}: not promised" for name in value if name not in kind]
        return found + [f for name in kind if name in value for f in faults(value[name], kind[name], f"{where}.{name}")]
    if isinstance(kind, list):
        if not isinstance(value, list):
            return [f"{where}: not a list"]
        return [f for i, item in enumerate(value) for f in faults(item, kind[0], f"{where}[{i}]")]
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not flag):
        return [f"{where}: {value!r} is of another type"]
    return []


def empty_words(value, where):
    """Fields that a person reads and that must never be empty."""
    if isinstance(value, dict):
        for name, item in value.items():
            if name in ("rule", "why", "use", "text", "object", "name") and item == "":
                yield f"{where}.{name}: empty"
            yield from empty_words(item, f"{where}.{name}")
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from empty_words(item, f"{where}[{i}]")


def faults_of(path):
    command = path.split(".")[-2]
    with open(path) as file:
        document = json.load(file)
    found = faults(document, {"topo": TOPO, "plan": PLAN, "check": CHECK}[command], "") + list(empty_words(document, ""))
    found += [f".env: {s['name']} is exported with an empty value" for s in document.get("env", []) if s["value"] == ""]
    return [f"{path}: {fault}" for fault in found]


found = [fault for path in sys.argv[1:] for fault in faults_of(path)]
if found:
    sys.exit("\n".join(found))
