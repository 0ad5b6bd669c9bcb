"""Deep-learning workloads: runtimes and communication overheads, cost savings (Figure 10 of the article), and
when one accelerator computes and communicates (Figure 9).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pandera.pandas as pa

from analysis import networks, published
from analysis.collect import COMPLETE, Study, load_ranks
from analysis.comparison import Comparison
from analysis.measures import relative_difference
from analysis.render import Column, Table, table
from topologies import catalog

PS_PER_MS = 10**9

MESHES = ("hx2mesh", "hx4mesh")
"""Networks whose savings over the others are computed."""

PRICED_AS = {"gpt3_moe": "large"}
"""Cluster whose prices the article takes for a workload, where it is not the small one."""

WORKLOADS = ("resnet152", "cosmoflow", "dlrm", "gpt3", "gpt3_moe")
"""The published workloads, in the order of tables."""

TIMELINE = "timeline"
"""Role of runs that show when one accelerator does what; they are in no table of runtimes."""

EXPLAINED = 0.10
"""Relative difference of overheads up to which a row needs no explanation."""

_MS = pa.Column("Float64", pa.Check.ge(0), nullable=True)
_RATIO = pa.Column("Float64", nullable=True)
_COUNT = pa.Column("Int64", pa.Check.ge(0), nullable=True)
_TEXT = pa.Column(str)

SCHEMA = pa.DataFrameSchema(
    {
        "workload": _TEXT,
        "accelerators": _COUNT,
        "topology": _TEXT,
        "runtime_ms": _MS,
        "compute_ms": _MS,
        "overhead_ms": _MS,
        "published_runtime_ms": _MS,
        "published_provenance": _TEXT,
        "relative_difference": _RATIO,
        "published_overhead_ms": _MS,
        "overhead_relative_difference": _RATIO,
        "overhead_relative_to_hx2mesh": _RATIO,
        "published_overhead_relative_to_hx2mesh": _RATIO,
        "algorithm": _TEXT,
        "engine": _TEXT,
        "packets": _COUNT,
        "packet_hops": _COUNT,
        "wall_s": _MS,
        "peak_memory_bytes": _COUNT,
        "seed": pa.Column("Int64", nullable=True),
        "variant": _TEXT,
        "cluster": _TEXT,
        "status": _TEXT,
        "note": _TEXT,
    },
    strict=True,
    coerce=True,
    ordered=True,
)
"""Columns of ``dnn.csv`` in order.

