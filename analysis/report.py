"""One study to its files: tables as CSV and Markdown, figures as PNG and PDF, and a report in one HTML
page.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from analysis import (
    comparison,
    dnn,
    dnn_figures,
    figures,
    networks,
    permutation,
    render,
    sweeps,
    table2,
    validate,
)
from analysis.collect import COMPLETE, Study, by_cluster, collect, load_study
from analysis.comparison import Comparison
from topologies.errors import ConfigError


@dataclass
class _Built:
    """What a kind of study makes: its main table, further files by name, readable tables and pictures."""

    csv_name: str
    frame: pd.DataFrame
    tables: list[render.Table]
    pictures: list[render.Picture] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)


def report(results_dir: Path, config_path: Path | None = None) -> list[Path]:
    """Write every table and figure of a results directory and return the paths, sorted.

    The kind of study (``study.json``) chooses them: ``table2.csv`` for a Table 2, else ``<name>.csv``; the
    same table as Markdown; ``runs.csv``, one row a run; figures under ``figures/``; and ``report.html``,
    which needs no other file. Runs that failed or are missing appear as such. The text of ``config_path``
    is shown in the HTML. Raises ``ConfigError`` for a directory without a study.
    """
    study = load_study(results_dir)
    config = _config_text(config_path)
    runs = collect(results_dir, study)
    built = _BUILDERS[study.kind](study, runs, results_dir)

    page = render.Report(
        title=study.name,
        description=study.description,
        tables=built.tables,
        pictures=built.pictures,
        remarks=_remarks(runs),
        config=config,
    )
    compared = _check(study, runs, results_dir)
    if not compared.empty:
        page.tables.append(_check_table(compared))
    stem = Path(built.csv_name).stem
    written = [
        render.write(results_dir / built.csv_name, render.csv_text(built.frame)),
        render.write(results_dir / "runs.csv", render.csv_text(runs)),
        *(render.write(results_dir / name, content) for name, content in built.files.items()),
        render.write(results_dir / f"{stem}.md", render.markdown_text(page, results_dir)),
        render.write(results_dir / "report.html", render.html_text(page)),
        *(path for picture in built.pictures for path in (picture.png, picture.pdf)),
    ]
    return sorted(set(written))


def check(results_dir: Path) -> pd.DataFrame:
    """Compare a results directory with the published values that may judge it (``comparison.SCHEMA``).

    Only as-simulated rows and values read in the artifact or printed in the article are compared, at the
    same sizes; prices are those of the as-costed networks. Tolerances are ``published.TOLERANCES``; a price
    has to agree to the third decimal.
    """
    study = load_study(results_dir)
    return _check(study, collect(results_dir, study), results_dir)


def _check(study: Study, runs: pd.DataFrame, results_dir: Path) -> pd.DataFrame:
    comparisons: dict[str, Callable[[], list[Comparison]]] = {
        "table2": lambda: table2.check(runs),
        "alltoall": lambda: sweeps.check_alltoall(runs),
        "allreduce": lambda: sweeps.check_allreduce(runs),
        "permutation": lambda: permutation.check(results_dir, runs),
        "validate": list,
        "dnn": lambda: dnn.check(study, runs),
        "generic": list,
    }
    return comparison.frame(comparisons[study.kind]())


def _table2(study: Study, runs: pd.DataFrame, results_dir: Path) -> _Built:
    frame = table2.build(runs)
    pictures = _pictures(figures.table2, "table2", frame, results_dir)
    tables, files = table2.tables(study, frame), {}
    if table2.has_sweep(runs):
        sweep = sweeps.build_allreduce(runs[runs["role"] == "allreduce"])
        tables += sweeps.tables(study, sweep)
        files["allreduce.csv"] = render.csv_text(sweep[list(sweeps.ALLREDUCE_SCHEMA.columns)]).encode()
    return _Built("table2.csv", frame[list(table2.SCHEMA.columns)], tables, pictures, files)


def _alltoall(study: Study, runs: pd.DataFrame, results_dir: Path) -> _Built:
    frame = sweeps.build_alltoall(runs)
    pictures = _pictures(figures.alltoall, study.name, frame, results_dir)
    columns = list(sweeps.ALLTOALL_SCHEMA.columns)
    return _Built(f"{study.name}.csv", frame[columns], sweeps.tables(study, frame), pictures)


def _allreduce(study: Study, runs: pd.DataFrame, results_dir: Path) -> _Built:
    frame = sweeps.build_allreduce(runs)
    pictures = _pictures(figures.allreduce, study.name, frame, results_dir)
    columns = list(sweeps.ALLREDUCE_SCHEMA.columns)
    return _Built(f"{study.name}.csv", frame[columns], sweeps.tables(study, frame), pictures)


def _permutation(study: Study, runs: pd.DataFrame, results_dir: Path) -> _Built:
    frame, accelerators = permutation.build(results_dir, runs)

    def draw(part: pd.DataFrame, cluster: str, directory: Path, stem: str) -> render.Picture:
        own = accelerators[accelerators["cluster"] == cluster]
        return figures.permutation(part, own, cluster, directory, stem)

    parquet = io.BytesIO()
    accelerators.to_parquet(parquet, index=False, compression="zstd")
    return _Built(
        f"{study.name}.csv",
        frame[list(permutation.SCHEMA.columns)],
        permutation.tables(study, frame),
        _pictures(draw, study.name, frame, results_dir),
        {"per_accelerator.parquet": parquet.getvalue()},
    )


def _validate(study: Study, runs: pd.DataFrame, results_dir: Path) -> _Built:
    frame = validate.build(results_dir, runs)
    return _Built(f"{study.name}.csv", frame, validate.tables(study, frame))


def _dnn(study: Study, runs: pd.DataFrame, results_dir: Path) -> _Built:
    frame = dnn.build(study, runs)
    saved = dnn.savings(frame)
    directory = results_dir / "figures"
    pictures = []
    if not saved.empty:
        pictures.append(dnn_figures.cost_savings(saved, directory, "cost_savings"))
    traced = dnn.timelines(results_dir, study, runs)
    if traced:
        pictures.append(dnn_figures.timeline(traced, directory, "timeline"))
    files = {"cost_savings.csv": render.csv_text(saved).encode()}
    return _Built(f"{study.name}.csv", frame, dnn.tables(frame, saved), pictures, files)


def _generic(study: Study, runs: pd.DataFrame, results_dir: Path) -> _Built:
    return _Built(f"{study.name}.csv", runs, [_runs_table(runs)])


_BUILDERS: dict[str, Callable[[Study, pd.DataFrame, Path], _Built]] = {
    "table2": _table2,
    "alltoall": _alltoall,
    "allreduce": _allreduce,
    "permutation": _permutation,
    "validate": _validate,
    "dnn": _dnn,
    "generic": _generic,
}


def _pictures(
    draw: Callable[[pd.DataFrame, str, Path, str], render.Picture],
    name: str,
    frame: pd.DataFrame,
    results_dir: Path,
) -> list[render.Picture]:
    """A picture of each cluster of a table, the cluster in its file's name where there are several."""
    only = frame["cluster"].nunique() == 1
    return [
        draw(part, cluster, results_dir / "figures", name if only else f"{name}-{cluster or 'own'}")
        for cluster, part in by_cluster(frame)
    ]


