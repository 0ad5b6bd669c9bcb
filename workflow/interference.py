"""What neighbours cost: jobs placed by the allocator run at the same time, and each of them alone.

The article claims that a virtual sub-HxMesh behaves like a physical one, undisturbed by other jobs. Here the
claim is measured: for every job the time alone on its place, together with all others, and on a machine of
its own of just its size.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

import engine
import motifs
from allocation import (
    Boards,
    LineTrees,
    Strategy,
    SubMesh,
    allocate,
    block,
    published_strategy,
    random_failures,
)
from allocation.shapes import Shape, nearest_square
from motifs import Schedule
from topologies import ConfigError, FatTree, HxMesh, Topology, Torus2D
from workflow.on_sst import simulate_on_sst

Traffic = Literal["alltoall", "allreduce", "mixed"]
Int64 = npt.NDArray[np.int64]

JOB_BOARDS = (4, 6, 8, 9, 12, 16, 20, 24, 30, 36, 48, 64)
"""Sizes that jobs are drawn from, all as likely. The trace's jobs would mostly be of one board here."""


@dataclass(frozen=True)
class Scenario:
    """A machine with jobs on it.

    name: of the network. board: accelerators of a board along a row and along a column, also where the
    network has no boards. boards: (columns, rows) of the machine. radix: ports of a switch of an HxMesh.
    """

    name: str
    board: tuple[int, int]
    boards: tuple[int, int]
    failed_boards: int
    traffic: Traffic
    seed: int
    radix: int = 64
    engine: Literal["packet", "sst"] = "packet"

    def network(self, failed: tuple[tuple[int, int], ...] = ()) -> Topology:
        """The network of the whole machine; an HxMesh without its failed boards.

        SST's is whole: there failed boards are only left out by the allocation.
        """
        return self._of_size(self.boards, failed if self.engine == "packet" else ())

    def of_job(self, shape: Shape) -> Topology:
        """A machine of the same kind that has just the job's boards."""
        return self._of_size(shape)

    def _of_size(self, boards: Shape, failed: tuple[tuple[int, int], ...] = ()) -> Topology:
        columns, rows = (boards[i] * self.board[i] for i in range(2))
        if self.name.startswith("hx"):
            return HxMesh(*self.board, *boards, radix=self.radix, failed_boards=failed)
        if self.name == "torus":
            return Torus2D(columns, rows)
        # Of two levels with wide spines, as the study simulates fat trees.
        down = self.radix // 2
        up = down // 2 if self.name == "fattree50" else down
        shape = f"{down},{up}:{-(-columns * rows // down)}"
        return FatTree.from_shape(shape, adaptive=True)


NETWORKS: tuple[tuple[str, tuple[int, int], tuple[int, int], int], ...] = (
    ("hx2mesh", (2, 2), (16, 16), 64),
    # Switches of 16 ports make line trees of four leaves, as 64 ports do in lines of 64 boards.
    ("hx2mesh-trees", (2, 2), (16, 16), 16),
    ("hx4mesh", (4, 4), (8, 8), 64),
    ("torus", (2, 2), (16, 16), 64),
    ("fattree", (2, 2), (16, 16), 64),
    ("fattree50", (2, 2), (16, 16), 64),
)
"""Name, board, boards, radix: machines of 1,024 accelerators."""

SMALL_NETWORKS: tuple[tuple[str, tuple[int, int], tuple[int, int], int], ...] = (
    ("hx2mesh", (2, 2), (4, 4), 64),
    ("hx2mesh-trees", (2, 2), (4, 4), 4),
    ("torus", (2, 2), (4, 4), 64),
    ("fattree", (2, 2), (4, 4), 16),
)
"""The same with 64 accelerators, as SST can run them in minutes."""


