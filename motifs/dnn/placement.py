"""Where the D x P x O accelerators of a workload are in a network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from motifs.dnn.workload import AXES, Workload
from motifs.registry import Network
from topologies.errors import ConfigError, require, unknown_name

__all__ = ["LAYOUTS", "Layout", "Placement", "place"]

Int64 = NDArray[np.int64]

Layout = Literal["row-major", "snake", "boards", "fold"]
LAYOUTS: tuple[Layout, ...] = get_args(Layout)
"""How ranks fill a sub-grid.

row-major: row by row, as the artifact does. snake: row by row, every second one backwards, so that
consecutive ranks are neighbours. boards: board by board, row by row inside a board. fold: the first two axes
of the order are a plane (along a row and along a column), and the planes of the third axis follow each other
over the sub-grid as a snake, so that consecutive ones are on adjacent boards.
"""


@dataclass(frozen=True)
class Placement:
    """Endpoint of each logical coordinate, int64[D, P, O]; row and column too where the network is a grid.

    rank: int64[D, P, O], the place of each coordinate in the workload's own numbering.
    """

    rank: Int64
    endpoint: Int64
    row: Int64 | None = None
    column: Int64 | None = None


def place(
    workload: Workload,
    network: Network,
    *,
    order: str | None = None,
    layout: Layout = "row-major",
    grid: tuple[int, int] | None = None,
) -> Placement:
    """Put a workload on a network.

    order: the axes from the fastest to the slowest, which numbers the coordinates: "POD" gives neighbour
        stages neighbouring ranks. Default: the workload's.
    grid: rows and columns of the sub-grid, at the upper left corner of the network's grid. Default: the
        workload's; else the whole grid, if it has as many places, or the squarest one that fits.
    layout: how the ranks fill the sub-grid. On networks that are no grid rank r is at endpoint r.

    Raises ConfigError where it does not fit.
    """
    order = order or workload.order
    require(sorted(order) == sorted(AXES), "order", repr(order), "D, P and O once each")
    if layout not in LAYOUTS:
        raise unknown_name("layout", layout, LAYOUTS)
    count = workload.accelerators
    require(
        count <= network.num_endpoints,
        f"the accelerators of {workload.name}",
        count,
        f"at most {network.num_endpoints}, the endpoints of the network",
    )
    rank = _numbered(workload, order)
    if network.grid is None or network.grid_endpoint is None:
        return Placement(rank, rank)
    rows, columns = _sub_grid(workload, network.grid, grid)
    row, column = _fill(workload, order, layout, rows, columns, getattr(network, "board", (1, 1)))
    endpoints = np.asarray(network.grid_endpoint, dtype=np.int64)
    return Placement(rank, endpoints[row, column][rank], row[rank], column[rank])


def _numbered(workload: Workload, order: str) -> Int64:
    """Rank of each coordinate, int64[D, P, O]."""
    length = dict(zip(AXES, (workload.d, workload.p, workload.o), strict=True))
    rank = np.zeros((workload.d, workload.p, workload.o), dtype=np.int64)
    coordinate = dict(zip(AXES, np.indices(rank.shape), strict=True))
    stride = 1
    for axis in order:
        rank += coordinate[axis] * stride
        stride *= length[axis]
    return rank


def _sub_grid(workload: Workload, whole: tuple[int, int], grid: tuple[int, int] | None) -> tuple[int, int]:
    count = workload.accelerators
    chosen = grid or workload.grid
    if chosen is None:
        if whole[0] * whole[1] == count:
            return whole
        fitting = [
            (rows, count // rows)
            for rows in range(1, count + 1)
            if count % rows == 0 and rows <= whole[0] and count // rows <= whole[1]
        ]
        if not fitting:
            raise ConfigError(
                f"the accelerators of {workload.name} are {count} but must fill a sub-grid "
                f"of the {whole[0]} x {whole[1]} places of the network."
            )
        return min(fitting, key=lambda sides: (abs(sides[0] - sides[1]), sides))
    rows, columns = chosen
    require(
        rows * columns == count,
        f"grid of {workload.name}",
        f"{rows} x {columns}",
        f"of {count} places, one for each accelerator",
    )
    require(
        rows <= whole[0] and columns <= whole[1],
        f"grid of {workload.name}",
        f"{rows} x {columns}",
        f"within {whole[0]} x {whole[1]}, the grid of the network",
    )
    return rows, columns


def _fill(
    workload: Workload, order: str, layout: Layout, rows: int, columns: int, board: tuple[int, int]
) -> tuple[Int64, Int64]:
    """Row and column of each rank."""
    rank = np.arange(rows * columns, dtype=np.int64)
    row, column = np.divmod(rank, columns)
    if layout == "snake":
        return row, np.where(row % 2, columns - 1 - column, column)
    if layout == "boards":
        a, b = board
        require(
            rows % b == 0 and columns % a == 0,
            "grid",
            f"{rows} x {columns}",
            f"a multiple of boards of {a} x {b}",
        )
        number, inside = np.divmod(rank, a * b)
        board_row, board_column = np.divmod(number, columns // a)
        return board_row * b + inside // a, board_column * a + inside % a
    if layout == "fold":
        length = {"D": workload.d, "P": workload.p, "O": workload.o}
        width, height = length[order[0]], length[order[1]]
        require(
            rows % height == 0 and columns % width == 0,
            "grid",
            f"{rows} x {columns}",
            f"a multiple of planes of {height} x {width} ({order[1]} x {order[0]})",
        )
        plane, inside = np.divmod(rank, width * height)
        plane_row, plane_column = np.divmod(plane, columns // width)
        plane_column = np.where(plane_row % 2, columns // width - 1 - plane_column, plane_column)
        return plane_row * height + inside // width, plane_column * width + inside % width
    return row, column


def group_members(array: NDArray[Any], rank: Int64, over: str) -> NDArray[Any]:
    """Values of `array` ([D, P, O]) by group along the axes `over`: [groups, members].

    Groups and the members of a group are in the order of `rank`.
    """
    across = [AXES.index(axis) for axis in AXES if axis not in over]
    along = [AXES.index(axis) for axis in AXES if axis in over]
    size = int(np.prod([array.shape[axis] for axis in along]))
    values = array.transpose([*across, *along]).reshape(-1, size)
    numbers = rank.transpose([*across, *along]).reshape(-1, size)
    inside = np.argsort(numbers, axis=1, kind="stable")
    values = np.take_along_axis(values, inside, axis=1)
    first = np.take_along_axis(numbers, inside, axis=1)[:, 0]
    return np.asarray(values[np.argsort(first, kind="stable")])
