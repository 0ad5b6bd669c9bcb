"""Runs one experiment, or all of a study on this machine, into run directories that are whole or not there.

A run directory holds `experiment.json`, `ranks.parquet` and, written last, `result.json`. Finished runs are
kept as they are, wall time and memory included, so an interrupted study that is started again ends with the
tables of an uninterrupted one.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import queue
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

import engine
from engine import RunResult
from engine.result import LINKS_FILE, RANKS_FILE, RESULT_FILE
from topologies import ConfigError
from workflow.estimate import Estimate, estimate_plan
from workflow.experiment import Experiment, Plan, write_if_changed

_PARQUET_END = b"PAR1"

ProgressCallback = Callable[[engine.Progress], None]

REPORT_INTERVAL_S = 0.2
"""How often a run of a pool tells its progress."""


def run_experiment(
    experiment: Experiment,
    run_dir: Path,
    *,
    progress: ProgressCallback | None = None,
    memory_limit_bytes: int | None = None,
) -> RunResult:
    """Run one experiment and store it in `run_dir`; returns the result, whatever its status.

    Nothing is written if the experiment cannot be built (ConfigError) or is interrupted (KeyboardInterrupt).
    """
    if experiment.engine == "sst":
        from workflow.on_sst import run_on_sst

        result = run_on_sst(experiment, run_dir, progress=progress, memory_limit_bytes=memory_limit_bytes)
        write_if_changed(run_dir / "experiment.json", experiment.to_json())
        result.save(run_dir)
        return result
    topology = experiment.build_topology()
    result = engine.run(
        topology,
        experiment.build_schedule(topology),
        experiment.network_params(),
        seed=experiment.seed,
        progress=progress,
        links=experiment.links,
        memory_limit_bytes=memory_limit_bytes,
    )
    if result.status == "interrupted":
        raise KeyboardInterrupt
    write_if_changed(run_dir / "experiment.json", experiment.to_json())
    result.save(run_dir)
    return result


def finished(run_dir: Path) -> bool:
    """Whether `run_dir` holds the whole result of a complete run."""
    result = _read_json(run_dir / RESULT_FILE)
    links = run_dir / LINKS_FILE
    return (
        isinstance(result, dict)
        and result.get("status") == "complete"
        and _is_whole(run_dir / RANKS_FILE)
        and (not links.exists() or _is_whole(links))
    )


def to_repeat(results_dir: Path, run_ids: Iterable[str]) -> list[Path]:
    """Files of a study that are there but have to be made again.

    These are the results of runs that did not end well or are not whole, and prepared files that cannot be
    read. Whoever goes by the presence of files would take them for done.
    """
    run_dirs = [results_dir / "runs" / run for run in run_ids]
    results = [path / RESULT_FILE for path in run_dirs if not finished(path)]
    prepared = [results_dir / "study.json", *(path / "experiment.json" for path in run_dirs)]
    damaged = [path for path in prepared if _read_json(path) is None]
    return [path for path in (*damaged, *results) if path.exists()]


def not_in_the_future(paths: Iterable[Path]) -> None:
    """Give files that a node whose clock is ahead has written the present time of this one.

    Snakemake refuses what is made from them as older than its input.
    """
    for path in paths:
        with contextlib.suppress(OSError):
            if path.stat().st_mtime > time.time():
                os.utime(path)


def _read_json(path: Path) -> object:
    """The content of a file, None where it cannot be read."""
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None


def _is_whole(table: Path) -> bool:
    """Whether a Parquet file has its end, which is written last."""
    try:
        with table.open("rb") as content:
            content.seek(-len(_PARQUET_END), os.SEEK_END)
            return content.read() == _PARQUET_END
    except OSError:
        return False


@dataclass(frozen=True)
class Outcome:
    """How a run of a study ended: its status, or "error" for one that raised, and a sentence."""

    run_id: str
    status: str
    message: str = ""
    wall_s: float = 0.0


class Watcher:
    """Is told how the runs of a study go; this one does not care."""

    def begin(self, estimates: dict[str, Estimate], done: list[str]) -> None:
        """`estimates` of all runs, and which of them need not run again."""

    def start(self, experiment: Experiment) -> None:
        """A run starts."""

    def advance(self, run_id: str, progress: engine.Progress) -> None:
        """A run is that far."""

    def end(self, experiment: Experiment, outcome: Outcome) -> None:
        """A run has ended."""


def run_plan(
    plan: Plan, results_dir: Path, *, jobs: int = 1, watcher: Watcher | None = None
) -> list[Outcome]:
    """Prepare a study and run what is missing of it, `jobs` runs at a time, the longest first.

    Each run has a process of its own, so that its peak memory is its own. A run that fails does not stop the
    others. Returns how all runs ended, in the order of the plan. Raises ConfigError before anything is
    written.
    """
    watcher = watcher or Watcher()
    estimates = estimate_plan(plan)
    plan.prepare(results_dir)
    done = [run for run in plan.run_ids if finished(results_dir / "runs" / run)]
    watcher.begin(estimates, done)
    outcomes = {run: Outcome(run, "complete") for run in done}
    waiting = sorted(
        (run for run in plan.run_ids if run not in outcomes), key=lambda run: estimates[run].wall_s
    )
    context = multiprocessing.get_context("spawn")
    messages: Any = context.Queue()
    running: dict[str, SpawnProcess] = {}
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                run = waiting.pop()
                process = context.Process(
                    target=_work, args=(plan.experiments[run], results_dir / "runs" / run, messages), name=run
                )
                running[run] = process
                _start(process)
                watcher.start(plan.experiments[run])
            for run, news in _drain(messages):
                if isinstance(news, Outcome):
                    outcomes[run] = news
                else:
                    watcher.advance(run, news)
            for run, process in list(running.items()):
                if process.is_alive():
                    continue
                process.join()
                del running[run]
                if run not in outcomes:  # the last message may still be on its way
                    outcomes |= {r: news for r, news in _drain(messages) if isinstance(news, Outcome)}
                outcomes.setdefault(
                    run, Outcome(run, "error", f"the process ended with code {process.exitcode}.")
                )
                watcher.end(plan.experiments[run], outcomes[run])
    finally:
        for process in running.values():
            if process.pid is not None:
                process.terminate()
                process.join()
    return [outcomes[run] for run in plan.run_ids]


def _start(process: SpawnProcess) -> None:
    """Start a process that is deaf to Ctrl-C, which reaches the whole group: the parent ends its runs itself.

    The signal is blocked, not ignored: the child inherits that, and one that comes meanwhile reaches the
    parent afterwards.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _drain(messages: Any) -> list[tuple[str, Any]]:
    """All messages there are, after a short wait for the first one."""
    found: list[tuple[str, Any]] = []
    try:
        found.append(messages.get(timeout=REPORT_INTERVAL_S / 2))
        while True:
            found.append(messages.get_nowait())
    except queue.Empty:
        return found


def _work(experiment: Experiment, run_dir: Path, messages: Any) -> None:
    """The process of one run of a pool."""
    parent = os.getppid()
    told = 0.0

    def tell(progress: engine.Progress) -> None:
        nonlocal told
        now = time.monotonic()
        if now - told >= REPORT_INTERVAL_S:
            told = now
            if os.getppid() != parent:
                raise KeyboardInterrupt  # nobody waits for this run any more
            messages.put((experiment.run_id, progress))

    try:
        result = run_experiment(experiment, run_dir, progress=tell)
        outcome = Outcome(experiment.run_id, result.status, result.message, result.wall_s)
    except (ConfigError, OSError, MemoryError) as error:
        outcome = Outcome(experiment.run_id, "error", str(error) or type(error).__name__)
    messages.put((experiment.run_id, outcome))
