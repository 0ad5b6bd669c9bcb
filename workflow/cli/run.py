"""`hxmesh run`: one experiment, or all of a study."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from topologies.errors import ConfigError
from workflow.cli import EXIT_RUN


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command(
        epilog="Examples: `hxmesh run table2_quick --jobs 2`, `hxmesh run my_study.yaml --engine sst`, "
        "`hxmesh run --experiment results/my_study/runs/0123456789ab/experiment.json`"
    )(run)


def run(
    config: Annotated[
        str | None,
        typer.Argument(metavar="[CONFIG]", help="Configuration file, or the name of a shipped study."),
    ] = None,
    experiment: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Run this experiment.json instead of a study.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Run directory of the experiment (default: beside experiment.json)."
        ),
    ] = None,
    results: Annotated[
        Path,
        typer.Option(
            metavar="DIR", help="Where the results of studies go, each into a directory of its name."
        ),
    ] = Path("results"),
    engine: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Simulator in place of the study's own: packet or sst. The results go to <study>-<engine>.",
        ),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Runs at the same time (default: one per core).")
    ] = None,
    prepare: Annotated[
        bool,
        typer.Option("--prepare", help="Check the study and write every experiment.json, but run nothing."),
    ] = False,
    report: Annotated[bool, typer.Option(help="Make the tables and figures at the end.")] = True,
    log: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Show the progress of an experiment as lines, not as a bar, and write them here too.",
        ),
    ] = None,
    memory_limit: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="End an experiment whose own data grows beyond, e.g. 8GiB."),
    ] = None,
) -> int:
    """Run all of a study on this machine, or one experiment of it.

    Runs that are complete are kept, so a study that was interrupted goes on where it was.
    """
    if (config is None) == (experiment is None):
        raise ConfigError("run takes either a CONFIG or --experiment FILE.")
    if experiment is not None:
        if engine is not None:
            raise ConfigError(f"--engine is {engine!r} but only goes with CONFIG; an experiment has its own.")
        return _run_experiment(experiment, out, log, memory_limit)
    for option, value in (("--out", out), ("--log", log), ("--memory-limit", memory_limit)):
        if value is not None:
            raise ConfigError(f"{option} is {str(value)!r} but only goes with --experiment.")
    assert config is not None
    return _run_study(config, engine, results, jobs, prepare, report)


def available_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _run_experiment(path: Path, out: Path | None, log: Path | None, memory_limit: str | None) -> int:
    from workflow.cli.display import RunDisplay
    from workflow.experiment import Experiment
    from workflow.runner import not_in_the_future, run_experiment
    from workflow.units import parse_bytes

    limit = parse_bytes(memory_limit, "--memory-limit") if memory_limit is not None else None
    chosen = Experiment.load(path)
    not_in_the_future([path])
    with RunDisplay(chosen, log) as display:
        result = run_experiment(
            chosen, out or path.parent, progress=display.advance, memory_limit_bytes=limit
        )
        display.end(result)
    return 0 if result.complete else EXIT_RUN


def _run_study(
    config: str, engine: str | None, results: Path, jobs: int | None, prepare: bool, report: bool
) -> int:
    from workflow.cli.display import PlanDisplay
    from workflow.experiment import find_config, load_plan
    from workflow.runner import not_in_the_future, run_plan

    path = find_config(config)
    plan = load_plan(path, engine)
    # A run on SST may take several cores by itself.
    on_sst = "sst" in plan.study.engines
    each = plan.study.sst.threads * plan.study.sst.ranks if on_sst else 1
    jobs = jobs or max(1, available_cores() // each)
    directory = results / plan.study.name
    if on_sst:
        from workflow.on_sst import check

        check(plan, installed=not prepare)
    not_in_the_future([path])
    if prepare:
        plan.check()
        plan.prepare(directory)
        print(f"{len(plan.run_ids)} runs prepared in {directory}")
        return 0
    display = PlanDisplay()
    try:
        outcomes = run_plan(plan, directory, jobs=jobs, watcher=display)
    finally:
        display.close()
    if report:
        from analysis import report as make_report

        for made in make_report(directory, path):
            print(made)
    return EXIT_RUN if any(outcome.status != "complete" for outcome in outcomes) else 0
