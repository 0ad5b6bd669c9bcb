"""Traffic in the upper level of line trees.

A line that has more attachments than a switch has ports is a tree of two levels; what two boards on different
leaves exchange passes its upper level. Counted in boards as in the artifact's allocation study: every board
of a job sends as much to every other board of the job (alltoall), or to its four neighbours in the job's
torus (allreduce). What has to change column and row does so half of the time first by its row, half by its
column; the expectation is computed here, where the artifact draws.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from allocation._search import crossing_pairs, crossing_steps
from allocation.submesh import SubMesh
from topologies.errors import unknown_name

Pattern = Literal["alltoall", "allreduce"]
PATTERNS: tuple[Pattern, ...] = ("alltoall", "allreduce")


@dataclass(frozen=True)
class LineTrees:
    """Which lines of a machine of `columns` by `rows` boards are trees, with switches of `radix` ports."""

    columns: int
    rows: int
    radix: int = 64

    @property
    def boards_per_leaf(self) -> int:
        """Boards attached to one leaf: half of its ports, two for each board."""
        return max(1, self.radix // 4)

    @property
    def rows_are_trees(self) -> bool:
        """Whether a row's line, which joins all columns, has an upper level."""
        return 2 * self.columns > self.radix

    @property
    def columns_are_trees(self) -> bool:
        """Whether a column's line, which joins all rows, has an upper level."""
        return 2 * self.rows > self.radix

    @property
    def number(self) -> int:
        """Lines that are trees."""
        return self.rows * self.rows_are_trees + self.columns * self.columns_are_trees

    def crossing(self, pattern: Pattern, places: tuple[int, ...]) -> float:
        """Share of a job's traffic within a line, its boards at `places` of it, that passes the upper level.

        Raises ConfigError for an unknown pattern.
        """
        if pattern == "alltoall":
            return crossing_pairs(places, self.boards_per_leaf)
        if pattern == "allreduce":
            return crossing_steps(places, self.boards_per_leaf)
        raise unknown_name("pattern", pattern, PATTERNS)

    def upper_share(self, pattern: Pattern, place: SubMesh) -> float:
        """What a job at `place` adds to the mean over all trees of their upper level's share, 0 to 1."""
        if self.number == 0:
            return 0.0
        total = 0.0
        if self.rows_are_trees:
            total += len(place.rows) * self.crossing(pattern, place.columns)
        if self.columns_are_trees:
            total += len(place.columns) * self.crossing(pattern, place.rows)
        return total / self.number

    def upper_percent(self, pattern: Pattern, places: Iterable[SubMesh]) -> float:
        """Mean over all trees of the percentage of their traffic that passes the upper level, jobs together.

        A tree without traffic counts as 0, as in the artifact.
        """
        rows, columns = _Lines(self.rows), _Lines(self.columns)
        for place in places:
            for lines, along, across in (
                (rows, place.columns, place.rows),
                (columns, place.rows, place.columns),
            ):
                # In one line of an alltoall: what its own boards exchange, and half of what comes from or
                # goes to the boards of each other line of the job.
                n = len(along)
                messages = n * (n - 1) * len(across) if pattern == "alltoall" else 2 * n * (n > 1)
                lines.add(across, messages, self.crossing(pattern, along))
        shares = rows.shares() if self.rows_are_trees else []
        shares += columns.shares() if self.columns_are_trees else []
        return 100 * sum(shares) / len(shares) if shares else 0.0


class _Lines:
    """Messages in each line of one direction, and those of them that pass its upper level."""

    def __init__(self, number: int) -> None:
        self._messages = [0] * number
        self._upper = [0.0] * number

    def add(self, lines: Iterable[int], messages: int, crossing: float) -> None:
        upper = crossing * messages
        for line in lines:
            self._messages[line] += messages
            self._upper[line] += upper

    def shares(self) -> list[float]:
        pairs = zip(self._upper, self._messages, strict=True)
        return [upper / messages if messages else 0.0 for upper, messages in pairs]
