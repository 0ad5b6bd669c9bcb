"""Jobs of the published allocation study: sizes of a production trace, scaled to the machine.

`job_sizes.csv` is the distribution behind the published utilisations, of a public trace of a machine of 6,742
accelerators: the percentage of the accelerators in use that belong to jobs of at most so many of them
(HammingMesh artifact, allocation simulations). The artifact draws jobs by these percentages as if they were
those of the jobs, multiplies sizes by machine / 6742 and rounds up to whole boards, so that the size of a
board cancels out: its logs have the traffic that follows from that, and all its utilisations come out. (The
artifact also has a corrected list, by jobs, and a script that uses it unscaled; the logs do not follow.)
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import numpy as np
import numpy.typing as npt

from allocation.shapes import Shape, nearest_square
from topologies.errors import require_integer

TRACE_ACCELERATORS = 6742
"""Accelerators of the machine that the trace is of (HammingMesh artifact)."""


@cache
def job_sizes() -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Sizes in accelerators of the trace's machine, int64[n], and percentage of draws at most that large."""
    text = (files("allocation") / "job_sizes.csv").read_text(encoding="utf-8")
    rows = np.array([line.split(",") for line in text.split()[1:]], dtype=np.float64)
    sizes, percent = rows[:, 0].astype(np.int64), rows[:, 1].copy()
    sizes.setflags(write=False)
    percent.setflags(write=False)
    return sizes, percent


def draw_jobs(columns: int, rows: int, usable: int, rng: np.random.Generator) -> list[Shape]:
    """Draw jobs until `usable` boards of a machine of `columns` by `rows` boards are asked for, no more.

    A job asks for the shape nearest to a square; the last one is cut to what is left. One that would span
    more than half of the columns and rows is drawn again.

    Raises ConfigError for a machine of fewer than 2x2 boards.
    """
    for field, value, least in (
        ("columns of the boards", columns, 2),
        ("rows of the boards", rows, 2),
        ("usable boards", usable, 1),
    ):
        require_integer(field, value, least)
    sizes, percent = job_sizes()
    boards = -(-sizes * columns * rows // TRACE_ACCELERATORS)
    shorter_limit, longer_limit = sorted((columns / 2, rows / 2))
    jobs: list[Shape] = []
    left = usable
    while left > 0:
        for draw in np.searchsorted(percent, 100 * rng.random(32), side="right").tolist():
            shape = nearest_square(min(int(boards[draw]), left))
            if shape[0] <= shorter_limit and shape[1] <= longer_limit:
                jobs.append(shape)
                left -= shape[0] * shape[1]
                if left == 0:
                    break
    return jobs
