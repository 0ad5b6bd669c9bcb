"""Virtual sub-HxMeshes: sets of boards that a job sees as a whole HxMesh of its own.

Source: HammingMesh article, section on allocation and failures. Boards form a sub-HxMesh if the sequence of
columns is the same in every row. The lines join all boards of a row (column), so boards that are neighbours
in the job need not be neighbours in the machine: any choice of columns and rows will do.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from allocation.boards import Board
from topologies import HxMesh, Topology
from topologies.base import Int32
from topologies.errors import ConfigError, require


@dataclass(frozen=True)
class SubMesh:
    """The boards at all crossings of `columns` and `rows` of the machine.

    The job's board (i, j) is the machine's (columns[i], rows[j]). Raises ConfigError where there is no column
    or no row, or one of them twice.
    """

    columns: tuple[int, ...]
    rows: tuple[int, ...]

    def __post_init__(self) -> None:
        for field, places in (("columns", self.columns), ("rows", self.rows)):
            distinct = len(places) > 0 and len(set(places)) == len(places)
            require(distinct, f"{field} of a sub-HxMesh", places, "one or more different numbers")

    @classmethod
    def of(cls, boards: Iterable[Board]) -> SubMesh:
        """The sub-HxMesh that `boards` form, in rising order.

        Raises ConfigError, naming the first row at fault, for boards that form none: then the columns are not
        the same in every row.
        """
        by_row: dict[int, list[int]] = {}
        for column, row in sorted(boards):
            by_row.setdefault(row, []).append(column)
        if not by_row:
            raise ConfigError("a sub-HxMesh has no boards but must have one or more.")
        rows = sorted(by_row)
        columns = by_row[rows[0]]
        for row in rows:
            if by_row[row] != columns:
                raise ConfigError(
                    f"row {row} of a sub-HxMesh has the columns {by_row[row]} "
                    f"but must have {columns}, those of row {rows[0]}."
                )
        return cls(tuple(columns), tuple(rows))

    @property
    def shape(self) -> tuple[int, int]:
        """(columns, rows), in boards."""
        return len(self.columns), len(self.rows)

    @property
    def size(self) -> int:
        """Number of boards."""
        return len(self.columns) * len(self.rows)

    def boards(self) -> list[Board]:
        """(column, row) of each board in the machine, row by row of the job."""
        return [(column, row) for row in self.rows for column in self.columns]

    def physical(self, column: int, row: int) -> Board:
        """The machine's (column, row) of the job's board."""
        return self.columns[column], self.rows[row]

    def logical(self, board: Board) -> Board:
        """The job's (column, row) of a board of the machine; ConfigError if it is not the job's."""
        column, row = board
        if column not in self.columns or row not in self.rows:
            raise ConfigError(f"board is {board} but must be one of the sub-HxMesh.")
        return self.columns.index(column), self.rows.index(row)

    def accelerators(self, network: Topology, board: tuple[int, int] | None = None) -> Int32:
        """Endpoint at each place of the job's grid, int32[rows * b, columns * a].

        `network` is an HxMesh, or another grid of accelerators whose boards are (a, b) = `board` (a torus).
        Raises ConfigError for a network that is no grid, boards that it does not have and failed ones.
        """
        if isinstance(network, HxMesh):
            grid, (a, b) = network.endpoint_at, network.board
        else:
            if network.grid_endpoint is None or board is None:
                raise ConfigError(
                    f"{network.name} is no grid of boards but must be one to hold a sub-HxMesh."
                )
            grid, (a, b) = network.grid_endpoint, board
        for field, places, end in (
            ("column", self.columns, grid.shape[1] // a),
            ("row", self.rows, grid.shape[0] // b),
        ):
            require(max(places) < end, f"the last {field} of a sub-HxMesh", max(places), f"below {end}")
        column = (np.array(self.columns)[:, None] * a + np.arange(a)).reshape(-1)
        row = (np.array(self.rows)[:, None] * b + np.arange(b)).reshape(-1)
        found: Int32 = grid[np.ix_(row, column)]
        if (found < 0).any():
            at = np.argwhere(found < 0)[0]
            failed = self.physical(int(at[1]) // a, int(at[0]) // b)
            raise ConfigError(f"a board of a sub-HxMesh is {failed} but must be one that has not failed.")
        return found