def scenarios(seeds: Sequence[int] = (0,), engine: Literal["packet", "sst"] = "packet") -> list[Scenario]:
    """All networks (on SST the small ones), without and with failed boards, with all kinds of traffic.

    An eighth of the boards fails.
    """
    return [
        Scenario(name, board, boards, failed, traffic, seed, radix, engine)
        for name, board, boards, radix in (NETWORKS if engine == "packet" else SMALL_NETWORKS)
        for failed in (0, boards[0] * boards[1] // 8)
        for traffic in ("alltoall", "allreduce", "mixed")
        for seed in seeds
    ]


@dataclass(frozen=True)
class PlacedJob:
    """A job on the machine: `endpoint[rank]` is where each of its ranks is."""

    shape: Shape
    motif: Literal["alltoall", "allreduce"]
    endpoint: Int64


def draw(boards: int, largest: int, rng: np.random.Generator) -> list[Shape]:
    """Jobs of `JOB_BOARDS`, none above `largest`, until no further one fits into `boards`."""
    jobs: list[Shape] = []
    left = boards
    while True:
        fitting = [size for size in JOB_BOARDS if size <= min(left, largest)]
        if not fitting:
            return jobs
        size = int(rng.choice(fitting))
        jobs.append(nearest_square(size))
        left -= size


def place(scenario: Scenario) -> tuple[Topology, list[PlacedJob]]:
    """Draw failed boards and jobs, and place them as the network needs.

    On an HxMesh as virtual sub-HxMeshes (greedy, with locality where its lines are trees), on a torus in
    contiguous blocks, on a fat tree on accelerators chosen at random. All with a scenario's seed and boards
    get the same jobs.
    """
    columns, rows = scenario.boards
    rng = np.random.default_rng([scenario.seed, columns, rows, scenario.failed_boards])
    machine = Boards(columns, rows, random_failures(columns, rows, scenario.failed_boards, rng))
    jobs = draw(machine.usable, columns * rows // 4, rng)
    network = scenario.network(machine.failed)
    a, b = scenario.board
    if isinstance(network, FatTree):
        where = rng.permutation(network.num_endpoints)
        used = np.cumsum([0] + [u * v * a * b for u, v in jobs])
        ends = zip(used[:-1].tolist(), used[1:].tolist(), strict=True)
        placed = [(job, where[first:last]) for job, (first, last) in zip(jobs, ends, strict=True)]
    else:
        found = allocate(machine, jobs, _strategy(scenario))
        placed = [
            (spot.shape, _by_rank(spot, scenario, network)) for spot in found.places if spot is not None
        ]
    return network, [
        PlacedJob(shape, _motif(scenario.traffic, number), endpoint.astype(np.int64))
        for number, (shape, endpoint) in enumerate(placed)
    ]


def _strategy(scenario: Scenario) -> Strategy:
    if scenario.name == "torus":
        return published_strategy(search=block)
    trees = LineTrees(*scenario.boards, radix=scenario.radix)
    return published_strategy(locality="alltoall" if trees.number else None, trees=trees)


def _by_rank(place: SubMesh, scenario: Scenario, network: Topology) -> Int64:
    """Endpoint of each rank, ranks numbered as on a machine of the job's size."""
    physical = place.accelerators(network, scenario.board)
    logical = scenario.of_job(place.shape).grid_endpoint
    assert logical is not None
    endpoint = np.empty(logical.size, dtype=np.int64)
    endpoint[logical.reshape(-1)] = physical.reshape(-1)
    return endpoint


def _motif(traffic: Traffic, number: int) -> Literal["alltoall", "allreduce"]:
    if traffic == "mixed":
        return "alltoall" if number % 2 == 0 else "allreduce"
    return traffic


def schedule_of(job: PlacedJob, scenario: Scenario, message_bytes: int, vector_bytes: int) -> Schedule:
    """The traffic of one job: an alltoall, or an allreduce by the bucket algorithm on the job's grid."""
    ranks = len(job.endpoint)
    if job.motif == "alltoall":
        return motifs.build("alltoall", ranks, message_bytes=message_bytes)
    own = scenario.of_job(job.shape)
    if own.grid is not None:
        return motifs.build("bucket", own, total_bytes=vector_bytes, reduce_fs_per_byte=0)
    columns, rows = (job.shape[i] * scenario.board[i] for i in range(2))
    return motifs.build("bucket", ranks, grid=(rows, columns), total_bytes=vector_bytes, reduce_fs_per_byte=0)


def run_scenario(scenario: Scenario, message_bytes: int, vector_bytes: int) -> list[dict[str, Any]]:
    """Simulate all jobs of a scenario together, each alone, and each on a machine of its own.

    Returns one row a job, see `interference`. Raises ConfigError where a run does not end.
    """
    network, jobs = place(scenario)
    schedules = [schedule_of(job, scenario, message_bytes, vector_bytes) for job in jobs]
    whole, ranks = motifs.together(schedules)
    endpoints = np.concatenate([job.endpoint for job in jobs])
    ends = _end_ps(scenario, network, whole, endpoints)
    rows = []
    for number, (job, schedule, own_ranks) in enumerate(zip(jobs, schedules, ranks, strict=True)):
        alone_ps = int(_end_ps(scenario, network, schedule, job.endpoint).max())
        own = scenario.of_job(job.shape)
        own_ps = int(_end_ps(scenario, own, schedule, np.arange(len(job.endpoint))).max())
        together_ps = int(ends[own_ranks.start : own_ranks.stop].max())
        rows.append(
            {
                "engine": scenario.engine,
                "network": scenario.name,
                "boards": f"{scenario.boards[0]}x{scenario.boards[1]}",
                "board": f"{scenario.board[0]}x{scenario.board[1]}",
                "radix": scenario.radix,
                "failed_boards": scenario.failed_boards,
                "traffic": scenario.traffic,
                "seed": scenario.seed,
                "jobs": len(jobs),
                "job": number,
                "motif": job.motif,
                "job_boards": f"{job.shape[0]}x{job.shape[1]}",
                "accelerators": len(job.endpoint),
                "own_machine_ps": own_ps,
                "alone_ps": alone_ps,
                "together_ps": together_ps,
                "alone_over_own_machine": alone_ps / own_ps,
                "together_over_alone": together_ps / alone_ps,
            }
        )
    return rows


def _end_ps(scenario: Scenario, network: Topology, schedule: Schedule, endpoint: Int64) -> Int64:
    """When each rank is done, int64[ranks]."""
    if scenario.engine == "packet":
        result = engine.run(network, schedule, placement=endpoint)
    else:
        with tempfile.TemporaryDirectory(prefix="hxmesh-") as directory:
            result = simulate_on_sst(network, schedule, Path(directory) / "sst", placement=endpoint)
    if not result.complete:
        raise ConfigError(f"a run on {network.name} ended with {result.status}: {result.message}")
    ends: Int64 = result.ranks["end_ps"].to_numpy(dtype=np.int64)
    return ends


def interference(
    every: Sequence[Scenario],
    *,
    message_bytes: int = 16 << 10,
    vector_bytes: int = 8 << 20,
    processes: int | None = None,
    progress: Callable[[float], None] | None = None,
) -> pd.DataFrame:
    """Simulate `every` scenario; one row a job, `placement` numbers the scenarios.

    Times in picoseconds: own_machine_ps on a machine of the job's size, alone_ps at its place with no other
    job, together_ps with all of them; and the quotients of them.
    """
    found: dict[int, list[dict[str, Any]]] = {}
    with ProcessPoolExecutor(processes or os.cpu_count()) as pool:
        futures = {
            pool.submit(run_scenario, scenario, message_bytes, vector_bytes): number
            for number, scenario in enumerate(every)
        }
        for future in as_completed(futures):
            found[futures[future]] = future.result()
            if progress is not None:
                progress(len(found) / len(futures))
    frame = pd.DataFrame([{"placement": n} | row for n in sorted(found) for row in found[n]])
    return frame.assign(message_bytes=message_bytes, vector_bytes=vector_bytes)
