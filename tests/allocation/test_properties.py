"""What holds for every allocation, whatever the boards, the jobs and the strategy."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from allocation import (
    FAILED,
    FREE,
    Allocation,
    Boards,
    LineTrees,
    Strategy,
    SubMesh,
    allocate,
    block,
    complete,
    greedy,
    published_strategy,
    random_failures,
)
from allocation.exact import best_placement
from topologies import HxMesh, LinkKind

SIDE = st.integers(1, 7)
SHAPE = st.tuples(SIDE, SIDE)


@st.composite
def boards(draw: st.DrawFn) -> Boards:
    columns, rows = draw(SIDE), draw(SIDE)
    number = draw(st.integers(0, columns * rows - 1))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    return Boards(columns, rows, random_failures(columns, rows, number, rng))


@st.composite
def strategies(draw: st.DrawFn) -> Strategy:
    return published_strategy(
        transpose=draw(st.booleans()),
        aspect_ratio=draw(st.booleans()),
        sort_jobs=draw(st.booleans()),
        locality=draw(st.sampled_from([None, "alltoall", "allreduce"])),
        trees=LineTrees(7, 7, radix=8),
        search=draw(st.sampled_from([greedy, complete, block])),
    )


def overlaps(found: Allocation) -> bool:
    used = [board for place in found.places if place is not None for board in place.boards()]
    return len(used) != len(set(used))


@given(boards(), st.lists(SHAPE, max_size=12), strategies())
@settings(max_examples=300, deadline=None)
def test_jobs_do_not_overlap_nor_use_failed_boards(
    machine: Boards, jobs: list[tuple[int, int]], strategy: Strategy
) -> None:
    found = allocate(machine, jobs, strategy)
    assert not overlaps(found)
    for job, place in zip(jobs, found.places, strict=True):
        if place is None:
            continue
        assert place.size == job[0] * job[1]
        assert set(place.boards()).isdisjoint(machine.failed)
        # The condition of a virtual sub-HxMesh: the same sequence of columns in every row.
        columns_of = {row: tuple(c for c, r in place.boards() if r == row) for row in place.rows}
        assert set(columns_of.values()) == {place.columns}
        assert {column for column, _ in place.boards()} <= set(range(machine.columns))
        assert set(place.rows) <= set(range(machine.rows))
    grid = found.grid()
    assert np.count_nonzero(grid == FAILED) == len(machine.failed)
    assert np.count_nonzero(grid == FREE) == machine.usable - found.used
    assert 0 <= found.utilization_percent <= 100


@given(boards(), SHAPE)
@settings(max_examples=300, deadline=None)
def test_the_complete_search_finds_a_place_exactly_if_there_is_one(
    machine: Boards, shape: tuple[int, int]
) -> None:
    columns, rows = shape
    failed = set(machine.failed)
    free = [{c for c in range(machine.columns) if (c, r) not in failed} for r in range(machine.rows)]
    exists = any(len(set.intersection(*chosen)) >= columns for chosen in combinations(free, rows))
    found = complete(machine.free(), columns, rows)
    assert (found is not None) == exists
    if greedy(machine.free(), columns, rows) is not None:
        assert exists


@given(boards(), SHAPE)
@settings(max_examples=300, deadline=None)
def test_a_block_is_contiguous_and_found_where_there_is_one(machine: Boards, shape: tuple[int, int]) -> None:
    (columns, rows), (x, y) = shape, (machine.columns, machine.rows)
    failed = set(machine.failed)
    exists = (
        columns <= x
        and rows <= y
        and any(
            all(((c + i) % x, (r + j) % y) not in failed for i in range(columns) for j in range(rows))
            for c in range(x)
            for r in range(y)
        )
    )
    found = block(machine.free(), columns, rows)
    assert (found is not None) == exists
    if found is not None:
        for places, end in zip(found, (x, y), strict=True):
            assert all((after - before) % end == 1 % end for before, after in pairwise(places))


def line_or_board(network: HxMesh, first: int, second: int) -> bool:
    """Whether two accelerators are joined by a link of their board or by the switches of one line."""
    offset, peer, kind = network.port_offset, network.port_peer, network.port_kind

    def reached(router: int) -> set[tuple[str, int]]:
        found: set[tuple[str, int]] = set()
        for port in range(int(offset[router]), int(offset[router + 1])):
            if peer[port] < 0:
                continue
            other = int(network.port_router[peer[port]])
            if kind[port] == LinkKind.BOARD:
                found.add(("board", other))
            elif kind[port] in (LinkKind.ROW, LinkKind.COLUMN):
                found.add(("line", line_of(other)))
        return found

    def line_of(switch: int) -> int:
        row, column = network._lines()
        rows = len(network.endpoint_at)
        index = switch - network.num_endpoints
        in_rows = rows * row.routers
        return index // row.routers if index < in_rows else rows + (index - in_rows) // column.routers

    near, far = reached(first), reached(second)
    return ("board", second) in near or bool({w for w in near if w[0] == "line"} & far)


@given(boards(), SHAPE, st.integers(1, 3), st.integers(1, 3), st.sampled_from([8, 64]))
@settings(max_examples=60, deadline=None)
def test_neighbours_in_a_job_are_one_line_or_one_board_link_apart(
    machine: Boards, shape: tuple[int, int], a: int, b: int, radix: int
) -> None:
    place = allocate(machine, [shape]).places[0]
    if place is None or a * b * machine.columns * machine.rows < 2:
        return
    network = HxMesh(a, b, machine.columns, machine.rows, radix=radix)
    grid = place.accelerators(network)
    assert grid.shape == (b * len(place.rows), a * len(place.columns))
    for axis in (0, 1):
        neighbour = np.roll(grid, -1, axis=axis)
        for first, second in zip(grid.ravel().tolist(), neighbour.ravel().tolist(), strict=True):
            if first == second:
                continue
            wraps_board = machine.columns == 1 if axis else machine.rows == 1
            if wraps_board and abs(first - second) != (1 if axis else a):
                continue  # a dimension of one board has no line that would close the ring
            assert line_or_board(network, first, second)


@given(boards(), st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)), max_size=5))
@settings(max_examples=25, deadline=None)
def test_no_strategy_beats_the_best_placement(machine: Boards, jobs: list[tuple[int, int]]) -> None:
    by_greedy = allocate(machine, jobs)
    best = best_placement(machine, jobs, hint=by_greedy, limit_s=5)
    assert not overlaps(best.allocation)
    assert by_greedy.used <= best.allocation.used <= best.bound_boards <= machine.usable
    assert by_greedy.used <= sum(columns * rows for columns, rows in jobs)


@given(boards())
@settings(max_examples=50, deadline=None)
def test_physical_and_logical_coordinates_are_inverse(machine: Boards) -> None:
    for place in allocate(machine, [(2, 2), (1, 3)]).places:
        if place is None:
            continue
        columns, rows = place.shape
        for row in range(rows):
            for column in range(columns):
                assert place.logical(place.physical(column, row)) == (column, row)
        assert SubMesh.of(place.boards()) == place