``accelerators`` are those that take part. ``compute_ms`` is the critical path of the computation, what an
iteration takes on an infinitely fast network; ``overhead_ms`` the rest of ``runtime_ms``. A published
overhead is the published runtime less the published computation.
"""

SAVING_SCHEMA = pa.DataFrameSchema(
    {
        "workload": _TEXT,
        "mesh": _TEXT,
        "topology": _TEXT,
        "cost_ratio": _RATIO,
        "overhead_ratio": _RATIO,
        "saving": _RATIO,
        "published_saving": _RATIO,
        "published_provenance": _TEXT,
        "relative_difference": _RATIO,
    },
    strict=True,
    coerce=True,
    ordered=True,
)
"""Columns of ``cost_savings.csv``: price of `topology` over that of `mesh`, communication overhead likewise,
and their product.
"""


@dataclass(frozen=True)
class Cause:
    """Why overheads of some workloads and networks differ from the published ones; empty = all."""

    text: str
    workloads: tuple[str, ...] = ()
    topologies: tuple[str, ...] = ()

    def explains(self, workload: str, topology: str) -> bool:
        """Whether it is a cause for rows of `workload` on `topology`."""
        return (not self.workloads or workload in self.workloads) and (
            not self.topologies or topology in self.topologies
        )


CAUSES: tuple[Cause, ...] = (
    Cause(
        "the artifact's processor looks for a message more than once, first a slice of 100 ns after it asked "
        "for it, at 10 ns a look; one look is counted here, the least",
        workloads=("resnet152", "cosmoflow"),
    ),
    Cause(
        "published times hold the barrier at their end (4 us on fat trees, 5 to 10 on HxMeshes, 20 on the "
        "torus), and steps of the last allreduce wait for the artifact's next look, which is not modelled "
        "where nothing is computed meanwhile",
        workloads=("dlrm",),
    ),
    Cause(
        "by rendezvous a request for a message waits behind the data of others, and how long depends on how "
        "far accelerators are out of step: by up to 100 ns here, by Firefly's own delays in the artifact",
        workloads=("gpt3", "gpt3_moe"),
    ),
    Cause(
        "46.3 ms in perfect step, 50.5 with computations that differ by 10 to 100 ns, 53.9 by 1 us; the "
        "accelerators of the published run end at 46.3 to 50.0 ms, and so they do through Firefly itself "
        "(SST 16.0, this network)",
        workloads=("gpt3",),
        topologies=("hx4mesh",),
    ),
)
"""Causes found so far, in the sources and logs of the artifact."""


def build(study: Study, runs: pd.DataFrame) -> pd.DataFrame:
    """One row a run of the collected frame, as ``SCHEMA`` says, workload by workload."""
    labels = {row.run_id: row.model_dump() for row in study.rows}
    rows = [
        _row(run, labels[str(run["run_id"])])
        for run in runs.to_dict("records")
        if run["motif"] == "dnn" and run["role"] != TIMELINE
    ]
    for row in rows:
        _compare_with_hx2mesh(row, rows)
    rows.sort(key=_place)
    return SCHEMA.validate(pd.DataFrame(rows, columns=list(SCHEMA.columns)))


def _place(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Rows by workload and network, the published ones first and in their order."""

    def rank(name: str, known: tuple[str, ...]) -> tuple[int, str]:
        return (known.index(name) if name in known else len(known), name)

    accelerators = row["accelerators"]
    return (
        rank(row["workload"], WORKLOADS),
        0 if accelerators is None or pd.isna(accelerators) else int(accelerators),
        rank(row["topology"], catalog.NAMES),
        row["variant"],
        row["algorithm"],
        row["engine"],
    )


def _row(run: Mapping[Any, Any], label: Mapping[str, Any]) -> dict[str, Any]:
    row: dict[str, Any] = {str(name): run.get(name) for name in SCHEMA.columns}
    workload = str(label.get("workload", ""))
    row |= {
        "workload": workload,
        "accelerators": label.get("job_accelerators"),
        "algorithm": str(label.get("algorithm", "")),
        "published_provenance": "",
        "note": str(run["message"]) if run["status"] != COMPLETE else "",
    }
    if label.get("compute_ps") is not None:
        row["compute_ms"] = label["compute_ps"] / PS_PER_MS
    if run["status"] == COMPLETE and row["compute_ms"] is not None:
        row["runtime_ms"] = int(run["simulated_time_ps"]) / PS_PER_MS
        row["overhead_ms"] = row["runtime_ms"] - row["compute_ms"]
    reference = published_runtime(workload, str(run["topology"]), row["accelerators"])
    if reference is not None:
        row["published_runtime_ms"] = reference["runtime_ms"]
        row["published_provenance"] = reference["provenance"]
        row["published_overhead_ms"] = reference["runtime_ms"] - reference["compute_ms"]
    row["relative_difference"] = relative_difference(row["runtime_ms"], row["published_runtime_ms"])
    difference = relative_difference(row["overhead_ms"], row["published_overhead_ms"])
    row["overhead_relative_difference"] = difference
    if difference is not None and abs(difference) > EXPLAINED:
        row["note"] = cause(workload, str(run["topology"]))
    return row


def cause(workload: str, topology: str) -> str:
    """Why the overhead of `workload` on `topology` is not the published one, or that it is not known."""
    found = [known.text for known in CAUSES if known.explains(workload, topology)]
    return "; ".join(found) or "cause not known"


