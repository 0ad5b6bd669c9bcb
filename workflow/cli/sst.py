"""`hxmesh sst`: what runs on SST need."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Prepare runs on SST: the element library.", no_args_is_help=True)

_WHERE = typer.Option(
    "--sst", metavar="PATH", help="Prefix of SST, or its sst-config (default: the one on the PATH)."
)


@app.command(epilog="Examples: `hxmesh sst build`, `hxmesh sst build --sst /usr/local/sst --out elements`")
def build(
    sst: Annotated[Path | None, _WHERE] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Folder of the library (default: one in your cache, by version of SST)."
        ),
    ] = None,
    elements_source: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Source tree of sst-elements, for the Ember motif (default: that of the installed ones).",
        ),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Compilers at the same time (default: one per core).")
    ] = None,
) -> None:
    """Compile the element library for the installed SST, if that is not done; print its folder.

    SST finds the library if that folder is on SST_LIB_PATH.
    """
    from sst_models import build as builder
    from workflow.cli.run import available_cores

    print(builder.build(sst, out, elements_source=elements_source, jobs=jobs or available_cores()))
