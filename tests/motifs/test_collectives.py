"""The collectives move the right data: executed block by block, every contribution counted once."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import motifs
from motifs.schedule import StreamSchedule, block_bytes
from motifs.segments import split_bytes
from topologies.errors import ConfigError

Ints = NDArray[np.int64]

WHOLE = -1
"""Segment that works on the whole vector of its stream."""

# For each segment the segment whose final block it works on, or WHOLE.
RING_REGIONS = (WHOLE, WHOLE)
BUCKET_REGIONS = (WHOLE, 0, 0, WHOLE)

GRIDS = [(1, 1), (1, 4), (5, 1), (2, 2), (2, 3), (2, 4), (3, 3), (3, 4), (4, 3), (4, 4), (5, 3), (3, 6)]
PAIR_GRIDS = [(2, 2), (2, 4), (6, 2), (3, 3), (3, 4), (4, 3), (4, 4), (5, 3), (3, 6), (4, 5)]
SIZES = [0, 1, 7, 64, 97]


def shuffled_grid(rows: int, cols: int) -> Ints:
    """A grid whose ranks are in no particular order, as boards of a HxMesh are."""
    return np.random.default_rng(rows * 100 + cols).permutation(rows * cols).reshape(rows, cols)


def execute(schedule: StreamSchedule, sizes: list[int], regions: tuple[int, ...]) -> list[Ints]:
    """Run every stream on real data.

    Returns for each stream int[ranks, bytes, ranks]: how often the contribution of each rank is in each byte.
    """
    ranks = schedule.num_ranks
    results = []
    for k, size in enumerate(sizes):
        held = np.zeros((ranks, size, ranks), dtype=np.int64)
        held[np.arange(ranks), :, np.arange(ranks)] = 1
        # Start of each rank's region, and of the last block of each segment.
        final: dict[int, list[int]] = {WHOLE: [0] * ranks}
        for j in range(schedule.num_segments):
            start = final[regions[j]]
            final[j] = list(start)
            steps = schedule.steps[:, k, j]
            for s in range(int(steps.max(initial=0))):
                sent = {}
                for r in np.flatnonzero(steps > s):
                    begin, end = block(schedule, int(r), k, j, -s)
                    at = slice(start[r] + begin, start[r] + end)
                    sent[int(r)] = (at, held[r, at].copy())
                for r in np.flatnonzero(steps > s):
                    begin, end = block(schedule, int(r), k, j, -1 - s)
                    at = slice(start[r] + begin, start[r] + end)
                    came_at, data = sent[int(schedule.recv_peer[r, k, j])]
                    assert came_at == at
                    if schedule.reduce_fs_per_byte[r, k, j]:
                        held[r, at] += data
                    else:
                        held[r, at] = data
                    final[j][r] = start[r] + begin
        results.append(held)
    return results


def block(schedule: StreamSchedule, rank: int, stream: int, segment: int, shift: int) -> tuple[int, int]:
    """First byte and end of block first_block + shift within the region of a segment."""
    total = int(schedule.segment_bytes[rank, stream, segment])
    parts = int(schedule.parts[rank, stream, segment])
    number = (int(schedule.first_block[rank, stream, segment]) + shift) % parts
    ends = np.cumsum(block_bytes(total, parts, np.arange(parts)))
    return int(ends[number - 1]) if number else 0, int(ends[number])


def assert_allreduce(schedule: StreamSchedule, total_bytes: int, regions: tuple[int, ...]) -> None:
    schedule.check()
    sizes = split_bytes(total_bytes, schedule.num_streams)
    assert sum(sizes) == total_bytes
    for held in execute(schedule, sizes, regions):
        assert np.all(held == 1)
    expanded = schedule.expand()
    expanded.check()
    assert expanded.num_operations == schedule.num_operations
    assert expanded.num_messages == schedule.num_messages
    assert expanded.total_bytes == schedule.total_bytes
    assert np.array_equal(expanded.sent_bytes(), schedule.sent_bytes())
    assert np.array_equal(expanded.received_bytes(), schedule.received_bytes())


@pytest.mark.parametrize("total_bytes", SIZES)
@pytest.mark.parametrize("ranks", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("collective", [motifs.ring, motifs.bidirectional_ring])
def test_rings_sum_everything(
    collective: Callable[..., StreamSchedule], ranks: int, total_bytes: int
) -> None:
    order = np.random.default_rng(ranks).permutation(ranks)
    assert_allreduce(collective(order, total_bytes), total_bytes, RING_REGIONS)


@pytest.mark.parametrize("total_bytes", SIZES)
@pytest.mark.parametrize("method", ["auto", "general"])
@pytest.mark.parametrize("grid", PAIR_GRIDS)
def test_two_rings_sum_everything(grid: tuple[int, int], method: str, total_bytes: int) -> None:
    schedule = motifs.two_rings(shuffled_grid(*grid), total_bytes, method=method)
    assert_allreduce(schedule, total_bytes, RING_REGIONS)


@pytest.mark.parametrize("total_bytes", SIZES)
@pytest.mark.parametrize("grid", GRIDS)
def test_bucket_sums_everything(grid: tuple[int, int], total_bytes: int) -> None:
    assert_allreduce(motifs.bucket(shuffled_grid(*grid), total_bytes), total_bytes, BUCKET_REGIONS)


@pytest.mark.parametrize("total_bytes", SIZES)
@pytest.mark.parametrize("grid", GRIDS)
def test_torus_2d_sums_everything(grid: tuple[int, int], total_bytes: int) -> None:
    assert_allreduce(motifs.torus_2d(shuffled_grid(*grid), total_bytes), total_bytes, BUCKET_REGIONS)


def test_torus_2d_without_column_allgather_sums_a_row_of_blocks_each() -> None:
    """Every rank ends with its row's part of each column's block complete, the rest summed over rows only."""
    rows, cols, size = 3, 4, 2 * 3 * 4 * 5
    schedule = motifs.torus_2d(np.arange(12).reshape(rows, cols), size, column_allgather=False)
    schedule.check()
    for held in execute(schedule, split_bytes(size, 2), BUCKET_REGIONS):
        complete = np.all(held == 1, axis=2)
        assert np.all(complete.sum(axis=1) == size // 2 // rows)
        assert np.all(held.sum(axis=2)[~complete] < rows * cols)


@pytest.mark.parametrize(
    ("side", "collective", "total_bytes", "received"),
    [
        (32, motifs.two_rings, 2**17, 630_168),
        (32, partial(motifs.torus_2d, column_allgather=False), 2**17, 266_290),
        (128, partial(motifs.torus_2d, column_allgather=False), 2**20, 2_123_186),
    ],
)
def test_bytes_that_the_published_runs_logged(
    side: int, collective: Callable[..., StreamSchedule], total_bytes: int, received: int
) -> None:
    """Received by each accelerator, with 45 bytes of header a message (artifact, AllReduceSmall/output/hx2,
    "hx2 - 2D" and others, AllReduceLarge/output/hx2 - 2D)."""
    ranks = side * side
    schedule = collective(np.arange(ranks).reshape(side, side), total_bytes)
    assert np.all(schedule.received_bytes() + 45 * (schedule.num_messages // ranks) == received)


def test_a_wrong_schedule_is_noticed() -> None:
    """The executed test itself: an allgather that starts at the wrong block leaves partial sums."""
    good = motifs.ring(np.arange(4), 64)
    fields = {
        name: getattr(good, name).copy() for name in ("send_peer", "recv_peer", "steps", "segment_bytes")
    }
    first_block = good.first_block.copy()
    first_block[:, :, 1] = (first_block[:, :, 1] + 1) % 4
    bad = StreamSchedule(
        4, **fields, parts=good.parts, first_block=first_block, reduce_fs_per_byte=good.reduce_fs_per_byte
    )
    bad.check()
    assert not np.all(execute(bad, [64], RING_REGIONS)[0] == 1)


def test_bytes_in_closed_form() -> None:
    rows, cols, size = 4, 6, 4 * 24 * 100
    grid, ranks = np.arange(24).reshape(rows, cols), rows * cols
    optimum = 2 * (ranks - 1) * size // ranks
    for schedule in (
        motifs.ring(grid.reshape(-1), size),
        motifs.bidirectional_ring(grid.reshape(-1), size),
        motifs.two_rings(grid, size),
        motifs.bucket(grid, size),
        motifs.torus_2d(grid, size),
    ):
        assert np.all(schedule.sent_bytes() == optimum)
        assert np.all(schedule.received_bytes() == optimum)


def test_steps_and_messages_in_closed_form() -> None:
    grid = np.arange(24).reshape(4, 6)
    assert motifs.ring(grid.reshape(-1), 1).num_messages == 24 * 2 * 23
    assert motifs.bidirectional_ring(grid.reshape(-1), 1).num_messages == 2 * 24 * 2 * 23
    assert motifs.two_rings(grid, 1).num_messages == 4 * 24 * 2 * 23
    assert motifs.bucket(grid, 1).num_messages == 4 * 24 * 2 * (3 + 5)
    assert motifs.torus_2d(grid, 1).num_messages == 2 * 24 * 2 * (3 + 5)
    assert motifs.torus_2d(grid, 1, column_allgather=False).num_messages == 2 * 24 * (3 + 2 * 5)


@pytest.mark.parametrize("grid", [(3, 3), (4, 4), (4, 6), (5, 4)])
def test_two_rings_use_every_link_in_both_directions_once(grid: tuple[int, int]) -> None:
    rows, cols = grid
    schedule = motifs.two_rings(np.arange(rows * cols).reshape(grid), 64)
    links = {(r, int(schedule.send_peer[r, k, 0])) for r in range(rows * cols) for k in range(4)}
    assert len(links) == 4 * rows * cols


@pytest.mark.parametrize("collective", [motifs.bucket, motifs.torus_2d])
def test_parts_of_grid_collectives_go_in_different_directions(
    collective: Callable[..., StreamSchedule],
) -> None:
    schedule = collective(np.arange(24).reshape(4, 6), 4800)
    rank = np.arange(24)
    row, col = rank // 6, rank % 6
    east, west = row * 6 + (col + 1) % 6, row * 6 + (col - 1) % 6
    south, north = (row + 1) % 4 * 6 + col, (row - 1) % 4 * 6 + col
    ways = [(east, south), (west, north), (south, east), (north, west)][: schedule.num_streams]
    for stream, (first, across) in enumerate(ways):
        for segment, peer in enumerate((first, across, across, first)):
            assert np.array_equal(schedule.send_peer[:, stream, segment], peer)


def test_bucket_moves_the_owned_block_in_the_second_dimension() -> None:
    schedule = motifs.bucket(np.arange(12).reshape(3, 4), 4 * 10)
    assert sorted(schedule.segment_bytes[:4, 0, 1].tolist()) == [2, 2, 3, 3]
    assert np.all(schedule.segment_bytes[:, 0, 1] == schedule.segment_bytes[:, 0, 2])


def test_only_reduce_scatter_costs_computation() -> None:
    for schedule, reducing in (
        (motifs.ring(np.arange(4), 64), [True, False]),
        (motifs.bucket(np.arange(12).reshape(3, 4), 64), [True, True, False, False]),
        (motifs.torus_2d(np.arange(12).reshape(3, 4), 64), [True, True, False, False]),
    ):
        assert np.array_equal(
            schedule.reduce_fs_per_byte > 0, np.broadcast_to(reducing, schedule.steps.shape)
        )
        assert schedule.reduce_fs_per_byte.max() == 2500
    free = motifs.ring(np.arange(4), 64, reduce_fs_per_byte=0)
    assert not free.reduce_fs_per_byte.any()
    # 16-byte blocks at 2.5 ps a byte.
    values = motifs.ring(np.arange(4), 64).expand()
    assert set(values.value[values.kind == motifs.OpKind.COMPUTE].tolist()) == {40}


def test_subset_of_ranks_leaves_the_others_idle() -> None:
    grid = np.array([[9, 2, 5], [0, 7, 3], [8, 1, 6]])
    for schedule in (
        motifs.ring(grid.reshape(-1), 81, num_ranks=12),
        motifs.two_rings(grid, 81, num_ranks=12),
        motifs.bucket(grid, 81, num_ranks=12),
        motifs.torus_2d(grid, 81, num_ranks=12),
    ):
        schedule.check()
        schedule.expand().check()
        assert np.flatnonzero(schedule.sent_bytes() == 0).tolist() == [4, 10, 11]


@settings(deadline=None, max_examples=25)
@given(
    rows=st.integers(1, 5),
    cols=st.integers(1, 5),
    total_bytes=st.integers(0, 120),
    lockstep=st.booleans(),
)
def test_bucket_on_any_grid(rows: int, cols: int, total_bytes: int, lockstep: bool) -> None:
    schedule = motifs.bucket(shuffled_grid(rows, cols), total_bytes, lockstep=lockstep)
    assert_allreduce(schedule, total_bytes, BUCKET_REGIONS)


def test_two_rings_of_the_small_cluster_build_fast() -> None:
    begin = time.process_time()
    schedule = motifs.two_rings(np.arange(1024).reshape(32, 32), 2 << 30)
    assert time.process_time() - begin < 1
    schedule.check()
    assert schedule.total_bytes == 1024 * 2 * 1023 * (2 << 30) // 1024


@pytest.mark.parametrize(
    ("order", "num_ranks", "message"),
    [
        ([0, 1, 1], None, "order holds rank 1 twice"),
        ([0, 1, 3], None, "order holds rank 3 but must be 0 to 2"),
        ([0, -1], 4, "order holds rank -1 but must be 0 to 3"),
        ([], None, "order must be a non-empty array"),
        ([[0, 1]], None, "order must be a non-empty array of ranks with 1 dimension"),
        ([0.0, 1.0], None, "order must be a non-empty array of ranks"),
    ],
)
def test_bad_orders_are_refused(order: list[int], num_ranks: int | None, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        motifs.ring(order, 64, num_ranks=num_ranks)


def test_negative_sizes_are_refused() -> None:
    with pytest.raises(ConfigError, match="total_bytes is -1"):
        motifs.bucket([[0, 1], [2, 3]], -1)


def test_line_has_no_two_rings() -> None:
    with pytest.raises(ConfigError, match="bidirectional-ring"):
        motifs.two_rings([[0, 1, 2, 3]], 64)
