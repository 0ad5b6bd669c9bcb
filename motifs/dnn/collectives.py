"""Collective operations on the groups of a workload, and which algorithm an allreduce uses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from motifs.bucket import bucket, torus_2d
from motifs.hamiltonian import edge_disjoint_hamiltonian_cycles, hamiltonian_cycle
from motifs.rings import bidirectional_ring, ring, two_rings
from motifs.schedule import ArraySchedule, OpKind, StreamSchedule, block_bytes
from motifs.segments import StreamBuilder
from topologies.errors import ConfigError, unknown_name

__all__ = [
    "ALGORITHMS",
    "RING_ORDERS",
    "Rules",
    "Shape",
    "allgather",
    "allreduce",
    "allreduce_streams",
    "alltoall",
    "best_algorithm",
    "exchange",
    "shape_of",
]

Int64 = NDArray[np.int64]

_RINGS = ("ring", "bidirectional-ring")
_GRIDS = ("two-rings", "bucket", "torus-2d")
ALGORITHMS = (*_RINGS, *_GRIDS, "best")
"""Algorithms of an allreduce; best is the one with the least time by :func:`modelled_time_ps`."""

RING_ORDERS = ("rank", "hamiltonian")

STEP_PS = 80_000
"""Latency of a step in the model that chooses: one hop, as in the article's theory lines."""


@dataclass(frozen=True)
class Rules:
    """How collectives run.

    algorithm: of allreduces. ring_order: of the one-ring algorithms, by rank or along a Hamiltonian cycle of
    a group that fills a grid. lockstep, reduce_fs_per_byte: see :class:`motifs.StreamSchedule`. ports: links
    of an accelerator that can be busy at once; injection_bps: the rate of all of them together.
    """

    algorithm: str
    ring_order: str
    lockstep: bool
    reduce_fs_per_byte: int
    ports: int
    injection_bps: int

    def __post_init__(self) -> None:
        """Raise ConfigError for an unknown algorithm or order."""
        if self.algorithm not in ALGORITHMS:
            raise unknown_name("algorithm", self.algorithm, ALGORITHMS)
        if self.ring_order not in RING_ORDERS:
            raise unknown_name("ring_order", self.ring_order, RING_ORDERS)


@dataclass(frozen=True)
class Shape:
    """The form of a group: how many members, and where they are if they fill a grid.

    grid: the number of the member at each place, row by row, or None. It is hashable so that all groups of
    one form share one schedule.
    """

    members: int
    grid: tuple[tuple[int, ...], ...] | None = None

    @property
    def sides(self) -> tuple[int, int]:
        """Rows and columns; one row where there is no grid."""
        return (1, self.members) if self.grid is None else (len(self.grid), len(self.grid[0]))

    @property
    def places(self) -> Int64:
        """Number of the member at each place, int64[rows, columns]."""
        if self.grid is None:
            return np.arange(self.members, dtype=np.int64)[np.newaxis]
        return np.array(self.grid, dtype=np.int64)


def shape_of(row: Int64 | None, column: Int64 | None, members: int) -> Shape:
    """The form of one group from the rows and columns of its members, in their order."""
    if row is None or column is None:
        return Shape(members)
    rows, at_row = np.unique(row, return_inverse=True)
    columns, at_column = np.unique(column, return_inverse=True)
    if len(rows) * len(columns) != members:
        return Shape(members)
    places = np.full((len(rows), len(columns)), -1, dtype=np.int64)
    places[at_row, at_column] = np.arange(members)
    if np.any(places < 0):
        return Shape(members)
    return Shape(members, tuple(tuple(line) for line in places.tolist()))


def modelled_time_ps(algorithm: str, shape: Shape, size_bytes: int, rules: Rules) -> float:
    """Time of an allreduce without congestion, after the article's theory lines: steps times latency, plus
    the bytes of a stream over the rate that one of the streams in parallel has.

    Infinite where the algorithm does not apply to the shape.
    """
    rows, columns = shape.sides
    members = shape.members
    streams = {"ring": 1, "bidirectional-ring": 2, "torus-2d": 2}.get(algorithm, 4)
    steps, moved = 2 * (members - 1), 2 * (members - 1) / members
    if algorithm in _GRIDS:
        if min(rows, columns) < 2:
            return float("inf")
        if algorithm == "two-rings":
            try:
                edge_disjoint_hamiltonian_cycles(rows, columns)
            except ConfigError:
                return float("inf")
        else:
            steps = 2 * (rows - 1 + columns - 1)
    rate_bps = rules.injection_bps / max(rules.ports, streams)
    return steps * STEP_PS + moved * size_bytes / streams * 8e12 / rate_bps


def best_algorithm(shape: Shape, size_bytes: int, rules: Rules) -> str:
    """The allreduce algorithm with the least :func:`modelled_time_ps`; the first of equal ones."""
    known = (*_RINGS, *_GRIDS) if rules.ports > 1 else _RINGS
    return min(known, key=lambda name: modelled_time_ps(name, shape, size_bytes, rules))


