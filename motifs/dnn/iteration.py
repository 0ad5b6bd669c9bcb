"""From a workload and its place in a network to the schedule of one iteration."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from motifs.dnn import collectives
from motifs.dnn.collectives import ALGORITHMS, RING_ORDERS, Rules, Shape, shape_of
from motifs.dnn.placement import LAYOUTS, Layout, Placement, group_members, place
from motifs.dnn.program import Interval, Program, computation_ps
from motifs.dnn.workload import AXES, COLLECTIVES, Step, Workload
from motifs.registry import REDUCE_COST, SEED, Network, Parameter
from motifs.rendezvous import rendezvous
from motifs.schedule import FS_PER_PS, ArraySchedule, Schedule, StreamSchedule
from motifs.segments import REDUCE_FS_PER_BYTE
from topologies.errors import require, unknown_name

__all__ = ["PARAMETERS", "Iteration", "build_iteration", "compute_ps"]

Int64 = NDArray[np.int64]

PROGRESS = ("offloaded", "processor")
"""Who advances an overlapped allreduce.

processor: as in the artifact's motifs, the one that computes. The reductions, and `LOOK_PS` for each message
received, are added to the computation that follows. (The motifs look for messages between slices of 100 ns of
computation and add 10 ns to each look. One look for each message is the least they need.)
"""

LOOK_PS = 10_000

PROTOCOLS = ("eager", "rendezvous")
"""How messages are sent.

