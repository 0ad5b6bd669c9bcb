"""A study as jobs of a real Slurm: what they ask for, how many they are, and that the tables are the same."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pandas as pd
import pytest

from sst_models import build, locate
from topologies import ConfigError
from workflow.experiment import load_plan
from workflow.resources import PlannedRuns

if TYPE_CHECKING:
    from tests.cluster.conftest import Directory, Slurm

pytestmark = pytest.mark.slurm


def test_study(study: Directory, slurm: Slurm, reference: pd.DataFrame) -> None:
    before = set(slurm.jobs()["id"])
    code, said = study.run("--default-resources", "slurm_partition=other", slurm=slurm)
    assert code == 0, said
    pd.testing.assert_frame_equal(study.table(), reference)

    # The three small runs are one job, which asks for the memory of one and the time of all.
    jobs = slurm.jobs()
    jobs = jobs[~jobs["id"].isin(before)].sort_values("comment", ignore_index=True)
    assert list(jobs["state"]) == ["COMPLETED"] * 2, jobs
    assert set(jobs["partition"]) == {"other"}
    runs = PlannedRuns(load_plan(study.config), 5)
    (large,) = runs.others
    assert len(runs.small) == 3
    small, alone = runs.resources(runs.small[0]), runs.resources(large)
    asked = {
        (row["cpus"], row["memory"], row["limit"]): str(row["comment"]) for row in jobs.to_dict("records")
    }
    assert asked.keys() == {
        ("1", f"{small.memory_mb}M", f"{3 * small.runtime_minutes}:00"),
        ("1", f"{alone.memory_mb}M", f"{alone.runtime_minutes}:00"),
    }
    assert large in asked["1", f"{alone.memory_mb}M", f"{alone.runtime_minutes}:00"]

    # What ran there is done everywhere.
    code, said = study.run()
    assert "Nothing to be done" in said


@pytest.mark.sst
@pytest.mark.slow
def test_two_processes_of_sst(study: Directory, slurm: Slurm) -> None:
    """srun starts them within the job; the records are of both."""
    try:
        installation = locate.find()
        wrong = build.state(installation, build.library_dir(installation))
    except ConfigError as error:
        pytest.skip(str(error))
    if wrong is not None:
        pytest.skip(f"the element library hxmesh {wrong}")
    study.config.write_text(
        study.config.read_text().replace(", 8 MiB", "") + "engine: sst\nsst: {ranks: 2}\n"
    )
    slurm.environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    before = set(slurm.jobs()["id"])
    code, said = study.run(slurm=slurm)
    assert code == 0, said
    jobs = slurm.jobs()
    jobs = jobs[~jobs["id"].isin(before)]
    assert list(jobs["cpus"]) == ["2"] * 3
    for run in study.complete():
        directory = study.results / "runs" / run
        assert sorted(path.name for path in (directory / "sst/records").iterdir()) == [
            "ranks-0-of-2.csv",
            "ranks-1-of-2.csv",
        ]
        assert json.loads((directory / "result.json").read_text())["peak_memory_bytes"] > 2**20
    assert len(study.complete()) == 3


@pytest.mark.slow
def test_failed_run_is_tried_once(study: Directory, slurm: Slurm, reference: pd.DataFrame) -> None:
    """No layer repeats it; the others go on, and a restart runs only what is missing."""
    assert study.run("--until", "prepare")[0] == 0
    run = study.long_run()
    experiment = study.results / "runs" / run / "experiment.json"
    good = experiment.read_text()
    experiment.write_text(good.replace('"seed": 0', '"seed": 7'))
    before = set(slurm.jobs()["id"])
    code, said = study.run("--slurm-keep-successful-logs", slurm=slurm)
    assert code != 0
    jobs = slurm.jobs()
    assert sorted(jobs[~jobs["id"].isin(before)]["state"]) == ["COMPLETED", "FAILED"]
    logs = [path.read_text() for path in (study.path / ".snakemake/slurm_logs").rglob("*.log")]
    assert sum(log.count("change the configuration and not this file") for log in logs) == 1
    kept = study.complete()
    assert len(kept) == 3

    experiment.write_text(good)
    code, said = study.run(slurm=slurm)
    assert code == 0, said
    assert len(set(slurm.jobs()["id"]) - before) == 3
    assert kept.items() <= study.complete().items()
    pd.testing.assert_frame_equal(study.table(), reference)
