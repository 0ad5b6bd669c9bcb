"""The command and its verbs."""

from __future__ import annotations

import importlib.metadata
from typing import Annotated

import typer

from workflow.cli import allocate, config, doctor, estimate, motif, report, run, sst, topology

app = typer.Typer(
    name="hxmesh",
    help="Experiment harness for interconnects of deep-learning machines: HammingMesh and its baselines.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    add_completion=False,
    epilog="Start with `hxmesh doctor`, then `hxmesh run default` or `hxmesh run table2_quick`.",
)

app.add_typer(topology.app, name="topology")
app.add_typer(motif.app, name="motif")
app.add_typer(allocate.app, name="allocate")
run.register(app)
estimate.register(app)
report.register(app)
doctor.register(app)
app.add_typer(sst.app, name="sst")
app.add_typer(config.app, name="config")


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"hxmesh {importlib.metadata.version('hxmesh')}")
        raise typer.Exit


@app.callback()
def hxmesh(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_print_version),
    ] = False,
) -> None:
    """Experiment harness for interconnects of deep-learning machines: HammingMesh and its baselines."""


def usage_error(error: Exception) -> str | None:
    """Return one sentence for a wrong call, None for any other exception."""
    # Typer brings its own copy of click or uses the installed one, depending on its version.
    format_message = getattr(error, "format_message", None)
    if format_message is None:
        return None
    return " ".join(str(format_message()).split()).rstrip(".") + "."
