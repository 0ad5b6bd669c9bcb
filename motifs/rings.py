"""Allreduce around rings: one ring, one ring in both directions, two edge-disjoint rings in both directions.

Each stream is a reduce-scatter of P - 1 steps and an allgather of P - 1 steps over its share of the data
(paper sections 2 and 5). All functions take the size in bytes of the vector that every rank contributes, and
raise ConfigError for negative sizes and for ranks out of range or given twice.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from motifs.hamiltonian import edge_disjoint_hamiltonian_cycles
from motifs.schedule import StreamSchedule
from motifs.segments import REDUCE_FS_PER_BYTE, Ranks, StreamBuilder, as_ranks, split_bytes

__all__ = ["bidirectional_ring", "ring", "two_rings"]


def ring(
    order: ArrayLike,
    total_bytes: int,
    *,
    num_ranks: int | None = None,
    reduce_fs_per_byte: int = REDUCE_FS_PER_BYTE,
    lockstep: bool = False,
) -> StreamSchedule:
    """Allreduce of `total_bytes` around one ring in one direction: 1 stream.

    order: the ranks in the order of the ring, each sends to the next one. Other ranks, if `num_ranks` is
        larger, idle.
    num_ranks: ranks of the schedule, by default as many as `order` holds.
    """
    ranks, total = as_ranks("order", order, num_ranks, ndim=1)
    return _rings([ranks], total_bytes, total, reduce_fs_per_byte, lockstep)


def bidirectional_ring(
    order: ArrayLike,
    total_bytes: int,
    *,
    num_ranks: int | None = None,
    reduce_fs_per_byte: int = REDUCE_FS_PER_BYTE,
    lockstep: bool = False,
) -> StreamSchedule:
    """Allreduce around one ring, a half in each direction: 2 streams. Arguments as for :func:`ring`."""
    ranks, total = as_ranks("order", order, num_ranks, ndim=1)
    return _rings([ranks, ranks[::-1]], total_bytes, total, reduce_fs_per_byte, lockstep)


def two_rings(
    grid: ArrayLike,
    total_bytes: int,
    *,
    num_ranks: int | None = None,
    reduce_fs_per_byte: int = REDUCE_FS_PER_BYTE,
    lockstep: bool = False,
    method: str = "auto",
) -> StreamSchedule:
    """Allreduce around two edge-disjoint Hamiltonian cycles of a torus grid, a quarter each way on each: 4
    streams.

    grid: int[rows, cols], the rank at each place. Ranks not in it, if `num_ranks` is larger, idle.
    method: which cycles, see :func:`motifs.hamiltonian.edge_disjoint_hamiltonian_cycles`, whose errors it
        raises too.
    """
    places, total = as_ranks("grid", grid, num_ranks, ndim=2)
    rows, cols = places.shape
    cycles = edge_disjoint_hamiltonian_cycles(rows, cols, method)
    first, second = (places.reshape(-1)[cycle] for cycle in cycles)
    orders = [first, first[::-1], second, second[::-1]]
    return _rings(orders, total_bytes, total, reduce_fs_per_byte, lockstep)


def _rings(
    orders: Sequence[Ranks], total_bytes: int, num_ranks: int, reduce_fs_per_byte: int, lockstep: bool
) -> StreamSchedule:
    """One stream a ring, each with an equal share of the data."""
    builder = StreamBuilder(num_ranks, len(orders), 2, reduce_fs_per_byte)
    for stream, (order, size) in enumerate(zip(orders, split_bytes(total_bytes, len(orders)), strict=True)):
        builder.reduce_scatter(stream, 0, order[np.newaxis], size)
        builder.allgather(stream, 1, order[np.newaxis], size)
    return builder.build(lockstep)
