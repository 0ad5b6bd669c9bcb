"""Speed and memory of the packet engine: packet-hops a second, bytes an accelerator, and how both grow.

    python -m benchmarks.engine_speed [--accelerators 64 256 1024] [--message 16384] [--csv FILE]
    make bench                # 64 to 16,384 accelerators
    make bench COUNTS=1       # instructions and cache misses a packet-hop in place of times

Every case runs in a process of its own, so that its peak memory is its own. The load is a full alltoall of
small messages; where that would be more than `--packets` packets, a sample of its shifts.

Counts are callgrind's, with its model of a first-level cache and of the second level (as the last one that it
simulates). They need modules built with HXMESH_PROFILE, as `make bench COUNTS=1` builds them.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import engine
import motifs
from benchmarks.instructions import RUN
from engine.run import count_packets
from topologies import Dragonfly, FatTree, HxMesh, HyperX2D, Topology, Torus2D


def square(accelerators: int) -> int:
    """Side of the square grid of `accelerators`; the sizes of this benchmark are squares of powers of two."""
    side = math.isqrt(accelerators)
    if side * side != accelerators or side & (side - 1):
        raise SystemExit(f"--accelerators is {accelerators} but must be the square of a power of two")
    return side


def fat_tree(accelerators: int) -> Topology:
    """Two levels up to 2,048 accelerators, as in the paper's small cluster; three beyond."""
    return FatTree.clos(accelerators, levels=2 if accelerators <= 2048 else 3)


