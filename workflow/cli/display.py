"""What a run looks like on a terminal, and as lines where there is none."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn
from rich.table import Table

import engine
from workflow.estimate import Estimate
from workflow.experiment import Experiment
from workflow.runner import Outcome, Watcher

LINE_INTERVAL_S = 10.0
"""Time between two lines of progress where there is no terminal."""

_WIDTH_WITHOUT_TERMINAL = 200


def console(*, stderr: bool = False) -> Console:
    """Return a console; away from a terminal it is wide, so that no table is cut."""
    stream = sys.stderr if stderr else sys.stdout
    return Console(
        stderr=stderr,
        width=None if stream.isatty() else _WIDTH_WITHOUT_TERMINAL,
        highlight=False,
        soft_wrap=False,
    )


def table(*columns: str, title: str | None = None, right: tuple[str, ...] = ()) -> Table:
    """Return an empty table; the columns in `right` hold numbers."""
    made = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for column in columns:
        made.add_column(column, justify="right" if column in right else "left", no_wrap=column in right)
    return made


def count(number: float) -> str:
    """Return a number with three digits: ``134.2 M``."""
    for size, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= size:
            return f"{number / size:.1f} {unit}"
    return f"{number:.0f}"


def duration(seconds: float) -> str:
    """Return a time for people: ``4.2 s``, ``3 min 20 s``, ``2 h 05 min``."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def simulated(time_ps: int) -> str:
    """Return a simulated time for people: ``21.13 ms``."""
    for size, unit in ((1e12, "s"), (1e9, "ms"), (1e6, "us"), (1e3, "ns")):
        if time_ps >= size:
            return f"{time_ps / size:.4g} {unit}"
    return f"{time_ps} ps"


def rates(progress: engine.Progress) -> str:
    """Return the speed of one run and the time left."""
    wall_s = max(progress.wall_s, 1e-9)
    left = ""
    if progress.packets_delivered:
        left = f", {duration(wall_s * (progress.packets_total / progress.packets_delivered - 1))} left"
    return f"{count(progress.packets_delivered / wall_s)} packets/s{left}"


class Lines:
    """Lines on stderr and, from the first one on, in a log file."""

    def __init__(self, log: Path | None = None) -> None:
        self._path = log
        self._log: TextIO | None = None

    def say(self, line: str) -> None:
        """Write one line to both at once."""
        print(line, file=sys.stderr, flush=True)
        if self._path is None:
            return
        if self._log is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._log = self._path.open("w", encoding="utf-8")
        print(line, file=self._log, flush=True)

    def close(self) -> None:
        """Close the log file."""
        if self._log:
            self._log.close()


class RunDisplay:
    """Progress of one run: a bar on a terminal, else a line every ten seconds; always a line at the end.

    With a log there are lines in any case: several runs may share the terminal.
    """

    def __init__(self, experiment: Experiment, log: Path | None = None) -> None:
        self._name = f"{experiment.run_id} {experiment.title}"
        self._lines = Lines(log)
        self._said = time.monotonic()
        self._bar: Progress | None = None
        self._task = TaskID(0)
        if sys.stderr.isatty() and log is None:
            self._bar = _bar()
            self._task = self._bar.add_task(self._name, total=None, rates="")

    def __enter__(self) -> Self:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.stop()
        if kind is not None and issubclass(kind, KeyboardInterrupt):
            self._lines.say(f"{self._name}: interrupted")
        self._lines.close()

    def advance(self, progress: engine.Progress) -> None:
        """Show how far the run is."""
        if self._bar:
            self._bar.update(
                self._task,
                total=progress.packets_total,
                completed=progress.packets_delivered,
                rates=rates(progress),
            )
        elif time.monotonic() - self._said >= LINE_INTERVAL_S:
            self._said = time.monotonic()
            percent = 100 * progress.packets_delivered / max(progress.packets_total, 1)
            hops = count(progress.packet_hops / max(progress.wall_s, 1e-9))
            self._lines.say(f"{self._name}: {percent:.0f} %, {hops} packet-hops/s, {rates(progress)}")

    def end(self, result: engine.RunResult) -> None:
        """Say how the run ended."""
        if self._bar:
            self._bar.stop()
        if not result.complete:
            self._lines.say(f"{self._name}: {result.status}: {result.message}")
            return
        speed = count((result.packet_hops - result.repeated_packet_hops) / max(result.wall_s, 1e-9))
        repeated = result.repeated_packet_hops / max(result.packet_hops, 1)
        skipped = f" ({repeated:.1%} of them repeated, and skipped)" if repeated else ""
        self._lines.say(
            f"{self._name}: {simulated(result.simulated_time_ps)} simulated, {count(result.packets)} packets"
            f"{skipped} in {duration(result.wall_s)}, {speed} packet-hops/s, "
            f"{result.peak_memory_bytes / 2**20:.0f} MiB"
        )


