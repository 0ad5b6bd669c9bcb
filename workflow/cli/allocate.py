"""`hxmesh allocate`: jobs on a shared machine."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from topologies.errors import ConfigError, require, unknown_name

if TYPE_CHECKING:
    import pandas as pd

    from allocation import Allocation, Strategy
    from allocation.boards import Board
    from allocation.shapes import Shape
    from allocation.traffic import Pattern

app = typer.Typer(
    help="Jobs on a shared machine: where they go, how much is used.",
    no_args_is_help=True,
)

RESULTS = Path("results/allocation")
SEARCHES = ("greedy", "complete", "block")

_PROCESSES = typer.Option(min=1, help="Processes at the same time (default: one per core).")


@app.command(
    epilog="Examples: `hxmesh allocate show 2x4 --boards 4x4 --failed 1,1 --failed 2,3 --failed 3,0`, "
    "`hxmesh allocate show --draw --boards 16x16 --random-failures 20 --seed 1 --picture placement.png`"
)
def show(
    jobs: Annotated[
        list[str] | None,
        typer.Argument(help="Jobs: columns x rows in boards (2x4), or a number of boards (8)."),
    ] = None,
    boards: Annotated[str, typer.Option(help="Columns x rows of boards of the machine.")] = "16x16",
    board: Annotated[str, typer.Option(help="Columns x rows of accelerators of a board.")] = "2x2",
    failed: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN,ROW", help="A failed board; may be repeated.")
    ] = None,
    failed_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Failed boards, column and row of one a line.")
    ] = None,
    random_failures: Annotated[int, typer.Option(min=0, help="That many failed boards at random.")] = 0,
    draw: Annotated[
        bool, typer.Option("--draw", help="Fill the machine with jobs of the published sizes.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Of random failures and of --draw.")] = 0,
    transpose: Annotated[bool, typer.Option(help="Also try jobs turned.")] = True,
    aspect_ratio: Annotated[bool, typer.Option(help="Also try other aspect ratios, up to 1:8.")] = True,
    sort_jobs: Annotated[bool, typer.Option(help="Largest job first.")] = True,
    locality: Annotated[
        str, typer.Option(help="Least traffic in the upper level of line trees: no, alltoall, allreduce.")
    ] = "no",
    radix: Annotated[int, typer.Option(min=4, help="Ports of a switch.")] = 64,
    search: Annotated[
        str, typer.Option(help="greedy, complete (finds a place where there is one), block (for a torus).")
    ] = "greedy",
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also draw the boards (.png, .pdf, .svg).")
    ] = None,
) -> None:
    """Place jobs on boards and show where they are: a letter for each job, x for failed boards."""
    import numpy as np

    from allocation import Boards, allocate, draw_jobs, read_failures
    from allocation import random_failures as draw_failures
    from allocation.boards import parse_board

    columns, rows = _pair("--boards", boards)
    side = _pair("--board", board)
    rng = np.random.default_rng(seed)
    chosen: list[Board] = [parse_board(text.split(","), "--failed") for text in failed or []]
    chosen += read_failures(failed_file) if failed_file is not None else ()
    if random_failures and chosen:
        raise ConfigError("--random-failures goes without --failed and --failed-file.")
    if random_failures:
        chosen += draw_failures(columns, rows, random_failures, rng)
    machine = Boards(columns, rows, tuple(chosen))
    asked = [_job(text) for text in jobs or []]
    if draw and asked:
        raise ConfigError("--draw goes without jobs of your own.")
    if draw:
        asked = draw_jobs(columns, rows, machine.usable, rng)
    require(len(asked) > 0, "the number of jobs", 0, "one or more (or use --draw)")
    strategy = _strategy((columns, rows), transpose, aspect_ratio, sort_jobs, locality, radix, search)
    found = allocate(machine, asked, strategy)
    if picture is not None:
        from allocation.picture import draw as draw_picture

        draw_picture(found, side, picture)
    _print(found, side)
    if picture is not None:
        print(f"\nwritten: {picture}")


@app.command(epilog="Example: `hxmesh allocate study --samples 1000 --out results/allocation`")
def study(
    samples: Annotated[int, typer.Option(min=1, help="Job mixes for each scenario.")] = 1000,
    bound_samples: Annotated[
        int, typer.Option(min=1, help="Job mixes for which the best placement is searched.")
    ] = 20,
    bound_limit: Annotated[float, typer.Option(help="Seconds of solver time for each of them.")] = 2.0,
    seed: Annotated[int, typer.Option(min=0, help="Of jobs and failures.")] = 0,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder of the results.")] = RESULTS,
    processes: Annotated[int | None, _PROCESSES] = None,
) -> None:
    """Fill machines with random job mixes by every strategy; compare with the published utilisations."""
    from allocation import study as studies
    from analysis import allocation as results

    steps = _Steps(4)
    step: dict[str, Any] = {"seed": seed, "processes": processes}

    def write(name: str, frame: pd.DataFrame) -> pd.DataFrame:
        print(results.write_csv(frame, out / f"{name}.csv"), flush=True)
        return frame

    advance = steps.next("machines of the artifact")
    published = studies.utilization_samples("artifact", samples, **step, progress=advance)
    frame = write("utilization", results.utilization(published, seed))
    advance = steps.next("torus and fat tree")
    baselines = studies.baseline_samples("artifact", samples, **step, progress=advance)
    write("baselines", results.baselines(baselines, seed))
    results.figures(published, baselines, out)
    advance = steps.next("machines of Table 2")
    table2 = studies.utilization_samples("table2", samples, **step, progress=advance)
    # The published values are not of these machines.
    without = ["published_mean_percent", "published_p99_percent"]
    write("utilization_table2", results.utilization(table2, seed).drop(columns=without))
    advance = steps.next("best placements")
    bound = studies.bound_samples(bound_samples, limit_s=bound_limit, **step, progress=advance)
    write("bound", results.bound(bound, seed))
    compared = int(frame["published_mean_percent"].notna().sum())
    differing = results.differences(frame)
    print(f"{compared} published scenarios, {len(differing)} values outside of their tolerance.")
    for sentence in differing:
        print(f"  {sentence}")


@app.command(epilog="Example: `hxmesh allocate interference --out results/allocation`")
def interference(
    seeds: Annotated[int, typer.Option(min=1, help="Draws of jobs and failures for each scenario.")] = 1,
    engine: Annotated[
        str, typer.Option(help="packet (1,024 accelerators) or sst (64 accelerators).")
    ] = "packet",
    message: Annotated[str, typer.Option(help="Size of a message of an alltoall.")] = "16 KiB",
    vector: Annotated[str, typer.Option(help="Size of the vector of an allreduce.")] = "8 MiB",
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder of the results.")] = RESULTS,
    processes: Annotated[int | None, _PROCESSES] = None,
) -> None:
    """Simulate placed jobs together, each alone and each on a machine of its own."""
    from analysis import allocation as results
    from workflow import interference as jobs
    from workflow.cli.display import console, table
    from workflow.units import parse_bytes

    if engine not in ("packet", "sst"):
        raise unknown_name("--engine", engine, ("packet", "sst"))
    message_bytes, vector_bytes = parse_bytes(message, "--message"), parse_bytes(vector, "--vector")
    frame = jobs.interference(
        jobs.scenarios(range(seeds), cast(Literal["packet", "sst"], engine)),
        message_bytes=message_bytes,
        vector_bytes=vector_bytes,
        processes=processes,
        progress=_Steps(1).next("jobs together and alone"),
    )
    summary = results.interference_summary(frame)
    numbers = tuple(name for name in summary.columns if name not in ("network", "traffic"))
    shown = table(
        *(name.replace("_", " ") for name in summary.columns),
        right=tuple(name.replace("_", " ") for name in numbers),
    )
    for row in summary.itertuples(index=False):
        shown.add_row(*(f"{cell:.3f}" if isinstance(cell, float) else str(cell) for cell in row))
    console().print(shown)
    stem = "interference" if engine == "packet" else f"interference_{engine}"
    print(results.write_csv(frame, out / f"{stem}.csv"))
    print(results.write_csv(summary, out / f"{stem}_summary.csv"))
    print(results.interference_figure(frame, out, stem).png)


def _pair(option: str, text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d+)x(\d+)", text)
    if match is None or "0" in (match[1], match[2]):
        raise ConfigError(f"{option} is {text!r} but must be two numbers above 0 such as 4x4.")
    return int(match[1]), int(match[2])


def _job(text: str) -> Shape:
    from allocation import nearest_square

    if text.isdecimal() and int(text):
        return nearest_square(int(text))
    match = re.fullmatch(r"([1-9]\d*)x([1-9]\d*)", text)
    if match is None:
        raise ConfigError(
            f"a job is {text!r} but must be columns x rows in boards (2x4) or a number of boards."
        )
    return int(match[1]), int(match[2])


def _strategy(
    size: tuple[int, int],
    transpose: bool,
    aspect_ratio: bool,
    sort_jobs: bool,
    locality: str,
    radix: int,
    search: str,
) -> Strategy:
    from allocation import LineTrees, block, complete, greedy, published_strategy
    from allocation.traffic import PATTERNS

    if locality not in ("no", *PATTERNS):
        raise unknown_name("--locality", locality, ("no", *PATTERNS))
    if search not in SEARCHES:
        raise unknown_name("--search", search, SEARCHES)
    return published_strategy(
        transpose=transpose,
        aspect_ratio=aspect_ratio,
        sort_jobs=sort_jobs,
        locality=None if locality == "no" else cast("Pattern", locality),
        trees=LineTrees(*size, radix=radix),
        search={"greedy": greedy, "complete": complete, "block": block}[search],
    )


def _print(found: Allocation, board: tuple[int, int]) -> None:
    from allocation.picture import letter, text
    from workflow.cli.display import console, table

    out = console()
    out.print(text(found), markup=False)
    out.print("")
    numbers = ("boards", "accelerators")
    shown = table("job", "", "asked", "placed", *numbers, "columns", "rows", right=numbers)
    for number, (job, place) in enumerate(zip(found.jobs, found.places, strict=True)):
        cells = [str(number), letter(number), f"{job[0]}x{job[1]}"]
        if place is None:
            shown.add_row(*cells, "no", "0", "0", "", "")
            continue
        columns, rows = place.shape
        shown.add_row(
            *cells,
            f"{columns}x{rows}",
            str(place.size),
            f"{place.size * board[0] * board[1]:,}",
            _ranges(place.columns),
            _ranges(place.rows),
        )
    out.print(shown)
    placed = sum(place is not None for place in found.places)
    out.print(
        f"\n{placed} of {len(found.jobs)} jobs placed; {found.used} of {found.boards.usable} working boards "
        f"in use ({found.utilization_percent:.2f} %), {len(found.boards.failed)} failed.",
        markup=False,
    )


def _ranges(places: tuple[int, ...]) -> str:
    """`0-2, 5` for 0, 1, 2, 5."""
    runs: list[list[int]] = []
    for place in places:
        if runs and place == runs[-1][-1] + 1:
            runs[-1].append(place)
        else:
            runs.append([place])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


class _Steps:
    """Progress of a study on stderr: a line for each step and for each quarter of it."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._number = 0

    def next(self, name: str) -> Callable[[float], None]:
        """Start a step; what is returned takes the fraction of it that is done."""
        self._number += 1
        head = f"{self._number} of {self._total}: {name}"
        typer.echo(head, err=True)
        said = 0

        def advance(fraction: float) -> None:
            nonlocal said
            if int(4 * fraction) > said:
                said = int(4 * fraction)
                typer.echo(f"{head}: {25 * said} %", err=True)

        return advance
