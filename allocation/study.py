"""How much of a machine can be used: many random job mixes, placed by each strategy.

Every strategy gets the same mixes and the same failed boards, so that differences between strategies are not
those of the draw. Source of the scenarios: HammingMesh article, section on allocation, and its artifact.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from allocation.allocate import Allocation, Strategy, block, largest_first, place_all, published_strategy
from allocation.boards import Boards, random_failures
from allocation.exact import best_placement
from allocation.jobs import draw_jobs
from allocation.shapes import Shape
from allocation.traffic import LineTrees, Pattern
from topologies.errors import require_integer

GridSet = Literal["artifact", "table2"]

GRIDS: dict[GridSet, dict[tuple[str, str], tuple[int, int]]] = {
    # (columns, rows) in boards. The artifact's logs of its large machines are of twice the boards of the
    # article's Table 2: a job on the whole machine has 8192 * 8191 (2048 * 2047) pairs of boards in them, and
    # utilisations with failed boards are fractions of 8192 (2048) less the failed ones.
    "artifact": {
        ("hx2mesh", "small"): (16, 16),
        ("hx4mesh", "small"): (8, 8),
        ("hx2mesh", "large"): (64, 128),
        ("hx4mesh", "large"): (32, 64),
    },
    "table2": {("hx2mesh", "large"): (64, 64), ("hx4mesh", "large"): (32, 32)},
}
"""Machines: those that the published utilisations are of, and the large ones of Table 2."""

FAILED_BOARDS = {"small": (0, 20, 40), "large": (0, 50, 100)}


@dataclass(frozen=True)
class Improvements:
    """What is added to the plain greedy search."""

    transpose: bool = False
    aspect_ratio: bool = False
    sort_jobs: bool = False
    locality: Pattern | None = None

    def strategy(self, trees: LineTrees) -> Strategy:
        """The strategy for a machine with these line trees."""
        return published_strategy(
            transpose=self.transpose,
            aspect_ratio=self.aspect_ratio,
            sort_jobs=self.sort_jobs,
            locality=self.locality,
            trees=trees,
        )

    def columns(self) -> dict[str, str]:
        """The cells of a result table."""
        return {
            "transpose": _yes(self.transpose),
            "aspect_ratio": _yes(self.aspect_ratio),
            "sort_jobs": _yes(self.sort_jobs),
            "locality": self.locality or "no",
        }


def _yes(value: bool) -> str:
    return "yes" if value else "no"


PUBLISHED_IMPROVEMENTS = (
    Improvements(),
    Improvements(transpose=True),
    Improvements(transpose=True, aspect_ratio=True),
    Improvements(transpose=True, aspect_ratio=True, locality="alltoall"),
    Improvements(transpose=True, aspect_ratio=True, locality="allreduce"),
    Improvements(transpose=True, aspect_ratio=True, sort_jobs=True),
    Improvements(transpose=True, aspect_ratio=True, sort_jobs=True, locality="alltoall"),
    Improvements(transpose=True, aspect_ratio=True, sort_jobs=True, locality="allreduce"),
)

Row = dict[str, Any]
CHUNK = 50
"""Samples of one task for a process."""


@dataclass(frozen=True)
class Machine:
    """One machine of the study with a number of failed boards."""

    grids: GridSet
    mesh: str
    cluster: str
    failed_boards: int

    @property
    def size(self) -> tuple[int, int]:
        """(columns, rows), in boards."""
        return GRIDS[self.grids][self.mesh, self.cluster]

    def draw(self, seed: int, sample: int) -> tuple[Boards, list[Shape]]:
        """Boards, some of them failed, and jobs; the same for a seed and a sample, whatever the strategy."""
        columns, rows = self.size
        key = (columns, rows, self.failed_boards, sample)
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))
        boards = Boards(columns, rows, random_failures(columns, rows, self.failed_boards, rng))
        return boards, draw_jobs(columns, rows, boards.usable, rng)

    def columns(self) -> dict[str, Any]:
        """The cells of a result table."""
        return {"mesh": self.mesh, "cluster": self.cluster, "failed_boards": self.failed_boards}


def machines(grids: GridSet) -> list[Machine]:
    """All machines of a set of grids with all numbers of failed boards."""
    return [
        Machine(grids, mesh, cluster, failed)
        for mesh, cluster in GRIDS[grids]
        for failed in FAILED_BOARDS[cluster]
    ]


def utilization_samples(
    grids: GridSet,
    samples: int,
    *,
    seed: int = 0,
    processes: int | None = None,
    progress: Callable[[float], None] | None = None,
) -> pd.DataFrame:
    """Place `samples` job mixes on every machine of `grids` by every published strategy.

    Columns: mesh, cluster, failed_boards, transpose, aspect_ratio, sort_jobs, locality, sample,
    utilization_percent (of the boards that have not failed), alltoall_upper_percent, allreduce_upper_percent
    (traffic in the upper level of line trees, missing where there are none).
    `progress` gets the fraction done.

    Raises ConfigError for fewer than one sample.
    """
    return _in_processes(_mesh_rows, machines(grids), samples, seed, processes, progress)


def baseline_samples(
    grids: GridSet,
    samples: int,
    *,
    seed: int = 0,
    processes: int | None = None,
    progress: Callable[[float], None] | None = None,
) -> pd.DataFrame:
    """Place the job mixes of `utilization_samples` on a torus of the same boards and on a fat tree.

    On the torus a job needs a contiguous block, which may be turned and of another aspect ratio; on a fat
    tree any boards will do. Columns: topology, mesh, cluster, failed_boards, sort_jobs, sample,
    utilization_percent.
    """
    return _in_processes(_baseline_rows, machines(grids), samples, seed, processes, progress)


def bound_samples(
    samples: int,
    *,
    limit_s: float = 10.0,
    seed: int = 0,
    processes: int | None = None,
    progress: Callable[[float], None] | None = None,
) -> pd.DataFrame:
    """How far the greedy search is from the best placement, on the small machines.

    Columns: mesh, cluster, failed_boards, sample, greedy_percent (jobs in the order drawn), sorted_percent
    (largest first), best_percent (found by the solver in `limit_s`), bound_percent (no placement exceeds it).
    """
    small = [machine for machine in machines("artifact") if machine.cluster == "small"]
    return _in_processes(_bound_rows, small, samples, seed, processes, progress, limit_s)


def _in_processes(
    work: Callable[..., list[Row]],
    every: Sequence[Machine],
    samples: int,
    seed: int,
    processes: int | None,
    progress: Callable[[float], None] | None,
    *arguments: Any,
) -> pd.DataFrame:
    require_integer("samples", samples, 1)
    require_integer("seed", seed, 0)
    chunk = min(CHUNK, -(-samples // 4))
    tasks = [
        (machine, seed, range(first, min(first + chunk, samples)), *arguments)
        for machine in every
        for first in range(0, samples, chunk)
    ]
    done: dict[int, list[Row]] = {}
    with ProcessPoolExecutor(processes or os.cpu_count()) as pool:
        numbers = {pool.submit(work, *task): number for number, task in enumerate(tasks)}
        for future in as_completed(numbers):
            done[numbers[future]] = future.result()
            if progress is not None:
                progress(len(done) / len(tasks))
    return pd.DataFrame([row for number in sorted(done) for row in done[number]])


def _draws(machine: Machine, seed: int, samples: range) -> Iterator[tuple[int, Boards, list[Shape]]]:
    for sample in samples:
        boards, jobs = machine.draw(seed, sample)
        yield sample, boards, jobs


def _mesh_rows(machine: Machine, seed: int, samples: range) -> list[Row]:
    columns, rows = machine.size
    trees = LineTrees(columns, rows)
    strategies = [(added.columns(), added.strategy(trees)) for added in PUBLISHED_IMPROVEMENTS]
    found = []
    for sample, boards, jobs in _draws(machine, seed, samples):
        for cells, strategy in strategies:
            places = [place for place in place_all(boards.free(), jobs, strategy) if place is not None]
            used = sum(place.size for place in places)
            row = machine.columns() | cells | {"sample": sample}
            row["utilization_percent"] = 100 * used / boards.usable
            for pattern in ("alltoall", "allreduce"):
                upper = trees.upper_percent(pattern, places) if trees.number else np.nan
                row[f"{pattern}_upper_percent"] = upper
            found.append(row)
    return found


def _baseline_rows(machine: Machine, seed: int, samples: range) -> list[Row]:
    found = []
    for sample, boards, jobs in _draws(machine, seed, samples):
        for sort_jobs in (False, True):
            places = place_all(boards.free(), jobs, published_strategy(sort_jobs=sort_jobs, search=block))
            on_torus = sum(place.size for place in places if place is not None)
            order = largest_first(jobs) if sort_jobs else range(len(jobs))
            on_tree = anywhere([jobs[job] for job in order], boards.usable)
            for topology, used in (("torus", on_torus), ("fattree", on_tree)):
                row: Row = {"topology": topology} | machine.columns()
                row |= {"sort_jobs": _yes(sort_jobs), "sample": sample}
                row["utilization_percent"] = 100 * used / boards.usable
                found.append(row)
    return found


def anywhere(jobs: Sequence[Shape], usable: int) -> int:
    """Boards in use where any free boards will do, as on a fat tree: a job fits if enough are left."""
    used = 0
    for columns, rows in jobs:
        if used + columns * rows <= usable:
            used += columns * rows
    return used


def _bound_rows(machine: Machine, seed: int, samples: range, limit_s: float) -> list[Row]:
    found = []
    for sample, boards, jobs in _draws(machine, seed, samples):
        by_order = [
            Allocation(boards, tuple(jobs), tuple(place_all(boards.free(), jobs, strategy)))
            for strategy in (published_strategy(sort_jobs=False), published_strategy(sort_jobs=True))
        ]
        hint = max(by_order, key=lambda found: found.used)
        best = best_placement(boards, jobs, hint=hint, limit_s=limit_s)
        row = machine.columns() | {"sample": sample}
        row["greedy_percent"] = by_order[0].utilization_percent
        row["sorted_percent"] = by_order[1].utilization_percent
        row["best_percent"] = best.allocation.utilization_percent
        row["bound_percent"] = best.bound_percent
        found.append(row)
    return found
