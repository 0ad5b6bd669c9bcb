"""Two-dimensional torus of accelerators that forward packets themselves (merlin.torus, one host each)."""

from __future__ import annotations

import numpy as np

from topologies.base import (
    Bool,
    Cable,
    Int32,
    LinkKind,
    RoutingSpec,
    Topology,
    Wiring,
    grid_halves,
    mesh_bandwidth_bps,
)
from topologies.errors import require_integer

PLUS_X, MINUS_X, PLUS_Y, MINUS_Y, HOST_PORT = range(5)


class Torus2D(Topology):
    """Torus of `columns` by `rows` accelerators; rank = row * columns + column.

    Ports: 0 = +x, 1 = -x, 2 = +y, 3 = -y, 4 = host. A side of two has two parallel links. Accelerators sit
    on boards of `board` = (columns, rows), the last ones partly filled where the boards do not divide the
    side; links within a board are board traces, the others optical cables. `balanced` lets routing
    alternate between both ways round where they are equally long (merlin.torus always goes the positive
    way).

    Raises ConfigError for sides below 2 and board sides below 1.
    """

    def __init__(
        self, columns: int, rows: int, *, board: tuple[int, int] = (2, 2), balanced: bool = False
    ) -> None:
        for field, value, least in (
            ("columns of a torus", columns, 2),
            ("rows of a torus", rows, 2),
            ("board columns of a torus", board[0], 1),
            ("board rows of a torus", board[1], 1),
        ):
            require_integer(field, value, least)
        accelerators = columns * rows
        grid = np.arange(accelerators, dtype=np.int32).reshape(rows, columns)
        wiring = Wiring(np.full(accelerators, 5, dtype=np.int64))
        wiring.hosts(np.arange(accelerators), HOST_PORT)
        for axis, (plus, minus), kind in (
            (1, (PLUS_X, MINUS_X), LinkKind.ROW),
            (0, (PLUS_Y, MINUS_Y), LinkKind.COLUMN),
        ):
            place = np.arange(grid.shape[axis])
            on_board = place // board[1 - axis] == np.roll(place, -1) // board[1 - axis]
            kinds = np.where(on_board, np.uint8(LinkKind.BOARD), np.uint8(kind))
            shape = (1, -1) if axis == 1 else (-1, 1)
            wiring.link(
                grid, plus, np.roll(grid, -1, axis), minus, np.broadcast_to(kinds.reshape(shape), grid.shape)
            )
        super().__init__(
            name=f"torus of {columns}x{rows}",
            **wiring.fields(),
            bandwidth_bps=mesh_bandwidth_bps(),
            planes=4,
            routing=RoutingSpec("torus", {"size0": columns, "size1": rows, "balanced": int(balanced)}),
            cable={
                LinkKind.HOST: Cable.NONE,
                LinkKind.BOARD: Cable.PCB,
                LinkKind.ROW: Cable.AOC,
                LinkKind.COLUMN: Cable.AOC,
            },
            switch_group=np.full(accelerators, -1, dtype=np.int32),
            accelerator_is_router=True,
            grid_endpoint=grid,
        )

    def axis_hops(self) -> tuple[Int32, Int32]:
        """Hops round a row [columns, columns] and round a column [rows, rows]; distances are their sums."""
        return _ring_hops(self.routing.params["size0"]), _ring_hops(self.routing.params["size1"])

    def structural_cuts(self) -> dict[str, Bool]:
        """Half of the columns, and half of the rows, against the rest."""
        return grid_halves(self)


def _ring_hops(size: int) -> Int32:
    place = np.arange(size, dtype=np.int32)
    ahead = (place[None, :] - place[:, None]) % size
    hops: Int32 = np.minimum(ahead, size - ahead)
    return hops
