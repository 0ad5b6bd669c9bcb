"""Torus2D: rings, boards and their cables."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topologies import ConfigError, LinkKind, Torus2D

SIDE = st.integers(2, 7)


@given(SIDE, SIDE, st.tuples(st.integers(1, 4), st.integers(1, 4)))
@settings(max_examples=60, deadline=None)
def test_each_port_leads_to_the_neighbour_in_its_direction(
    columns: int, rows: int, board: tuple[int, int]
) -> None:
    network = Torus2D(columns, rows, board=board)
    for rank in range(columns * rows):
        column, row = rank % columns, rank // columns
        for port, (dx, dy) in enumerate(((1, 0), (-1, 0), (0, 1), (0, -1))):
            there = ((column + dx) % columns, (row + dy) % rows)
            own = 5 * rank + port
            assert network.port_peer[own] == 5 * (there[1] * columns + there[0]) + (port ^ 1)
            same_board = all(
                here // side == other // side
                for here, other, side in zip((column, row), there, board, strict=True)
            )
            between = LinkKind.ROW if dx else LinkKind.COLUMN
            assert network.port_kind[own] == (LinkKind.BOARD if same_board else between)
        assert network.port_kind[5 * rank + 4] == LinkKind.HOST


def test_a_side_of_two_has_two_parallel_links() -> None:
    adjacency = Torus2D(2, 3).adjacency().toarray()
    assert adjacency[0, 1] == 2
    assert adjacency[0, 2] == 1


def test_half_of_the_links_of_the_published_torus_are_on_boards() -> None:
    network = Torus2D(32, 32)
    kinds = np.bincount(network.port_kind, minlength=4) // 2
    assert kinds[LinkKind.BOARD] == 1024
    assert kinds[LinkKind.ROW] + kinds[LinkKind.COLUMN] == 1024


def test_balanced_is_handed_to_the_routing() -> None:
    assert Torus2D(4, 6).routing.params == {"size0": 4, "size1": 6, "balanced": 0}
    assert Torus2D(4, 6, balanced=True).routing.params["balanced"] == 1


@pytest.mark.parametrize(("columns", "rows"), [(1, 4), (4, 1), (0, 2)])
def test_sides_below_two_are_refused(columns: int, rows: int) -> None:
    with pytest.raises(ConfigError, match=r"of a torus is [01] but must be an integer of at least 2"):
        Torus2D(columns, rows)


def test_empty_boards_are_refused() -> None:
    with pytest.raises(ConfigError, match="board rows of a torus is 0"):
        Torus2D(4, 4, board=(2, 0))
