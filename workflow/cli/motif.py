"""`hxmesh motif`: the traffic patterns."""

from __future__ import annotations

from typing import Annotated

import typer

app = typer.Typer(help="Traffic patterns and their parameters.", no_args_is_help=True)


@app.command("list", epilog="Example: `hxmesh motif list`")
def list_motifs() -> None:
    """List the motifs."""
    from motifs import MOTIFS
    from workflow.cli.display import console, table
    from workflow.schema import DNN, DNN_DESCRIPTION, DNN_KEYS, GOAL, GOAL_DESCRIPTION, motif_key

    shown = table("motif", "traffic", "parameters")
    for name, motif in MOTIFS.items():
        shown.add_row(
            name, motif.description, ", ".join(motif_key(parameter) for parameter in motif.parameters)
        )
    shown.add_row(DNN, DNN_DESCRIPTION, ", ".join(["workload", *(motif_key(key) for key in DNN_KEYS)]))
    shown.add_row(GOAL, GOAL_DESCRIPTION, "file, calc_unit")
    console().print(shown)


@app.command(epilog="Example: `hxmesh motif show two-rings`")
def show(name: Annotated[str, typer.Argument(help="Name of a motif.")]) -> None:
    """Show the parameters of a motif as a configuration takes them."""
    from motifs import MOTIFS
    from topologies.errors import unknown_name
    from workflow.cli.display import console, table
    from workflow.schema import (
        DNN,
        DNN_DESCRIPTION,
        DNN_KEYS,
        DNN_WORKLOAD,
        GOAL,
        GOAL_DESCRIPTION,
        GOAL_PARAMETERS,
        MOTIF_NAMES,
        motif_key,
    )

    out = console()
    shown = table("parameter", "default", "meaning")
    if name == GOAL:
        out.print(f"{GOAL}: {GOAL_DESCRIPTION}\n", markup=False)
        for key, (default, meaning) in GOAL_PARAMETERS.items():
            shown.add_row(key, default or "required", meaning)
        out.print(shown)
        return
    if name not in MOTIF_NAMES:
        raise unknown_name("motif", name, MOTIF_NAMES)
    if name == DNN:
        shown.add_row("workload", "required", DNN_WORKLOAD)
    description = DNN_DESCRIPTION if name == DNN else MOTIFS[name].description
    for parameter in DNN_KEYS if name == DNN else MOTIFS[name].parameters:
        default = (
            "required" if parameter.required else "" if parameter.default is None else str(parameter.default)
        )
        choices = f" ({', '.join(parameter.choices)})" if parameter.choices else ""
        unit = f", {parameter.unit}" if parameter.unit and parameter.unit != "bytes" else ""
        shown.add_row(motif_key(parameter), default, parameter.description + unit + choices)
    out.print(f"{name}: {description}\n", markup=False)
    out.print(shown)