def dragonfly(accelerators: int) -> Topology:
    """Groups of 128 accelerators."""
    groups = max(2, accelerators // 128)
    return (
        Dragonfly(8, 16, max(1, 128 // (groups - 1)), groups)
        if accelerators >= 256
        else Dragonfly(4, 4, 4, 4)
    )


NETWORKS: dict[str, Callable[[int], Topology]] = {
    "fattree": fat_tree,
    "dragonfly": dragonfly,
    "hyperx": lambda n: HyperX2D(square(n), square(n)),
    "hx1mesh": lambda n: HxMesh(1, 1, square(n), square(n)),
    "hx2mesh": lambda n: HxMesh(2, 2, square(n) // 2, square(n) // 2),
    "hx4mesh": lambda n: HxMesh(4, 4, square(n) // 4, square(n) // 4),
    "torus": lambda n: Torus2D(square(n), square(n)),
}
COLUMNS = (
    "topology", "accelerators", "routers", "build_s", "packets", "packet_hops", "wall_s", "cpu_s",
    "million_packet_hops_per_cpu_s", "peak_memory_bytes", "bytes_per_accelerator", "simulated_time_us",
)  # fmt: skip
COUNTED = ("topology", "accelerators", "packet_hops", "instructions", "l1_misses", "l2_misses")
"""Columns of counts; the last three for each packet-hop."""

CACHES = ("--D1=49152,12,64", "--LL=1310720,20,64")
"""Of a core of an Ice Lake Xeon: 48 KiB and 1.25 MiB (size, ways, bytes of a line)."""
COUNTED_PACKETS = 40_000
"""A case that is counted has about so many at most, or one shift: callgrind takes a hundred times as long."""

THIS = (sys.executable, *(["-P"] if sys.flags.safe_path else []), "-m", "benchmarks.engine_speed")
"""Command for a case in a process of its own, with the same modules."""


def measure(name: str, accelerators: int, message_bytes: int, packets: int) -> dict[str, object]:
    """Run one case in this process."""
    started = time.perf_counter()
    topology = NETWORKS[name](accelerators)
    build_s = time.perf_counter() - started
    schedule = motifs.alltoall(topology.num_endpoints, message_bytes)
    params = engine.NetworkParams()
    total = count_packets(schedule, params)
    if total > packets:
        shifts = max(1, len(schedule.shifts) * packets // total)
        schedule = motifs.alltoall(
            topology.num_endpoints,
            message_bytes,
            motifs.sample_shifts(topology.num_endpoints, shifts, seed=0),
        )
    cpu = time.process_time()
    result = engine.run(topology, schedule, params, repetitions="ignore")
    cpu = time.process_time() - cpu
    if not result.complete:
        raise SystemExit(f"{name} with {accelerators} accelerators: {result.message}")
    return {
        "topology": name,
        "accelerators": topology.num_endpoints,
        "routers": topology.num_routers,
        "build_s": round(build_s, 3),
        "packets": result.packets,
        "packet_hops": result.packet_hops,
        "wall_s": round(result.wall_s, 2),
        "cpu_s": round(cpu, 2),
        "million_packet_hops_per_cpu_s": round(result.packet_hops / cpu / 1e6, 2),
        "peak_memory_bytes": result.peak_memory_bytes,
        "bytes_per_accelerator": result.peak_memory_bytes // topology.num_endpoints,
        "simulated_time_us": round(result.simulated_time_ps / 1e6, 3),
    }


def count(name: str, accelerators: int, message_bytes: int) -> dict[str, object]:
    """Instructions and cache misses for each packet-hop of one case, by callgrind in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "counts"
        done = subprocess.run(
            [
                *("valgrind", "--tool=callgrind", "--cache-sim=yes", *CACHES),
                *(f"--toggle-collect={RUN}", f"--callgrind-out-file={output}"),
                *(*THIS, "--message", str(message_bytes), "--packets", str(COUNTED_PACKETS)),
                *("--case", name, str(accelerators)),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise SystemExit(f"callgrind failed:\n{done.stderr}")
        text = output.read_text(errors="replace")
    case = json.loads(done.stdout)
    events = re.search(r"^events: (.*)$", text, re.MULTILINE)
    sums = re.search(r"^(?:summary|totals): (.*)$", text, re.MULTILINE)
    if events is None or sums is None or not sums[1].split()[0].strip("0"):
        raise SystemExit(f"{name}: nothing was counted; were the modules built with HXMESH_PROFILE?")
    counts = dict(zip(events[1].split(), map(int, sums[1].split()), strict=False))
    hops = case["packet_hops"]
    return {
        "topology": name,
        "accelerators": case["accelerators"],
        "packet_hops": hops,
        "instructions": round(counts["Ir"] / hops, 1),
        "l1_misses": round((counts.get("D1mr", 0) + counts.get("D1mw", 0)) / hops, 2),
        "l2_misses": round((counts.get("DLmr", 0) + counts.get("DLmw", 0)) / hops, 2),
    }


def time_apart(name: str, accelerators: int, message_bytes: int, packets: int) -> dict[str, object]:
    """:func:`measure` in a process of its own."""
    options = ["--message", str(message_bytes), "--packets", str(packets)]
    done = subprocess.run(
        [*THIS, *options, "--case", name, str(accelerators)],
        check=True,
        capture_output=True,
        text=True,
    )
    row: dict[str, object] = json.loads(done.stdout)
    return row


def line(row: dict[str, object]) -> str:
    """A case for people."""
    start = f"{row['topology']:10s}{row['accelerators']:7d} accelerators "
    if "instructions" in row:
        return start + (
            f"{row['instructions']:7.0f} instructions {row['l1_misses']:6.2f} L1 misses "
            f"{row['l2_misses']:6.2f} L2 misses a packet-hop"
        )
    kib = int(str(row["bytes_per_accelerator"])) / 1024
    return start + (
        f"{row['million_packet_hops_per_cpu_s']:7.2f} M packet-hops/s {kib:8.0f} KiB an accelerator "
        f"{row['wall_s']:7.2f} s"
    )


def main() -> None:
    """Measure all cases and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--accelerators", type=int, nargs="+", default=[64, 256, 1024, 4096, 16384])
    parser.add_argument("--topologies", nargs="+", default=list(NETWORKS), choices=list(NETWORKS))
    parser.add_argument("--message", type=int, default=16384, help="bytes of a message")
    parser.add_argument("--packets", type=int, default=8_000_000, help="packets of a case at most")
    parser.add_argument("--csv", help="write the table to this file too")
    parser.add_argument("--counts", action="store_true", help="instructions and cache misses, by callgrind")
    parser.add_argument("--case", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.case:
        print(json.dumps(measure(args.case[0], int(args.case[1]), args.message, args.packets)))
        return
    rows: list[dict[str, object]] = []
    for accelerators in args.accelerators:
        for name in args.topologies:
            if args.counts:
                rows.append(count(name, accelerators, args.message))
            else:
                rows.append(time_apart(name, accelerators, args.message, args.packets))
            print(line(rows[-1]), flush=True)
    if args.csv:
        with open(args.csv, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, COUNTED if args.counts else COLUMNS)
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
