"""What a scheduler is asked for each run, and which runs go together.

A run is one of three sorts, each with a rule of its own: small ones, which are many, all ask for the same and
may share a job; those that SST runs with MPI; and all others.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from topologies import ConfigError
from workflow.estimate import estimate_plan
from workflow.experiment import Experiment, Plan

LAUNCH_MEMORY_MB = 500
"""What a job holds beside the simulation: Snakemake twice, one in the other, each with 190 MB."""

SMALL_RUN_S = 60.0
"""A run on one core that is expected to take no longer is small."""

SMALL_RUN_MEMORY_MB = 1500
"""And one that needs no more: a job of small runs asks for what the largest needs."""


@dataclass(frozen=True)
class Resources:
    """What a run asks for: megabytes (10^6 bytes) and minutes, MPI processes, threads of each."""

    memory_mb: int
    runtime_minutes: int
    tasks: int
    cpus_per_task: int

    @property
    def threads(self) -> int:
        """Cores that the run keeps busy."""
        return self.tasks * self.cpus_per_task


class Runs(Protocol):
    """The runs of a study by sort."""

    @property
    def small(self) -> Collection[str]:
        """Ids of the small runs."""

    @property
    def with_mpi(self) -> Collection[str]:
        """Ids of the runs of several processes."""

    @property
    def others(self) -> Collection[str]:
        """Ids of all other runs."""

    def resources(self, run: str) -> Resources:
        """Return what a run asks for."""

    def wall_s(self, run: str) -> float:
        """Return how long a run will take."""


class PlannedRuns:
    """`Runs` of a plan, by the estimates of its experiments; raises ConfigError for one that cannot run.

    small_run_s: the longest time of a small run; 0 makes no run small.
    """

    def __init__(self, plan: Plan, small_run_s: float = SMALL_RUN_S) -> None:
        estimates = estimate_plan(plan)
        self._wall_s = {run: estimates[run].wall_s for run in estimates}
        self._resources: dict[str, Resources] = {}
        for run, experiment in plan.experiments.items():
            memory_mb = estimates[run].memory_mb + LAUNCH_MEMORY_MB
            self._resources[run] = Resources(
                memory_mb, estimates[run].runtime_minutes, *_processes(experiment)
            )
        self.with_mpi = [run for run, found in self._resources.items() if found.tasks > 1]
        self.small = [
            run
            for run, found in self._resources.items()
            if found.threads == 1
            and self._wall_s[run] <= small_run_s
            and found.memory_mb <= SMALL_RUN_MEMORY_MB
        ]
        self.others = [run for run in plan.run_ids if run not in {*self.with_mpi, *self.small}]
        alike = [self._resources[run] for run in self.small]
        if alike:
            largest = Resources(
                max(found.memory_mb for found in alike), max(found.runtime_minutes for found in alike), 1, 1
            )
            self._resources |= dict.fromkeys(self.small, largest)

    def resources(self, run: str) -> Resources:
        """Return what a run asks for."""
        return self._resources[run]

    def wall_s(self, run: str) -> float:
        """Return how long a run is expected to take."""
        return self._wall_s[run]


class SubmittedRuns:
    """`Runs` as the job of some of them sees them: memory and time have been granted, no rule is chosen.

    Nothing of the study is built again, which would take longer than many a run.
    """

    small: Collection[str] = ()
    with_mpi: Collection[str] = ()
    others: Collection[str] = ()

    def __init__(self, runs_dir: Path) -> None:
        self._runs_dir = runs_dir

    def resources(self, run: str) -> Resources:
        """Return the processes and threads that its prepared experiment asks for."""
        try:
            experiment = Experiment.load(self._runs_dir / run / "experiment.json")
        except ConfigError:
            return Resources(0, 0, 1, 1)  # the run itself will say so, and others in its job go on
        return Resources(0, 0, *_processes(experiment))

    def wall_s(self, run: str) -> float:
        """Return 0: there is nothing to put in order."""
        return 0.0


def _processes(experiment: Experiment) -> tuple[int, int]:
    """MPI processes of a run, and threads of each."""
    return (experiment.sst["ranks"], experiment.sst["threads"]) if experiment.sst else (1, 1)
