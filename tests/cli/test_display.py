"""Progress as lines, and the spelling of numbers."""

from pathlib import Path

import pytest

import engine
from workflow.cli import display
from workflow.estimate import estimate_plan
from workflow.experiment import Plan, expand
from workflow.runner import Outcome
from workflow.schema import parse_study


@pytest.fixture
def plan() -> Plan:
    entry = {
        "topology": {"type": "hxmesh", "name": "mesh", "x": 2, "y": 2},
        "motif": {"type": "alltoall", "message": [64, 128]},
    }
    return expand(parse_study({"name": "s", "experiments": [entry]}))


def progress(packets: int) -> engine.Progress:
    return engine.Progress(packets, 240, 5 * packets, 1000, 2.0)


def test_lines_of_a_run(
    plan: Plan, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(display, "LINE_INTERVAL_S", 0.0)
    experiment = plan.experiments[plan.run_ids[0]]
    log = tmp_path / "logs" / "run.log"
    with display.RunDisplay(experiment, log) as shown:
        assert not log.exists()
        shown.advance(progress(60))
    line = capsys.readouterr().err
    name = f"{experiment.run_id} mesh alltoall 64 B seed 0"
    assert line == f"{name}: 25 %, 150 packet-hops/s, 30 packets/s, 6.0 s left\n"
    assert log.read_text() == line


def test_lines_come_seldom(plan: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    with display.RunDisplay(plan.experiments[plan.run_ids[0]]) as shown:
        shown.advance(progress(60))
    assert capsys.readouterr().err == ""


def test_failed_run_says_why(plan: Plan, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    experiment = plan.experiments[plan.run_ids[0]]
    network = experiment.build_topology()
    result = engine.run(network, experiment.build_schedule(network), memory_limit_bytes=1)
    with display.RunDisplay(experiment) as shown:
        shown.end(result)
    assert capsys.readouterr().err.startswith(f"{experiment.run_id} mesh alltoall 64 B seed 0: ")


def test_interrupted_run_says_so(plan: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt), display.RunDisplay(plan.experiments[plan.run_ids[0]]):
        raise KeyboardInterrupt
    assert capsys.readouterr().err.endswith(": interrupted\n")


def test_lines_of_a_study(
    plan: Plan, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(display, "LINE_INTERVAL_S", 0.0)
    first, second = plan.run_ids
    shown = display.PlanDisplay()
    shown.begin(estimate_plan(plan), [first])
    shown.start(plan.experiments[second])
    shown.advance(second, progress(120))
    shown.end(plan.experiments[second], Outcome(second, "deadlock", "rank 1 waits for rank 2."))
    shown.close()
    there, going, ended = capsys.readouterr().err.splitlines()
    assert there == "1 of 2 runs are there already"
    assert going.startswith("1 of 2 runs, 75 %, ")
    assert ended == f"{second} mesh alltoall 128 B seed 0: deadlock, rank 1 waits for rank 2."


def test_spelling() -> None:
    assert display.count(134_217_728) == "134.2 M"
    assert display.count(12) == "12"
    assert [display.duration(s) for s in (4.2, 59, 200, 7500)] == [
        "4.2 s",
        "59 s",
        "3 min 20 s",
        "2 h 05 min",
    ]
    assert [display.simulated(t) for t in (5, 40_000, 21_130_000_000)] == ["5 ps", "40 ns", "21.13 ms"]


def test_log_may_be_in_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines = display.Lines(Path("run.log"))
    lines.say("one")
    lines.close()
    assert (tmp_path / "run.log").read_text() == "one\n"