def _compare_with_hx2mesh(row: dict[str, Any], rows: Iterable[Mapping[str, Any]]) -> None:
    """Add the overhead over that of Hx2Mesh with the same workload, and the published one."""
    same = ("workload", "accelerators", "engine", "seed")
    for other in rows:
        if other["topology"] == "hx2mesh" and all(other[name] == row[name] for name in same):
            if other["overhead_ms"] and row["overhead_ms"] is not None:
                row["overhead_relative_to_hx2mesh"] = row["overhead_ms"] / other["overhead_ms"]
            if other["published_overhead_ms"] and row["published_overhead_ms"] is not None:
                ratio = row["published_overhead_ms"] / other["published_overhead_ms"]
                row["published_overhead_relative_to_hx2mesh"] = ratio
            break
    if row["workload"] == "cosmoflow":
        known = published.load("cosmoflow_relative_overhead").set_index("topology")
        if row["topology"] in known.index:
            found = known.loc[row["topology"]]
            value = float(found["communication_overhead_relative_to_hx2mesh"])
            row["published_overhead_relative_to_hx2mesh"] = value
            row["published_provenance"] = str(found["provenance"])
            difference = relative_difference(row.get("overhead_relative_to_hx2mesh"), value)
            if difference is not None and abs(difference) > EXPLAINED:
                row["note"] = cause(row["workload"], row["topology"])


def published_runtime(workload: str, topology: str, accelerators: int | None) -> dict[str, Any] | None:
    """The published runtime_ms, compute_ms and provenance of a workload, None where there is none."""
    known = published.load("dnn_runtimes")
    found = known[(known["workload"] == workload) & (known["topology"] == topology)]
    if found.empty or accelerators is None or int(found["accelerators"].iloc[0]) != accelerators:
        return None
    return {str(name): value for name, value in found.iloc[0].items()}


def savings(frame: pd.DataFrame) -> pd.DataFrame:
    """Cost savings of both HxMeshes over every other network, as ``SAVING_SCHEMA`` says: (price of the other
    over that of the mesh) times (overhead of the other over that of the mesh).
    """
    rows = []
    for (workload, _), part in frame.groupby(["workload", "accelerators"], sort=False):
        overhead = part.drop_duplicates("topology").set_index("topology")["overhead_ms"]
        for mesh in MESHES:
            rows += [
                _saving(str(workload), mesh, str(other), overhead)
                for other in overhead.index
                if mesh in overhead.index and other not in MESHES
            ]
    return SAVING_SCHEMA.validate(pd.DataFrame(rows, columns=list(SAVING_SCHEMA.columns)))


def _saving(workload: str, mesh: str, other: str, overhead: pd.Series[float]) -> dict[str, Any]:
    row: dict[str, Any] = {"workload": workload, "mesh": mesh, "topology": other, "published_provenance": ""}
    cluster = PRICED_AS.get(workload, "small")
    own, theirs = (networks.network(name, cluster, "as-costed") for name in (mesh, other))
    if own is not None and theirs is not None:
        row["cost_ratio"] = theirs.cost_musd / own.cost_musd
    if not pd.isna(overhead[mesh]) and not pd.isna(overhead[other]) and overhead[mesh] > 0:
        row["overhead_ratio"] = overhead[other] / overhead[mesh]
    if row.get("cost_ratio") is not None and row.get("overhead_ratio") is not None:
        row["saving"] = row["cost_ratio"] * row["overhead_ratio"]
    known = published.load("cost_savings")
    found = known[(known["workload"] == workload) & (known["mesh"] == mesh)]
    if not found.empty and other in found.columns:
        row["published_saving"] = float(found[other].iloc[0])
        row["published_provenance"] = str(found["provenance"].iloc[0])
        row["relative_difference"] = relative_difference(row.get("saving"), row["published_saving"])
    return row


@dataclass(frozen=True)
class Timeline:
    """When one accelerator did what: title, and (label, kind of step, begin, end) with times in ms."""

    title: str
    steps: tuple[tuple[str, str, float, float], ...]


