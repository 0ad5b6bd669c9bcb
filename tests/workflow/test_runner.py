"""Runs into run directories."""

import dataclasses
import json
import os
import time
from pathlib import Path

import pytest

import engine
from engine import RunResult
from topologies import ConfigError
from workflow.estimate import Estimate
from workflow.experiment import Experiment, Plan, expand
from workflow.runner import (
    Outcome,
    Watcher,
    finished,
    not_in_the_future,
    run_experiment,
    run_plan,
    to_repeat,
)
from workflow.schema import parse_study

STUDY = {
    "name": "tiny",
    "kind": "alltoall",
    "experiments": [
        {
            "topology": {"type": "hxmesh", "a": 2, "b": 2, "x": 2, "y": 2},
            "motif": {"type": "alltoall", "message": [64, 128, 256]},
        }
    ],
}


@pytest.fixture
def plan() -> Plan:
    return expand(parse_study(STUDY))


class Recorder(Watcher):
    def __init__(self) -> None:
        self.done: list[str] | None = None
        self.ended: dict[str, str] = {}

    def begin(self, estimates: dict[str, Estimate], done: list[str]) -> None:
        self.done = done

    def end(self, experiment: Experiment, outcome: Outcome) -> None:
        self.ended[experiment.run_id] = outcome.status


def test_run_directory_holds_experiment_result_and_ranks(plan: Plan, tmp_path: Path) -> None:
    experiment = next(iter(plan.experiments.values()))
    seen: list[engine.Progress] = []
    result = run_experiment(experiment, tmp_path / "run", progress=seen.append)
    assert result.complete
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [
        "experiment.json",
        "ranks.parquet",
        "result.json",
    ]
    loaded = RunResult.load(tmp_path / "run")
    assert loaded.simulated_time_ps == result.simulated_time_ps > 0
    assert finished(tmp_path / "run")


def test_interrupted_run_writes_nothing(plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = next(iter(plan.experiments.values()))

    def interrupt(*args: object, **kwargs: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(engine, "run", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run_experiment(experiment, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_unfinished_results_do_not_count(plan: Plan, tmp_path: Path) -> None:
    experiment = next(iter(plan.experiments.values()))
    assert not finished(tmp_path)
    result = run_experiment(experiment, tmp_path)
    dataclasses.replace(result, status="deadlock", message="rank 1 waits.").save(tmp_path)
    assert not finished(tmp_path)
    (tmp_path / "result.json").write_text('{"status": "comp')
    assert not finished(tmp_path)


@pytest.mark.parametrize("table", ["ranks.parquet", "links.parquet"])
def test_cut_tables_do_not_count(plan: Plan, tmp_path: Path, table: str) -> None:
    experiment = next(iter(plan.experiments.values())).model_copy(update={"links": True})
    run_experiment(experiment, tmp_path)
    assert finished(tmp_path)
    whole = (tmp_path / table).read_bytes()
    for cut in (0, 3, len(whole) // 2, len(whole) - 1):
        (tmp_path / table).write_bytes(whole[:cut])
        assert not finished(tmp_path)
    (tmp_path / table).write_bytes(whole)
    assert finished(tmp_path)


def test_what_a_restart_makes_again(plan: Plan, tmp_path: Path) -> None:
    assert to_repeat(tmp_path, plan.run_ids) == []
    run_plan(plan, tmp_path, jobs=1)
    good, failed, cut = (tmp_path / "runs" / run for run in plan.run_ids)
    assert to_repeat(tmp_path, plan.run_ids) == []
    result = json.loads((failed / "result.json").read_text()) | {"status": "deadlock"}
    (failed / "result.json").write_text(json.dumps(result))
    (cut / "ranks.parquet").write_bytes(b"")
    (good / "experiment.json").write_text('{"run_id"')
    assert to_repeat(tmp_path, plan.run_ids) == [
        good / "experiment.json",
        failed / "result.json",
        cut / "result.json",
    ]


def test_changed_wiring_is_refused(plan: Plan, tmp_path: Path) -> None:
    experiment = next(iter(plan.experiments.values()))
    other = experiment.model_copy(update={"topology": experiment.topology | {"wiring_sha256": "0" * 64}})
    with pytest.raises(ConfigError, match="has changed since the run was prepared"):
        run_experiment(other, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_plan_runs_what_is_missing_and_keeps_the_rest(plan: Plan, tmp_path: Path) -> None:
    first, second, third = plan.run_ids
    recorder = Recorder()
    outcomes = run_plan(plan, tmp_path, jobs=2, watcher=recorder)
    assert [(outcome.run_id, outcome.status) for outcome in outcomes] == [
        (run, "complete") for run in (first, second, third)
    ]
    assert recorder.done == []
    assert recorder.ended == dict.fromkeys(plan.run_ids, "complete")
    kept = (tmp_path / "runs" / first / "result.json").read_bytes()
    (tmp_path / "runs" / second / "result.json").unlink()
    failed = json.loads((tmp_path / "runs" / third / "result.json").read_text()) | {"status": "deadlock"}
    (tmp_path / "runs" / third / "result.json").write_text(json.dumps(failed))

    recorder = Recorder()
    run_plan(plan, tmp_path, jobs=1, watcher=recorder)
    assert recorder.done == [first]
    assert set(recorder.ended) == {second, third}
    assert (tmp_path / "runs" / first / "result.json").read_bytes() == kept
    assert finished(tmp_path / "runs" / third)


def test_files_of_a_clock_ahead_get_the_present_time(tmp_path: Path) -> None:
    ahead, behind = tmp_path / "ahead", tmp_path / "behind"
    for path, seconds in ((ahead, 3600), (behind, -3600)):
        path.touch()
        os.utime(path, (time.time() + seconds,) * 2)
    before = behind.stat().st_mtime
    not_in_the_future([ahead, behind, tmp_path / "not there"])
    assert ahead.stat().st_mtime <= time.time()
    assert behind.stat().st_mtime == before


def test_plan_that_cannot_run_writes_nothing(tmp_path: Path) -> None:
    entry = {"topologies": ["fattree"], "motif": {"type": "two-rings", "total": 64}}
    plan = expand(parse_study(STUDY | {"experiments": [*STUDY["experiments"], entry]}))
    with pytest.raises(ConfigError, match="two-rings on fattree"):
        run_plan(plan, tmp_path / "results")
    assert not (tmp_path / "results").exists()


def test_run_that_fails_to_start_is_reported(plan: Plan, tmp_path: Path) -> None:
    blocked = plan.run_ids[0]
    plan.prepare(tmp_path)
    (tmp_path / "runs" / blocked / "ranks.parquet").mkdir()
    outcomes = {outcome.run_id: outcome for outcome in run_plan(plan, tmp_path, jobs=2)}
    assert outcomes[blocked].status == "error"
    assert outcomes[blocked].message
    assert [outcomes[run].status for run in plan.run_ids[1:]] == ["complete", "complete"]
