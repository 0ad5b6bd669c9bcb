"""Searches and strategies on cases that can be checked by hand, and the article's examples."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from allocation import (
    Boards,
    LineTrees,
    Strategy,
    SubMesh,
    allocate,
    complete,
    draw_jobs,
    greedy,
    nearest_square,
    published_strategy,
    random_failures,
    read_failures,
)
from allocation.exact import best_placement
from allocation.jobs import job_sizes
from allocation.shapes import other_aspect_ratios
from analysis import published
from topologies import ConfigError, FatTree, HxMesh, Torus2D


def has_place(failed: tuple[tuple[int, int], ...], columns: int, rows: int) -> bool:
    """By all choices of columns and rows of a 4x4 machine."""
    return any(
        all((c, r) not in failed for c in chosen_columns for r in chosen_rows)
        for chosen_columns in combinations(range(4), columns)
        for chosen_rows in combinations(range(4), rows)
    )


@pytest.mark.parametrize(("columns", "rows"), [(2, 4), (4, 2), (3, 3)])
def test_subnetworks_of_the_articles_figure_5(columns: int, rows: int) -> None:
    """A 2x4 and a 3x3 subnetwork on a 4x4 Hx2Mesh with three failed boards.

    Wherever the three boards are: in all 560 cases a place is found exactly if there is one.
    """
    all_boards = [(c, r) for r in range(4) for c in range(4)]
    found = by_greedy = 0
    for failed in combinations(all_boards, 3):
        machine = Boards(4, 4, failed)
        # The 2x4 job may be turned, as the article's may.
        strategy = published_strategy(aspect_ratio=False, search=complete)
        place = allocate(machine, [(columns, rows)], strategy).places[0]
        exists = has_place(failed, columns, rows) or has_place(failed, rows, columns)
        assert (place is not None) == exists
        found += place is not None
        place = allocate(machine, [(columns, rows)], published_strategy(aspect_ratio=False)).places[0]
        by_greedy += place is not None
    assert by_greedy <= found
    # Some cases of each kind: three boards in different columns and rows leave no room for 2x4 or 3x3.
    assert 0 < found < 560


def test_a_3x3_subnetwork_with_failed_boards_on_a_diagonal_and_beside_it() -> None:
    machine = Boards(4, 4, ((0, 0), (1, 0), (1, 2)))
    found = allocate(machine, [(3, 3)])
    assert found.places == (SubMesh((0, 2, 3), (1, 2, 3)),)
    network = HxMesh(2, 2, 4, 4)
    accelerators = found.places[0].accelerators(network)
    assert accelerators.shape == (6, 6)
    # Board (column 2, row 1) is number 6 of the machine, with accelerators from 24 on.
    assert accelerators[:2, 2:4].tolist() == [[24, 25], [26, 27]]


def test_greedy_keeps_to_the_first_rows_and_may_miss_a_place() -> None:
    machine = Boards(4, 4, ((0, 0), (1, 1), (1, 2)))
    assert greedy(machine.free(), 3, 3) is None
    assert complete(machine.free(), 3, 3) == ((0, 2, 3), (1, 2, 3))


def test_columns_of_rows_far_apart_are_joined() -> None:
    """No rows of neighbours: the columns 0 and 3 in the rows 0 and 2."""
    failed = tuple((c, r) for r in range(3) for c in range(4) if not (c in (0, 3) and r in (0, 2)))
    assert allocate(Boards(4, 3, failed), [(2, 2)]).places == (SubMesh((0, 3), (0, 2)),)


def test_improvements_place_what_the_plain_search_does_not() -> None:
    wide = Boards(4, 2)

    def strategy(*, transpose: bool = False, aspect_ratio: bool = False) -> Strategy:
        return published_strategy(transpose=transpose, aspect_ratio=aspect_ratio, sort_jobs=False)

    assert allocate(wide, [(1, 4)], strategy()).places == (None,)
    turned = allocate(wide, [(1, 4)], strategy(transpose=True))
    assert turned.places == (SubMesh((0, 1, 2, 3), (0,)),)
    square = allocate(wide, [(1, 4)], strategy(aspect_ratio=True))
    assert square.places == (SubMesh((0, 1), (0, 1)),)
    jobs = [(1, 1), (3, 3)]
    in_order = allocate(Boards(3, 3), jobs, published_strategy(sort_jobs=False))
    assert in_order.places[1] is None
    sorted_jobs = allocate(Boards(3, 3), jobs)
    assert sorted_jobs.places == (None, SubMesh((0, 1, 2), (0, 1, 2)))


def test_locality_takes_the_place_with_less_traffic_in_the_upper_level() -> None:
    """Rows of 8 boards, leaves of 4: a 6x1 place crosses leaves, its transposed 1x6 does not."""
    trees = LineTrees(8, 8, radix=16)
    assert (trees.number, trees.boards_per_leaf) == (0, 4)
    trees = LineTrees(8, 6, radix=14)
    assert trees.rows_are_trees
    assert not trees.columns_are_trees
    first_fit = allocate(Boards(8, 6), [(6, 1)])
    assert first_fit.places == (SubMesh((0, 1, 2, 3, 4, 5), (0,)),)
    local = allocate(Boards(8, 6), [(6, 1)], published_strategy(locality="alltoall", trees=trees))
    assert local.places[0] is not None
    assert trees.upper_share("alltoall", local.places[0]) == 0
    with pytest.raises(ConfigError, match="needs the line trees"):
        published_strategy(locality="alltoall")


@pytest.mark.parametrize(
    ("columns", "rows", "alltoall", "allreduce"), [(64, 128, 80.19, 6.25), (32, 64, 76.19, 6.25)]
)
def test_upper_level_traffic_of_one_job_on_the_whole_machine(
    columns: int, rows: int, alltoall: float, allreduce: float
) -> None:
    """Values of the artifact, whose large machines have 64x128 and 32x64 boards."""
    whole = SubMesh(tuple(range(columns)), tuple(range(rows)))
    trees = LineTrees(columns, rows)
    assert trees.upper_percent("alltoall", [whole]) == pytest.approx(alltoall, abs=0.01)
    assert trees.upper_percent("allreduce", [whole]) == pytest.approx(allreduce, abs=0.005)


def test_upper_level_traffic_by_counting_messages() -> None:
    """Two jobs in rows of 6 boards with leaves of 2, every message counted by itself."""
    trees = LineTrees(6, 6, radix=8)
    jobs = [SubMesh((0, 1, 4), (0, 3)), SubMesh((2, 3), (0, 1, 2, 5))]
    messages, upper = np.zeros(12), np.zeros(12)
    for job in jobs:
        for c, r in job.boards():
            for d, s in job.boards():
                ways = [[], []] if (c, r) == (d, s) else [[("row", r, c, d), ("column", d, r, s)]]
                if c != d and r != s:
                    ways.append([("column", c, r, s), ("row", s, c, d)])
                for way in ways:
                    for kind, line, start, end in way:
                        if start != end:
                            at = line if kind == "row" else 6 + line
                            messages[at] += 1 / len(ways)
                            upper[at] += (start // 2 != end // 2) / len(ways)
    expected = 100 * np.divide(upper, messages, out=np.zeros(12), where=messages > 0).mean()
    assert trees.upper_percent("alltoall", jobs) == pytest.approx(expected)


def test_shapes() -> None:
    assert [nearest_square(n) for n in (1, 2, 6, 12, 13, 36)] == [
        (1, 1),
        (1, 2),
        (2, 3),
        (3, 4),
        (1, 13),
        (6, 6),
    ]
    assert other_aspect_ratios((2, 6)) == ((3, 4), (4, 3), (2, 6), (6, 2))
    assert other_aspect_ratios((3, 3)) == ((3, 3),)  # 1x9 is beyond 1:8
    assert (1, 8) in other_aspect_ratios((2, 4))


def test_job_sizes_are_the_published_ones() -> None:
    """The published list is an extract of the one that jobs are drawn by."""
    sizes, percent = job_sizes()
    assert np.all(np.diff(sizes) > 0)
    assert np.all(np.diff(percent) > 0)
    assert percent[-1] == 100
    known = dict(zip(sizes.tolist(), percent.tolist(), strict=True))
    for row in published.load("job_size_cdf").to_dict("records"):
        assert known[int(row["boards"])] == pytest.approx(row["percent_of_jobs_at_most"], abs=0.006)


def test_drawn_jobs_ask_for_exactly_the_usable_boards() -> None:
    for columns, rows, failed in ((16, 16, 40), (8, 8, 0), (64, 128, 100), (2, 2, 1)):
        jobs = draw_jobs(columns, rows, columns * rows - failed, np.random.default_rng(3))
        assert sum(u * v for u, v in jobs) == columns * rows - failed
        assert all(2 * u <= min(columns, rows) and 2 * v <= max(columns, rows) for u, v in jobs)
    with pytest.raises(ConfigError, match="rows of the boards is 1 but must be an integer of at least 2"):
        draw_jobs(4, 1, 4, np.random.default_rng(0))


def test_the_best_placement_is_better_than_greedy_where_that_can_be() -> None:
    machine = Boards(4, 4, ((0, 0), (1, 1), (1, 2)))
    by_greedy = allocate(machine, [(3, 3)])
    best = best_placement(machine, [(3, 3)], hint=by_greedy)
    assert (by_greedy.used, best.allocation.used, best.bound_boards) == (0, 9, 9)
    assert best.proven
    singles = best_placement(machine, [(1, 1)] * 4 + [(3, 3)])
    assert singles.allocation.used == 13
    assert best_placement(Boards(2, 2), [(3, 3)]).bound_boards == 0


def test_a_solver_without_time_falls_back_to_the_hint() -> None:
    rng = np.random.default_rng(5)
    machine = Boards(16, 16, random_failures(16, 16, 40, rng))
    jobs = draw_jobs(16, 16, machine.usable, rng)
    by_greedy = allocate(machine, jobs, published_strategy(sort_jobs=False))
    best = best_placement(machine, jobs, hint=by_greedy, limit_s=1e-6)
    assert by_greedy.used <= best.allocation.used <= best.bound_boards <= machine.usable
    with pytest.raises(ConfigError, match="limit_s is 0 but must be positive"):
        best_placement(machine, jobs, limit_s=0)


def test_failures_are_random_for_a_seed_and_distinct() -> None:
    first, second, other = (random_failures(16, 8, 40, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert first == second != other
    assert len(set(first)) == 40
    with pytest.raises(ConfigError, match="number of failed boards is 4 but must be 0 to 3"):
        random_failures(2, 2, 4, np.random.default_rng(0))


def test_failures_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "failed.txt"
    path.write_text("# column row\n0 0\n3, 1  # the one above the door\n\n")
    assert read_failures(path) == ((0, 0), (3, 1))
    path.write_text("0 0\n1 1 3\n")
    with pytest.raises(ConfigError, match=r"line 2 of .* is '1 1 3' but .* boards fail as a whole"):
        read_failures(path)
    path.write_text("0 east\n")
    with pytest.raises(ConfigError, match=r"line 1 of .* is '0 east'"):
        read_failures(path)
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        read_failures(path.with_name("other.txt"))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Boards(0, 4), "columns of the boards is 0"),
        (
            lambda: Boards(4, 4, ((4, 0),)),
            r"a failed board is \(4, 0\) but must be one of \(0, 0\) to \(3, 3\)",
        ),
        (lambda: Boards(4, 4, ((1, 1), (1, 1))), "named once"),
        (lambda: Boards(1, 1, ((0, 0),)), "at most 0"),
        (lambda: SubMesh((), (0,)), "columns of a sub-HxMesh"),
        (lambda: SubMesh((0,), (1, 1)), "rows of a sub-HxMesh"),
        (
            lambda: SubMesh.of([(0, 0), (1, 0), (0, 2), (2, 2)]),
            r"row 2 of a sub-HxMesh has the columns \[0, 2\]",
        ),
        (lambda: SubMesh.of([]), "one or more"),
        (lambda: allocate(Boards(2, 2), [(0, 1)]), "job 0 is 0x1 but must be 1x1 boards or larger"),
        (lambda: SubMesh((4,), (0,)).accelerators(HxMesh(2, 2, 4, 4)), "last column .* below 4"),
        (lambda: SubMesh((0,), (0,)).accelerators(FatTree.from_shape("4,4:4")), "is no grid of boards"),
    ],
)
def test_wrong_input_is_refused(make: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()  # type: ignore[operator]


def test_blocks_of_a_torus_are_mapped_to_its_accelerators() -> None:
    torus = Torus2D(8, 4)
    grid = SubMesh((3, 0), (1,)).accelerators(torus, (2, 2))
    assert grid.tolist() == [[22, 23, 16, 17], [30, 31, 24, 25]]
