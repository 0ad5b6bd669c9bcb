"""`hxmesh config`: the reference of the configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    help="The configuration's reference: every key with its default, and the JSON Schema.",
    no_args_is_help=True,
)


@app.command(epilog="Example: `hxmesh config default > my_study.yaml`")
def default() -> None:
    """Print a study that shows every key with its default."""
    from workflow.reference import default_yaml

    print(default_yaml(), end="")


@app.command(epilog="Example: `hxmesh config schema > schema.json`")
def schema() -> None:
    """Print the JSON Schema of a study."""
    from workflow.reference import json_schema

    print(json_schema(), end="")


@app.command("list", epilog="Example: `hxmesh config list`")
def list_studies() -> None:
    """List the shipped studies."""
    from workflow.cli.display import console, table
    from workflow.experiment import CONFIG_DIR, load_study

    shown = table("study", "kind", "description")
    for path in sorted(CONFIG_DIR.glob("*.yaml")):
        study = load_study(path)
        shown.add_row(path.stem, study.kind, study.description)
    console().print(shown)


@app.command(epilog="Example: `hxmesh config write` after a change of the models")
def write(
    directory: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where to (default: the shipped files).")
    ] = None,
) -> None:
    """Bring default.yaml, schema.json and the schema of workloads up to date."""
    from workflow import reference

    changed = reference.write(directory, directory / "workload.json") if directory else reference.write()
    for path in changed:
        print(path)
