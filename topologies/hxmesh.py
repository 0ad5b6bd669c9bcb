"""HammingMesh: boards of accelerators in a 2D mesh, joined by one network per accelerator row and column.

Source: HammingMesh article (SC22; CACM 2024), sections on the topology and on the evaluated systems.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from topologies.base import (
    Bool,
    Cable,
    Int32,
    Int64,
    LinkKind,
    RoutingSpec,
    Topology,
    Wiring,
    frozen,
    mesh_bandwidth_bps,
)
from topologies.errors import ConfigError, require, require_integer

NORTH, EAST, SOUTH, WEST, HOST_PORT = range(5)


class _Line:
    """The network of one accelerator row or column over `boards` boards.

    Attachment 2*board + side (side 0 = W or N edge, 1 = E or S edge). Up to `radix` attachments one switch;
    beyond that leaves with radix/2 ports down and radix/2 up, then as many spines as the uplinks need.
    """

    def __init__(self, dimension: str, boards: int, radix: int) -> None:
        self.attachments = 2 * boards if boards > 1 else 0
        self.half = radix // 2
        self.leaves = 0 if boards == 1 else 1
        self.spines = 0
        self.spine_ports_per_leaf = 0
        if self.attachments > radix:
            self.leaves = -(-self.attachments // self.half)
            most = f"at most {radix * radix // 4}, the longest two-level line of radix {radix}"
            require(self.leaves <= radix, f"{dimension} of an HxMesh", boards, most)
            self.spines = -(-self.leaves // 2)
            # Uplink u goes to spine u % spines; where that is uneven, the busiest spine must still fit.
            while self.leaves * -(-self.half // self.spines) > radix:
                self.spines += 1
            self.spine_ports_per_leaf = -(-self.half // self.spines)

    @property
    def levels(self) -> int:
        """0 without a network, 1 for a switch, 2 for a tree."""
        return 0 if self.leaves == 0 else 1 if self.spines == 0 else 2

    @property
    def routers(self) -> int:
        return self.leaves + self.spines

    def ports_per_router(self) -> Int64:
        if self.levels < 2:
            return np.full(self.leaves, self.attachments, dtype=np.int64)
        leaf, spine = 2 * self.half, self.leaves * self.spine_ports_per_leaf
        return np.repeat(np.array([leaf, spine], dtype=np.int64), [self.leaves, self.spines])

    def switch_groups(self, first: int) -> Int32:
        """Groups of `Topology.switch_group`: `first` for switches and leaves, the next one for spines."""
        return np.repeat(np.array([first, first + 1], dtype=np.int32), [self.leaves, self.spines])

    def leaf_of(self, attachment: Int64) -> Int64:
        """Index of the switch in the line that `attachment` ends in."""
        return attachment // self.half if self.levels == 2 else np.zeros_like(attachment)

    def port_of(self, attachment: Int64) -> Int64:
        return attachment % self.half if self.levels == 2 else attachment

    def hops(self, side: int) -> Int32:
        """[n, n] hops between the n = boards * side accelerators along a line, boards `side` long."""
        boards = max(1, self.attachments // 2)
        place = np.arange(boards * side)
        board, inside = place // side, place % side
        same_board = board[:, None] == board[None, :]
        far = np.iinfo(np.int32).max // 4
        best = np.where(same_board, np.abs(inside[:, None] - inside[None, :]), far)
        if self.levels:
            to_edge = (inside, side - 1 - inside)
            for out in range(2):
                for back in range(2):
                    leaf_out, leaf_back = self.leaf_of(2 * board + out), self.leaf_of(2 * board + back)
                    switches = np.where(leaf_out[:, None] == leaf_back[None, :], 2, 4)
                    best = np.minimum(best, to_edge[out][:, None] + switches + to_edge[back][None, :])
        return best.astype(np.int32)


class HxMesh(Topology):
    """HammingMesh of x by y boards of a by b accelerators (a, x along a row; b, y along a column).

    Ranks go board by board (boards row-major, row-major inside a board); an accelerator's router has its
    rank. Ports of an accelerator: 0 = N, 1 = E, 2 = S, 3 = W, 4 = host. The line networks follow: all rows,
    then all columns, in each line leaves before spines. A dimension of one board has no lines; its edge
    ports stay unconnected, which makes y = 1 a one-dimensional HxMesh. Boards of 1x1 make a 2D HyperX of
    switches.

    Raises ConfigError for sides below 1, fewer than two accelerators, a radix that is odd or below 4, and
    lines that two levels of switches cannot join.

    Boards in `failed_boards`, each (column, row), are left out: endpoints and routers are numbered without
    their accelerators, the line networks stay as they are, and such a network has no grid. A board fails as a
    whole; failures of single accelerators or links are out of the scope of the model and refused, as are
    failures that put two working boards more than three lines apart.
    """

    def __init__(
        self,
        a: int,
        b: int,
        x: int,
        y: int,
        *,
        radix: int = 64,
        failed_boards: Sequence[Sequence[int]] = (),
    ) -> None:
        for field, value in (("a", a), ("b", b), ("x", x), ("y", y)):
            require_integer(f"{field} of an HxMesh", value, 1)
        require_integer("radix of an HxMesh", radix, 4)
        require(radix % 2 == 0, "radix of an HxMesh", radix, "even")
        accelerators = a * b * x * y
        require(accelerators >= 2, "a*b*x*y of an HxMesh", accelerators, "at least 2")
        row, column = _Line("x", x, radix), _Line("y", y, radix)
        failed = _check_failures(failed_boards, x, y)
        accelerators -= a * b * len(failed)
        require(
            accelerators >= 2, "the number of working accelerators of an HxMesh", accelerators, "at least 2"
        )

        works = np.ones(x * y, dtype=np.bool_)
        works[failed] = False
        grid = _grid(works, a, b, x, y)
        first_row = accelerators
        first_column = first_row + b * y * row.routers
        wiring = Wiring(
            np.concatenate(
                [
                    np.full(accelerators, 5, dtype=np.int64),
                    np.tile(row.ports_per_router(), b * y),
                    np.tile(column.ports_per_router(), a * x),
                ]
            )
        )
        wiring.hosts(np.arange(accelerators), HOST_PORT)
        on_boards = np.arange(accelerators, dtype=np.int32).reshape(-1, b, a)
        wiring.link(on_boards[..., :-1], EAST, on_boards[..., 1:], WEST, LinkKind.BOARD)
        wiring.link(on_boards[:, :-1, :], SOUTH, on_boards[:, 1:, :], NORTH, LinkKind.BOARD)
        # [line, board] accelerators at the two edges of each board
        _link_lines(wiring, row, first_row, (grid[:, ::a], grid[:, a - 1 :: a]), (WEST, EAST), LinkKind.ROW)
        by_column = grid.T
        edges = (by_column[:, ::b], by_column[:, b - 1 :: b])
        _link_lines(wiring, column, first_column, edges, (NORTH, SOUTH), LinkKind.COLUMN)

        super().__init__(
            name=f"HxMesh of {x}x{y} boards of {a}x{b}" + (f", {len(failed)} failed" if len(failed) else ""),
            **wiring.fields(),
            bandwidth_bps=mesh_bandwidth_bps(),
            planes=4,
            routing=RoutingSpec(
                "hxmesh-failed" if len(failed) else "hxmesh",
                {"a": a, "b": b, "x": x, "y": y, "radix": radix},
                {"failed": failed} if len(failed) else {},
            ),
            cable={
                LinkKind.HOST: Cable.NONE,
                LinkKind.BOARD: Cable.PCB,
                LinkKind.ROW: Cable.DAC,
                LinkKind.COLUMN: Cable.AOC,
                LinkKind.UPLINK: Cable.AOC,
            },
            switch_group=np.concatenate(
                [
                    np.full(accelerators, -1, dtype=np.int32),
                    np.tile(row.switch_groups(0), b * y),
                    np.tile(column.switch_groups(2), a * x),
                ]
            ),
            accelerator_is_router=True,
            grid_endpoint=None if len(failed) else grid,
        )

    @classmethod
    def from_grid(
        cls,
        columns: int,
        rows: int,
        board: tuple[int, int],
        *,
        radix: int = 64,
        failed_boards: Sequence[Sequence[int]] = (),
    ) -> HxMesh:
        """An HxMesh of `columns` by `rows` accelerators cut into boards of (a, b).

        Raises ConfigError where the boards do not divide the grid.
        """
        a, b = board
        for field, side, length in (("columns", a, columns), ("rows", b, rows)):
            require_integer("a board side", side, 1)
            require_integer(f"{field} of the grid", length, 1)
            allowed = f"a multiple of {side}, the board's {field}"
            require(length % side == 0, f"{field} of the grid", length, allowed)
        return cls(a, b, columns // a, rows // b, radix=radix, failed_boards=failed_boards)

    @property
    def board(self) -> tuple[int, int]:
        """(a, b): accelerators of a board along a row and along a column."""
        return self.routing.params["a"], self.routing.params["b"]

    @property
    def boards(self) -> tuple[int, int]:
        """(x, y): boards along a row and along a column."""
        return self.routing.params["x"], self.routing.params["y"]

    @property
    def failed_boards(self) -> tuple[tuple[int, int], ...]:
        """(column, row) of the boards that are left out, in the order of rows."""
        boards = self.routing.tables.get("failed", np.zeros(0, dtype=np.int32)).tolist()
        return tuple((board % self.boards[0], board // self.boards[0]) for board in boards)

    @cached_property
    def endpoint_at(self) -> Int32:
        """[rows, columns] endpoint of the accelerator at each place, -1 on failed boards."""
        if self.grid_endpoint is not None:
            return self.grid_endpoint
        (a, b), (x, y) = self.board, self.boards
        works = np.ones(x * y, dtype=np.bool_)
        works[self.routing.tables["failed"]] = False
        return frozen(_grid(works, a, b, x, y))

    def _lines(self) -> tuple[_Line, _Line]:
        x, y = self.boards
        radix = self.routing.params["radix"]
        return _Line("x", x, radix), _Line("y", y, radix)

    @property
    def line_levels(self) -> tuple[int, int]:
        """Levels of switches in a row's and in a column's network: 0 (none), 1 or 2."""
        row, column = self._lines()
        return row.levels, column.levels

    def axis_hops(self) -> tuple[Int32, Int32] | None:
        """Hops along a row [columns, columns] and along a column [rows, rows]; distances are their sums.

        A line network joins accelerators of one row (column) only, so the network is a product of two graphs;
        with failed boards it is none.
        """
        if self.grid_endpoint is None:
            return None
        (a, b), (row, column) = self.board, self._lines()
        return row.hops(a), column.hops(b)

    def structural_cuts(self) -> dict[str, Bool]:
        """One board column (row) against the rest, half of them, and, where there is one only, half a board.

        The switches of lines that are cut stand on the other side: each attachment of the cut boards is
        then a cut cable. None with failed boards.
        """
        grid = self.grid_endpoint
        if grid is None:
            return {}
        row, column = self._lines()
        first_row = self.num_endpoints
        first_column = first_row + len(grid) * row.routers
        cuts: dict[str, Bool] = {}
        for what, lines, side, boards, first_switch, switches in (
            ("column", grid.T, self.board[0], self.boards[0], first_column, column.routers),
            ("row", grid, self.board[1], self.boards[1], first_row, row.routers),
        ):
            sizes: dict[str, int] = {}
            if boards > 1:
                sizes[f"one board {what}"] = side
                sizes[f"half of the board {what}s"] = boards // 2 * side
            elif side > 1:
                sizes[f"half of the accelerator {what}s"] = side // 2
            for name, size in sizes.items():
                mask = np.zeros(self.num_routers, dtype=np.bool_)
                mask[lines[:size]] = True
                mask[first_switch : first_switch + size * switches] = True
                cuts[name] = mask
        return cuts


def _grid(works: Bool, a: int, b: int, x: int, y: int) -> Int32:
    """[b * y, a * x] number of the accelerator at each place, -1 on boards that do not work ([x * y])."""
    number = np.full((y * x, b, a), -1, dtype=np.int32)
    number[works] = np.arange(a * b * np.count_nonzero(works), dtype=np.int32).reshape(-1, b, a)
    return np.ascontiguousarray(number.reshape(y, x, b, a).transpose(0, 2, 1, 3)).reshape(b * y, a * x)


def _check_failures(failed_boards: Sequence[Sequence[int]], x: int, y: int) -> Int32:
    """Numbers of the failed boards, counted row by row, rising; ConfigError for what is not in the model."""
    numbers = set()
    for board in failed_boards:
        scope = "(column, row) of a board: boards fail as a whole, parts of them are out of the model's scope"
        require(len(board) == 2, "a failed board of an HxMesh", tuple(board), scope)
        column, row = board
        inside = 0 <= column < x and 0 <= row < y
        require(inside, "a failed board of an HxMesh", tuple(board), f"one of (0, 0) to ({x - 1}, {y - 1})")
        require(row * x + column not in numbers, "a failed board of an HxMesh", tuple(board), "named once")
        numbers.add(row * x + column)
    works = np.ones((y, x), dtype=np.bool_)
    works.reshape(-1)[sorted(numbers)] = False
    # Boards in different rows and columns meet at one of two corners; where both have failed, in a third
    # column (row) that works in both rows (columns).
    share_column, share_row = works.astype(int) @ works.T, works.T.astype(int) @ works
    for one in sorted(numbers):
        for other in sorted(numbers):
            row, column, last_row, last_column = one // x, other % x, other // x, one % x
            apart = row != last_row and column != last_column
            if not (apart and works[row, column] and works[last_row, last_column]):
                continue
            if share_column[row, last_row] == 0 and share_row[column, last_column] == 0:
                pair = f"({column}, {row}) and ({last_column}, {last_row})"
                raise ConfigError(
                    f"boards {pair} of an HxMesh are more than three lines apart but must be at most three: "
                    "too many boards between them have failed."
                )
    return np.array(sorted(numbers), dtype=np.int32)


def _link_lines(
    wiring: Wiring,
    line: _Line,
    first_router: int,
    edges: tuple[Int32, Int32],
    ports: tuple[int, int],
    kind: LinkKind,
) -> None:
    """Attach the boards' edges ([line, board] accelerators per side) and wire the trees of all lines."""
    if line.levels == 0:
        return
    lines, boards = edges[0].shape
    base = first_router + line.routers * np.arange(lines, dtype=np.int64)[:, None]
    for side in range(2):
        attachment = np.broadcast_to(2 * np.arange(boards, dtype=np.int64) + side, (lines, boards))
        works = edges[side] >= 0
        switch, port = base + line.leaf_of(attachment), line.port_of(attachment)
        wiring.link(edges[side][works], ports[side], switch[works], port[works], kind)
    if line.levels == 2:
        leaf = np.repeat(np.arange(line.leaves), line.half)[None, :]
        uplink = np.tile(np.arange(line.half), line.leaves)[None, :]
        spine = line.leaves + uplink % line.spines
        spine_port = leaf * line.spine_ports_per_leaf + uplink // line.spines
        wiring.link(base + leaf, line.half + uplink, base + spine, spine_port, LinkKind.UPLINK)
