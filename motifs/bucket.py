"""Allreduce on two-dimensional grids, dimension by dimension (paper sections 2 and 5; x = along a row).

Both raise ConfigError for negative sizes and for ranks out of range or given twice. A side of 1 has nothing
to do.
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

    Four quarters of the data run in parallel and start in the directions x+, x-, y+ and y-, so that all four
    links of an accelerator are busy; the second dimension is passed in y+, y-, x+, x-. Reduce-scatter of the
    quarter over the first dimension, reduce-scatter of the block owned then over the second one, then the two
    allgathers in reverse order.

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
    column_allgather: bool = True,
    lockstep: bool = False,
) -> StreamSchedule:
    """First variant of the bucket algorithm, published as "torus-2d": 2 streams of 4 segments.

    Two halves of the data run in parallel, x+ then y+ and x- then y-: reduce-scatter over the row, allreduce
    of the block owned then over the column, allgather over the row. At any time half of the links are idle.

    column_allgather: without it the column is only reduced and not gathered, so most of the result is
        missing. So were the published runs: their logs name the motif RingAllreduceRev, whose column stage is
        a reduce-scatter, and count 266,290 bytes for each of 1,024 ranks at 128 KiB, headers included, which
        is that (artifact, results/AllReduceSmall/output/* - 2D/32768).

    Other arguments as for :func:`bucket`.
    """
    places, total = as_ranks("grid", grid, num_ranks, ndim=2)
    builder = StreamBuilder(total, 2, 4, reduce_fs_per_byte)
    for stream, (rows, size) in enumerate(
        zip((places, places[::-1, ::-1]), split_bytes(total_bytes, 2), strict=True)
    ):
        columns, owned = rows.T, owned_block_bytes(size, rows.shape[1])
        builder.reduce_scatter(stream, 0, rows, size)
        builder.reduce_scatter(stream, 1, columns, owned)
        if column_allgather:
            builder.allgather(stream, 2, columns, owned)
        builder.allgather(stream, 3, rows, size)
    return builder.build(lockstep)


def _directions(grid: Ranks) -> tuple[Ranks, Ranks, Ranks, Ranks]:
    """The grid as lines in the directions x+, x-, y+, y-; the transposed ones point to y+, y-, x+, x-."""
    return grid, grid[::-1, ::-1], grid.T, grid.T[::-1, ::-1]
