"""Faults: each is made to happen, and a restart must give the table of a study in which nothing went wrong.

`make faults` runs these and writes the table of docs/cluster.md.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import pytest

if TYPE_CHECKING:
    from tests.cluster.conftest import Directory, Slurm

pytestmark = pytest.mark.slow

Survived = Callable[[str, str, str, str], None]
LOCAL, SLURM = "one machine", "Slurm"


def restart(
    study: Directory, reference: pd.DataFrame, *, keeps: dict[str, bytes], slurm: Slurm | None = None
) -> None:
    """Start again: the same table, the results in `keeps` as they are, and nothing half written left."""
    code, said = study.run(slurm=slurm)
    assert code == 0, said
    pd.testing.assert_frame_equal(study.table(), reference)
    assert keeps.items() <= study.complete().items()
    left = [path for path in study.results.rglob(".*") if path.is_file()]
    assert not left, left


KEPT = "same table; what was complete is kept, the rest repeated"


def kill_group(process: subprocess.Popen[str]) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def only_job_of(slurm: Slurm, run: str, state: str) -> str:
    """Id of the job of a run that is in a state, as soon as there is one."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        jobs = slurm.jobs()
        found = jobs[(jobs["state"] == state) & jobs["comment"].str.contains(run)]
        if len(found) == 1:
            return str(found["id"].iloc[0])
        time.sleep(0.3)
    raise AssertionError(f"no job of run {run} is {state}: {slurm.jobs()}")


def left_over(study: Directory) -> list[str]:
    """Names of half-written files, which are hidden until they are whole."""
    return [path.name for path in study.results.rglob(".*") if path.is_file()]


# -- processes that end --------------------------------------------------------------------------------------


def test_sigkill_of_a_run(study: Directory, reference: pd.DataFrame, survived: Survived) -> None:
    process = study.start()
    study.wait_for_simulation().kill()
    said, _ = process.communicate(timeout=300)
    assert process.returncode != 0
    assert f"runs/{study.long_run()}/experiment.json" in said
    before = study.complete()
    assert len(before) == 3
    assert not (study.results / "faults.csv").exists()
    restart(study, reference, keeps=before)
    survived("SIGKILL of a run", LOCAL, "the other runs go on; exit code 1, no table", KEPT)


def test_sigkill_of_the_workflow(study: Directory, reference: pd.DataFrame, survived: Survived) -> None:
    process = study.start("--cores", "1")
    study.wait_for_simulation()
    kill_group(process)
    before = study.complete()
    assert study.long_run() not in before
    restart(study, reference, keeps=before)
    survived("SIGKILL of the workflow and all its processes", LOCAL, "nothing is said", KEPT)


@pytest.mark.slurm
def test_sigkill_of_the_workflow_on_slurm(
    study: Directory, slurm: Slurm, reference: pd.DataFrame, survived: Survived
) -> None:
    process = study.start(slurm=slurm)
    study.wait_for_simulation()
    kill_group(process)
    assert "RUNNING" in set(slurm.jobs()["state"])
    before = study.complete()
    restart(study, reference, keeps={}, slurm=slurm)
    slurm.cancel_all()
    assert study.complete().keys() >= before.keys()
    pd.testing.assert_frame_equal(study.table(), reference)
    survived(
        "SIGKILL of the workflow",
        SLURM,
        "jobs go on; the restart submits what has no result yet, so that a run may be simulated twice",
        "same table, of whichever came last",
    )


@pytest.mark.slurm
def test_interrupt_on_slurm(
    study: Directory, slurm: Slurm, reference: pd.DataFrame, survived: Survived
) -> None:
    process = study.start(slurm=slurm)
    study.wait_for_simulation()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)
    assert process.returncode != 0
    slurm.wait_for_no_jobs()
    assert "CANCELLED" in set(slurm.jobs()["state"])
    before = study.complete()
    assert study.long_run() not in before
    restart(study, reference, keeps=before, slurm=slurm)
    survived("Ctrl-C", SLURM, "its jobs are cancelled", KEPT)


@pytest.mark.slurm
def test_sigkill_of_slurmd(
    study: Directory, slurm: Slurm, reference: pd.DataFrame, survived: Survived
) -> None:
    process = study.start(slurm=slurm)
    study.wait_for_simulation()
    for node in slurm.nodes:
        slurm.kill_node(node, with_jobs=False)
    time.sleep(2)
    for node in slurm.nodes:
        slurm.start_node(node)
    said, _ = process.communicate(timeout=400)
    assert process.returncode == 0, said
    pd.testing.assert_frame_equal(study.table(), reference)
    before = study.complete()
    restart(study, reference, keeps=before, slurm=slurm)
    survived("SIGKILL of slurmd, started again", SLURM, "nothing: jobs go on, the study ends", KEPT)


