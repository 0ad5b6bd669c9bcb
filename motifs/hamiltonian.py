"""Hamiltonian cycles of torus grids.

Cells are numbered row by row: cell = row * cols + col. A cycle is the int64[rows * cols] array of its cells
in visiting order; the last one is a neighbour of the first one.
"""

from __future__ import annotations

from math import gcd

import numpy as np
from numpy.typing import NDArray

from topologies.errors import ConfigError, unknown_name

__all__ = [
    "METHODS",
    "closed_form_applies",
    "edge_disjoint_hamiltonian_cycles",
    "hamiltonian_cycle",
]

Cells = NDArray[np.int64]

METHODS = ("auto", "closed-form", "general")


def closed_form_applies(rows: int, cols: int) -> bool:
    """Whether the closed form of the paper gives two edge-disjoint cycles of the grid (not transposed)."""
    return min(rows, cols) >= 3 and rows % cols == 0 and gcd(rows, cols - 1) == 1


def edge_disjoint_hamiltonian_cycles(rows: int, cols: int, method: str = "auto") -> tuple[Cells, Cells]:
    """Return two Hamiltonian cycles of the rows x cols torus that together use every edge once.

    They exist for rows, cols >= 3 (Kotzig), and for a side of 2, whose two rows are joined by two parallel
    links, when the other side is even. A side of 1 has one cycle only, and a 2 x odd grid has no such pair:
    both links between two rows cannot be in one cycle, so each cycle would pair up the odd number of cells of
    a row along the row.

    method: "closed-form" is the formula of the paper (section 5 and the artifact), on the grid or its
        transposed; "general" works on every grid that has a pair; "auto" takes the closed form where it
        works, so that published runs use the published cycles.

    Raises ConfigError for a grid without a pair of cycles and for a method that does not apply.
    """
    if method not in METHODS:
        raise unknown_name("method", method, METHODS)
    _refuse_sides(rows, cols)
    if min(rows, cols) < 2 or (min(rows, cols) == 2 and max(rows, cols) % 2):
        raise ConfigError(
            f"grid is {rows} x {cols} but must have sides of 3 or more, or be 2 x an even number, "
            "for two edge-disjoint Hamiltonian cycles (bidirectional-ring and bucket work on every grid)."
        )
    if method != "general":
        if closed_form_applies(rows, cols):
            return _closed_form(rows, cols)
        if closed_form_applies(cols, rows):
            first, second = _closed_form(cols, rows)
            return _transposed(first, cols, rows), _transposed(second, cols, rows)
        if method == "closed-form":
            raise ConfigError(
                f"grid is {rows} x {cols} but must have, for the closed form, one side that is a multiple of "
                "the other side s and coprime to s - 1, with s of 3 or more (method general needs neither)."
            )
    if rows > cols:
        first, second = edge_disjoint_hamiltonian_cycles(cols, rows, "general")
        return _transposed(first, cols, rows), _transposed(second, cols, rows)
    if rows == 2:
        return _ladder(cols)
    return _general(rows, cols)


def hamiltonian_cycle(rows: int, cols: int) -> Cells:
    """Return one Hamiltonian cycle of the rows x cols torus: the first of the edge-disjoint pair where there
    is one.

    On a 2 x odd grid it goes along one row and back along the other; on a line it is the line. ConfigError
    for a side below 1.
    """
    _refuse_sides(rows, cols)
    if min(rows, cols) == 1:
        return np.arange(rows * cols, dtype=np.int64)
    if min(rows, cols) > 2 or max(rows, cols) % 2 == 0:
        return edge_disjoint_hamiltonian_cycles(rows, cols)[0]
    if rows == 2:
        return np.concatenate([np.arange(cols), cols + np.arange(cols)[::-1]]).astype(np.int64)
    return _transposed(hamiltonian_cycle(cols, rows), cols, rows)


def _refuse_sides(rows: int, cols: int) -> None:
    if min(rows, cols) < 1:
        raise ConfigError(f"grid is {rows} x {cols} but must have sides of 1 or more.")


