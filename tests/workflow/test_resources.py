"""What runs ask a scheduler for, and which of them go together."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from workflow.estimate import estimate_plan
from workflow.experiment import Plan, expand
from workflow.resources import LAUNCH_MEMORY_MB, PlannedRuns, Resources, SubmittedRuns
from workflow.schema import parse_study

MESH = {"type": "hxmesh", "a": 2, "b": 2, "x": 4, "y": 4}


def plan(messages: list[str], **more: Any) -> Plan:
    entry = {"topology": MESH, "motif": {"type": "alltoall", "message": messages}}
    return expand(parse_study({"name": "sorts", "experiments": [entry], **more}))


@pytest.fixture
def mixed() -> Plan:
    """Two small runs, and one of about 100 s."""
    return plan(["1 KiB", "1 MiB", "256 MiB"])


def test_small_runs_ask_for_what_the_largest_needs(mixed: Plan) -> None:
    tiny, small, large = mixed.run_ids
    runs = PlannedRuns(mixed)
    assert (runs.small, runs.others, runs.with_mpi) == ([tiny, small], [large], [])
    estimates = estimate_plan(mixed)
    assert estimates[small].memory_mb > estimates[tiny].memory_mb
    assert runs.resources(tiny) == runs.resources(small)
    assert runs.resources(tiny).memory_mb == estimates[small].memory_mb + LAUNCH_MEMORY_MB
    own = estimates[large]
    assert runs.resources(large) == Resources(
        own.memory_mb + LAUNCH_MEMORY_MB, own.runtime_minutes, tasks=1, cpus_per_task=1
    )
    assert runs.wall_s(tiny) < runs.wall_s(small) < runs.wall_s(large)


def test_limit_of_small_runs(mixed: Plan) -> None:
    assert PlannedRuns(mixed, 0).small == []
    assert PlannedRuns(mixed, 0).others == mixed.run_ids
    assert PlannedRuns(mixed, 1e6).small == mixed.run_ids


def test_runs_of_several_processes_or_threads_are_not_small(tmp_path: Path) -> None:
    processes = plan(["1 KiB"], engine="sst", sst={"ranks": 2, "threads": 3})
    threads = plan(["1 KiB"], engine="sst", sst={"threads": 2})
    runs = PlannedRuns(processes)
    assert (runs.small, runs.others, runs.with_mpi) == ([], [], processes.run_ids)
    found = runs.resources(processes.run_ids[0])
    assert (found.tasks, found.cpus_per_task, found.threads) == (2, 3, 6)
    assert PlannedRuns(threads).others == threads.run_ids

    # The job of a run reads the same from what was prepared.
    processes.prepare(tmp_path)
    inside = SubmittedRuns(tmp_path / "runs").resources(processes.run_ids[0])
    assert inside == dataclasses.replace(found, memory_mb=0, runtime_minutes=0)


def test_damaged_experiment_does_not_stop_the_others_of_its_job(mixed: Plan, tmp_path: Path) -> None:
    mixed.prepare(tmp_path)
    run = mixed.run_ids[0]
    (tmp_path / "runs" / run / "experiment.json").write_text("{")
    assert SubmittedRuns(tmp_path / "runs").resources(run).threads == 1
