"""Instructions of the packet engine per packet-hop, counted by callgrind: a guard against regressions.

    make instructions            # compares with instructions.json, fails where a case grew by more than 3%
    make instructions STORE=1    # stores the counts of this tree

Counts, unlike times, are the same in every run and on a busy machine. They belong to a compiler: with another
one than the stored counts' they are shown and judge nothing. Needs modules built with HXMESH_PROFILE, as
`make instructions` builds them in build/profile/.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import engine
import motifs
from engine.run import Repetitions
from motifs import Schedule
from topologies import Dragonfly, FatTree, HxMesh, HyperX2D, Topology, Torus2D

STORED = Path(__file__).with_name("instructions.json")
LARGEST_GROWTH = 0.03
RUN = "hxmesh::engine::Simulator<*::run(*"
"""The function that is counted, with all that it calls."""
MARK = "getppid"
"""A function of the C library that nothing else calls: counts so far are written out when it is entered."""


def alltoall(message_bytes: int) -> Callable[[Topology], Schedule]:
    """Shift schedule."""
    return lambda topology: motifs.alltoall(topology.num_endpoints, message_bytes)


def listed(message_bytes: int) -> Callable[[Topology], Schedule]:
    """The same as a list of operations, which the engine runs as a graph."""
    return lambda topology: motifs.alltoall(topology.num_endpoints, message_bytes).expand()


def allreduce(motif: str, total_bytes: int) -> Callable[[Topology], Schedule]:
    """A ring-like collective."""
    return lambda topology: motifs.build(motif, topology, total_bytes=total_bytes)


SKIPPED = "periods skipped"
"""In the names of cases that may skip what repeats itself; the others simulate every step."""

# Small enough to run under callgrind in seconds; every routing function and every form of schedule once.
CASES: dict[str, tuple[Callable[[], Topology], Callable[[Topology], Schedule]]] = {
    "fat tree, alltoall": (lambda: FatTree.clos(128, radix=16, leaf_down=8, leaf_up=8), alltoall(32768)),
    "fat tree, adaptive, alltoall": (
        lambda: FatTree.merlin([(8, 8)], top=16, adaptive=True),
        alltoall(32768),
    ),
    "fat tree, ring": (
        lambda: FatTree.clos(128, radix=16, leaf_down=8, leaf_up=8),
        allreduce("ring", 4 << 20),
    ),
    "Dragonfly, minimal, alltoall": (lambda: Dragonfly(4, 8, 4, 4), alltoall(32768)),
    "Dragonfly, UGAL, alltoall": (lambda: Dragonfly(4, 8, 4, 4, algorithm="ugal"), alltoall(32768)),
    "HyperX, alltoall": (lambda: HyperX2D(12, 12), alltoall(32768)),
    "Hx1Mesh, alltoall": (lambda: HxMesh(1, 1, 12, 12), alltoall(32768)),
    "Hx2Mesh, alltoall": (lambda: HxMesh(2, 2, 6, 6), alltoall(32768)),
    "Hx2Mesh, list of operations": (lambda: HxMesh(2, 2, 6, 6), listed(32768)),
    "Hx2Mesh, two rings": (lambda: HxMesh(2, 2, 6, 6), allreduce("two-rings", 16 << 20)),
    "Hx2Mesh, failed boards, alltoall": (
        lambda: HxMesh(2, 2, 6, 6, failed_boards=[(0, 0), (1, 1), (3, 4)]),
        alltoall(32768),
    ),
    "Hx4Mesh, alltoall": (lambda: HxMesh(4, 4, 3, 3), alltoall(32768)),
    "torus, alltoall": (lambda: Torus2D(12, 12), alltoall(32768)),
    "torus, bucket": (lambda: Torus2D(12, 12), allreduce("bucket", 16 << 20)),
    f"torus, two rings, {SKIPPED}": (lambda: Torus2D(8, 8), allreduce("two-rings", 64 << 20)),
}


def packet_hops() -> list[int]:
    """Run every case in this process; packet-hops of each."""
    found = []
    for name, (network, traffic) in CASES.items():
        topology = network()
        repetitions: Repetitions = "skip" if SKIPPED in name else "simulate"
        result = engine.run(topology, traffic(topology), repetitions=repetitions)
        if not result.complete:
            raise SystemExit(f"{name}: {result.message}")
        found.append(result.packet_hops)
        os.getppid()
    return found


def count() -> dict[str, dict[str, float]]:
    """Packet-hops and instructions of every case, by callgrind."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out"]
        # One output after each run: out.1, out.2, ...
        command += [f"--toggle-collect={RUN}", f"--dump-before={MARK}", sys.executable, __file__, "--hops"]
        environment = os.environ | {"PYTHONHASHSEED": "0"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"callgrind failed:\n{done.stderr}")
        hops = json.loads(done.stdout)
        counts = {}
        for number, (name, hop_count) in enumerate(zip(CASES, hops, strict=True), start=1):
            text = (Path(folder) / f"out.{number}").read_text(errors="replace")
            found = re.search(r"^(?:summary|totals): (\d+)", text, re.MULTILINE)
            if found is None or int(found[1]) < hop_count:
                raise SystemExit(f"{name}: nothing was counted; were the modules built with HXMESH_PROFILE?")
            counts[name] = {
                "packet_hops": hop_count,
                "instructions": int(found[1]),
                "per_hop": round(int(found[1]) / hop_count, 1),
            }
    return counts