def _transposed(cells: Cells, rows: int, cols: int) -> Cells:
    """Cells of the rows x cols grid as cells of the cols x rows grid, row and column swapped."""
    return cells % cols * rows + cells // cols


def _closed_form(rows: int, cols: int) -> tuple[Cells, Cells]:
    """Cycles f0 and f1 of the paper's artifact, for grids on which :func:`closed_form_applies`."""
    x1, x0 = np.divmod(np.arange(rows * cols, dtype=np.int64), cols)
    skew = x0 + (cols - 1) * x1
    return x1 % rows * cols + skew % cols, skew % rows * cols + x1 % cols


def _ladder(cols: int) -> tuple[Cells, Cells]:
    """Cycles of the 2 x cols grid, cols even: each takes one of the two links in every column."""
    column = np.repeat(np.arange(cols, dtype=np.int64), 2)
    first = np.tile(np.array([0, 1, 1, 0], dtype=np.int64), cols // 2)
    return first * cols + column, (1 - first) * cols + column


def _general(rows: int, cols: int) -> tuple[Cells, Cells]:
    """Cycles of any grid with 3 <= rows <= cols.

    Start with all rows as the cycles of one colour and all columns as those of the other. The unit square at
    (r, c) has two edges of rows r, r + 1 and two of columns c, c + 1; swapping its colours joins the two
    rows, if they are in different cycles, and likewise the two columns. The squares below share no edge, so
    the swaps are independent:

    * (i, i) for i < rows - 1 join all rows and the first `rows` columns;
    * (0, rows - 1), (1, rows), (0, rows + 1), ... join the other columns. Each square of row 0 splits a piece
      off rows 0 and 1, which the following square of row 1 joins to row 2, so an even number of them keeps
      the first colour in one cycle;
    * if rows is odd and cols even, the last columns are joined by the square over the edge from the last row
      to row 0
      instead: neighbouring rows are passed in opposite directions, these two in the same one, and swapping
      two edges passed in the same direction keeps a cycle whole;
    * if rows is even and cols odd, one more square of row 1, over the edge from the last column to column 0,
      joins the last piece of the first colour and keeps the second whole for the same reason.
    """
    diagonal = [(i, i) for i in range(rows - 1)]
    wraps_rows = rows % 2 == 1 and cols % 2 == 0
    wraps_cols = rows % 2 == 0 and cols % 2 == 1
    last = cols - 2 if wraps_rows else cols if wraps_cols else cols - 1
    zigzag = [((c - rows + 1) % 2, c) for c in range(rows - 1, last)]
    wrap = [(rows - 1, cols - 2)] if wraps_rows else []
    row, col = np.array(diagonal + zigzag + wrap, dtype=np.int64).T

    # east[r, c]: the first cycle has the edge from (r, c) to (r, c + 1); south likewise to (r + 1, c).
    east = np.ones((rows, cols), dtype=np.bool_)
    south = np.zeros((rows, cols), dtype=np.bool_)
    east[row, col] = east[(row + 1) % rows, col] = False
    south[row, col] = south[row, (col + 1) % cols] = True
    return _walk(east, south), _walk(~east, ~south)


def _walk(east: NDArray[np.bool_], south: NDArray[np.bool_]) -> Cells:
    """Visiting order of the cycle with the given edges, starting at cell 0."""
    rows, cols = east.shape
    cell = np.arange(rows * cols, dtype=np.int64).reshape(rows, cols)
    neighbours = np.stack(
        [np.roll(cell, -1, 1), np.roll(cell, 1, 1), np.roll(cell, -1, 0), np.roll(cell, 1, 0)], axis=-1
    )
    present = np.stack([east, np.roll(east, 1, 1), south, np.roll(south, 1, 0)], axis=-1)
    pairs = neighbours[present].reshape(-1, 2).tolist()
    order = [0] * len(pairs)
    previous, here = -1, 0
    for i in range(len(pairs)):
        order[i] = here
        one, other = pairs[here]
        previous, here = here, other if one == previous else one
    return np.array(order, dtype=np.int64)