def timelines(results_dir: Path, study: Study, runs: pd.DataFrame) -> list[Timeline]:
    """The timelines of all complete runs that were traced.

    The end of a traced step is when an idle accelerator got a message of no bytes that was sent then.
    """
    complete = set(runs[runs["status"] == COMPLETE]["run_id"])
    found = []
    for row in study.rows:
        label = row.model_dump()
        trace = label.get("trace")
        if not trace or row.run_id not in complete:
            continue
        end_ps = load_ranks(results_dir, row.run_id).set_index("rank")["end_ps"]
        steps = tuple(
            (
                step["label"],
                step["op"],
                0.0 if step["begin"] is None else int(end_ps[step["begin"]]) / PS_PER_MS,
                int(end_ps[step["end"]]) / PS_PER_MS,
            )
            for step in trace
        )
        found.append(Timeline(f"{label['workload']}, {networks.label(row.topology)}", steps))
    return found


def check(study: Study, runs: pd.DataFrame) -> list[Comparison]:
    """Comparison of every runtime with the published one."""
    found = []
    for row in build(study, runs).to_dict("records"):
        workload = str(row["workload"])
        if pd.isna(row["published_runtime_ms"]) or not published.is_bar(row["published_provenance"]):
            continue
        found.append(
            Comparison(
                cluster=row["cluster"],
                topology=row["topology"],
                variant=row["variant"],
                status=row["status"],
                metric=f"runtime_ms of {workload}",
                ours=None if pd.isna(row["runtime_ms"]) else float(row["runtime_ms"]),
                published=float(row["published_runtime_ms"]),
                tolerance=published.RUNTIME_TOLERANCES[workload],
                provenance=str(row["published_provenance"]),
                source="dnn_runtimes.csv",
                algorithm=str(row["algorithm"]),
            )
        )
    return found


_COLUMNS = {
    "workload": Column("workload", left=True),
    "topology": Column("network", left=True),
    "algorithm": Column("allreduce", left=True),
    "runtime_ms": Column("runtime, ms", ".5g"),
    "published_runtime_ms": Column("published", ".5g"),
    "relative_difference": Column("difference", "+.2%"),
    "overhead_ms": Column("overhead, ms", ".3g"),
    "published_overhead_ms": Column("published", ".3g"),
    "overhead_relative_difference": Column("difference", "+.0%"),
    "overhead_relative_to_hx2mesh": Column("over Hx2Mesh's", ".2f"),
    "published_overhead_relative_to_hx2mesh": Column("published", ".2f"),
    "status": Column("status", left=True),
    "note": Column("note", left=True),
}
_SAVING_COLUMNS = {
    "workload": Column("workload", left=True),
    "topology": Column("network", left=True),
    "mesh": Column("saved by", left=True),
    "cost_ratio": Column("cost ratio", ".2f"),
    "overhead_ratio": Column("overhead ratio", ".2f"),
    "saving": Column("saving", "factor"),
    "published_saving": Column("published", "factor"),
    "relative_difference": Column("difference", "+.0%"),
}


def tables(frame: pd.DataFrame, saved: pd.DataFrame) -> list[Table]:
    """Readable tables of ``build`` and ``savings``."""
    marked = frame.assign(
        topology=frame["topology"].map(networks.label),
        published_runtime_ms_provenance=frame["published_provenance"],
        published_overhead_relative_to_hx2mesh_provenance=frame["published_provenance"],
    )
    named = saved.assign(
        topology=saved["topology"].map(networks.label), mesh=saved["mesh"].map(networks.label)
    )
    return [
        table(
            "Runtime and communication overhead of one iteration",
            _COLUMNS,
            marked,
            [
                "Overhead: runtime less the critical path of the computation. Published overheads are the "
                "published runtimes less the published computation.",
            ],
        ),
        table(
            "Cost savings",
            _SAVING_COLUMNS,
            named,
            [
                "Saving: price of the other network over that of the HxMesh, times the ratio of their "
                "communication overheads. Prices are those of the small cluster, for GPT-3 with experts "
                "those of the large one.",
            ],
        ),
    ]
