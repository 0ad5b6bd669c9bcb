"""Allreduce on two-dimensional grids, dimension by dimension (paper sections 2 and 5).

Both algorithms cut the data into four quarters that run in parallel and start in the directions x+, x-, y+
and y- (x = along a row), so that all four links of an accelerator are busy; the second dimension is passed in
y+, y-, x+, x-. They raise ConfigError for negative sizes and for ranks out of range or given twice. A side of
1 has nothing to do.
"""

from __future__ import annotations

from numpy.typing import ArrayLike

from motifs.schedule import StreamSchedule
from motifs.segments import (
    REDUCE_FS_PER_BYTE,
    Ranks,
    StreamBuilder,
    as_ranks,
    owned_block_bytes,
    split_bytes,
)

__all__ = ["bucket", "torus_2d"]


def bucket(
    grid: ArrayLike,
    total_bytes: int,
    *,
    num_ranks: int | None = None,
    reduce_fs_per_byte: int = REDUCE_FS_PER_BYTE,
    lockstep: bool = False,
) -> StreamSchedule:
    """Bucket algorithm: 4 streams of 4 segments.

    Reduce-scatter of the quarter over the first dimension, reduce-scatter of the block owned then over the
    second one, then the two allgathers in reverse order.

    grid: int[rows, cols], the rank at each place. Ranks not in it, if `num_ranks` is larger, idle.
    """
    places, total = as_ranks("grid", grid, num_ranks, ndim=2)
    builder = StreamBuilder(total, 4, 4, reduce_fs_per_byte)
    for stream, (lines, size) in enumerate(
        zip(_directions(places), split_bytes(total_bytes, 4), strict=True)
    ):
        # All ranks of a line across have the same position along the first dimension, so they own the same
        # block.
        across, owned = lines.T, owned_block_bytes(size, lines.shape[1])
        builder.reduce_scatter(stream, 0, lines, size)
        builder.reduce_scatter(stream, 1, across, owned)
        builder.allgather(stream, 2, across, owned)
        builder.allgather(stream, 3, lines, size)
    return builder.build(lockstep)


def torus_2d(
    grid: ArrayLike,
    total_bytes: int,
    *,
    num_ranks: int | None = None,
    reduce_fs_per_byte: int = REDUCE_FS_PER_BYTE,
    lockstep: bool = False,
) -> StreamSchedule:
    """First variant of the bucket algorithm, published as "torus-2d": 4 streams of 4 segments.

    A ring allreduce of the whole quarter over the first dimension, then one of the same quarter over the
    second one; it moves about twice the bytes of :func:`bucket`. Arguments as there.
    """
    places, total = as_ranks("grid", grid, num_ranks, ndim=2)
    builder = StreamBuilder(total, 4, 4, reduce_fs_per_byte)
    for stream, (lines, size) in enumerate(
        zip(_directions(places), split_bytes(total_bytes, 4), strict=True)
    ):
        for segment, rings in ((0, lines), (2, lines.T)):
            builder.reduce_scatter(stream, segment, rings, size)
            builder.allgather(stream, segment + 1, rings, size)
    return builder.build(lockstep)


def _directions(grid: Ranks) -> tuple[Ranks, Ranks, Ranks, Ranks]:
    """The grid as lines in the directions x+, x-, y+, y-; the transposed ones point to y+, y-, x+, x-."""
    return grid, grid[::-1, ::-1], grid.T, grid.T[::-1, ::-1]
