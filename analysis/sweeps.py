"""Sweeps over message and vector sizes: alltoall (Figure 6 of the article) and allreduce
(Figures 7 and 8).
"""

from __future__ import annotations

from typing import Any

import pandas as pd
import pandera.pandas as pa

from analysis import measures, networks, published
from analysis.collect import COMPLETE, Study, by_cluster, sort_rows
from analysis.comparison import Comparison
from analysis.render import Column, Table, table

_NUMBER = pa.Column("Float64", pa.Check.ge(0), nullable=True)
_COUNT = pa.Column("Int64", pa.Check.ge(0), nullable=True)
_DIFFERENCE = pa.Column("Float64", pa.Check.ge(-1), nullable=True)
_TEXT = pa.Column(str)
_WHAT_RAN = {
    "engine": _TEXT,
    "packets": _COUNT,
    "packet_hops": _COUNT,
    "wall_s": _NUMBER,
    "peak_memory_bytes": _COUNT,
    "status": _TEXT,
    "note": _TEXT,
    "cluster": _TEXT,
}
_BOUND = {"bound_percent": _NUMBER, "percent_of_bound": _NUMBER}
"""Upper bound for any routing, in the unit of the percentage measured, and what was reached of it."""

ALLTOALL_SCHEMA = pa.DataFrameSchema(
    {
        "topology": _TEXT,
        "variant": _TEXT,
        "message_bytes": _COUNT,
        "time_s": _NUMBER,
        "bandwidth_gbps": _NUMBER,
        "percent_of_injection": _NUMBER,
        "accelerators": _COUNT,
        "published_time_s": _NUMBER,
        "published_barrier_s": _NUMBER,
        "published_percent_of_injection": _NUMBER,
        "relative_difference": _DIFFERENCE,
        **_WHAT_RAN,
        **_BOUND,
    },
    strict="filter",
    coerce=True,
    ordered=True,
)
"""Columns of the alltoall table in order: bandwidth is received per accelerator in one plane, the relative
difference its own, with the published one in the time without the barrier that followed.
"""

ALLREDUCE_SCHEMA = pa.DataFrameSchema(
    {
        "topology": _TEXT,
        "variant": _TEXT,
        "algorithm": _TEXT,
        "bytes": _COUNT,
        "time_s": _NUMBER,
        "bandwidth_gbps": _NUMBER,
        "percent_of_peak": _NUMBER,
        "theory_time_s": _NUMBER,
        "published_time_s": _NUMBER,
        "published_barrier_s": _NUMBER,
        "published_percent_of_peak": _NUMBER,
        "relative_difference": _DIFFERENCE,
        "accelerators": _COUNT,
        **_WHAT_RAN,
        **_BOUND,
    },
    strict="filter",
    coerce=True,
    ordered=True,
)
"""Columns of the allreduce table in order.

``bytes`` is the vector on the whole machine. A ring in one 400 Gb/s plane of four carries a quarter of it,
and is set beside the published ring of that quarter (which is listed under the bytes of its plane) at four
times the published bandwidth.
"""


def build_alltoall(runs: pd.DataFrame) -> pd.DataFrame:
    """One row a run of the collected frame: the columns of ``ALLTOALL_SCHEMA`` and, after
    them, provenance.
    """
    rows = []
    for run in _of_role(runs, "alltoall"):
        reference = None
        if not pd.isna(run["message_bytes"]):
            reference = published.alltoall(run["cluster"], run["topology"], int(run["message_bytes"]))
        row = _row(run, measures.alltoall(run), reference, "percent_of_injection")
        rows.append(row | _of_bound(run, row["percent_of_injection"], "alltoall_bound_percent"))
    return _frame(rows, ALLTOALL_SCHEMA, "percent_of_injection")


def build_allreduce(runs: pd.DataFrame) -> pd.DataFrame:
    """One row a run of the collected frame: the columns of ``ALLREDUCE_SCHEMA`` and, after them,
    provenance.
    """
    rows = []
    for run in _of_role(runs, "allreduce"):
        topology, algorithm = run["topology"], run["algorithm"]
        reference, theory = None, None
        if not pd.isna(run["bytes"]):
            size = int(run["bytes"])
            reference = published.allreduce(
                run["cluster"], topology, algorithm, size, single_plane=run["single_plane"]
            )
            if not pd.isna(run["accelerators"]):
                theory = measures.allreduce_theory_s(topology, algorithm, int(run["accelerators"]), size)
        row = _row(run, measures.allreduce(run), reference, "percent_of_peak")
        bound = _of_bound(run, row["percent_of_peak"], "allreduce_bound_percent")
        rows.append(row | bound | {"theory_time_s": theory})
    return _frame(rows, ALLREDUCE_SCHEMA, "percent_of_peak")


def check_alltoall(runs: pd.DataFrame) -> list[Comparison]:
    """Comparison of the as-simulated runs with the published alltoall points."""
    return _check(build_alltoall(runs), "percent_of_injection", "message_bytes", "alltoall")


def check_allreduce(runs: pd.DataFrame) -> list[Comparison]:
    """Comparison of the as-simulated runs with the published allreduce points."""
    return _check(build_allreduce(runs), "percent_of_peak", "bytes", "allreduce")