class PlanDisplay(Watcher):
    """Progress of a study: a bar for the whole and one for each run, or a line every ten seconds."""

    def __init__(self) -> None:
        self._lines = Lines()
        self._bar = _bar() if sys.stderr.isatty() else None
        self._tasks: dict[str, TaskID] = {}
        self._estimates: dict[str, Estimate] = {}
        self._hops: dict[str, float] = {}
        self._ended = 0
        self._started = self._said = time.monotonic()
        self._hops_before = 0.0

    def close(self) -> None:
        """Leave the terminal as it was."""
        if self._bar:
            self._bar.stop()

    def begin(self, estimates: dict[str, Estimate], done: list[str]) -> None:
        """Start showing; runs that are done count from the start."""
        self._estimates = estimates
        self._ended = len(done)
        self._hops = {run: float(estimates[run].packet_hops) for run in done}
        self._hops_before = sum(self._hops.values())
        if done:
            self._lines.say(f"{len(done)} of {len(estimates)} runs are there already")
        if self._bar:
            self._bar.start()
            total = sum(estimate.packet_hops for estimate in estimates.values())
            self._tasks["all"] = self._bar.add_task("all runs", total=total, rates="")
            self._bar.update(self._tasks["all"], completed=self._hops_before)

    def start(self, experiment: Experiment) -> None:
        """Show a run."""
        if self._bar:
            self._tasks[experiment.run_id] = self._bar.add_task(experiment.title, total=None, rates="")

    def advance(self, run_id: str, progress: engine.Progress) -> None:
        """Show how far a run and the whole are."""
        # Packets count: hops turn out more than estimated where routes are not minimal.
        fraction = progress.packets_delivered / max(progress.packets_total, 1)
        self._hops[run_id] = fraction * self._estimates[run_id].packet_hops
        if self._bar:
            self._bar.update(
                self._tasks[run_id],
                total=progress.packets_total,
                completed=progress.packets_delivered,
                rates=rates(progress),
            )
            self._bar.update(self._tasks["all"], completed=sum(self._hops.values()), rates=self._whole())
        elif time.monotonic() - self._said >= LINE_INTERVAL_S:
            self._said = time.monotonic()
            self._lines.say(self._whole())

    def end(self, experiment: Experiment, outcome: Outcome) -> None:
        """Say how a run ended."""
        self._ended += 1
        self._hops[experiment.run_id] = float(self._estimates[experiment.run_id].packet_hops)
        line = f"{experiment.run_id} {experiment.title}: {outcome.status}"
        line += f", {outcome.message}" if outcome.message else f" in {duration(outcome.wall_s)}"
        if self._bar:
            self._bar.remove_task(self._tasks.pop(experiment.run_id))
            self._bar.update(self._tasks["all"], completed=sum(self._hops.values()), rates=self._whole())
            self._bar.console.print(line, markup=False)
        else:
            self._lines.say(line)

    def _whole(self) -> str:
        total = sum(estimate.packet_hops for estimate in self._estimates.values())
        done = sum(self._hops.values())
        speed = (done - self._hops_before) / max(time.monotonic() - self._started, 1e-9)
        left = f", about {duration((total - done) / speed)} left" if speed > 0 else ""
        percent = 100 * done / max(total, 1)
        runs = f"{self._ended} of {len(self._estimates)} runs, {percent:.0f} %"
        return f"{runs}, {count(speed)} packet-hops/s{left}"


def _bar() -> Progress:
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=12),
        TaskProgressColumn(),
        TextColumn("{task.fields[rates]}", markup=False),
        console=console(stderr=True),
    )
