"""SST's own regression inputs of Merlin and Ember through our runner, beside their reference outputs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from sst_models import locate
from sst_models.read import read_statistics
from sst_models.run import LOG_FILE, RunOptions, run_script

pytestmark = pytest.mark.sst

# What a look for a deadlock prints would stand in the output that is compared.
LIMITS = RunOptions(time_limit_s=240, first_look_s=240)

MERLIN = (
    "torus_64_test",
    "torus_128_test",
    "torus_5_trafficgen",
    "fattree_128_test",
    "fattree_256_test",
    "hyperx_128_test",
    "dragon_72_test",
    "dragon_128_test",
    "dragon_128_test_fl",
    "dragon_128_test_deferred",
    "dragon_128_platform_test",
)


def folder_of(library: str) -> Path:
    if shutil.which("sst") is None:
        pytest.skip("no program sst on the PATH")
    installation = locate.find()
    root = installation.source_root
    if root is None or not (folder := root / "src/sst/elements" / library / "tests").is_dir():
        pytest.skip("no source tree of sst-elements is registered")
    return folder


def output(directory: Path) -> list[str]:
    """The lines of a run, sorted, without the core's heartbeats."""
    text = (directory / LOG_FILE).read_text()
    return sorted(
        line for line in text.splitlines() if line and not line.startswith(("# Simulation Heartbeat", "\t"))
    )


@pytest.mark.parametrize("name", MERLIN)
def test_merlin(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = folder_of("merlin")
    monkeypatch.setenv("PYTHONPATH", str(folder))  # some scripts import others beside them
    status, message = run_script(folder / f"{name}.py", tmp_path, r"^Simulation is complete", LIMITS)
    assert status == "complete", message
    reference = (folder / "refFiles" / f"test_merlin_{name}.out").read_text()
    assert output(tmp_path) == sorted(line for line in reference.splitlines() if line)


def test_ember_allreduce(tmp_path: Path) -> None:
    folder = folder_of("ember")
    script = folder / "dragon_128_allreduce.py"
    status, message = run_script(script, tmp_path, r"^Allreduce: ranks \d+", LIMITS)
    assert status == "complete", message


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            '--topo=torus --shape=2 --cmdLine="Init" --cmdLine="PingPong" --cmdLine="Fini"',
            r"PingPong: otherRank 1, total time",
        ),
        (
            '--topo=fattree --shape=4,4:4 --cmdLine="Init" --cmdLine="Allreduce" --cmdLine="Fini"',
            r"Allreduce: ranks",
        ),
    ],
)
def test_ember_load(options: str, expected: str, tmp_path: Path) -> None:
    """The script that Ember's nightly tests and sweeps are made of."""
    folder = folder_of("ember").parent / "test"
    for script in folder.glob("*.py"):
        (tmp_path / script.name).symlink_to(script)
    status, message = run_script(
        tmp_path / "emberLoad.py",
        tmp_path,
        expected,
        RunOptions(time_limit_s=240, first_look_s=240, arguments=(f"--model-options={options}",)),
    )
    assert status == "complete", message


def test_statistics_of_another_script(tmp_path: Path) -> None:
    """A script without statistics leaves none, which is an empty table."""
    folder = folder_of("merlin")
    run_script(folder / "torus_64_test.py", tmp_path, "Simulation is complete", LIMITS)
    assert read_statistics(tmp_path).empty