def tables(study: Study, frame: pd.DataFrame) -> list[Table]:
    """Readable table of either sweep."""
    alltoall = study.kind == "alltoall"
    percent = "percent_of_injection" if alltoall else "percent_of_peak"
    columns = {
        "topology": Column("network", left=True),
        "variant": Column("variant", left=True),
        **({} if alltoall else {"algorithm": Column("algorithm", left=True)}),
        "message_bytes" if alltoall else "bytes": Column("message" if alltoall else "vector", "size"),
        "time_s": Column("time, ms", "ms"),
        **({} if alltoall else {"theory_time_s": Column("theory, ms", "ms")}),
        "published_time_s": Column("published, ms", "ms"),
        "bandwidth_gbps": Column("Gb/s", ".2f"),
        percent: Column("% of injection" if alltoall else "% of peak", ".3f"),
        f"published_{percent}": Column("published", ".3f"),
        "relative_difference": Column("relative difference", "+.1%"),
        "percent_of_bound": Column("% of bound", ".1f"),
        "packets": Column("packets", ",d"),
        "wall_s": Column("wall, s", ".1f"),
        "status": Column("status", left=True),
        "note": Column("note", left=True),
    }
    notes = [
        "The relative difference is that of the bandwidth, with the published one in the time without the "
        "barrier that ended the published runs, where that was measured. "
        "Published values belong to the as-simulated networks.",
        "The bound holds for any routing (cuts, injection, what all links together carry)"
        + (" and the whole alltoall: a sample of its shifts may go beyond." if alltoall else "."),
    ]
    if not alltoall:
        notes.append(
            "Vectors are those of the whole machine. A ring on a fat tree or Dragonfly was simulated, here "
            "and by the authors, in one 400 Gb/s plane of four with a quarter of the vector: the published "
            "ring of B bytes stands at 4B bytes."
        )
    named = frame.assign(topology=frame["topology"].map(networks.label))
    title = "Alltoall: global bandwidth" if alltoall else "Allreduce"
    return [
        table(f"{title}, {cluster} cluster" if cluster else title, columns, part, notes)
        for cluster, part in by_cluster(named)
    ]


def _of_role(runs: pd.DataFrame, role: str) -> list[dict[str, Any]]:
    wanted = runs["role"].isin([role, ""]) | (runs["motif"] == role)
    if role == "allreduce":
        wanted |= runs["algorithm"] != ""
    return [{str(name): value for name, value in run.items()} for run in runs[wanted].to_dict("records")]


def _row(
    run: dict[str, Any], measure: measures.Measure | None, reference: published.Reference | None, percent: str
) -> dict[str, Any]:
    notes = [measure.note if measure else "", run["message"] if run["status"] != COMPLETE else ""]
    if reference and reference.note:
        notes.append(f"published: {reference.note}")
    row = {name: value for name, value in run.items() if name != "message"} | {
        "time_s": measure.time_s if measure else None,
        "bandwidth_gbps": measure.bandwidth_gbps if measure else None,
        percent: measure.percent if measure else None,
        "note": "; ".join(note for note in notes if note),
    }
    if reference:
        row["published_time_s"] = reference.time_s
        row["published_barrier_s"] = reference.barrier_s
        row[f"published_{percent}"] = reference.percent
        row[f"published_{percent}_provenance"] = reference.provenance
        row[f"published_{percent}_before_barrier"] = reference.percent * reference.barrier_factor
        row["published_note"] = reference.note
        published_gbps = reference.bandwidth_gbps
        row["relative_difference"] = measures.relative_difference(
            measure.bandwidth_gbps if measure else None,
            None if published_gbps is None else published_gbps * reference.barrier_factor,
        )
    return row


def _of_bound(run: dict[str, Any], percent: float | None, bound: str) -> dict[str, float | None]:
    """The columns of ``_BOUND``; a network that is not in the catalog has none."""
    network = networks.network(run["topology"], run["cluster"], run["variant"])
    value = getattr(network, bound) if network else None
    return {"bound_percent": value, "percent_of_bound": measures.percent_of(percent, value)}


def _frame(rows: list[dict[str, Any]], schema: pa.DataFrameSchema, percent: str) -> pd.DataFrame:
    extra = [f"published_{percent}_{what}" for what in ("provenance", "before_barrier")] + ["published_note"]
    frame = pd.DataFrame(rows, columns=[*schema.columns, *extra])
    return sort_rows(pd.concat([schema.validate(frame), frame[extra]], axis="columns"))


def _check(frame: pd.DataFrame, percent: str, size: str, role: str) -> list[Comparison]:
    found = []
    metric = f"{role}_{percent}"
    for row in frame.to_dict("records"):
        value = row[f"published_{percent}_before_barrier"]
        provenance = row[f"published_{percent}_provenance"]
        if row["variant"] != "as-simulated" or pd.isna(value) or not published.is_bar(provenance):
            continue
        # A remark on a published point says that it was another configuration, save for the plane, which is
        # accounted for.
        if row["published_note"] not in ("", published.PLANE_NOTE):
            continue
        found.append(
            Comparison(
                cluster=row["cluster"],
                topology=row["topology"],
                variant=row["variant"],
                status=row["status"],
                metric=metric,
                ours=None if pd.isna(row[percent]) else float(row[percent]),
                published=float(value),
                tolerance=published.tolerance(metric, int(row[size])).relative,
                provenance=provenance,
                source=f"{role}_{row['cluster']}.csv",
                algorithm=row.get("algorithm", ""),
                bytes=int(row[size]),
            )
        )
    return found