@pytest.mark.slurm
def test_lost_node(study: Directory, slurm: Slurm, reference: pd.DataFrame, survived: Survived) -> None:
    process = study.start(slurm=slurm)
    study.wait_for_simulation()
    run = study.long_run()
    job = only_job_of(slurm, run, "RUNNING")
    node = str(slurm.jobs().set_index("id")["nodes"][job])
    slurm.kill_node(node, with_jobs=True)
    try:
        said, _ = process.communicate(timeout=400)
    finally:
        slurm.start_node(node)
    assert process.returncode == 0, said
    jobs = slurm.jobs().set_index("id")
    assert jobs["state"][job] == "COMPLETED"
    assert jobs["nodes"][job] != node
    pd.testing.assert_frame_equal(study.table(), reference)
    before = study.complete()
    restart(study, reference, keeps=before, slurm=slurm)
    survived(
        "node lost (slurmd and all of its jobs killed)",
        SLURM,
        "Slurm puts the job in its queue again, under its number, on another node; the study ends",
        KEPT,
    )


# -- limits --------------------------------------------------------------------------------------------------


def test_memory_limit_of_the_engine(study: Directory, reference: pd.DataFrame, survived: Survived) -> None:
    assert study.run("--until", "prepare")[0] == 0
    run = study.results / "runs" / study.long_run()
    code, said = study.hxmesh("run", "--experiment", str(run / "experiment.json"), "--memory-limit", "64KiB")
    result = json.loads((run / "result.json").read_text())
    assert (code, result["status"]) == (3, "memory-limit"), said
    code, said = study.hxmesh("report", str(study.results))
    assert code == 0, said
    row = pd.read_csv(study.results / "runs.csv").set_index("run_id").loc[run.name]
    assert row["status"] == "memory-limit"
    assert pd.isna(row["simulated_time_ps"])
    restart(study, reference, keeps={})
    survived(
        "a run over the memory limit it was given",
        LOCAL,
        "status `memory-limit` and a sentence in result.json, the status in the table, no time",
        "same table; the run is repeated",
    )


def refused(study: Directory, slurm: Slurm, resource: str, state: set[str]) -> dict[str, bytes]:
    """Run the study with too little of something for its long run; return the other results."""
    code, said = study.run("--set-resources", f"run:{resource}", slurm=slurm)
    assert code != 0
    jobs = slurm.jobs()
    (ended,) = set(jobs[jobs["comment"].str.contains(study.long_run())]["state"])
    assert ended in state
    assert ended in said
    before = study.complete()
    assert len(before) == 3
    assert not (study.results / "runs" / study.long_run() / "result.json").exists()
    assert not (study.results / "faults.csv").exists()
    return before


@pytest.mark.slurm
def test_memory_limit_of_slurm(
    study: Directory, slurm: Slurm, reference: pd.DataFrame, survived: Survived
) -> None:
    if not slurm.limits_memory:
        pytest.skip("Slurm has no cgroups (version 1, as root) here by which to limit memory")
    # A job needs 250 to 330 MB, by what of its files the system keeps in memory.
    before = refused(study, slurm, "mem_mb=150", {"OUT_OF_MEMORY"})
    restart(study, reference, keeps=before, slurm=slurm)
    survived(
        "a job over its memory (too little asked for)",
        SLURM,
        "Slurm ends the job (OUT_OF_MEMORY); the other runs go on; exit code 1, no table",
        KEPT,
    )


@pytest.mark.slurm
def test_time_limit_of_slurm(
    study: Directory, slurm: Slurm, reference: pd.DataFrame, survived: Survived
) -> None:
    # 1000 times the bytes of the long run would be a quarter of an hour; it is told to take a minute.
    study.config.write_text(study.config.read_text().replace("8 MiB", "8000 MiB"))
    process = study.start("--set-resources", "run:runtime=1", slurm=slurm)
    said, _ = process.communicate(timeout=400)
    assert process.returncode != 0
    assert "TIMEOUT" in set(slurm.jobs()["state"])
    assert "TIMEOUT" in said
    before = study.complete()
    assert len(before) == 3
    assert not (study.results / "faults.csv").exists()
    assert not left_over(study)
    study.config.write_text(study.config.read_text().replace("8000 MiB", "8 MiB"))
    restart(study, reference, keeps=before, slurm=slurm)
    survived(
        "a job over its time (too little asked for)",
        SLURM,
        "Slurm ends the job (TIMEOUT); the other runs go on; exit code 1, no table",
        KEPT,
    )


# -- disks ---------------------------------------------------------------------------------------------------


