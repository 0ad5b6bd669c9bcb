"""Hamiltonian cycles: every grid, both constructions."""

from __future__ import annotations

from collections import Counter
from itertools import permutations, product

import numpy as np
import pytest
from numpy.typing import NDArray

from motifs.hamiltonian import (
    closed_form_applies,
    edge_disjoint_hamiltonian_cycles,
    hamiltonian_cycle,
)
from topologies.errors import ConfigError

Cells = NDArray[np.int64]


def edges(cycle: Cells, rows: int, cols: int) -> Cells:
    """Undirected edges as numbers; asserts that the cycle visits every cell once, along torus edges."""
    assert np.array_equal(np.sort(cycle), np.arange(rows * cols))
    following = np.roll(cycle, -1)
    down = (following // cols - cycle // cols) % rows
    right = (following % cols - cycle % cols) % cols
    vertical = (right == 0) & ((down == 1) | (down == rows - 1))
    horizontal = (down == 0) & ((right == 1) | (right == cols - 1))
    assert np.all(vertical | horizontal)
    return np.minimum(cycle, following) * (rows * cols) + np.maximum(cycle, following)


@pytest.mark.parametrize("method", ["general", "auto"])
@pytest.mark.parametrize("rows", range(3, 41))
def test_edge_disjoint_on_every_grid(rows: int, method: str) -> None:
    for cols in range(3, 41):
        first, second = edge_disjoint_hamiltonian_cycles(rows, cols, method)
        used = np.concatenate([edges(first, rows, cols), edges(second, rows, cols)])
        assert len(np.unique(used)) == 2 * rows * cols, (rows, cols)


@pytest.mark.parametrize(("rows", "cols"), [(3, 400), (400, 3), (4, 401), (5, 400), (127, 128), (128, 128)])
def test_long_and_large_grids(rows: int, cols: int) -> None:
    first, second = edge_disjoint_hamiltonian_cycles(rows, cols, "general")
    used = np.concatenate([edges(first, rows, cols), edges(second, rows, cols)])
    assert len(np.unique(used)) == 2 * rows * cols


def test_closed_form_is_the_formula_of_the_paper() -> None:
    rows, cols = 9, 3
    first, second = edge_disjoint_hamiltonian_cycles(rows, cols, "closed-form")
    for x in range(rows * cols):
        x1, x0 = divmod(x, cols)
        skew = x0 + (cols - 1) * x1
        assert first[x] == x1 % rows * cols + skew % cols
        assert second[x] == skew % rows * cols + x1 % cols


def test_auto_takes_the_closed_form_where_it_applies() -> None:
    for rows, cols in product(range(3, 14), repeat=2):
        auto = edge_disjoint_hamiltonian_cycles(rows, cols)
        if closed_form_applies(rows, cols) or closed_form_applies(cols, rows):
            expected = edge_disjoint_hamiltonian_cycles(rows, cols, "closed-form")
        else:
            with pytest.raises(ConfigError, match=f"grid is {rows} x {cols} .*closed form"):
                edge_disjoint_hamiltonian_cycles(rows, cols, "closed-form")
            expected = edge_disjoint_hamiltonian_cycles(rows, cols, "general")
        assert all(np.array_equal(a, b) for a, b in zip(auto, expected, strict=True))


@pytest.mark.parametrize("side", [4, 8, 16, 32, 64, 128])
def test_closed_form_covers_the_square_grids_of_the_study(side: int) -> None:
    assert closed_form_applies(side, side)


@pytest.mark.parametrize(("rows", "cols"), [(24, 16), (48, 32)])
def test_closed_form_fails_on_the_oblong_grids_of_the_study(rows: int, cols: int) -> None:
    assert not closed_form_applies(rows, cols)
    assert not closed_form_applies(cols, rows)


@pytest.mark.parametrize(("rows", "cols"), [(2, 2), (2, 4), (2, 6), (2, 32), (4, 2), (10, 2)])
def test_two_rows_use_both_parallel_links(rows: int, cols: int) -> None:
    first, second = edge_disjoint_hamiltonian_cycles(rows, cols)
    used = Counter(np.concatenate([edges(first, rows, cols), edges(second, rows, cols)]).tolist())
    for edge, count in used.items():
        one, other = divmod(edge, rows * cols)
        same_col = one % cols == other % cols
        parallel_links = 2 if (rows if same_col else cols) == 2 else 1
        assert count == parallel_links


def all_cycles(rows: int, cols: int) -> list[Cells]:
    cycles = []
    for rest in permutations(range(1, rows * cols)):
        cycle = np.array([0, *rest])
        try:
            edges(cycle, rows, cols)
        except AssertionError:
            continue
        cycles.append(cycle)
    return cycles


def test_no_pair_exists_on_2_x_3() -> None:
    cycles = [Counter(edges(cycle, 2, 3).tolist()) for cycle in all_cycles(2, 3)]
    assert cycles
    for one, other in product(cycles, repeat=2):
        together = one + other
        assert any(count > (2 if edge % 6 - edge // 6 == 3 else 1) for edge, count in together.items())


@pytest.mark.parametrize(("rows", "cols"), [(1, 1), (1, 8), (8, 1), (2, 3), (5, 2)])
def test_grids_without_a_pair_are_refused(rows: int, cols: int) -> None:
    with pytest.raises(ConfigError, match=f"grid is {rows} x {cols} .*bidirectional-ring"):
        edge_disjoint_hamiltonian_cycles(rows, cols)


@pytest.mark.parametrize(("rows", "cols"), [(0, 4), (4, -1)])
def test_sides_below_1_are_refused(rows: int, cols: int) -> None:
    with pytest.raises(ConfigError, match="sides of 1 or more"):
        hamiltonian_cycle(rows, cols)
    with pytest.raises(ConfigError, match="sides of 1 or more"):
        edge_disjoint_hamiltonian_cycles(rows, cols)


def test_unknown_method_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"method is 'kotzig'.*general"):
        edge_disjoint_hamiltonian_cycles(4, 4, "kotzig")


@pytest.mark.parametrize(("rows", "cols"), [*product(range(2, 6), repeat=2), (1, 2), (1, 7), (7, 1)])
def test_one_cycle_exists_on_every_grid(rows: int, cols: int) -> None:
    edges(hamiltonian_cycle(rows, cols), rows, cols)
