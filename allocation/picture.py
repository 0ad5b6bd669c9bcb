"""A placement as text and as a picture, in the manner of the article's Figure 5."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from allocation.allocate import FAILED, FREE, Allocation
from topologies.errors import ConfigError

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwyz"  # without x, which marks failed boards
# Colours of Okabe and Ito, then lighter and darker ones.
_COLOURS = (
    "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#8C564B",
    "#9467BD", "#17BECF", "#BCBD22", "#AEC7E8", "#FFBB78", "#98DF8A", "#C5B0D5", "#C49C94",
)  # fmt: skip


def letter(job: int) -> str:
    """What marks a board of job number `job` in `text`; letters come again after 51 jobs."""
    return _LETTERS[job % len(_LETTERS)]


def text(allocation: Allocation) -> str:
    """One line a row of boards: a letter for the job, a dot for a free board, an x for a failed one."""
    marks = {FREE: ".", FAILED: "x"}
    rows = allocation.grid().tolist()
    return "\n".join(" ".join(marks.get(job) or letter(job) for job in row) for row in rows)


def draw(allocation: Allocation, board: tuple[int, int], path: str | os.PathLike[str]) -> None:
    """Write a picture of the boards, of (a, b) = `board` accelerators each, to `path` (.png, .pdf, .svg).

    Boards have the colour of their job, failed ones are crossed, free ones are white. Raises ConfigError for
    a format that matplotlib does not know and a file that cannot be written.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch, Rectangle

    grid = allocation.grid()
    rows, columns = grid.shape
    scale = min(0.55, 16 / max(rows, columns))
    figure = Figure(
        figsize=(max(3.2, scale * columns + 0.8), max(2.4, scale * rows + 1.4)), layout="constrained"
    )
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for row in range(rows):
        for column in range(columns):
            job = int(grid[row, column])
            face = "#FFFFFF" if job == FREE else "#E4E4E4" if job == FAILED else _COLOURS[job % len(_COLOURS)]
            frame: Any = {"facecolor": face, "edgecolor": "#333333", "linewidth": 0.8}
            axes.add_patch(Rectangle((column + 0.08, row + 0.08), 0.84, 0.84, **frame))
            if job == FAILED:
                for ends in (((0.08, 0.92), (0.08, 0.92)), ((0.08, 0.92), (0.92, 0.08))):
                    x, y = ([at + end for end in pair] for at, pair in zip((column, row), ends, strict=True))
                    axes.plot(x, y, color="#333333", linewidth=1.6)
    if rows * columns * board[0] * board[1] <= 4096:
        _accelerators(axes, rows, columns, board)
    if len(allocation.jobs) > len(_COLOURS) and rows * columns <= 1024:
        # Colours come again: the number of the job tells.
        style: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 7, "color": "#FFFFFF"}
        for row, column in np.argwhere(grid >= 0).tolist():
            axes.text(column + 0.5, row + 0.5, str(grid[row, column]), **style)
    axes.set_xlim(0, columns)
    axes.set_ylim(rows, 0)
    axes.set_aspect("equal")
    for number, ticks in ((columns, axes.set_xticks), (rows, axes.set_yticks)):
        marked = range(0, number, _step(number))
        ticks([i + 0.5 for i in marked], [str(i) for i in marked])
    axes.xaxis.tick_top()
    axes.tick_params(length=0, labelsize=8)
    axes.spines[:].set_visible(False)
    placed = [(job, place) for job, place in enumerate(allocation.places) if place is not None]
    if 0 < len(placed) <= 12:
        handles = [
            Patch(
                facecolor=_COLOURS[job % len(_COLOURS)],
                edgecolor="#333333",
                label=f"job {job}: {place.shape[0]} x {place.shape[1]}",
            )
            for job, place in placed
        ]
        figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    try:
        figure.savefig(path, dpi=160)
    except (ValueError, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigError(f"picture {os.fspath(path)!r} cannot be written: {reason}.") from None


def _step(number: int) -> int:
    return 1 if number <= 20 else 4 if number <= 64 else 8


def _accelerators(axes: Any, rows: int, columns: int, board: tuple[int, int]) -> None:
    a, b = board
    x = [column + 0.08 + 0.84 * (i + 0.5) / a for column in range(columns) for i in range(a)]
    y = [row + 0.08 + 0.84 * (j + 0.5) / b for row in range(rows) for j in range(b)]
    points = [(at, down) for down in y for at in x]
    size = 26 / max(a, b) ** 2
    axes.scatter(
        *zip(*points, strict=True), s=size, color="#FFFFFF", edgecolors="#333333", linewidths=0.4, zorder=3
    )
