"""How time and memory grow with the number of accelerators, with the exponents, as a table and a figure.

    python -m benchmarks.growth [--accelerators 256 1024 4096 16384 65536] [--directory results/growth]

Every case builds a network, analyses it (cost, diameter, mean distance, bounds) and, up to `--simulate`
accelerators, simulates `--shifts` shifts of an alltoall of `--message` bytes, drawn as samples are: the same
messages for each accelerator at every size. Each runs in a process of its own. Memory is the peak of that
process beyond what Python and the imports take. An exponent is the slope of a straight line through the
logarithms; below the resolution of what is measured (1 ms, 1 MiB) a value does not count.
"""

from __future__ import annotations

import argparse
import csv
import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

import engine
import motifs
from analysis import networks
from analysis.figures import colour
from benchmarks.engine_speed import NETWORKS
from topologies import bounds, cost, metrics

ROOT = Path(__file__).parents[1]

Row = dict[str, str | int | float | None]

QUANTITIES = {
    "build_s": ("building, s", 1e-3),
    "analysis_s": ("analysis, s", 1e-3),
    "build_mib": ("memory of both, MiB", 1.0),
    "simulation_s": ("simulation, s of processor", 1e-3),
    "simulation_mib": ("memory of the run, MiB", 1.0),
}
"""Label of each measured quantity, and the least value that counts."""

COLUMNS = ("topology", "accelerators", *QUANTITIES, "packet_hops", "million_packet_hops_per_s")


def measure(name: str, accelerators: int, message_bytes: int, shifts: int) -> Row:
    """Run one case in this process; `shifts` 0 leaves the simulation out."""
    base_mib = peak_mib()
    started = time.perf_counter()
    topology = NETWORKS[name](accelerators)
    built = time.perf_counter()
    cost.bill_of_materials(topology)
    metrics.diameter_hops(topology)
    metrics.average_distance_hops(topology, max_sources=32)
    bounds.alltoall_bound(topology)
    bounds.allreduce_bound(topology)
    row: Row = dict.fromkeys(COLUMNS)
    row |= {
        "topology": name,
        "accelerators": topology.num_endpoints,
        "build_s": round(built - started, 4),
        "analysis_s": round(time.perf_counter() - built, 4),
        "build_mib": round(peak_mib() - base_mib, 1),
    }
    if shifts:
        schedule = motifs.alltoall(topology.num_endpoints, message_bytes, sample=shifts)
        cpu_s = time.process_time()
        result = engine.run(topology, schedule)
        cpu_s = time.process_time() - cpu_s
        if not result.complete:
            raise SystemExit(f"{name} with {accelerators} accelerators: {result.message}")
        row |= {
            "simulation_s": round(cpu_s, 3),
            "simulation_mib": round(peak_mib() - base_mib, 1),
            "packet_hops": result.packet_hops,
            "million_packet_hops_per_s": round(result.packet_hops / cpu_s / 1e6, 2),
        }
    return row


