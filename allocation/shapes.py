"""Shapes of jobs in boards: (columns, rows).

A proposal is a function from the shape a job asks for to shapes that would do; strategies chain them.
"""

from __future__ import annotations

from functools import cache
from math import isqrt

from topologies.errors import require_integer

Shape = tuple[int, int]

MAX_ASPECT_RATIO = 8
"""Longest side allowed by `other_aspect_ratios`, in shorter sides (HammingMesh article and artifact)."""


@cache
def nearest_square(boards: int) -> Shape:
    """The pair of factors of `boards` nearest to a square, the shorter side first.

    Raises ConfigError for fewer than one board.
    """
    require_integer("boards of a job", boards, 1)
    shorter = next(side for side in range(isqrt(boards), 0, -1) if boards % side == 0)
    return shorter, boards // shorter


def as_asked(shape: Shape) -> tuple[Shape, ...]:
    """The shape itself."""
    return (shape,)


def transposed(shape: Shape) -> tuple[Shape, ...]:
    """The shape with columns and rows exchanged."""
    return (shape[::-1],)


@cache
def other_aspect_ratios(shape: Shape) -> tuple[Shape, ...]:
    """All pairs of factors with as many boards and sides of at most 1:8, the squarest first, both ways round.

    As in the artifact, n columns by one row are left out (one column by n rows are not).
    """
    boards = shape[0] * shape[1]
    sides = [side for side in range(1, boards) if boards % side == 0]
    pairs = [(side, boards // side) for side in sides]
    fitting = [pair for pair in pairs if max(pair) <= MAX_ASPECT_RATIO * min(pair)]
    return tuple(sorted(fitting, key=lambda pair: (max(pair) / min(pair), pair)))