def _runs_table(runs: pd.DataFrame) -> render.Table:
    columns = {
        "run_id": render.Column("run", left=True),
        "topology": render.Column("network", left=True),
        "variant": render.Column("variant", left=True),
        "motif": render.Column("motif", left=True),
        "message_bytes": render.Column("message", "size"),
        "bytes": render.Column("vector", "size"),
        "seed": render.Column("seed"),
        "simulated_time_ms": render.Column("simulated, ms", ".6g"),
        "packets": render.Column("packets", ",d"),
        "packet_hops": render.Column("packet-hops", ",d"),
        "wall_s": render.Column("wall, s", ".1f"),
        "peak_memory_bytes": render.Column("memory, MiB", "MiB"),
        "status": render.Column("status", left=True),
        "message_text": render.Column("note", left=True),
    }
    shown = runs.assign(simulated_time_ms=runs["simulated_time_ps"] / 1e9, message_text=runs["message"])
    return render.table("Runs", columns, shown)


def _check_table(compared: pd.DataFrame) -> render.Table:
    columns = {
        "topology": render.Column("network", left=True),
        "variant": render.Column("variant", left=True),
        "algorithm": render.Column("algorithm", left=True),
        "bytes": render.Column("size", "size"),
        "metric": render.Column("metric", left=True),
        "ours": render.Column("ours", ".5g"),
        "published": render.Column("published", ".5g"),
        "relative_difference": render.Column("relative difference", "+.2%"),
        "tolerance": render.Column("tolerance", "percent"),
        "verdict": render.Column("within", left=True),
        "source": render.Column("source", left=True),
    }
    shown = compared.assign(
        topology=compared["topology"].map(networks.label),
        verdict=["yes" if ok else "no" for ok in compared["within"]],
    )
    count = int(compared["within"].sum())
    note = f"{count} of {len(compared)} comparisons are within their tolerance. "
    note += "Only values read in the artifact judge; unverified and derived ones do not."
    return render.table("Comparison with the artifact", columns, shown, [note])


def _remarks(runs: pd.DataFrame) -> list[str]:
    """What a reader has to know of the runs: how many, which engine and versions, which did not end well."""
    unique = runs.drop_duplicates("run_id")
    complete = unique[unique["status"] == COMPLETE]
    remarks = [f"{len(complete)} of {len(unique)} runs are complete."]
    engines = sorted({str(engine) for engine in complete["engine"]} - {""})
    if engines:
        remarks.append(f"Engine: {', '.join(engines)}.")
    for versions in sorted(set(complete["versions"])):
        named = json.loads(versions)
        if named:
            remarks.append(
                "Versions: " + ", ".join(f"{name} {version}" for name, version in sorted(named.items())) + "."
            )
    for _, run in unique[unique["status"] != COMPLETE].iterrows():
        reason = f" ({run['message']})" if run["message"] else ""
        remarks.append(f"Run {run['run_id']} ({run['topology']}, {run['variant']}): {run['status']}{reason}.")
    remarks.append(
        "One of the identical planes of the machine is simulated with its share of the data; "
        "bandwidths are those of a plane."
    )
    return remarks


def _config_text(path: Path | None) -> str:
    if path is None:
        return ""
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"config {str(path)!r} cannot be read: {error}.") from None