class Disk:
    """A small file system under the results of a study."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def fill(self) -> None:
        """Leave not a byte."""
        with (self.path / "filler").open("wb", buffering=0) as filler:
            for size in (2**16, 2**12, 1):
                try:
                    while True:
                        filler.write(b"\0" * size)
                except OSError:
                    continue

    def free(self) -> None:
        """Give the space back."""
        (self.path / "filler").unlink()

    def remount(self, mode: str) -> None:
        """Make it read-only (ro) or writable (rw)."""
        subprocess.run(["mount", "-o", f"remount,{mode}", self.path], check=True)


@pytest.fixture
def disk(study: Directory) -> Iterator[Disk]:
    """The results of the study are on a disk of their own; skipped where none can be mounted."""
    study.results.mkdir(parents=True)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", study.results],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip(f"no disk can be mounted here: {mounted.stderr.strip()}")
    try:
        yield Disk(study.results)
    finally:
        subprocess.run(["umount", "--lazy", study.results], check=True)


def test_full_disk(study: Directory, disk: Disk, reference: pd.DataFrame, survived: Survived) -> None:
    assert study.run("--until", "prepare")[0] == 0
    process = study.start("--cores", "1")
    study.wait_for_simulation()
    before = study.complete()
    disk.fill()
    said, _ = process.communicate(timeout=300)
    assert process.returncode != 0
    assert "No space left on device" in said
    assert "Traceback" not in said
    assert not (study.results / "runs" / study.long_run() / "result.json").exists()
    code, said = study.hxmesh("run", str(study.config))
    assert code == 1
    assert "No space left on device" in said
    assert "Traceback" not in said
    disk.free()
    assert not left_over(study)
    restart(study, reference, keeps=before)
    survived("full disk", LOCAL, "“No space left on device”; exit code 1, no table, no half file", KEPT)


def test_read_only_results(study: Directory, disk: Disk, reference: pd.DataFrame, survived: Survived) -> None:
    assert study.run("--until", "prepare")[0] == 0
    process = study.start("--cores", "1")
    study.wait_for_simulation()
    before = study.complete()
    disk.remount("ro")
    said, _ = process.communicate(timeout=300)
    assert process.returncode != 0
    code, said = study.hxmesh("run", str(study.config))
    assert code == 1
    assert "Read-only file system" in said
    assert "Traceback" not in said
    disk.remount("rw")
    assert study.complete() == before
    restart(study, reference, keeps=before)
    survived(
        "result directory becomes read-only",
        LOCAL,
        "“Read-only file system”; exit code 1, no table",
        KEPT,
    )


@pytest.mark.parametrize("tool", ["snakemake", "hxmesh"])
def test_truncated_files(study: Directory, reference: pd.DataFrame, survived: Survived, tool: str) -> None:
    """As after a power failure, on a file system that keeps names better than contents."""
    assert study.run()[0] == 0
    before = study.complete()
    runs = [study.results / "runs" / run for run in before]
    for path, size in (
        (runs[0] / "result.json", 100),
        (runs[1] / "ranks.parquet", 0),
        (runs[2] / "experiment.json", 300),
        (study.results / "study.json", 10),
    ):
        os.truncate(path, size)
    for run in (runs[0], runs[1]):
        del before[run.name]
    if tool == "hxmesh":
        code, said = study.hxmesh("run", str(study.config))
        assert code == 0, said
    restart(study, reference, keeps=before)
    if tool == "snakemake":
        survived(
            "truncated result.json, ranks.parquet, experiment.json, study.json",
            LOCAL,
            "the restart names them",
            KEPT,
        )


# -- several at once -----------------------------------------------------------------------------------------


def test_two_workflows(study: Directory, reference: pd.DataFrame, survived: Survived) -> None:
    processes = [study.start("--cores", "1") for _ in range(2)]
    said = [process.communicate(timeout=300)[0] for process in processes]
    codes = sorted(process.returncode for process in processes)
    assert codes[0] == 0, said
    before = study.complete()
    assert len(before) == 4
    restart(study, reference, keeps=before)
    survived(
        "two workflows on one directory",
        LOCAL,
        "runs may be simulated twice; files appear whole, from either",
        KEPT,
    )


def test_clock_skew(study: Directory, reference: pd.DataFrame, survived: Survived) -> None:
    """Files of a node whose clock is an hour ahead or a day behind."""
    now = time.time()
    assert study.run("--until", "prepare")[0] == 0
    for path in study.results.rglob("*.json"):
        os.utime(path, (now + 3600, now + 3600))
    code, said = study.run()
    assert code == 0, said
    before = study.complete()
    first, second, *_ = (study.results / "runs" / run for run in before)
    for path in (first / "result.json", first / "ranks.parquet"):
        os.utime(path, (now + 3600, now + 3600))
    for path in (second / "result.json", second / "ranks.parquet"):
        os.utime(path, (now - 86400, now - 86400))
    restart(study, reference, keeps=before)
    survived(
        "clocks of nodes differ (files an hour ahead, a day behind)",
        LOCAL,
        "nothing; tables may be made once more",
        KEPT,
    )
