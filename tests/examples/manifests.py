# SPDX-License-Identifier: Apache-2.0
"""Holds the manifests of examples/mpi-operator to manifests.schema.yaml and to themselves: manifests.py FILE...; or prints the
launcher's command of one: manifests.py --launcher FILE.

One line for each fault; exit status 1 when there is one, 77 when a library is missing here."""
import copy
import pathlib
import sys

try:
    import jsonschema
    import yaml
except ImportError as error:
    print(f"{error.name}: not installed (python3-jsonschema, python3-yaml)")
    sys.exit(77)

SCHEMA = yaml.safe_load((pathlib.Path(__file__).parent / "manifests.schema.yaml").read_text())


def faults(document):
    validator = jsonschema.Draft7Validator(SCHEMA["definitions"].get(
        {"MPIJob": "job", "ComputeDomain": "computeDomain"}.get(document.get("kind"), ""), False) or SCHEMA,
        resolver=jsonschema.RefResolver.from_schema(SCHEMA))
    found = [f"{'/'.join(map(str, e.path))}: {e.message}"[:300] for e in validator.iter_errors(document)]
    if found or document["kind"] != "MPIJob":
        return found
    # What no schema can say: slots, GPUs and the launcher's ranks are one number; a mount needs its volume.
    spec = document["spec"]
    slots = spec["slotsPerWorker"]
    worker = spec["mpiReplicaSpecs"]["Worker"]["template"]["spec"]
    gpus = worker["containers"][0]["resources"]["limits"]["nvidia.com/gpu"]
    arguments = spec["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]["args"]
    if gpus != slots or f"ppr:{slots}:node" not in arguments:
        found.append(f"slotsPerWorker is {slots}, GPUs {gpus}, --map-by {arguments}")
    volumes = {volume["name"] for volume in worker.get("volumes", [])}
    for container in worker["containers"]:
        found += [f"volume {m['name']} is not there" for m in container["volumeMounts"] if m["name"] not in volumes]
        claims = {claim["name"] for claim in worker.get("resourceClaims", [])}
        found += [f"claim {c['name']} is not there" for c in container["resources"].get("claims", []) if c["name"] not in claims]
    return found


def sees_faults(document):
    """The check itself: each of these must be found, else it could not fail."""
    for spoil in (lambda d: d["spec"].pop("mpiReplicaSpecs"),
                  lambda d: d["spec"].update(slotPerWorker=8),
                  lambda d: d["spec"].update(slotsPerWorker=3),
                  lambda d: d["spec"]["mpiReplicaSpecs"]["Worker"].update(replicas="8"),
                  lambda d: d["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"].pop("volumes"),
                  lambda d: d["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0].update(args=["-f", 2])):
        spoilt = copy.deepcopy(document)
        spoil(spoilt)
        if not faults(spoilt):
            return False
    return True


if sys.argv[1] == "--launcher":  # its arguments, one a line, for two ranks on this node
    job = list(yaml.safe_load_all(pathlib.Path(sys.argv[2]).read_text()))[-1]
    launcher = job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]
    slots = job["spec"]["slotsPerWorker"]
    print("\n".join(launcher["command"] + [a.replace(f"ppr:{slots}:", "ppr:2:") for a in launcher["args"]]))
    sys.exit(0)

status = 0
for name in sys.argv[1:]:
    documents = list(yaml.safe_load_all(pathlib.Path(name).read_text()))
    found = [fault for document in documents for fault in faults(document)]
    if not found and not sees_faults(documents[-1]):
        found.append("a spoilt copy of it passes")
    for fault in found:
        print(f"{name}: {fault}")
        status = 1
sys.exit(status)
