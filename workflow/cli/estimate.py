"""`hxmesh estimate`: what a study will take."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command(
        epilog="Examples: `hxmesh estimate table2_small`, `hxmesh estimate my_study.yaml --jobs 8 --json`"
    )(estimate)


def estimate(
    config: Annotated[str, typer.Argument(help="Configuration file, or the name of a shipped study.")],
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Runs at the same time (default: one per core).")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say how many packets, how much memory and how much time a study will take; checks it as well."""
    from workflow.cli.display import console, count, duration, table
    from workflow.cli.run import available_cores
    from workflow.estimate import BASIS, estimate_plan, makespan_s
    from workflow.experiment import find_config, load_plan

    plan = load_plan(find_config(config))
    estimates = estimate_plan(plan)
    cores = jobs or available_cores()
    if as_json:
        runs = {
            run: asdict(found) | {"title": plan.experiments[run].title} for run, found in estimates.items()
        }
        print(json.dumps({"jobs": cores, "wall_s": makespan_s(estimates, cores), "runs": runs}, indent=2))
        return
    numbers = ("packets", "packet-hops", "memory", "time")
    shown = table("run", "experiment", *numbers, right=numbers)
    for run, found in estimates.items():
        shown.add_row(
            run,
            plan.experiments[run].title,
            count(found.packets),
            count(found.packet_hops),
            f"{found.memory_bytes / 2**20:.0f} MiB",
            duration(found.wall_s),
        )
    out = console()
    out.print(shown)
    hops = sum(found.packet_hops for found in estimates.values())
    total = (
        f"{len(estimates)} runs, {count(hops)} packet-hops: about {duration(makespan_s(estimates, cores))}"
    )
    out.print(f"\n{total} with {cores} at a time.\n{BASIS}", markup=False)
