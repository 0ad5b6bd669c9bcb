"""A real SST with the element library, where there is one."""

from __future__ import annotations

import csv
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from engine import NetworkParams
from motifs import Schedule
from sst_models import build, locate
from sst_models.locate import Installation
from sst_models.render import ReplayWorkload, SstOptions, render
from topologies import Topology
from topologies.errors import ConfigError

MEMORY_LIMIT_KIB = 8_000_000
TIME_LIMIT_S = 300


@dataclass(frozen=True)
class Ended:
    """What a run left behind."""

    code: int
    output: str
    records: dict[int, dict[str, str]]
    """of each rank"""
    files: list[str]

    @property
    def end_ps(self) -> int:
        """Simulated time; -1 if a rank has not finished."""
        ends = [int(record["end_ps"]) for record in self.records.values()]
        return -1 if -1 in ends or not ends else max(ends)


Run = Callable[..., Ended]


@pytest.fixture(scope="session")
def installation() -> Installation:
    """The SST on the PATH, with Merlin."""
    try:
        found = locate.find()
        found.require("merlin")
    except ConfigError as error:
        pytest.skip(str(error))
    return found


@pytest.fixture(scope="session")
def library(installation: Installation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the element library; the user's, where that is current."""
    usual = build.library_dir(installation)
    if build.is_current(installation, usual):
        return usual
    # Shared by parallel workers, each of which has a folder of its own below the common one.
    return build.build(installation, tmp_path_factory.getbasetemp().parent / "hxmesh-elements")


@pytest.fixture
def sst(library: Path, installation: Installation, tmp_path: Path) -> Run:
    """Render a schedule on a network, run it, return what is left.

    `changes` are texts replaced in config.py, each there exactly once.
    """

    def run(
        network: Topology,
        schedule: Schedule,
        params: NetworkParams | None = None,
        *,
        command: tuple[str, ...] = ("sst",),
        ember: bool = False,
        options: SstOptions | None = None,
        changes: dict[str, str] | None = None,
        name: str = "run",
    ) -> Ended:
        directory = tmp_path / name
        config = render(directory, network, ReplayWorkload(schedule, ember=ember), params, options=options)
        text = config.read_text()
        for old, new in (changes or {}).items():
            assert text.count(old) == 1, old
            text = text.replace(old, new)
        config.write_text(text)
        return start(directory, command)

    def start(directory: Path, command: tuple[str, ...]) -> Ended:
        environment = {
            **os.environ,
            "SST_LIB_PATH": str(library),
            "PATH": f"{installation.sst.parent}{os.pathsep}{os.environ['PATH']}",
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        }
        done = subprocess.run(
            ["bash", "-c", f"ulimit -v {MEMORY_LIMIT_KIB}; exec {' '.join(command)} config.py"],
            cwd=directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIME_LIMIT_S,
            # Open MPI's helpers would be stopped if they belonged to a terminal's background.
            start_new_session=True,
            check=False,
        )
        records: dict[int, dict[str, str]] = {}
        files = sorted((directory / "records").glob("rank*.csv"))
        for path in files:
            with path.open(newline="") as lines:
                for row in csv.DictReader(lines):
                    assert int(row["rank"]) not in records
                    records[int(row["rank"])] = row
        return Ended(done.returncode, done.stdout + done.stderr, records, [path.name for path in files])

    return run
