"""`hxmesh allocate`: placements as text and picture, and the studies."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import pytest

from workflow.cli import call

if TYPE_CHECKING:
    from tests.cli.conftest import Hxmesh

FAILED = ("--boards", "4x4", "--failed", "1,1", "--failed", "2,1", "--failed", "3,0")


@pytest.mark.parametrize("command", ["show", "study", "interference"])
def test_help_has_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["allocate", command, "--help"]) == 0
    assert f"hxmesh allocate {command}" in " ".join(capsys.readouterr().out.split())


def test_show_prints_boards_and_jobs(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["allocate", "show", "3x3", "2x2", "1", *FAILED]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:4] == ["A A A x", "C x x .", "A A A .", "A A A ."]
    cells = {line.split()[0]: line.split() for line in lines if line[:1].isdigit()}
    assert cells["0"][:6] == ["0", "A", "3x3", "3x3", "9", "36"]
    assert cells["1"][3] == "no"
    assert "2 of 3 jobs placed; 10 of 13 working boards in use (76.92 %), 3 failed." in lines


def test_show_draws_a_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("placement.png", "placement.pdf"):
        picture = tmp_path / name
        call(
            [
                "allocate",
                "show",
                "--draw",
                "--boards",
                "8x8",
                "--random-failures",
                "5",
                "--picture",
                str(picture),
            ]
        )
        assert picture.stat().st_size > 5000
        assert f"written: {picture}" in capsys.readouterr().out


def test_show_is_the_same_for_a_seed(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["allocate", "show", "--draw", "--boards", "16x16", "--random-failures", "20", "--seed"]
    shown = []
    for seed in ("3", "3", "4"):
        assert call([*arguments, seed]) == 0
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1] != shown[2]
    assert shown[0].count("x ") + shown[0].count(" x\n") >= 20


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (("show", "3y3"), "a job is '3y3' but must be columns x rows"),
        (("show", "0x3"), "a job is '0x3'"),
        (("show",), "the number of jobs is 0 but must be one or more"),
        (("show", "2x2", "--boards", "4"), "--boards is '4' but must be two numbers above 0"),
        (("show", "2x2", "--failed", "9,9", "--boards", "4x4"), "a failed board is (9, 9)"),
        (("show", "2x2", "--failed", "1,1,0"), "boards fail as a whole"),
        (("show", "2x2", "--failed-file", "none.txt"), "failed boards 'none.txt' cannot be read"),
        (("show", "2x2", "--locality", "rings"), "--locality is 'rings' but must be one of"),
        (("show", "2x2", "--search", "greddy"), "did you mean 'greedy'?"),
        (("show", "2x2", "--draw"), "--draw goes without jobs of your own"),
        (("show", "2x2", "--picture", "boards.xyz"), "picture 'boards.xyz' cannot be written"),
        (("interference", "--message", "16 KB2"), "--message"),
        (("interference", "--engine", "flow"), "--engine is 'flow' but must be one of packet, sst"),
    ],
)
def test_wrong_input_is_one_sentence_and_nothing_written(
    arguments: tuple[str, ...],
    fault: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert call(["allocate", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert fault in captured.err
    assert captured.out == ""
    assert list(tmp_path.iterdir()) == []


def test_a_small_study_writes_every_table_and_figure(hxmesh: Hxmesh, tmp_path: Path) -> None:
    done = hxmesh(
        "allocate", "study", "--samples", "2", "--bound-samples", "1", "--bound-limit", "0.2", "--out", "out"
    )
    assert done.returncode == 0, done.stderr
    out = tmp_path / "out"
    frame = pd.read_csv(out / "utilization.csv")
    head = "mesh cluster failed_boards transpose aspect_ratio sort_jobs locality mean_percent p99_percent"
    assert list(frame.columns)[:11] == [*head.split(), "published_mean_percent", "published_p99_percent"]
    assert len(frame) == 2 * 2 * 3 * 8
    assert frame["published_mean_percent"].notna().sum() == 21
    assert frame["mean_percent"].between(20, 100).all()
    for name in ("utilization_table2", "baselines", "bound"):
        assert len(pd.read_csv(out / f"{name}.csv")) > 0
    for name in ("utilization", "utilization_failures", "upper_level"):
        assert (out / f"{name}.png").stat().st_size > 10_000
        assert (out / f"{name}.pdf").stat().st_size > 5_000
    assert "21 published scenarios" in done.stdout
