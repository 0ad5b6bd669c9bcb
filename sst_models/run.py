"""Runs a rendered directory on SST and says how it went.

SST ends with code 0 after a deadlock, and a finished run may end with another one; so a run counts as
complete exactly if its own records are: every rank has an end. Everything else is explained in one sentence.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import psutil

from engine.result import Progress
from sst_models import build, locate, parameters
from sst_models.read import Records, read_records
from sst_models.render import CONFIG_FILE, MANIFEST_FILE, MANIFEST_VERSION, RECORDS_DIR, clean
from topologies.errors import ConfigError

LOG_FILE = "sst.log"

RunStatus = Literal["complete", "deadlock", "interrupted", "memory-limit", "time-limit", "failed"]

_POLL_S = 0.1
_TERMINATE_S = 10.0
_SIMULATORS = ("sst", "sstsim.x")
_ENOUGH_DISK_BYTES = 1 << 20


@dataclass(frozen=True)
class RunOptions:
    """How to run SST.

    threads: of each process. ranks: MPI processes. time_limit_s, memory_limit_bytes: end the run beyond;
    memory is that of all processes together. sst: prefix of the installation or its sst-config (None: from
    the PATH). library: folder of libhxmesh.so (None: where `hxmesh sst build` puts it). mpirun: the command
    that starts MPI processes. first_look_s: when a run is first looked at for a deadlock; again after twice
    the time.
    """

    threads: int = 1
    ranks: int = 1
    time_limit_s: float | None = None
    memory_limit_bytes: int | None = None
    sst: Path | None = None
    library: Path | None = None
    mpirun: Sequence[str] = ("mpirun",)
    first_look_s: float = 30.0
    arguments: Sequence[str] = ()


@dataclass(frozen=True)
class Outcome:
    """How a run ended: `message` is one sentence, empty for a complete run."""

    status: RunStatus
    message: str
    wall_s: float
    peak_memory_bytes: int
    sst_version: str
    records: Records


def run(
    directory: Path,
    options: RunOptions | None = None,
    *,
    progress: Callable[[Progress], None] | None = None,
) -> Outcome:
    """Run `config.py` of a rendered directory; its output goes to `sst.log` there.

    progress is called now and then; an exception that it raises, and KeyboardInterrupt, end the run and are
    passed on.

    Raises ConfigError before anything starts: no SST, one of another version, without Merlin, without the
    element library, or more partitions than the network has parts.
    """
    options = options or RunOptions()
    manifest = read_manifest(directory)
    installation = locate.find(options.sst)
    environment = _prepare(manifest, installation, options)
    clean(directory)
    (directory / RECORDS_DIR).mkdir(exist_ok=True)
    log = directory / LOG_FILE
    command = _command(installation.sst, options, CONFIG_FILE)
    watch = _Watch(log, options, progress, may_ask=not manifest["unlinked_ports"])
    code, wall_s = _supervise(command, directory, environment, watch)
    records = read_records(directory, manifest)
    status, message = _judge(directory, records, watch, code, log)
    return Outcome(status, message, wall_s, watch.peak_memory_bytes, installation.version, records)


def run_script(
    script: Path, directory: Path, expected: str, options: RunOptions | None = None, *, times: int = 1
) -> tuple[RunStatus, str]:
    """Run a configuration that is not of this program, such as SST's own tests, in `directory`.

    It is complete if its output (`sst.log` there) has at least `times` lines that match `expected`. Returns
    how it went and, where it is not complete, one sentence.
    """
    options = options or RunOptions()
    installation = locate.find(options.sst)
    directory.mkdir(parents=True, exist_ok=True)
    log = directory / LOG_FILE
    watch = _Watch(log, options, None, may_ask=False)
    command = _command(installation.sst, options, str(script))
    code, _ = _supervise(command, directory, dict(os.environ), watch)
    text = _tail(log)
    found = len(re.findall(expected, text, re.MULTILINE))
    if watch.ended is not None:
        return watch.ended, watch.reason
    if found >= times:
        return "complete", ""
    if "Event queue empty" in text:
        return "deadlock", "deadlock: nothing is left to happen before the script's own end."
    explained = _explain(text, code, f"{found} of {times} lines match {expected!r}")
    return "failed", explained


def _supervise(
    command: Sequence[str], directory: Path, environment: dict[str, str], watch: _Watch
) -> tuple[int, float]:
    """Run to the end, or end it; return exit code and wall time in seconds."""
    started = time.monotonic()
    with watch.log.open("wb") as output:
        try:
            process = subprocess.Popen(
                command,
                cwd=directory,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise ConfigError(f"{command[0]} cannot be started: {error.strerror}.") from None
        try:
            code = watch.until_end(process)
        except BaseException:
            _end(process, directory)
            raise
    return code, time.monotonic() - started


def read_manifest(directory: Path) -> dict[str, Any]:
    """The manifest of a rendered directory; ConfigError where there is none."""
    try:
        manifest: dict[str, Any] = json.loads((directory / MANIFEST_FILE).read_text(encoding="utf-8"))
        assert manifest["format"] == MANIFEST_VERSION
    except (OSError, ValueError, KeyError, AssertionError):
        raise ConfigError(
            f"{directory} is no directory of a run for SST: it has no {MANIFEST_FILE} that can be read."
        ) from None
    return manifest


def _prepare(
    manifest: dict[str, Any], installation: locate.Installation, options: RunOptions
) -> dict[str, str]:
    """Check that the run can start; return its environment."""
    wanted, found = manifest["sst_version"], installation.version
    if parameters.series(wanted) != parameters.series(found):
        raise ConfigError(f"the run was prepared for SST {wanted} but SST is {found}; prepare it again.")
    libraries = {element.partition(".")[0] for element in manifest["elements"]}
    for library in sorted(libraries - {"hxmesh"}):
        installation.require(library)
    environment = dict(os.environ)
    if "hxmesh" in libraries:
        folder = build.library_dir(installation, options.library)
        wrong = build.state(installation, folder)
        if wrong is not None:
            raise ConfigError(f"the element library hxmesh {wrong}.")
        paths = [str(folder), *filter(None, [environment.get("SST_LIB_PATH")])]
        environment["SST_LIB_PATH"] = ":".join(paths)
    partitions = options.threads * options.ranks
    if partitions > manifest["max_partitions"]:
        raise ConfigError(
            f"threads times ranks are {partitions} but must be at most {manifest['max_partitions']}, the "
            f"parts "
            f"into which {manifest['topology']} can be cut."
        )
    return environment


def _command(sst: Path, options: RunOptions, script: str) -> list[str]:
    command = [str(sst)]
    if options.ranks > 1:
        command = [*options.mpirun, "-n", str(options.ranks), *command]
    if options.threads > 1:
        command += ["-n", str(options.threads)]
    command += ["--heartbeat-wall-period=2", "--sigusr2=sst.rt.status.all"]
    return [*command, *options.arguments, script]


# -- watching ----------------------------------------------------------------------------------------------

_HEARTBEAT = re.compile(rb"Simulation Heartbeat: Simulated Time ([0-9.e+-]+) (\w+)")
_UNITS_PS = {"fs": 1e-3, "ps": 1.0, "ns": 1e3, "us": 1e6, "ms": 1e9, "s": 1e12, "ks": 1e15, "Ms": 1e18}

# What the core says about itself; the components come after it.
_STATUS_HEAD = re.compile(rb"CurrentSimCycle:\s+(\d+)")
_PACKET = re.compile(rb"dest = \d+, size = ")
_IN_COMPONENTS = re.compile(
    rb"^\s*(?:Start|End|Remote|Output_busy|Input_Busy|Waiting|have_packets|start_block|xbar_in|port_|dest)"
)
_STILL_PS = 10_000_000
"""Simulated time in which some packet of a network that is not stuck moves."""


class _Watch:
    """Looks after the processes of a run: time, memory, progress, deadlock.

    may_ask: whether SST may be asked where its packets are. Merlin's answer (PortControl::printStatus) reads
    the buffers of every port, and a port without a link has none: SST would be killed by SIGSEGV.
    """

    def __init__(
        self,
        log: Path,
        options: RunOptions,
        progress: Callable[[Progress], None] | None,
        *,
        may_ask: bool,
    ) -> None:
        self.log = log
        self.peak_memory_bytes = 0
        self.ended: RunStatus | None = None
        self.reason = ""
        self._options, self._progress, self._may_ask = options, progress, may_ask
        self._highest: dict[int, int] = {}
        self._seen: tuple[str, int] | None = None
        self._read_from = 0
        self._simulated_ps = 0
        self._beats = False

    def until_end(self, process: subprocess.Popen[bytes]) -> int:
        """Wait for the end of the run, or end it; return its code."""
        started = time.monotonic()
        look = self._options.first_look_s
        next_memory = 0.0
        while True:
            code = process.poll()
            if code is not None:
                return code
            wall_s = time.monotonic() - started
            if wall_s >= next_memory:
                # Looking at all processes costs more the longer a run is watched.
                next_memory = wall_s + max(0.1, min(wall_s / 50, 2.0))
                self._check_memory(process)
                self._heartbeat(wall_s)
            if self._options.time_limit_s is not None and wall_s > self._options.time_limit_s:
                self._stop(
                    "time-limit", f"the run took longer than its limit of {self._options.time_limit_s:g} s."
                )
            # Before its first heartbeat SST has no handler for the signal, which would end it.
            if self._may_ask and self._beats and self.ended is None and wall_s >= look:
                look = wall_s + max(wall_s, self._options.first_look_s)
                self._look_for_deadlock(process)
            if self.ended is not None:
                return _end(process, self.log.parent)
            time.sleep(_POLL_S if wall_s > 1 else 0.02)

    def _stop(self, status: RunStatus, reason: str) -> None:
        if self.ended is None:
            self.ended, self.reason = status, reason

    def _check_memory(self, process: subprocess.Popen[bytes]) -> None:
        now = {one.pid: _memory(one) for one in _tree(process.pid, self.log.parent)}
        used = sum(resident for resident, _ in now.values())
        self._highest |= {pid: highest for pid, (_, highest) in now.items()}
        self.peak_memory_bytes = max(self.peak_memory_bytes, used, sum(self._highest.values()))
        limit = self._options.memory_limit_bytes
        if limit is not None and used > limit:
            self._stop("memory-limit", f"SST grew to {used} bytes, beyond the limit of {limit}.")

    def _heartbeat(self, wall_s: float) -> None:
        with self.log.open("rb") as log:
            log.seek(self._read_from)
            text = log.read()
        self._read_from += text.rfind(b"\n") + 1
        for value, unit in _HEARTBEAT.findall(text):
            self._beats = True
            self._simulated_ps = round(float(value) * _UNITS_PS.get(unit.decode(), 0.0))
        if self._progress is not None:
            self._progress(Progress(0, 0, 0, self._simulated_ps, wall_s))

    def _look_for_deadlock(self, process: subprocess.Popen[bytes]) -> None:
        """Have every process say where its packets are, twice; nothing moved means deadlock.

        A stuck router's clock goes on for ever, so neither the time nor the processor shows it.
        """
        for _ in range(2):
            status = self._status(process)
            if status is None:
                return
            digest, now_ps, packets = status
            before = self._seen
            self._seen = (digest, now_ps)
            if before is None or before[0] != digest or not packets:
                continue
            if now_ps - before[1] >= _STILL_PS:
                self._stop(
                    "deadlock",
                    f"no packet has moved from {before[1]} to {now_ps} ps, {packets} are in routers",
                )
                return

    def _status(self, process: subprocess.Popen[bytes]) -> tuple[str, int, int] | None:
        """Hash of what all components hold, simulated time (ps) and packets in routers."""
        start = self.log.stat().st_size
        simulators = [one for one in _tree(process.pid, self.log.parent) if _is_sst(one)]
        for one in simulators:
            try:
                one.send_signal(signal.SIGUSR2)
            except psutil.Error:
                return None
        # Complete when nothing more comes; the signal is only served between two steps of the simulation.
        deadline, size, quiet_since = time.monotonic() + 30, start, time.monotonic()
        while time.monotonic() < deadline and process.poll() is None:
            time.sleep(0.25)
            grown = self.log.stat().st_size
            if grown != size:
                size, quiet_since = grown, time.monotonic()
            elif size > start + 1000 and time.monotonic() - quiet_since > 1:
                break
        with self.log.open("rb") as log:
            log.seek(start)
            text = log.read()
        cycles = [int(cycle) for cycle in _STATUS_HEAD.findall(text)]
        lines = sorted(line for line in text.splitlines() if _IN_COMPONENTS.match(line))
        if len(cycles) < len(simulators) or not lines:
            return None
        packets = sum(1 for line in lines if _PACKET.search(line))
        return hashlib.sha256(b"\n".join(lines)).hexdigest(), min(cycles), packets


def _tree(pid: int, directory: Path) -> list[psutil.Process]:
    """A process and its descendants, and of a launcher like srun what it had others start on this machine."""
    try:
        parent = psutil.Process(pid)
        found = [parent, *parent.children(recursive=True)]
    except psutil.Error:
        return []
    if not any(_is_sst(one) for one in found):
        here = str(directory.resolve())
        running = psutil.process_iter(["name", "cwd"])
        found += [one for one in running if one.info["name"] in _SIMULATORS and one.info["cwd"] == here]
    return found


def _memory(process: psutil.Process) -> tuple[int, int]:
    """Bytes resident now, and at most so far (only Linux says so).

    The count that the system gives at the end holds the parent's own, from before the program was loaded.
    """
    try:
        resident = int(process.memory_info().rss) if _is_sst(process) else 0
    except psutil.Error:
        return 0, 0
    try:
        highest = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{process.pid}/status").read_text())
    except OSError:
        highest = None
    return resident, int(highest[1]) * 1024 if highest and resident else resident


def _is_sst(process: psutil.Process) -> bool:
    try:
        return process.name() in _SIMULATORS
    except psutil.Error:
        return False


def _end(process: subprocess.Popen[bytes], directory: Path) -> int:
    """End the run: politely, so that records are written, then for good."""
    everything = _tree(process.pid, directory)
    for one in everything:
        if _is_sst(one):
            _signal(one, signal.SIGTERM)
    deadline = time.monotonic() + _TERMINATE_S
    while process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    for one in everything:
        _signal(one, signal.SIGKILL)
    return process.wait()


def _signal(process: psutil.Process, number: signal.Signals) -> None:
    with contextlib.suppress(psutil.Error):
        process.send_signal(number)  # checks that it is still the same process


# -- judging -----------------------------------------------------------------------------------------------


def _judge(directory: Path, records: Records, watch: _Watch, code: int, log: Path) -> tuple[RunStatus, str]:
    text = _tail(log)
    if records.complete:
        return "complete", ""
    if watch.ended == "deadlock":
        return "deadlock", f"deadlock: {watch.reason}; {records.waiting()}."
    if watch.ended is not None:
        return watch.ended, watch.reason
    full = re.search(r"No space left on device|Disk quota exceeded", text)
    if full or shutil.disk_usage(directory).free < _ENOUGH_DISK_BYTES:
        return "failed", f"the disk is full: the records of the run in {directory} could not be written."
    if "Event queue empty" in text:
        return "deadlock", f"deadlock: nothing is left to happen; {records.waiting()}."
    return "failed", _explain(text, code, records.waiting())


_NOT_FOUND = (
    r"can't find requested (?:component|element)[^\n]*?['\"]?([\w]+\.[\w.]+)",
    r"(?:Could not find|Unable to find|No such) (?:element|component|library)[^\n]*?([\w]+\.[\w.]+)",
)


def _explain(text: str, code: int, missing: str) -> str:
    """One sentence for a run that ended without its records."""
    for pattern in _NOT_FOUND:
        match = re.search(pattern, text, re.IGNORECASE)
        if match:
            return f"SST does not find the element {match[1]}."
    broken = re.search(r"[^\n]*(?:undefined symbol|cannot open shared object file)[^\n]*", text)
    if broken:
        return f"an element library cannot be loaded: {_one_line(broken[0])}"
    fatal = re.search(r"FATAL:\s*([^\n]+)", text)
    if fatal and "Execution of model construction function failed" not in fatal[1]:
        message = re.sub(r"^# SST Core:\s*", "", fatal[1])
        return f"SST gave up: {_one_line(message)}"
    python = re.search(
        r"Traceback \(most recent call last\):.*?\n(\w[\w.]*(?:Error|Exception|Exit)?[^\n]*)", text, re.DOTALL
    )
    if python:
        errors = re.findall(r"^(\w[\w.]*(?:Error|Exception|Exit)\b[^\n]*)", text, re.MULTILINE)
        return f"config.py failed: {_one_line(errors[-1] if errors else python[1])}"
    if "attempt to run as root" in text:
        return (
            "mpirun refuses to run as root; run as an ordinary user, or set OMPI_ALLOW_RUN_AS_ROOT=1 and "
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1."
        )
    if re.search(r"not enough slots available", text):
        return "mpirun has fewer slots than ranks; take fewer ranks, or an mpirun with --oversubscribe."
    if re.search(r"bad_alloc|Cannot allocate memory|out of memory", text, re.IGNORECASE):
        return "SST ran out of memory."
    if "EMERGENCY SHUTDOWN" in text:
        return f"SST was told to end (SIGTERM or SIGINT) before the run was complete; {missing}."
    killed = re.search(r"exited on signal (\d+)", text)
    number = int(killed[1]) if killed else -code if code < 0 else code - 128 if code > 128 else 0
    if number in set(signal.Signals):
        name = signal.Signals(number).name
        hint = " (out of memory?)" if number == signal.SIGKILL else ""
        return f"SST was killed by {name}{hint} before the run was complete."
    return f"SST ended with code {code} without complete records; {missing}."


def _one_line(text: str) -> str:
    return " ".join(text.split()).rstrip(".") + "."


def _tail(log: Path, size: int = 4 << 20) -> str:
    try:
        with log.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - size))
            return file.read().decode(errors="replace")
    except OSError:
        return ""


__all__ = ["LOG_FILE", "Outcome", "RunOptions", "read_manifest", "run", "run_script"]