@cache
def allreduce(shape: Shape, size_bytes: int, rules: Rules) -> ArraySchedule:
    """Allreduce of a vector of `size_bytes` over the members of a group of that shape, as operations.

    Raises ConfigError where the algorithm needs a grid and the group is none.
    """
    return allreduce_streams(shape, size_bytes, rules).expand()


def allreduce_streams(
    shape: Shape, size_bytes: int, rules: Rules, members: Int64 | None = None, num_ranks: int | None = None
) -> StreamSchedule:
    """The same as streams, on the ranks `members` of `num_ranks` (default: 0, 1, ... of as many)."""
    algorithm = best_algorithm(shape, size_bytes, rules) if rules.algorithm == "best" else rules.algorithm
    if algorithm in _GRIDS and shape.grid is None:
        raise ConfigError(
            f"algorithm is {algorithm!r} but must be {' or '.join(_RINGS)} for a group of {shape.members} "
            "accelerators that fill no grid."
        )
    makers: dict[str, Callable[..., StreamSchedule]] = {
        "ring": ring,
        "bidirectional-ring": bidirectional_ring,
        "two-rings": two_rings,
        "bucket": bucket,
        "torus-2d": torus_2d,
    }
    where = shape.places if algorithm in _GRIDS else _around(shape, rules.ring_order == "hamiltonian")
    return makers[algorithm](
        where if members is None else members[where],
        size_bytes,
        num_ranks=num_ranks,
        lockstep=rules.lockstep,
        reduce_fs_per_byte=rules.reduce_fs_per_byte,
    )


def _around(shape: Shape, hamiltonian: bool) -> Int64:
    """Members in the order of a ring."""
    rows, columns = shape.sides
    if not hamiltonian or min(rows, columns) < 2:
        return np.arange(shape.members, dtype=np.int64)
    return shape.places.reshape(-1)[hamiltonian_cycle(rows, columns)]


@cache
def allgather(members: int, size_bytes: int, *, reduce_fs_per_byte: int | None = None) -> ArraySchedule:
    """Ring allgather of a vector of `size_bytes` in blocks; a ring reduce-scatter where `reduce_fs_per_byte`
    is given.
    """
    order = np.arange(members, dtype=np.int64)[np.newaxis]
    builder = StreamBuilder(members, 1, 1, reduce_fs_per_byte or 0)
    if reduce_fs_per_byte is None:
        builder.allgather(0, 0, order, size_bytes)
    else:
        builder.reduce_scatter(0, 0, order, size_bytes)
    return builder.build(lockstep=False).expand()


@cache
def alltoall(members: int, size_bytes: int) -> ArraySchedule:
    """Balanced shift alltoall: each member cuts `size_bytes` into one block for every member, its own too,
    and sends the others'.
    """
    if members == 1:
        return _nothing(1)
    shift = np.arange(1, members, dtype=np.int64)
    own = np.arange(members, dtype=np.int64)[:, np.newaxis]
    to, source = (own + shift) % members, (own - shift) % members
    value = np.concatenate(
        [
            np.broadcast_to(block_bytes(size_bytes, members, own), source.shape),
            block_bytes(size_bytes, members, to),
        ],
        axis=1,
    )
    return _posted_at_once(np.concatenate([source, to], axis=1), value)


@cache
def exchange(members: int, partners: tuple[int, ...], size_bytes: int) -> ArraySchedule:
    """Everyone sends `size_bytes` to, and receives as many from, each partner (own number XOR one of
    `partners`).

    Raises ConfigError for partners outside the group.
    """
    own = np.arange(members, dtype=np.int64)[:, np.newaxis]
    peer = own ^ np.array(partners, dtype=np.int64)
    if peer.max() >= members:
        raise ConfigError(
            f"partners are {list(partners)} but must lead to one of the {members} accelerators of a group."
        )
    both = np.concatenate([peer, peer], axis=1)
    return _posted_at_once(both, np.full(both.shape, size_bytes, dtype=np.int64))


def _posted_at_once(peer: Int64, value: Int64) -> ArraySchedule:
    """On each rank as many receives as sends, first half and second half of [ranks, 2n], all at once."""
    ranks, ops = peer.shape
    kind = np.repeat(np.array([OpKind.RECV, OpKind.SEND], dtype=np.uint8), ops // 2)
    return ArraySchedule(
        num_ranks=ranks,
        op_offset=np.arange(ranks + 1, dtype=np.int64) * ops,
        kind=np.tile(kind, ranks),
        peer=peer.reshape(-1).astype(np.int32),
        value=value.reshape(-1),
        tag=np.zeros(ranks * ops, dtype=np.int32),
        dep_offset=np.zeros(ranks * ops + 1, dtype=np.int64),
        dep=np.empty(0, dtype=np.int64),
    )


def _nothing(ranks: int) -> ArraySchedule:
    empty = np.empty((ranks, 0), dtype=np.int64)
    return _posted_at_once(empty, empty)