rendezvous: those of more than `eager_bytes` as an MPI library sends them that nothing but its own calls
advances, see :func:`motifs.rendezvous.rendezvous`. A receiver that computes asks for a message afterwards.
"""

EAGER_BYTES = 1 << 20
"""Largest message that is sent without asking, by rendezvous."""

MOST_JITTER_NS = 10**12
"""A quarter of an hour, so that sums of times stay integers."""

PARAMETERS = (
    Parameter("algorithm", "choice", "algorithm of allreduces", default="ring", choices=ALGORITHMS),
    Parameter(
        "ring_order",
        "choice",
        "ranks along one ring: by number, or along a Hamiltonian cycle of a group that fills a grid",
        default="rank",
        choices=RING_ORDERS,
    ),
    Parameter(
        "order",
        "choice",
        "axes from the fastest to the slowest in the numbering of ranks, if not the workload's",
        default=None,
        choices=tuple("".join(axes) for axes in permutations(AXES)),
    ),
    Parameter("layout", "choice", "how ranks fill a sub-grid", default="row-major", choices=LAYOUTS),
    Parameter(
        "grid",
        "grid",
        "rows and columns of the sub-grid, if not the workload's",
        default=None,
        minimum=1,
        maximum=2**31 - 1,
    ),
    Parameter(
        "lockstep",
        "boolean",
        "the streams of an allreduce wait for each other after every step",
        default=False,
    ),
    REDUCE_COST,
    Parameter(
        "progress",
        "choice",
        "who advances overlapped allreduces: something else, or the processor that computes",
        default="offloaded",
        choices=PROGRESS,
    ),
    Parameter(
        "protocol",
        "choice",
        "messages: sent at once, or the long ones when the receiver no longer computes and asks for them",
        default="eager",
        choices=PROTOCOLS,
    ),
    Parameter(
        "eager_bytes",
        "integer",
        "by rendezvous, the largest message that is sent at once",
        default=EAGER_BYTES,
    ),
    Parameter(
        "jitter_ns",
        "integer",
        "a computation takes up to so much longer, by chance: accelerators are not in perfect step",
        unit="nanoseconds",
        default=0,
    ),
    SEED,
    Parameter("planes", "integer", "planes that share every message; one is simulated", default=1, minimum=1),
    Parameter(
        "hidden",
        "integer",
        "leave out so many overlapped collectives, the first ones, that computation is known to hide",
        default=0,
    ),
    Parameter(
        "trace", "integers", "coordinates d, p, o of an accelerator whose steps are timed", default=None
    ),
)
"""Parameters of :func:`build_iteration` as a configuration gives them."""

MERGED_INJECTION_BPS = 1_600_000_000_000
"""Injection into a plane where a network does not say it (article, section on the evaluated systems)."""


@dataclass(frozen=True)
class Iteration:
    """A schedule on the endpoints of a network (rank = endpoint, others idle), and what a trace tells.

    intervals: of the traced accelerator, empty without a trace.
    """

    schedule: Schedule
    placement: Placement
    intervals: tuple[Interval, ...] = ()


def build_iteration(
    workload: Workload,
    network: Network,
    *,
    algorithm: str = "ring",
    ring_order: str = "rank",
    order: str | None = None,
    layout: Layout = "row-major",
    grid: tuple[int, int] | None = None,
    lockstep: bool = False,
    reduce_fs_per_byte: int = REDUCE_FS_PER_BYTE,
    progress: str = "offloaded",
    protocol: str = "eager",
    eager_bytes: int = EAGER_BYTES,
    jitter_ns: int = 0,
    seed: int = 0,
    planes: int = 1,
    hidden: int = 0,
    trace: Sequence[int] | None = None,
) -> Iteration:
    """Build one iteration of `workload` on `network`.

    algorithm, ring_order, lockstep, reduce_fs_per_byte: of allreduces, see
        :class:`motifs.dnn.collectives.Rules`.
    order, layout, grid: see :func:`motifs.dnn.placement.place`.
    progress: see :data:`PROGRESS`. protocol, eager_bytes: see :data:`PROTOCOLS`.
    jitter_ns: every computation of every accelerator takes longer by a time drawn evenly from 0 to so many
        nanoseconds; seed: of the draw.
    planes: planes that share every message; one of them is simulated. The article's runs put all data on one.
    hidden: leave out the first so many overlapped collectives of the iteration, where computation is known to
        hide them: a schedule of 1024 ranks in two rings has 20 million operations for one allreduce.
    trace: coordinates (d, p, o) of an accelerator whose steps are to be timed, see
        :meth:`motifs.dnn.program.Program.trace`.

    Raises ConfigError where the workload does not fit the network or a step not its group.
    """
    require(planes >= 1, "planes", planes, "at least 1")
    require(0 <= jitter_ns <= MOST_JITTER_NS, "jitter_ns", jitter_ns, f"from 0 to {MOST_JITTER_NS}")
    placement = place(workload, network, order=order, layout=layout, grid=grid)
    on_grid = network.grid is not None
    rules = Rules(
        algorithm=algorithm,
        ring_order=ring_order,
        lockstep=lockstep,
        reduce_fs_per_byte=reduce_fs_per_byte,
        ports=4 if on_grid else 1,
        injection_bps=int(getattr(network, "injection_bps", MERGED_INJECTION_BPS)),
    )
    traced = None
    if trace is not None:
        shape = (workload.d, workload.p, workload.o)
        inside = len(trace) == 3 and all(0 <= at < length for at, length in zip(trace, shape, strict=True))
        require(inside, "trace", list(trace), f"three coordinates (d, p, o) below {list(shape)}")
        traced = int(placement.endpoint[tuple(trace)])
    for name, value, known in (("progress", progress, PROGRESS), ("protocol", protocol, PROTOCOLS)):
        if value not in known:
            raise unknown_name(name, value, known)
    program = Program(network.num_endpoints, traced, jitter_ps=1000 * jitter_ns, seed=seed)
    writer = _Writer(
        workload,
        placement,
        rules,
        planes,
        hidden,
        progress == "processor",
        protocol == "rendezvous",
        program,
    )
    compact = traced is None and protocol == "eager" and jitter_ns == 0
    streams = writer.one_allreduce_at_the_end() if compact else None
    if streams is not None:
        return Iteration(streams, placement)
    writer.write()
    intervals = tuple(writer.program.trace()) if traced is not None else ()
    schedule = writer.program.schedule()
    return Iteration(
        rendezvous(schedule, eager_bytes) if protocol == "rendezvous" else schedule, placement, intervals
    )


@cache
def compute_ps(workload: Workload) -> int:
    """Time of an iteration on infinitely fast networks: the critical path of its computation, picoseconds.

    Reductions count nothing: what they cost is part of the communication.
    """
    forward, backward, update = (
        tuple(step for step in steps if step.op == "compute")
        for steps in (workload.forward, workload.backward, workload.update)
    )
    if not (forward or backward or update):
        return 0
    # One accelerator a stage tells it: those of a stage do the same.
    stages = dataclasses.replace(
        workload, d=1, o=1, forward=forward, backward=backward, update=update, stage_bytes=0, grid=None
    )
    schedule = build_iteration(stages, _Endpoints(workload.p), reduce_fs_per_byte=0).schedule
    return computation_ps(schedule.expand())


@dataclass(frozen=True)
class _Endpoints:
    """Endpoints without a network."""

    num_endpoints: int
    grid: None = None
    grid_endpoint: None = None


class _Writer:
    """Writes the steps of all accelerators into a program."""

    def __init__(
        self,
        workload: Workload,
        placement: Placement,
        rules: Rules,
        planes: int,
        hidden: int,
        on_processor: bool,
        rendezvous: bool,
        program: Program,
    ) -> None:
        self.workload = workload
        self.placement = placement
        self.rules = rules
        self.planes = planes
        self.hidden = hidden
        self.on_processor = on_processor
        self.rendezvous = rendezvous
        self.program = program
        self.owed_ps = np.zeros(program.num_ranks, dtype=np.int64)
        """what overlapped allreduces have taken from the processor of each rank since its last computation"""

    def one_allreduce_at_the_end(self) -> StreamSchedule | None:
        """The iteration as streams, if all it does is to compute and then one allreduce of everyone.

        The engine runs streams with a fraction of the memory that single operations take.
        """
        work = self.workload
        if work.p > 1 or work.microbatches > 1:
            return None
        *before, last = [step for step in (*work.forward, *work.backward, *work.update) if step.op != "wait"]
        others = [step for step in before if step.op != "compute"]
        if last.op != "allreduce" or len(others) > self.hidden:
            return None
        if any(step.op != "allreduce" or not step.overlapped for step in others):
            return None
        shape, groups = next(self._groups(last, slice(None)))
        if groups.size != work.accelerators or len(groups) > 1:
            return None
        streams = collectives.allreduce_streams(
            shape, self._share(last.size_bytes), self.rules, groups[0], self.program.num_ranks
        )
        owed_ps = sum(int(self._processor_ps(step, shape).max()) for step in others)
        return dataclasses.replace(streams, start_ps=sum(step.time_ps for step in before) + owed_ps)

    def write(self) -> None:
        everyone = self.placement.endpoint.reshape(-1)
        if self.workload.pipeline == "single-step":
            self._single_step()
        else:
            self._pipeline()
        for step in self.workload.update:
            self._step(step, slice(None))
        self.program.wait(everyone, everything=True)

    # -- the order of passes ---------------------------------------------------------------------------------

    def _single_step(self) -> None:
        """Even stages forward, odd stages backward; then each sends to the other of its pair."""
        work = self.workload
        ranks = [self.placement.endpoint[:, first::2].reshape(-1) for first in (0, 1)]
        free: list[Int64 | None] = [None, None]
        for first, passes in enumerate((work.forward, work.backward)):
            for step in passes:
                if step.op != "compute" and free[first] is None:
                    free[first] = self.program.point(ranks[first])
                self._step(step, slice(first, None, 2))
        for first, label in enumerate(("activations", "gradients")):
            to = 1 - first
            receives = self._send(ranks[first], ranks[to], label)
            self._take(ranks[to], receives, free[to])
            self.program.keep_open(ranks[to], receives)

    def _pipeline(self) -> None:
        """All stages go through their passes; a pass waits for what comes from the neighbour stage."""
        work = self.workload
        todo = [list(self._passes(stage)) for stage in range(work.p)]
        arrived: dict[tuple[str, int, int], Int64] = {}
        position = [0] * work.p
        moved = True
        while moved:
            moved = False
            for stage in range(work.p):
                while position[stage] < len(todo[stage]):
                    direction, microbatch = todo[stage][position[stage]]
                    source = stage - 1 if direction == "forward" else stage + 1
                    key = (direction, source, microbatch)
                    if 0 <= source < work.p and key not in arrived:
                        break
                    self._pass(direction, stage, microbatch, arrived)
                    position[stage] += 1
                    moved = True

    def _passes(self, stage: int) -> Iterator[tuple[str, int]]:
        """Direction and microbatch of every pass of a stage, in order."""
        count = self.workload.microbatches
        ahead = count if self.workload.pipeline == "gpipe" else min(count, self.workload.p - 1 - stage)
        for microbatch in range(ahead):
            yield "forward", microbatch
        for microbatch in range(count):
            if ahead + microbatch < count:
                yield "forward", ahead + microbatch
            yield "backward", microbatch

    def _pass(
        self,
        direction: str,
        stage: int,
        microbatch: int,
        arrived: dict[tuple[str, int, int], Int64],
    ) -> None:
        work = self.workload
        own = self.placement.endpoint[:, stage].reshape(-1)
        source, target = (stage - 1, stage + 1) if direction == "forward" else (stage + 1, stage - 1)
        if 0 <= source < work.p:
            receives = arrived.pop((direction, source, microbatch))
            self._take(own, receives)
            self.program.wait(own, receives)
        for step in work.forward if direction == "forward" else work.backward:
            self._step(step, slice(stage, stage + 1))
        if 0 <= target < work.p:
            there = self.placement.endpoint[:, target].reshape(-1)
            label = "activations" if direction == "forward" else "gradients"
            arrived[direction, stage, microbatch] = self._send(own, there, label)

    # -- one step --------------------------------------------------------------------------------------------

    def _send(self, source: Int64, target: Int64, label: str) -> Int64:
        """Send from stage to stage: the receives."""
        return self.program.message(source, target, self._share(self.workload.stage_bytes), label)

    def _take(self, target: Int64, receives: Int64, free: Int64 | None = None) -> None:
        """By rendezvous, ask for a message from the point `free` on, by default the present one."""
        if self.rendezvous:
            self.program.after(receives, self.program.point(target) if free is None else free)

    def _share(self, size_bytes: int) -> int:
        """What the simulated plane carries: the largest of the planes' shares."""
        return -(-size_bytes // self.planes)

    def _step(self, step: Step, stages: slice) -> None:
        """Write a step of the accelerators of some stages."""
        ranks = self.placement.endpoint[:, stages].reshape(-1)
        if step.op == "compute":
            self.program.compute(ranks, step.time_ps + self.owed_ps[ranks], step.label)
            self.owed_ps[ranks] = 0
        elif step.op == "wait":
            self.program.wait(ranks, everything=True)
        elif step.overlapped and self.hidden > 0:
            self.hidden -= 1
            self._owe(step, stages)
        else:
            for shape, groups in self._groups(step, stages):
                self.program.run(
                    self._on(step, shape), groups, overlapped=step.overlapped, label=step.label, op=step.op
                )
            self._owe(step, stages)

    def _owe(self, step: Step, stages: slice) -> None:
        """Remember what an overlapped allreduce takes from the processors."""
        if step.op == "allreduce" and step.overlapped and self.on_processor:
            for shape, groups in self._groups(step, stages):
                self.owed_ps[groups] += self._processor_ps(step, shape)

    def _processor_ps(self, step: Step, shape: Shape) -> Int64:
        """Processor time that each member of a group spends on an allreduce, int64[members]."""
        if not self.on_processor:
            return np.zeros(shape.members, dtype=np.int64)
        streams = collectives.allreduce_streams(shape, self._share(step.size_bytes), self.rules)
        steps = streams.steps.astype(np.int64)
        reduced_bytes = steps * streams.segment_bytes / streams.parts
        reducing_ps = reduced_bytes * streams.reduce_fs_per_byte / FS_PER_PS
        taken: Int64 = np.rint((reducing_ps + LOOK_PS * steps).sum(axis=(1, 2))).astype(np.int64)
        return taken

    def _groups(self, step: Step, stages: slice) -> Iterator[tuple[Shape, Int64]]:
        """Groups of one shape at a time, int64[groups, members] of endpoints."""
        where = self.placement

        def members(array: Int64) -> Int64:
            return group_members(array[:, stages], where.rank[:, stages], step.over)

        groups = members(where.endpoint)
        size = groups.shape[1]
        if where.row is None or where.column is None or step.op not in COLLECTIVES:
            yield Shape(size), groups
            return
        rows, columns = members(where.row), members(where.column)
        by_shape: dict[Shape, list[int]] = {}
        for index in range(len(groups)):
            by_shape.setdefault(shape_of(rows[index], columns[index], size), []).append(index)
        for shape, chosen in by_shape.items():
            yield shape, groups[chosen]

    def _on(self, step: Step, shape: Shape) -> ArraySchedule:
        """The schedule of a step on one group."""
        size = self._share(step.size_bytes)
        if step.op == "allreduce":
            return collectives.allreduce(shape, size, self.rules)
        if step.op == "allgather":
            return collectives.allgather(shape.members, size)
        if step.op == "reduce-scatter":
            return collectives.allgather(
                shape.members, size, reduce_fs_per_byte=self.rules.reduce_fs_per_byte
            )
        if step.op == "alltoall":
            return collectives.alltoall(shape.members, size)
        return collectives.exchange(shape.members, step.partners, size)