def peak_mib() -> float:
    """Peak memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def exponents(rows: Sequence[Mapping[str, str | int | float | None]]) -> Row:
    """Exponent of every quantity over the accelerators of `rows`, None with fewer than two values."""
    found: Row = {}
    for name, (_, least) in QUANTITIES.items():
        points = [
            (float(row["accelerators"] or 0), float(row[name] or 0))
            for row in rows
            if row[name] is not None and float(row[name] or 0) >= least
        ]
        found[name] = None
        if len({x for x, _ in points}) > 1:
            x, y = np.log(np.array(points)).T
            found[name] = round(float(np.polyfit(x, y, 1)[0]), 2) + 0.0  # no -0
    return found


def markdown(rows: Sequence[Row]) -> str:
    """All rows as a table, an extra one for the exponents of each network."""
    labels = [label for label, _ in QUANTITIES.values()]
    lines = ["| " + " | ".join(["network", "accelerators", *labels, "million packet-hops/s"]) + " |"]
    lines.append("|---" * (len(labels) + 3) + "|")
    for name in dict.fromkeys(row["topology"] for row in rows):
        own = [row for row in rows if row["topology"] == name]
        for row in own:
            cells = [row[column] for column in ("accelerators", *QUANTITIES, "million_packet_hops_per_s")]
            lines.append(f"| {networks.label(str(name))} | " + " | ".join(map(_cell, cells)) + " |")
        slopes = [_cell(value) for value in exponents(own).values()]
        lines.append(f"| {networks.label(str(name))} | exponent | " + " | ".join([*slopes, ""]) + " |")
    return "\n".join(lines) + "\n"


def _cell(value: object) -> str:
    return "" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:g}"


def draw(rows: Sequence[Row], path: Path) -> None:
    """Write the figure: a panel a quantity, both axes logarithmic, exponents in the legends."""
    mpl.rcParams.update({"axes.grid": True, "grid.color": "#DDDDDD", "font.size": 9})
    figure = Figure(figsize=(16, 4.6), layout="constrained")
    for axes, (quantity, (label, least)) in zip(
        figure.subplots(1, len(QUANTITIES)), QUANTITIES.items(), strict=True
    ):
        for name in dict.fromkeys(str(row["topology"]) for row in rows):
            own = [row for row in rows if row["topology"] == name]
            points = [
                (row["accelerators"], row[quantity])
                for row in own
                if row[quantity] is not None and float(row[quantity] or 0) >= least
            ]
            if points:
                slope = exponents(own)[quantity]
                text = networks.label(name) + ("" if slope is None else f": {slope:g}")
                x, y = zip(*points, strict=True)
                axes.loglog(x, y, marker="o", markersize=4, color=colour(name), label=text)
        axes.set_xlabel("accelerators")
        axes.set_title(label)
        if axes.lines:
            axes.xaxis.set_major_locator(
                FixedLocator(sorted({int(row["accelerators"] or 0) for row in rows}))
            )
            axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
            axes.xaxis.set_minor_locator(NullLocator())
            axes.tick_params(axis="x", labelrotation=45)
            axes.legend(title="exponent", fontsize=7.5, frameon=False)
    figure.savefig(path.with_suffix(".png"), dpi=120)
    figure.savefig(path.with_suffix(".pdf"))


def cases(names: Iterable[str], sizes: Iterable[int], args: argparse.Namespace) -> list[Row]:
    """Measure every network at every size, one process after the other."""
    rows: list[Row] = []
    for name in names:
        for accelerators in sizes:
            shifts = args.shifts if accelerators <= args.simulate else 0
            command = [
                sys.executable,
                "-m",
                "benchmarks.growth",
                "--message",
                str(args.message),
                "--shifts",
                str(shifts),
            ]
            command += ["--case", name, str(accelerators)]
            done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
            rows.append(json.loads(done.stdout))
            print(" ".join(f"{key}={value}" for key, value in rows[-1].items()), flush=True)
    return rows


def main() -> None:
    """Measure all cases; write growth.csv, growth.md, growth.png and growth.pdf."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--accelerators", type=int, nargs="+", default=[256, 1024, 4096, 16384, 65536])
    parser.add_argument("--topologies", nargs="+", default=list(NETWORKS), choices=list(NETWORKS))
    parser.add_argument("--simulate", type=int, default=16384, help="accelerators simulated at most")
    parser.add_argument("--message", type=int, default=65536, help="bytes of a message")
    parser.add_argument("--shifts", type=int, default=4, help="shifts of the alltoall")
    parser.add_argument("--directory", type=Path, default=Path("results/growth"))
    parser.add_argument("--case", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.case:
        print(json.dumps(measure(args.case[0], int(args.case[1]), args.message, args.shifts)))
        return
    rows = cases(args.topologies, args.accelerators, args)
    args.directory.mkdir(parents=True, exist_ok=True)
    with (args.directory / "growth.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)
    (args.directory / "growth.md").write_text(markdown(rows), encoding="utf-8")
    draw(rows, args.directory / "growth")


if __name__ == "__main__":
    main()
