"""The boards of a machine, the failed ones among them, and what is free."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from allocation._search import FreeBoards
from topologies.errors import ConfigError, require, require_integer

Board = tuple[int, int]
"""(column, row) of a board."""


@dataclass(frozen=True)
class Boards:
    """A grid of `columns` by `rows` boards, of which those in `failed` cannot be used.

    A board fails as a whole: single accelerators and single links of a board that goes on working are out of
    the scope of the model. Raises ConfigError for a grid without boards, a failed board outside of it or
    named twice, and where no board is left.
    """

    columns: int
    rows: int
    failed: tuple[Board, ...] = ()

    def __post_init__(self) -> None:
        require_integer("columns of the boards", self.columns, 1)
        require_integer("rows of the boards", self.rows, 1)
        for column, row in self.failed:
            inside = 0 <= column < self.columns and 0 <= row < self.rows
            last = f"(0, 0) to ({self.columns - 1}, {self.rows - 1})"
            require(inside, "a failed board", (column, row), f"one of {last}")
        seen: set[Board] = set()
        for board in self.failed:
            require(board not in seen, "a failed board", board, "named once")
            seen.add(board)
        most = self.columns * self.rows - 1
        require(len(seen) <= most, "the number of failed boards", len(seen), f"at most {most}")

    @property
    def usable(self) -> int:
        """Number of boards that have not failed."""
        return self.columns * self.rows - len(self.failed)

    def free(self) -> FreeBoards:
        """All boards but the failed ones, for a search."""
        found = FreeBoards(self.columns, self.rows)
        for column, row in self.failed:
            found.take([column], [row])
        return found


def random_failures(columns: int, rows: int, number: int, rng: np.random.Generator) -> tuple[Board, ...]:
    """Choose `number` different boards, each as likely as any other, in the order of rows.

    Raises ConfigError for a number below 0 and where no board would be left.
    """
    allowed = f"0 to {columns * rows - 1}"
    require(0 <= number < columns * rows, "the number of failed boards", number, allowed)
    chosen = np.sort(rng.choice(columns * rows, size=number, replace=False)).tolist()
    return tuple((board % columns, board // columns) for board in chosen)


def read_failures(path: str | os.PathLike[str]) -> tuple[Board, ...]:
    """Read failed boards from a text file: column and row of one board a line, `#` starts a comment.

    Raises ConfigError, naming the line, for a file that cannot be read and for a line that is not two whole
    numbers: a third one, for an accelerator or a link of the board, would be a partial failure.
    """
    name = os.fspath(path)
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise ConfigError(f"failed boards {name!r} cannot be read: {reason}.") from None
    found = []
    for number, line in enumerate(lines, 1):
        words = line.partition("#")[0].replace(",", " ").split()
        if words:
            found.append(parse_board(words, f"line {number} of {name}"))
    return tuple(found)


def parse_board(words: Iterable[object], where: str) -> Board:
    """(column, row) from two whole numbers or their texts.

    Raises ConfigError, starting with `where`, for anything else.
    """
    given = list(words)
    text = " ".join(str(word) for word in given)
    if len(given) > 2:
        raise ConfigError(
            f"{where} is {text!r} but must be the column and the row of a board: boards fail as a whole, "
            "single accelerators and links are out of the scope of the model."
        )
    try:
        column, row = (int(str(word)) for word in given)
    except ValueError:
        raise ConfigError(f"{where} is {text!r} but must be the column and the row of a board.") from None
    return column, row
