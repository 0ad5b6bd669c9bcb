"""`hxmesh report`: tables and figures from results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from topologies.errors import ConfigError


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command(epilog="Examples: `hxmesh report table2_quick --show`, `hxmesh report results/my_study`")(
        report
    )


def report(
    target: Annotated[
        str,
        typer.Argument(
            metavar="CONFIG_OR_RESULTS", help="A study (file or shipped name), or its results directory."
        ),
    ],
    results: Annotated[Path, typer.Option(metavar="DIR", help="Where the results of studies are.")] = Path(
        "results"
    ),
    show: Annotated[bool, typer.Option("--show", help="Print the table as well.")] = False,
) -> None:
    """Make the tables and figures of a study from its finished runs, and list the files."""
    directory, config = _find(target, results)
    from analysis import report as make_report
    from workflow.runner import not_in_the_future

    sources = [directory / "study.json", *directory.glob("runs/*/*.json"), *([config] if config else [])]
    not_in_the_future(sources)
    made = make_report(directory, config)
    for path in made:
        print(path)
    if show:
        for path in made:
            if path.suffix == ".md":
                print("\n" + path.read_text(encoding="utf-8").rstrip())


def _find(target: str, results: Path) -> tuple[Path, Path | None]:
    """The results directory and, if it is known, the configuration that `target` stands for."""
    from workflow.experiment import find_config, load_study

    if Path(target).is_dir():
        return Path(target), None
    config = find_config(target)
    directory = results / load_study(config).name
    if not directory.is_dir():
        raise ConfigError(f"{target} has no results in {directory}; run it first.")
    return directory, config
