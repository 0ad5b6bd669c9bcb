"""Direct two-dimensional HyperX: routers in a grid, every row and every column fully connected.

This is what the HammingMesh artifact simulates as "2D HyperX" (merlin.hyperx). What the article prices under
that name is an HxMesh with 1x1 boards.
"""

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
from topologies.errors import require, require_integer


class HyperX2D(Topology):
    """HyperX of `columns` by `rows` routers with one accelerator each; rank = row * columns + column.

    Ports: to the other columns (to column c: c, minus one beyond the own), then likewise to the other rows,
    then the host. Row cables are copper, column cables optical, as in HxMesh.

    Raises ConfigError for sides below 1 and for fewer than two routers.
    """

    def __init__(self, columns: int, rows: int) -> None:
        require_integer("columns of a HyperX", columns, 1)
        require_integer("rows of a HyperX", rows, 1)
        accelerators = columns * rows
        require(accelerators >= 2, "columns*rows of a HyperX", accelerators, "at least 2")
        grid = np.arange(accelerators, dtype=np.int32).reshape(rows, columns)
        wiring = Wiring(np.full(accelerators, columns + rows - 1, dtype=np.int64))
        wiring.hosts(np.arange(accelerators), columns + rows - 2)
        for lines, first_port, kind in ((grid, 0, LinkKind.ROW), (grid.T, columns - 1, LinkKind.COLUMN)):
            low, high = np.triu_indices(lines.shape[1], k=1)
            wiring.link(lines[:, low], first_port + high - 1, lines[:, high], first_port + low, kind)
        super().__init__(
            name=f"direct HyperX of {columns}x{rows}",
            **wiring.fields(),
            bandwidth_bps=mesh_bandwidth_bps(),
            planes=4,
            routing=RoutingSpec("hyperx", {"size0": columns, "size1": rows}),
            cable={LinkKind.HOST: Cable.DAC, LinkKind.ROW: Cable.DAC, LinkKind.COLUMN: Cable.AOC},
            switch_group=np.zeros(accelerators, dtype=np.int32),
            accelerator_is_router=False,
            grid_endpoint=grid,
        )

    def axis_hops(self) -> tuple[Int32, Int32]:
        """Hops between columns and between rows: 1 where they differ."""
        columns, rows = self.routing.params["size0"], self.routing.params["size1"]
        return 1 - np.eye(columns, dtype=np.int32), 1 - np.eye(rows, dtype=np.int32)

    def structural_cuts(self) -> dict[str, Bool]:
        """Half of the columns, and half of the rows, against the rest."""
        return grid_halves(self)
