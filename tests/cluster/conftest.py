"""A real Slurm on this machine: munge, slurmctld and two slurmd, started here and ended at the end."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pandas as pd
import psutil
import pytest

T = TypeVar("T")

ROOT = Path(__file__).parents[2]
PROFILE = ROOT / "workflow/profiles/slurm"
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol", "scancel")
MARKS = ("<!-- faults: made by `make faults` -->", "<!-- end of faults -->")
NODE_CPUS = 2
NODE_MEMORY_MB = 4000


STUDY = """
name: faults
kind: alltoall
experiments:
  - topology: {type: hxmesh, name: mesh, a: 2, b: 2, x: 4, y: 4}
    motif: {type: alltoall, message: [1 KiB, 2 KiB, 4 KiB, 8 MiB]}
"""
"""Three runs of a fraction of a second and one of a few seconds."""

LONG_RUN_BYTES = 8 * 2**20
SMALL_RUN_S = 5
"""Between the estimates of the former and the latter."""

MEASURED = ["wall_s", "peak_memory_bytes"]
"""Columns that are not the same in two executions of one run; finished runs keep theirs."""


def wait_until(condition: Callable[[], T], otherwise: str, *, timeout_s: float = 60) -> T:
    """Return what `condition` returns once that is true; RuntimeError after `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.1)
    raise RuntimeError(otherwise)


class Slurm:
    """The daemons, in `directory`, for the user who runs the tests.

    Both nodes are this machine, each with its own slurmd.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        # Names of their own: cgroups are called after them, and another Slurm may run beside.
        self.nodes = tuple(f"{letter}{os.getpid()}" for letter in "ab")
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        # With version 2 of cgroups slurmd wants systemd to make them.
        self.limits_memory = os.geteuid() == 0 and Path("/sys/fs/cgroup/memory").is_dir()
        self.environment = dict(os.environ) | {"SLURM_CONF": str(directory / "slurm.conf")}
        # Defaults of whoever runs the tests for a cluster of theirs.
        for name in [name for name in self.environment if name.startswith(("SBATCH_", "SRUN_", "SLURM_"))]:
            if name != "SLURM_CONF":
                del self.environment[name]

    def start(self) -> None:
        """Start everything; RuntimeError with the reason where that does not work."""
        host = socket.gethostname().partition(".")[0]
        ports = _free_ports(1 + len(self.nodes))
        user = _user()
        key = self.directory / "munge.key"
        key.write_bytes(secrets.token_bytes(1024))
        key.chmod(0o400)
        nodes = "\n".join(
            f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs={NODE_CPUS} "
            f"RealMemory={NODE_MEMORY_MB} State=UNKNOWN"
            for node, port in zip(self.nodes, ports[1:], strict=True)
        )
        (self.directory / "slurm.conf").write_text(
            f"""ClusterName=loopback
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={self.directory}/munge.socket
StateSaveLocation={self.directory}/state
SlurmdSpoolDir={self.directory}/spool.%n
SlurmctldPidFile={self.directory}/slurmctld.pid
SlurmdPidFile={self.directory}/slurmd.%n.pid
SlurmctldLogFile={self.directory}/slurmctld.log
SlurmdLogFile={self.directory}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin={"task/cgroup" if self.limits_memory else "task/none"}
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SlurmdParameters=config_overrides
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
MpiDefault=none
ReturnToService=2
SlurmdTimeout=10
KillWait=5
MinJobAge=3600
SchedulerParameters=sched_interval=5,batch_sched_delay=1
DefMemPerCPU=500
{nodes}
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
PartitionName=other Nodes=ALL MaxTime=INFINITE State=UP
"""
        )
        (self.directory / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\nConstrainRAMSpace=yes\n")
        (self.directory / "state").mkdir()
        self._keep_configuration()
        munge = ["--foreground", f"--key-file={key}", f"--socket={self.directory}/munge.socket"]
        files = {"pid-file": "munged.pid", "seed-file": "munged.seed", "log-file": "munged.log"}
        munge += [f"--{option}={self.directory}/{name}" for option, name in files.items()]
        self._start("munged", "munged", *munge)
        self._wait(lambda: (self.directory / "munge.socket").exists(), "munged does not start")
        self._start("slurmctld", "slurmctld", "-D")
        for node in self.nodes:
            self.start_node(node)
        self._wait(lambda: set(self.node_states().values()) == {"IDLE"}, "the nodes do not come up")

    def _keep_configuration(self) -> None:
        """The executor takes SLURM_CONF away from job steps, so srun brings it along itself."""
        folder = self.directory / "bin"
        folder.mkdir()
        srun = folder / "srun"
        srun.write_text(
            f'#!/bin/sh\nSLURM_CONF={self.directory}/slurm.conf exec {shutil.which("srun")} "$@"\n'
        )
        srun.chmod(0o755)
        self.environment["PATH"] = f"{folder}{os.pathsep}{self.environment['PATH']}"

    def start_node(self, node: str) -> None:
        """Start the slurmd of a node."""
        spool = self.directory / f"spool.{node}"
        spool.mkdir(exist_ok=True)
        self._start(node, "slurmd", "-D", "-N", node, cwd=spool)

    def kill_node(self, node: str, *, with_jobs: bool) -> None:
        """End the slurmd of a node at once, and as if the machine had gone all that runs on it."""
        slurmd = self.processes.pop(node)
        slurmd.kill()
        slurmd.wait()
        if with_jobs:
            for step in self._steps(node):
                for process in [step, *step.children(recursive=True)]:
                    with contextlib.suppress(psutil.Error):
                        process.kill()

    def _steps(self, node: str) -> list[psutil.Process]:
        """The managers of job steps on a node, which have the working directory of its slurmd."""
        spool = f"{self.directory}/spool.{node}"
        found = []
        for process in psutil.process_iter(["name"]):
            if process.info["name"] == "slurmstepd":
                with contextlib.suppress(psutil.Error):
                    if process.cwd() == spool:
                        found.append(process)
        return found

    def node_states(self) -> dict[str, str]:
        """State of each node, as sinfo says it."""
        done = self.call("sinfo", "--noheader", "--Node", "--partition=main", "--format=%N %T", check=False)
        return {name: state.upper() for name, state in (line.split() for line in done.splitlines())}

    def jobs(self) -> pd.DataFrame:
        """All jobs so far, an array task a row: id, state, cpus, memory, limit, partition, ..."""
        names = {
            "id": "%i", "state": "%T", "cpus": "%C", "memory": "%m", "limit": "%l", "partition": "%P",
            "comment": "%k", "nodes": "%N", "array": "%F",
        }  # fmt: skip
        form = "|".join(names.values())
        text = self.call("squeue", "--states=all", "--array", "--noheader", f"--format={form}")
        return pd.DataFrame([line.split("|") for line in text.splitlines()], columns=list(names))

    def call(self, *command: str, check: bool = True) -> str:
        """What a command of Slurm's says."""
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, timeout=60, check=False
        )
        if check and done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
        return done.stdout

    def cancel_all(self) -> None:
        """End what is left of an earlier test."""
        self.call("scancel", f"--user={_user()}", check=False)
        self.wait_for_no_jobs()

    def wait_for_no_jobs(self) -> None:
        """Return when no job is left; RuntimeError where one stays."""
        self._wait(lambda: not self.call("squeue", "--noheader").strip(), "jobs do not end")

    def stop(self) -> None:
        """End all daemons, and jobs that are left."""
        if "slurmctld" in self.processes:
            with contextlib.suppress(RuntimeError, subprocess.TimeoutExpired):
                self.cancel_all()
        for process in reversed(self.processes.values()):
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.processes.clear()

    def _start(self, name: str, *command: str, cwd: Path | None = None) -> None:
        with (self.directory / f"{name}.out").open("ab") as output:
            self.processes[name] = subprocess.Popen(
                [shutil.which(command[0]) or command[0], *command[1:]],
                cwd=cwd or self.directory,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _wait(self, condition: Callable[[], bool], otherwise: str) -> None:
        def come_about() -> bool:
            for name, process in self.processes.items():
                if process.poll() is not None:
                    said = (self.directory / f"{name}.out").read_text(errors="replace").strip()
                    raise RuntimeError(f"{name} ended with code {process.returncode}: {said[-300:]}")
            return condition()

        wait_until(come_about, otherwise)


class Directory:
    """A working directory with a study, and Snakemake in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = path / "study.yaml"
        self.config.write_text(STUDY)
        self.results = path / "results/faults"

    def command(self, *arguments: str, slurm: Slurm | None = None) -> list[str]:
        """Return the command line of Snakemake, on this machine or as jobs of Slurm."""
        call = [sys.executable, "-m", "snakemake", "--snakefile", str(ROOT / "Snakefile")]
        call += ["--directory", str(self.path), "--configfile", str(self.config)]
        if slurm is not None:
            # Nobody keeps accounts here, and jobs are looked at more often than a cluster would like.
            call += ["--workflow-profile", str(PROFILE), "--slurm-status-command", "squeue"]
            call += ["--slurm-init-seconds-before-status-checks", "2", "--seconds-between-status-checks", "2"]
            call += ["--config", f"small_run_s={SMALL_RUN_S}"]
        return [*call, *arguments]

    def start(self, *arguments: str, slurm: Slurm | None = None) -> subprocess.Popen[str]:
        """Start Snakemake in a process group of its own."""
        return subprocess.Popen(
            self.command(*arguments, slurm=slurm),
            cwd=self.path,
            env=None if slurm is None else slurm.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, *arguments: str, slurm: Slurm | None = None) -> tuple[int, str]:
        """Run Snakemake to its end; return its exit code and what it said."""
        process = self.start(*arguments, slurm=slurm)
        said, _ = process.communicate(timeout=600)
        return process.returncode, said

    def hxmesh(self, *arguments: str) -> tuple[int, str]:
        """Run hxmesh to its end; return its exit code and what it said."""
        done = subprocess.run(
            [sys.executable, "-m", "workflow.cli", *arguments],
            cwd=self.path,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=600,
            check=False,
        )
        return done.returncode, done.stdout

    def table(self) -> pd.DataFrame:
        """Return the rows of all runs without what was measured about the machine."""
        return pd.read_csv(self.results / "faults.csv").drop(columns=MEASURED)

    def complete(self) -> dict[str, bytes]:
        """Return the results of the runs that are complete, by id."""
        found = {}
        for path in sorted((self.results / "runs").glob("*/result.json")):
            with contextlib.suppress(ValueError):
                if json.loads(path.read_bytes())["status"] == "complete":
                    found[path.parent.name] = path.read_bytes()
        return found

    def long_run(self) -> str:
        """Return the id of the run of a few seconds; the study must be prepared."""
        for path in (self.results / "runs").glob("*/experiment.json"):
            if json.loads(path.read_text())["motif"]["message_bytes"] == LONG_RUN_BYTES:
                return path.parent.name
        raise AssertionError("the study is not prepared")

    def wait_for_simulation(self) -> psutil.Process:
        """Return the process that simulates the long run, once there is one."""

        def simulation() -> psutil.Process | None:
            try:
                wanted = f"results/faults/runs/{self.long_run()}/experiment.json"
            except (AssertionError, ValueError):
                return None
            for process in psutil.process_iter(["cmdline", "cwd"]):
                words = process.info["cmdline"] or [""]
                if process.info["cwd"] == str(self.path) and wanted in words and "python" in words[0]:
                    return process
            return None

        found = wait_until(simulation, "the simulation does not start", timeout_s=120)
        assert found is not None
        return found


def _free_ports(number: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(number)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]


def _user() -> str:
    return psutil.Process().username()


@pytest.fixture(scope="session")
def slurm() -> Iterator[Slurm]:
    """A running Slurm; the test is skipped where there is none to start."""
    search = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])
    missing = [program for program in PROGRAMS if shutil.which(program, path=search) is None]
    if missing:
        pytest.skip(f"no Slurm here: {', '.join(missing)} not found (packages slurm-wlm and munge)")
    if importlib.util.find_spec("snakemake_executor_plugin_slurm") is None:
        pytest.skip("snakemake-executor-plugin-slurm is not installed (extra slurm)")
    before = os.environ["PATH"]
    os.environ["PATH"] = search
    # Its path is short, as those of sockets must be, and everyone may enter it, as munged demands.
    directory = Path(tempfile.mkdtemp(prefix="hxmesh-slurm-"))
    directory.chmod(0o755)
    found = Slurm(directory)
    try:
        try:
            found.start()
        except (OSError, RuntimeError) as error:
            found.stop()
            pytest.skip(f"Slurm does not start here: {error}")
        yield found
    finally:
        found.stop()
        os.environ["PATH"] = before
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def study(tmp_path: Path) -> Directory:
    """A working directory with a study of which nothing has run."""
    return Directory(tmp_path)


@pytest.fixture(scope="session")
def reference(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    """The table of the study where nothing went wrong."""
    directory = Directory(tmp_path_factory.mktemp("reference"))
    code, said = directory.hxmesh("run", str(directory.config), "--jobs", "1")
    assert code == 0, said
    return directory.table()


# -- the table of faults -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fault:
    """A row: what was done, where, what it looked like, and what a restart made of it."""

    fault: str
    on: str
    seen: str
    after: str


FAULTS = pytest.StashKey[list[Fault]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option of `make faults`."""
    parser.addoption(
        "--fault-table", metavar="FILE", help="write the faults that were survived into this page"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Begin the table."""
    config.stash[FAULTS] = []


@pytest.fixture
def survived(request: pytest.FixtureRequest) -> Callable[[str, str, str, str], None]:
    """Add a row to the table; the last thing that a test of a fault does."""

    def record(fault: str, on: str, seen: str, after: str) -> None:
        request.config.stash[FAULTS].append(Fault(fault, on, seen, after))

    return record


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the table, if it was asked for; rows of faults that were not tried this time stay."""
    page = session.config.getoption("--fault-table", default=None)
    if page is None:
        return
    text = Path(page).read_text(encoding="utf-8")
    before, _, rest = text.partition(MARKS[0])
    old, _, after = rest.partition(MARKS[1])
    rows = {_key(line): line for line in old.splitlines() if line.startswith("| ")}
    tried = [f"| {f.fault} | {f.on} | {f.seen} | {f.after} |" for f in session.config.stash[FAULTS]]
    rows |= {_key(line): line for line in ["| fault | on | what is seen | after a restart |", *tried]}
    head, *lines = sorted(rows.values(), key=lambda line: not line.startswith("| fault "))
    lines = [head, "|---|---|---|---|", *lines]
    Path(page).write_text("\n".join([before + MARKS[0], "", *lines, "", MARKS[1] + after]), encoding="utf-8")


def _key(row: str) -> str:
    """Fault and place of a row."""
    return "|".join(row.split("|")[1:3])
