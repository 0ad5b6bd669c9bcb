"""How many boards the best placement could use: an upper bound for every strategy.

Sub-HxMeshes are chosen for all jobs at once by a constraint solver (OR-Tools CP-SAT), so that as many boards
as possible are in use.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ortools.sat.python import cp_model

from allocation.allocate import Allocation, Proposal, published_strategy
from allocation.boards import Boards
from allocation.shapes import Shape
from allocation.submesh import SubMesh
from topologies.errors import require


@dataclass(frozen=True)
class BestPlacement:
    """What the solver found in its time: an allocation, and a number of boards that no allocation exceeds."""

    allocation: Allocation
    bound_boards: int

    @property
    def proven(self) -> bool:
        """Whether the allocation is the best there is."""
        return self.allocation.used == self.bound_boards

    @property
    def bound_percent(self) -> float:
        """The bound in percent of the boards that have not failed."""
        return 100 * self.bound_boards / self.allocation.boards.usable


def best_placement(
    boards: Boards,
    jobs: Sequence[Shape],
    *,
    proposals: Sequence[Proposal] | None = None,
    hint: Allocation | None = None,
    limit_s: float = 10.0,
    workers: int = 1,
    seed: int = 0,
) -> BestPlacement:
    """Place `jobs` so that as many boards as possible are in use.

    proposals: shapes that a job may take (default: as asked, transposed, other aspect ratios).
    hint: an allocation to start from, so that the result is at least as good.
    limit_s: solver time; on one worker also a limit of deterministic time, so that a seed repeats the result
        unless the machine is much slower.

    Raises ConfigError for a limit that is not positive.
    """
    require(limit_s > 0, "limit_s", limit_s, "positive")
    demand = sum(columns * rows for columns, rows in jobs)
    if hint is not None and hint.used == min(demand, boards.usable):
        return BestPlacement(hint, hint.used)
    chain = published_strategy().proposals if proposals is None else tuple(proposals)
    model = cp_model.CpModel()
    failed = set(boards.failed)
    taken: dict[tuple[int, int], list[cp_model.IntVar]] = {
        (column, row): [] for row in range(boards.rows) for column in range(boards.columns)
    }
    variables: list[_Job] = []
    # A single board fits wherever one is left, and jobs never ask for more boards than are usable together;
    # such jobs only need to be counted.
    singles_fit = demand <= boards.usable
    for number, job in enumerate(jobs):
        if singles_fit and job == (1, 1):
            continue
        shapes = list(dict.fromkeys(shape for proposal in chain for shape in proposal(job)))
        fitting = [shape for shape in shapes if shape[0] <= boards.columns and shape[1] <= boards.rows]
        if fitting:
            variables.append(_Job(model, number, fitting, boards, taken, failed))
    for users in taken.values():
        if len(users) > 1:
            model.add_at_most_one(users)
    _break_symmetry(model, variables, jobs)
    model.maximize(sum(job.placed * job.boards for job in variables))
    if hint is not None:
        for variable in variables:
            variable.hint(model, hint.places[variable.number])
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = limit_s
    if workers == 1:
        solver.parameters.max_deterministic_time = limit_s
    solver.parameters.num_workers = workers
    solver.parameters.random_seed = seed
    status = solver.solve(model)
    singles = [number for number, job in enumerate(jobs) if singles_fit and job == (1, 1)]
    places: list[SubMesh | None] = [None] * len(jobs)
    bound = min(demand, boards.usable)
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        bound = min(bound, int(solver.best_objective_bound + 1e-6) + len(singles))
        for variable in variables:
            places[variable.number] = variable.place(solver)
    elif hint is not None:
        for variable in variables:
            places[variable.number] = hint.places[variable.number]
    _place_singles(boards, places, singles)
    return BestPlacement(Allocation(boards, tuple(jobs), tuple(places)), bound)


class _Job:
    """The variables of one job: which shape, which columns, which rows."""

    def __init__(
        self,
        model: cp_model.CpModel,
        number: int,
        shapes: Sequence[Shape],
        boards: Boards,
        taken: dict[tuple[int, int], list[cp_model.IntVar]],
        failed: set[tuple[int, int]],
    ) -> None:
        self.number = number
        self.boards = shapes[0][0] * shapes[0][1]
        self.shapes = list(shapes)
        self.chosen = [model.new_bool_var(f"job {number} as {u}x{v}") for u, v in shapes]
        self.placed = model.new_bool_var(f"job {number}")
        self.columns = [model.new_bool_var(f"job {number} column {i}") for i in range(boards.columns)]
        self.rows = [model.new_bool_var(f"job {number} row {i}") for i in range(boards.rows)]
        model.add(sum(self.chosen) == self.placed)
        for places, side in ((self.columns, 0), (self.rows, 1)):
            widths = [shape[side] for shape in shapes]
            model.add(sum(places) == sum(w * c for w, c in zip(widths, self.chosen, strict=True)))
        for (column, row), users in taken.items():
            uses_column, uses_row = self.columns[column], self.rows[row]
            if (column, row) in failed:
                model.add_bool_or(~uses_column, ~uses_row)
                continue
            uses = model.new_bool_var("")
            model.add_bool_or(~uses_column, ~uses_row, uses)
            users.append(uses)

    def hint(self, model: cp_model.CpModel, place: SubMesh | None) -> None:
        """Suggest a place."""
        model.add_hint(self.placed, place is not None)
        for shape, chosen in zip(self.shapes, self.chosen, strict=True):
            model.add_hint(chosen, place is not None and place.shape == shape)
        for i, variable in enumerate(self.columns):
            model.add_hint(variable, place is not None and i in place.columns)
        for i, variable in enumerate(self.rows):
            model.add_hint(variable, place is not None and i in place.rows)

    def place(self, solver: cp_model.CpSolver) -> SubMesh | None:
        """The place that the solver chose."""
        if not solver.boolean_value(self.placed):
            return None
        columns = (i for i, variable in enumerate(self.columns) if solver.boolean_value(variable))
        rows = (i for i, variable in enumerate(self.rows) if solver.boolean_value(variable))
        return SubMesh(tuple(columns), tuple(rows))


def _break_symmetry(model: cp_model.CpModel, variables: Sequence[_Job], jobs: Sequence[Shape]) -> None:
    """Of jobs that ask for the same shape, those that come first are placed first."""
    last: dict[Shape, _Job] = {}
    for variable in variables:
        shape = jobs[variable.number]
        if shape in last:
            model.add_implication(variable.placed, last[shape].placed)
        last[shape] = variable


def _place_singles(boards: Boards, places: list[SubMesh | None], singles: Sequence[int]) -> None:
    used = set(boards.failed)
    for place in places:
        if place is not None:
            used.update(place.boards())
    free = (
        (column, row)
        for row in range(boards.rows)
        for column in range(boards.columns)
        if (column, row) not in used
    )
    for number in singles:
        column, row = next(free)
        places[number] = SubMesh((column,), (row,))
