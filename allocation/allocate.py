"""Placing jobs on boards, one after the other.

A strategy says in which order jobs come, which shapes are tried for each, how a place is searched and, of
several places found, which one is taken; each of them is a small function. Source of the greedy search and
its improvements: HammingMesh article, section on allocation, and its artifact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from allocation._search import FreeBoards
from allocation.boards import Boards
from allocation.shapes import Shape, as_asked, other_aspect_ratios, transposed
from allocation.submesh import SubMesh
from allocation.traffic import LineTrees, Pattern
from topologies.base import Int32
from topologies.errors import ConfigError, require

Places = tuple[tuple[int, ...], tuple[int, ...]]
Proposal = Callable[[Shape], Iterable[Shape]]
Order = Callable[[Sequence[Shape]], list[int]]
Search = Callable[[FreeBoards, int, int], Places | None]
Cost = Callable[[SubMesh], float]

COMPLETE_STEPS = 10_000_000
"""Sets of rows that `complete` looks at before it gives up, a second or so."""


def as_they_come(jobs: Sequence[Shape]) -> list[int]:
    """Job numbers in the order given."""
    return list(range(len(jobs)))


def largest_first(jobs: Sequence[Shape]) -> list[int]:
    """Job numbers by falling number of boards; equal ones in the order given."""
    return sorted(range(len(jobs)), key=lambda job: -jobs[job][0] * jobs[job][1])


def greedy(free: FreeBoards, columns: int, rows: int) -> Places | None:
    """Take each row that leaves enough free columns common to all rows taken, from the first row on."""
    return free.find(columns, rows)


def complete(free: FreeBoards, columns: int, rows: int) -> Places | None:
    """Find a sub-HxMesh wherever there is one.

    Raises ConfigError where that takes more than `COMPLETE_STEPS` sets of rows.
    """
    try:
        return free.find_complete(columns, rows, COMPLETE_STEPS)
    except RuntimeError:
        raise ConfigError(
            f"a job of {columns}x{rows} boards takes the complete search more than {COMPLETE_STEPS} steps "
            "but must take fewer; use the greedy search."
        ) from None


def block(free: FreeBoards, columns: int, rows: int) -> Places | None:
    """Find a contiguous block, as jobs on a torus need; it may go round the ends of rows and columns."""
    return free.find_block(columns, rows)


@dataclass(frozen=True)
class Strategy:
    """How jobs are placed. The default is the plain greedy search.

    proposals: tried one after the other; each gives shapes for the shape a job asks for.
    cost: of all places found for the shapes proposed the cheapest one is taken, the first of equals; without
        a cost the first one found.
    """

    proposals: tuple[Proposal, ...] = (as_asked,)
    order: Order = as_they_come
    search: Search = greedy
    cost: Cost | None = None

    def place(self, free: FreeBoards, job: Shape) -> SubMesh | None:
        """The place of one job among the free boards, or None."""
        best, least = None, float("inf")
        for proposal in self.proposals:
            for columns, rows in proposal(job):
                found = self.search(free, columns, rows)
                if found is None:
                    continue
                place = SubMesh(*found)
                if self.cost is None:
                    return place
                cost = self.cost(place)
                if cost < least:
                    best, least = place, cost
        return best


def published_strategy(
    *,
    transpose: bool = True,
    aspect_ratio: bool = True,
    sort_jobs: bool = True,
    locality: Pattern | None = None,
    trees: LineTrees | None = None,
    search: Search = greedy,
) -> Strategy:
    """One of the strategies of the HammingMesh article, by the improvements that it names.

    locality: of all places take the one with the least traffic of that pattern in the upper level of `trees`.
    Raises ConfigError for locality without trees.
    """
    proposals: list[Proposal] = [as_asked]
    if transpose:
        proposals.append(transposed)
    if aspect_ratio:
        proposals.append(other_aspect_ratios)
    cost: Cost | None = None
    if locality is not None:
        if trees is None:
            raise ConfigError("locality needs the line trees of the machine.")
        chosen, of_machine = locality, trees

        def cost(place: SubMesh) -> float:
            return of_machine.upper_share(chosen, place)

    return Strategy(tuple(proposals), largest_first if sort_jobs else as_they_come, search, cost)


@dataclass(frozen=True)
class Allocation:
    """Where each job is: `places[job]` is None for a job that found no place.

    Raises ConfigError, naming the board, where two jobs share a board or a job has a failed one or one
    outside of the machine.
    """

    boards: Boards
    jobs: tuple[Shape, ...]
    places: tuple[SubMesh | None, ...]

    def __post_init__(self) -> None:
        count = len(self.places)
        require(count == len(self.jobs), "the number of places", count, f"{len(self.jobs)}, one for each job")
        self.grid()

    @property
    def used(self) -> int:
        """Boards in use."""
        return sum(place.size for place in self.places if place is not None)

    @property
    def utilization_percent(self) -> float:
        """Boards in use, of those that have not failed."""
        return 100 * self.used / self.boards.usable

    def grid(self) -> Int32:
        """Job on each board, int32[rows, columns]: its number, -1 for a free and -2 for a failed board."""
        grid = np.full((self.boards.rows, self.boards.columns), FREE, dtype=np.int32)
        for column, row in self.boards.failed:
            grid[row, column] = FAILED
        for job, place in enumerate(self.places):
            if place is None:
                continue
            for column, row in place.boards():
                inside = column < self.boards.columns and row < self.boards.rows
                what = f"a board of job {job}"
                require(inside, what, (column, row), "one of the machine")
                require(grid[row, column] != FAILED, what, (column, row), "one that has not failed")
                require(grid[row, column] == FREE, what, (column, row), "of one job only")
                grid[row, column] = job
        return grid


FREE, FAILED = -1, -2


def allocate(boards: Boards, jobs: Sequence[Shape], strategy: Strategy | None = None) -> Allocation:
    """Place `jobs`, each the (columns, rows) of boards that it asks for, by `strategy`.

    A job that finds no place is left out, and those after it are tried all the same. The default strategy is
    the article's best without locality: transposed, other aspect ratios, largest job first.

    Raises ConfigError for a job without boards.
    """
    strategy = strategy or published_strategy()
    for number, (columns, rows) in enumerate(jobs):
        require(columns >= 1 and rows >= 1, f"job {number}", f"{columns}x{rows}", "1x1 boards or larger")
    places = place_all(boards.free(), jobs, strategy)
    return Allocation(boards, tuple(jobs), tuple(places))


def place_all(free: FreeBoards, jobs: Sequence[Shape], strategy: Strategy) -> list[SubMesh | None]:
    """Take a place among the free boards for each job that finds one."""
    places: list[SubMesh | None] = [None] * len(jobs)
    for job in strategy.order(jobs):
        place = strategy.place(free, jobs[job])
        if place is not None:
            free.take(place.columns, place.rows)
            places[job] = place
    return places
