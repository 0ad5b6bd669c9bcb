"""The Snakefile: the graph, a whole run, and a run that was killed and started again."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest

ROOT = Path(__file__).parents[2]

STUDY = """
name: tiny
kind: alltoall
experiments:
  - topology: {type: hxmesh, name: mesh, a: 2, b: 2, x: 4, y: 4}
    motif: {type: alltoall, message: [64 B, 1 KiB, 2 KiB, 4 KiB, 8 KiB]}
"""

MEASURED = ["wall_s", "peak_memory_bytes"]
"""Columns that are not the same in two executions of one run; finished runs keep theirs."""


def command(directory: Path, *arguments: str) -> list[str]:
    return [
        *(
            sys.executable,
            "-m",
            "snakemake",
            "--snakefile",
            str(ROOT / "Snakefile"),
            "--directory",
            str(directory),
        ),
        *arguments,
    ]


def snakemake(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(directory, *arguments),
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.yaml"
    path.write_text(STUDY)
    return path


def table(directory: Path) -> pd.DataFrame:
    return pd.read_csv(directory / "results/tiny/tiny.csv").drop(columns=MEASURED)


def results(directory: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in (directory / "results/tiny/runs").rglob("result.json")}


def test_graph_of_table2_is_known_up_front(tmp_path: Path) -> None:
    done = snakemake(tmp_path, "--dry-run", "--config", "study=table2_small")
    assert done.returncode == 0, done.stderr
    text = done.stdout + done.stderr
    assert "Using workflow specific profile" in text
    counts = [line.split() for line in text.splitlines() if line.startswith(("run ", "run_small "))]
    assert sum(int(count) for _, count in counts) == 26 * text.count("Job stats:")
    assert not (tmp_path / "results").exists()


def test_lint() -> None:
    done = snakemake(ROOT, "--lint")
    assert done.returncode == 0, done.stderr


def test_wrong_config_is_one_sentence_in_the_error(tmp_path: Path) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(STUDY.replace("8 KiB", "-8 KiB"))
    done = snakemake(tmp_path, "--configfile", str(path))
    assert done.returncode != 0
    assert "message: '-8 KiB' is negative; it must be zero or more." in done.stdout + done.stderr
    assert not (tmp_path / "results").exists()


def test_killed_and_started_again(config: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("w") as stream:
        process = subprocess.Popen(
            command(tmp_path, "--cores", "1", "--configfile", str(config)),
            cwd=tmp_path,
            stdout=stream,
            stderr=stream,
            start_new_session=True,
        )
        # The preparation and a run are over and on record; others are to come.
        while process.poll() is None and "2 of 8 steps" not in log.read_text():
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    kept = results(tmp_path)
    assert 1 <= len(kept) < 5, log.read_text()
    assert not (tmp_path / "results/tiny/tiny.csv").exists()

    done = snakemake(tmp_path, "--configfile", str(config))
    assert done.returncode == 0, done.stdout + done.stderr
    again = done.stdout + done.stderr
    ran = [run for run in (tmp_path / "results/tiny/runs").iterdir() if f"{run.name} mesh" in again]
    assert 1 <= len(ran) < 5
    unchanged = {path for path, content in kept.items() if path.read_bytes() == content}
    assert {path.parent.name for path in kept} - {path.parent.name for path in unchanged} <= {
        run.name for run in ran
    }
    assert len(results(tmp_path)) == 5
    for path in results(tmp_path):
        assert json.loads(path.read_text())["status"] == "complete"

    # Another time there is nothing to do, and the tables keep their bytes.
    csv = (tmp_path / "results/tiny/tiny.csv").read_bytes()
    done = snakemake(tmp_path, "--configfile", str(config))
    assert "Nothing to be done" in done.stdout + done.stderr
    assert (tmp_path / "results/tiny/tiny.csv").read_bytes() == csv

    # A study that nobody interrupted, run without Snakemake, has the same table.
    other = tmp_path / "other"
    other.mkdir()
    subprocess.run(
        [sys.executable, "-m", "workflow.cli", "run", str(config)], cwd=other, check=True, capture_output=True
    )
    pd.testing.assert_frame_equal(table(other), table(tmp_path))


def test_failed_run_says_so_and_is_tried_again(config: Path, tmp_path: Path) -> None:
    done = snakemake(tmp_path, "--configfile", str(config), "--until", "prepare")
    assert done.returncode == 0, done.stdout + done.stderr
    broken = sorted((tmp_path / "results/tiny/runs").iterdir())[0]
    good = (broken / "experiment.json").read_text()
    (broken / "experiment.json").write_text(good.replace('"seed": 0', '"seed": 7'))
    done = snakemake(tmp_path, "--configfile", str(config))
    assert done.returncode != 0
    assert "change the configuration and not this file" in done.stdout + done.stderr
    assert len(results(tmp_path)) == 4  # the others went on

    (broken / "experiment.json").write_text(good)
    done = snakemake(tmp_path, "--configfile", str(config))
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(results(tmp_path)) == 5


STAND_IN = """#!/bin/sh
# Stands in for Apptainer: notes what it was asked for, and runs it outside.
echo "$@" >> "$(dirname "$0")/asked"
if [ "$1" = --version ]; then echo "apptainer version 1.3.0"; exit; fi
while [ "$1" != -c ]; do shift; done
PATH="@python@:$PATH" exec bash -c "$2"
"""


def test_runs_in_an_image(config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command of a run is handed to Apptainer, with the image that was named."""
    programs = tmp_path / "programs"
    programs.mkdir()
    stand_in = programs / "apptainer"
    stand_in.write_text(STAND_IN.replace("@python@", str(Path(sys.executable).parent)))
    stand_in.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    image = tmp_path / "hxmesh.sif"
    image.touch()
    config.write_text(STUDY.replace("64 B, 1 KiB, 2 KiB, 4 KiB, 8 KiB", "64 B"))
    done = snakemake(
        tmp_path, "--configfile", str(config), "--sdm", "apptainer", "--config", f"image={image}"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    asked = [line for line in (programs / "asked").read_text().splitlines() if " exec " in f" {line}"]
    assert all(f" {image} " in line for line in asked)
    commands = [line.partition(" -c ")[2] for line in asked]
    for part in ("hxmesh run --experiment", "--prepare", "hxmesh report"):
        assert any(part in command for command in commands), commands
    assert len(results(tmp_path)) == 1


def test_shipped_profile_is_complete() -> None:
    text = (ROOT / "workflow/profiles/default/config.yaml").read_text()
    for line in (
        "cores: 2",
        "scheduler: greedy",
        "printshellcmds: false",
        "rerun-incomplete: true",
        "keep-going: true",
    ):
        assert line in text
    assert (ROOT / "profiles/default/config.yaml").samefile(ROOT / "workflow/profiles/default/config.yaml")
