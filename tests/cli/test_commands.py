"""What the commands print, write and return."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import networkx
import pytest

from workflow.cli import call

if TYPE_CHECKING:
    from tests.cli.conftest import Hxmesh

STUDY = """
name: tiny
kind: alltoall
experiments:
  - topology: {type: hxmesh, name: mesh, a: 2, b: 2, x: 2, y: 2}
    motif: {type: alltoall, message: [64 B, 8 KiB]}
"""


def succeeded(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_version(hxmesh: Hxmesh) -> None:
    assert succeeded(hxmesh("--version")) == f"hxmesh {version('hxmesh')}\n"


@pytest.mark.parametrize(
    "command",
    [
        ("topology", "list"),
        ("topology", "show"),
        ("topology", "cost"),
        ("motif", "list"),
        ("motif", "show"),
        ("run",),
        ("estimate",),
        ("report",),
        ("doctor",),
        ("config", "default"),
        ("config", "schema"),
        ("config", "list"),
        ("config", "write"),
    ],
    ids=" ".join,
)
def test_every_command_has_help_with_an_example(
    command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert call([*command, "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "Example" in text
    assert f"hxmesh {' '.join(command)}" in text


def test_topology_list_names_networks_and_families(hxmesh: Hxmesh) -> None:
    text = succeeded(hxmesh("topology", "list"))
    for word in ("fattree75", "dragonfly", "hx4mesh", "as-simulated", "25.303", "2.706", "clos"):
        assert word in text


def test_topology_show_counts_and_bounds(hxmesh: Hxmesh, tmp_path: Path) -> None:
    text = succeeded(
        hxmesh(
            "topology",
            "show",
            "hxmesh",
            "--a",
            "2",
            "--b",
            "2",
            "--x",
            "4",
            "--y",
            "4",
            "--graphml",
            "net.graphml",
        )
    )
    for word in ("HxMesh of 4x4 boards of 2x2", "board links", "diameter", "alltoall bound", "cost"):
        assert word in text
    graph = networkx.read_graphml(tmp_path / "net.graphml", force_multigraph=True)
    assert graph.number_of_edges() >= 64 + 32 + 32


def test_topology_cost_is_the_published_one(hxmesh: Hxmesh) -> None:
    text = succeeded(hxmesh("topology", "cost", "hx2mesh", "torus"))
    assert "5.412" in text
    assert "2.470" in text
    assert "fattree" not in text


def test_motifs(hxmesh: Hxmesh) -> None:
    assert "two-rings" in succeeded(hxmesh("motif", "list"))
    text = succeeded(hxmesh("motif", "show", "alltoall"))
    assert "message" in text
    assert "stratified" in text
    assert "calc_unit" in succeeded(hxmesh("motif", "show", "goal"))


def test_doctor_knows_the_engines(hxmesh: Hxmesh) -> None:
    text = succeeded(hxmesh("doctor"))
    for word in ("engine packet", "engine sst", "snakemake", "cores", "memory"):
        assert word in text


def test_estimate(hxmesh: Hxmesh, tmp_path: Path) -> None:
    (tmp_path / "tiny.yaml").write_text(STUDY)
    found = json.loads(succeeded(hxmesh("estimate", "tiny.yaml", "--json")))
    # 8 KiB fill a packet, their header gets another one.
    assert sorted(run["packets"] for run in found["runs"].values()) == [240, 480]
    assert found["wall_s"] > 0
    assert "2 runs" in succeeded(hxmesh("estimate", "tiny.yaml"))


def test_default_config_is_a_study(hxmesh: Hxmesh, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(succeeded(hxmesh("config", "default")))
    assert "alltoall" in succeeded(hxmesh("estimate", "mine.yaml"))
    json.loads(succeeded(hxmesh("config", "schema")))


def test_run_report_and_run_again(hxmesh: Hxmesh, tmp_path: Path) -> None:
    (tmp_path / "tiny.yaml").write_text(STUDY)
    done = hxmesh("run", "tiny.yaml", "--jobs", "2")
    made = succeeded(done).split()
    assert "results/tiny/tiny.csv" in made
    assert done.stderr.count("complete in") == 2
    assert all((tmp_path / path).is_file() for path in made)
    results = {path: path.read_bytes() for path in (tmp_path / "results/tiny/runs").rglob("result.json")}
    table = (tmp_path / "results/tiny/tiny.csv").read_bytes()

    done = hxmesh("run", "tiny.yaml")
    succeeded(done)
    assert "2 of 2 runs are there already" in done.stderr
    assert {path: path.read_bytes() for path in results} == results
    assert (tmp_path / "results/tiny/tiny.csv").read_bytes() == table

    text = succeeded(hxmesh("report", "tiny.yaml", "--show"))
    assert "results/tiny/tiny.md" in text
    assert "| mesh |" in text
    assert "results/tiny/tiny.csv" in succeeded(hxmesh("report", "results/tiny"))


def test_run_of_an_experiment(hxmesh: Hxmesh, tmp_path: Path) -> None:
    (tmp_path / "tiny.yaml").write_text(STUDY)
    assert "2 runs prepared" in succeeded(hxmesh("run", "tiny.yaml", "--prepare"))
    first, second = sorted((tmp_path / "results/tiny/runs").glob("*/experiment.json"))
    assert sorted(path.name for path in first.parent.iterdir()) == ["experiment.json"]

    done = hxmesh("run", "--experiment", str(first), "--log", "logs/first.log")
    succeeded(done)
    assert json.loads((first.parent / "result.json").read_text())["status"] == "complete"
    line = done.stderr
    assert line.count("\n") == 1
    assert line.startswith(first.parent.name)
    assert "240 packets" in line
    assert (tmp_path / "logs/first.log").read_text() == line

    succeeded(hxmesh("run", "--experiment", str(second), "--out", "elsewhere"))
    assert (tmp_path / "elsewhere/result.json").is_file()
    assert not (second.parent / "result.json").exists()


def test_results_that_cannot_be_written_are_one_sentence(hxmesh: Hxmesh, tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text(STUDY)
    (tmp_path / "results").write_text("a file, not a folder")
    done = hxmesh("run", "study.yaml")
    assert done.returncode == 1
    (sentence,) = done.stderr.splitlines()
    assert sentence.startswith("hxmesh: results/tiny")
    assert sentence.endswith(": Not a directory.")


def test_run_without_a_result_has_a_code_of_its_own(hxmesh: Hxmesh, tmp_path: Path) -> None:
    (tmp_path / "tiny.yaml").write_text(STUDY.replace("x: 2, y: 2", "x: 8, y: 8").replace("8 KiB", "64 KiB"))
    succeeded(hxmesh("run", "tiny.yaml", "--prepare"))
    experiment = max(
        (tmp_path / "results/tiny/runs").glob("*/experiment.json"),
        key=lambda path: json.loads(path.read_text())["motif"]["message_bytes"],
    )
    done = hxmesh("run", "--experiment", str(experiment), "--memory-limit", "1 kB")
    assert done.returncode == 3
    assert "memory-limit: " in done.stderr
    assert json.loads((experiment.parent / "result.json").read_text())["status"] == "memory-limit"


@pytest.mark.parametrize(("whom", "delay_s"), [("process", 3), ("group", 3), ("group", 0.5)])
def test_interrupt_ends_cleanly(whom: str, delay_s: float, tmp_path: Path) -> None:
    long = STUDY.replace("x: 2, y: 2", "x: 16, y: 16").replace("[64 B, 8 KiB]", "[4 MiB, 8 MiB]")
    (tmp_path / "long.yaml").write_text(long)
    process = subprocess.Popen(
        [sys.executable, "-m", "workflow.cli", "run", "long.yaml", "--jobs", "2"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # A test suite in the background of a shell is deaf to it, and so would be its children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    runs = tmp_path / "results/tiny/runs"
    try:
        while not list(runs.glob("*/experiment.json")):
            time.sleep(0.1)
        time.sleep(delay_s)
        if whom == "process":
            process.send_signal(signal.SIGINT)
        else:
            os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 130, errors
        assert "Traceback" not in errors
        assert not list(runs.glob("*/result.json"))
        assert gone(process.pid)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def gone(group: int, within_s: float = 20) -> bool:
    """Whether nothing is left of a process group, after at most `within_s`."""
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.1)
    return False