def compiler() -> str:
    """What built the engine, as it says in the module."""
    module = Path(engine._core.__file__).read_bytes()
    found = re.search(rb"GCC: \([^)]*\) [0-9.]+|clang version [0-9.]+", module)
    return found[0].decode() if found else "unknown"


def compare(
    stored: dict[str, Any], cases: dict[str, dict[str, float]], built_by: str
) -> tuple[list[str], list[str]]:
    """Lines of a table, and the cases that are `LARGEST_GROWTH` above their stored count or have none.

    `stored` is the content of instructions.json; one of another compiler judges no case, and the last line
    says so.
    """
    lines = [f"{'instructions per packet-hop':36s}{'stored':>9s}{'now':>9s}"]
    judged = stored["compiler"] == built_by
    grown = []
    for name, case in cases.items():
        before = stored["cases"].get(name, {}).get("per_hop")
        growth = case["per_hop"] / before - 1 if before else 0.0
        change = f"{growth:+8.1%}" if before else "     new"
        lines.append(f"{name:36s}{before or 0:9.1f}{case['per_hop']:9.1f}{change}")
        if judged and (before is None or growth > LARGEST_GROWTH):
            grown.append(name)
    if not judged:
        lines.append(f"NOT COMPARED: stored counts are of {stored['compiler']}, these of {built_by}")
    elif grown:
        lines.append(f"new or more than {LARGEST_GROWTH:.0%} above the stored count: {'; '.join(grown)}")
    return lines, grown


def main() -> int:
    """Count, and compare or store."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--store", action="store_true", help=f"write {STORED.name}")
    parser.add_argument("--hops", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.hops:
        print(json.dumps(packet_hops()))
        return 0
    if shutil.which("valgrind") is None:
        print("NOT COUNTED: valgrind is not installed")
        return 0
    cases, built_by = count(), compiler()
    stored = json.loads(STORED.read_text()) if STORED.exists() else {"compiler": "nothing", "cases": {}}
    lines, grown = compare(stored, cases, built_by)
    print("\n".join(lines))
    if args.store:
        STORED.write_text(json.dumps({"compiler": built_by, "cases": cases}, indent=2) + "\n")
        print(f"stored in {STORED}")
        return 0
    return 1 if grown else 0


if __name__ == "__main__":
    sys.exit(main())
