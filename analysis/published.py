"""The published numbers as validated frames, and how they are matched with runs of this project.

The CSV files in ``analysis/published`` hold numbers printed in the HammingMesh article (SC22, CACM 2024) or
read in its simulation artifact (Zenodo 10.5281/zenodo.6462395); the README beside them says what each
provenance word means.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import as_file, files

import numpy as np
import pandas as pd
import pandera.pandas as pa

from topologies.catalog import TABLE2_NAMES
from topologies.errors import ConfigError

CLUSTERS = ("small", "large")
"""Clusters with published numbers."""
TABLE2_MESSAGE_BYTES = 1 << 20
"""Alltoall message per pair of accelerators behind the published Table 2."""
TABLE2_ALLREDUCE_BYTES = {"small": 2 << 30, "large": 4 << 30}
"""Allreduce vector, on the whole machine, behind the published Table 2."""

PLANE_NOTE = "one 400 Gb/s plane of four simulated"
"""Note of the published rows that were simulated in one 400 Gb/s plane instead of the
merged 1600 Gb/s one.
"""
PLANE_SCALE = 4
"""Merged planes: a run in one 400 Gb/s plane with S/4 bytes stands for S bytes on the machine."""


@dataclass(frozen=True)
class Tolerance:
    """Allowed relative difference of a metric for messages (or vectors) of at least ``min_bytes``."""

    metric: str
    min_bytes: int
    relative: float
    reason: str


TOLERANCES = (
    Tolerance("alltoall_percent_of_injection", 64 << 10, 0.03, "bandwidth-bound"),
    Tolerance("alltoall_percent_of_injection", 0, 0.10, "latency-bound: arbitration and tie-breaking show"),
    Tolerance("allreduce_percent_of_peak", 64 << 10, 0.03, "sizes of 64 KiB and more"),
    Tolerance("allreduce_percent_of_peak", 0, 0.10, "latency-bound: arbitration and tie-breaking show"),
    Tolerance(
        "mean_gbps",
        0,
        0.03,
        "mean over accelerators and seeds; the published one samples a third of the ranks",
    ),
    Tolerance("median_gbps", 0, 0.03, "median, as the mean"),
    Tolerance("allreduce_saving", 0, 0.06, "quotient of two bandwidths with 3% each, and of rounded costs"),
)
"""Bars of the comparison. They are fixed beforehand and are not results."""


RUNTIME_TOLERANCES = {"resnet152": 0.01, "dlrm": 0.01, "gpt3": 0.05, "gpt3_moe": 0.05}
"""Allowed relative difference of a workload's runtime. Most of a runtime is computation, which all have in
common, so that tables compare the communication overheads too.
"""


def tolerance(metric: str, size_bytes: int) -> Tolerance:
    """Tolerance of ``metric`` at ``size_bytes``; raises ``KeyError`` for a metric without one."""
    fitting = [t for t in TOLERANCES if t.metric == metric and t.min_bytes <= size_bytes]
    if not fitting:
        raise KeyError(metric)
    return max(fitting, key=lambda t: t.min_bytes)


def is_bar(provenance: str) -> bool:
    """Whether a value of this provenance may judge a result (read in the artifact or printed in the
    article).
    """
    return provenance.split(" ")[0] in ("artifact", "article")


def mark(provenance: str | None) -> str:
    """Footnote mark of a provenance: nothing, a dagger for unverified values, a double dagger for derived
    ones.
    """
    if not provenance or is_bar(provenance):
        return ""
    return "‡" if provenance.startswith("derived-") else "†"


MARK_NOTES = {
    "†": "† unverified: remembered, not found again in the article or the artifact; a hint and not a bar.",
    "‡": "‡ derived from other published values; a hint and not a bar.",
}

_PROVENANCE = pa.Check.str_matches(r"^(artifact|article|unverified|derived-[a-z0-9.\-]+)( \(.*\))?$")
_PERCENT = pa.Check.in_range(0, 105)
_MORE_THAN_ZERO = pa.Check.gt(0)


def _text(*allowed: str, nullable: bool = False) -> pa.Column:
    return pa.Column(str, pa.Check.isin(list(allowed)) if allowed else None, nullable=nullable)


def _number(dtype: type = float, check: pa.Check = _MORE_THAN_ZERO, nullable: bool = False) -> pa.Column:
    return pa.Column(dtype, check, nullable=nullable, coerce=True)


def _provenance(nullable: bool = False) -> pa.Column:
    return pa.Column(str, _PROVENANCE, nullable=nullable)


_MESHES = ("hx2mesh", "hx4mesh")
_WORKLOADS = ("resnet152", "gpt3", "gpt3_moe", "cosmoflow", "dlrm")
_SWEEP = {
    "time_s": _number(),
    "bandwidth_gbps": _number(),
    "provenance": _provenance(),
    "note": pa.Column(str, nullable=True),
}
_ALLREDUCE = pa.DataFrameSchema(
    {
        "topology": _text(*TABLE2_NAMES),
        "algorithm": _text("ring", "two-rings", "torus-2d", "bucket"),
        "bytes": _number(int),
        "percent_of_peak": _number(check=_PERCENT),
        **_SWEEP,
    },
    strict=True,
    unique=["topology", "algorithm", "bytes"],
)

SCHEMAS: dict[str, pa.DataFrameSchema] = {
    "table2": pa.DataFrameSchema(
        {
            "cluster": _text(*CLUSTERS),
            "topology": _text(*TABLE2_NAMES),
            "accelerators": _number(int),
            "cost_musd": _number(),
            "alltoall_percent_of_injection": _number(check=_PERCENT),
            "alltoall_provenance": _provenance(),
            "allreduce_percent_of_peak": _number(check=_PERCENT, nullable=True),
            "allreduce_provenance": _provenance(),
            "diameter_hops": _number(int),
        },
        strict=True,
        unique=["cluster", "topology"],
    ),
    "alltoall_small": pa.DataFrameSchema(
        {
            "topology": _text(*TABLE2_NAMES),
            "message_bytes": _number(int),
            "percent_of_injection": _number(check=_PERCENT),
            **_SWEEP,
        },
        strict=True,
        unique=["topology", "message_bytes"],
    ),
    "allreduce_small": _ALLREDUCE,
    "allreduce_large": _ALLREDUCE,
    "permutation_small": pa.DataFrameSchema(
        {
            "topology": _text(*TABLE2_NAMES),
            "bytes_per_rank": _number(int),
            "ranks_sampled": _number(int),
            **{f"{q}_gbps": _number() for q in ("mean", "median", "p1", "p99", "min", "max")},
            "provenance": _provenance(),
        },
        strict=True,
        unique=["topology", "bytes_per_rank"],
    ),
    "cost_layout": pa.DataFrameSchema(
        {
            "cluster": _text(*CLUSTERS),
            "topology": _text(*TABLE2_NAMES),
            "planes": pa.Column(int, pa.Check.isin([4, 16])),
            "switches_per_plane": _number(int, pa.Check.ge(0)),
            "dac_per_plane": _number(int, pa.Check.ge(0)),
            "aoc_per_plane": _number(int),
            "cost_musd": _number(),
            "layout": pa.Column(str),
        },
        strict=True,
        unique=["cluster", "topology"],
    ),
    "cost_savings": pa.DataFrameSchema(
        {
            "workload": _text(*_WORKLOADS),
            "mesh": _text(*_MESHES),
            **{name: _number() for name in TABLE2_NAMES if name not in _MESHES},
            "provenance": _provenance(),
        },
        strict=True,
        unique=["workload", "mesh"],
    ),
    "dnn_runtimes": pa.DataFrameSchema(
        {
            "workload": _text(*_WORKLOADS),
            "accelerators": _number(int),
            "topology": _text(*TABLE2_NAMES),
            "runtime_ms": _number(),
            "compute_ms": _number(),
            "provenance": _provenance(),
        },
        strict=True,
        unique=["workload", "topology"],
        checks=pa.Check(lambda frame: frame["runtime_ms"] >= frame["compute_ms"]),
    ),
    "cosmoflow_relative_overhead": pa.DataFrameSchema(
        {
            "topology": _text(*TABLE2_NAMES),
            "communication_overhead_relative_to_hx2mesh": _number(),
            "provenance": _provenance(),
        },
        strict=True,
        unique=["topology"],
    ),
    "allocation_utilization": pa.DataFrameSchema(
        {
            "mesh": _text(*_MESHES),
            "cluster": _text(*CLUSTERS),
            "failed_boards": _number(int, pa.Check.ge(0)),
            "transpose": _text("yes", "no"),
            "aspect_ratio": _text("yes", "no"),
            "sort_jobs": _text("yes", "no"),
            "locality": _text("no", "alltoall", "allreduce"),
            "mean_percent": _number(check=pa.Check.in_range(0, 100)),
            "p99_percent": _number(check=pa.Check.in_range(0, 100)),
            "provenance": _provenance(),
        },
        strict=True,
    ),
    "job_size_cdf": pa.DataFrameSchema(
        {
            "boards": _number(int),
            "percent_of_jobs_at_most": _number(check=pa.Check.in_range(0, 100)),
        },
        strict=True,
        checks=[
            pa.Check(lambda frame: bool(frame["boards"].is_monotonic_increasing)),
            pa.Check(lambda frame: bool(frame["percent_of_jobs_at_most"].is_monotonic_increasing)),
        ],
    ),
}
"""One schema per published file, by its name without the suffix."""


_BARRIERS = pa.DataFrameSchema(
    {
        "topology": _text(*TABLE2_NAMES),
        "time_us": _number(),
        "accelerators": _number(int),
        "simulator": pa.Column(str, pa.Check.str_startswith("SST ")),
    },
    strict=True,
    unique=["topology"],
)


@cache
def _load(name: str) -> pd.DataFrame:
    with as_file(files("analysis") / "published" / f"{name}.csv") as path:
        return SCHEMAS[name].validate(pd.read_csv(path))


def load(name: str) -> pd.DataFrame:
    """Published table ``name`` (file name without ``.csv``), validated; a copy that may be changed.

    Raises ``ConfigError`` for a name that is no published table.
    """
    if name not in SCHEMAS:
        raise ConfigError(
            f"published table {name!r} does not exist: allowed are {', '.join(sorted(SCHEMAS))}."
        )
    return _load(name).copy()


@dataclass(frozen=True)
class Reference:
    """One published measurement: seconds (not for Table 2), bandwidth in Gb/s, percent, provenance and its
    note.
    """

    time_s: float | None
    bandwidth_gbps: float | None
    percent: float
    provenance: str
    note: str
    barrier_s: float | None = None
    """What of the time was the barrier behind the collective, where that was measured."""

    @property
    def barrier_factor(self) -> float:
        """Bandwidth in the time without that barrier over the published one."""
        if self.time_s is None or self.barrier_s is None:
            return 1.0
        return self.time_s / (self.time_s - self.barrier_s)


@dataclass(frozen=True)
class Table2Row:
    """One printed row of Table 2; costs in million dollars, percentages of injection and of peak."""

    accelerators: int
    cost_musd: float
    alltoall_percent: float
    alltoall_provenance: str
    allreduce_percent: float | None
    allreduce_provenance: str
    diameter_hops: int


def table2(cluster: str, topology: str) -> Table2Row | None:
    """The printed row of ``topology`` in ``cluster``, or None where there is none."""
    frame = _load("table2")
    rows = frame[(frame["cluster"] == cluster) & (frame["topology"] == topology)].to_dict("records")
    if not rows:
        return None
    row = rows[0]
    allreduce = float(row["allreduce_percent_of_peak"])
    return Table2Row(
        accelerators=int(row["accelerators"]),
        cost_musd=float(row["cost_musd"]),
        alltoall_percent=float(row["alltoall_percent_of_injection"]),
        alltoall_provenance=str(row["alltoall_provenance"]),
        allreduce_percent=None if np.isnan(allreduce) else allreduce,
        allreduce_provenance=str(row["allreduce_provenance"]),
        diameter_hops=int(row["diameter_hops"]),
    )


def alltoall(cluster: str, topology: str, message_bytes: int) -> Reference | None:
    """Published alltoall of ``message_bytes`` per pair, or None where there is none (the large cluster has
    none).
    """
    return _alltoall(cluster).get((topology, message_bytes))


def allreduce(
    cluster: str, topology: str, algorithm: str, size_bytes: int, single_plane: bool = False
) -> Reference | None:
    """Published allreduce of ``size_bytes`` on the machine, or None.

    The published ring rows of the fat trees and the Dragonfly hold the bytes of one simulated 400 Gb/s
    plane. They count here as four times their bytes, bandwidth and percentage, and answer only to runs of
    one plane (``single_plane``).
    """
    return _allreduce(cluster, single_plane).get((topology, algorithm, size_bytes))


def alltoall_points(cluster: str, topology: str) -> list[tuple[int, Reference]]:
    """All published alltoall points of ``topology`` as (message bytes, reference), by size."""
    return sorted(
        ((b, ref) for (name, b), ref in _alltoall(cluster).items() if name == topology), key=lambda p: p[0]
    )


def allreduce_points(cluster: str, topology: str, algorithm: str) -> list[tuple[int, Reference]]:
    """All published allreduce points of ``topology`` and ``algorithm`` as (machine bytes, reference), by
    size.
    """
    points = [
        (size, ref)
        for single_plane in (False, True)
        for (name, algo, size), ref in _allreduce(cluster, single_plane).items()
        if name == topology and algo == algorithm
    ]
    return sorted(points, key=lambda point: point[0])


def permutation(cluster: str, topology: str, bytes_per_rank: int | None = None) -> dict[str, float] | None:
    """Published receive bandwidths (``mean_gbps`` ... ``max_gbps``) of a random permutation (of any size
    for None), or None.
    """
    if cluster != "small":
        return None
    frame = _load("permutation_small")
    frame = frame[frame["topology"] == topology]
    rows = frame[frame["bytes_per_rank"] == (bytes_per_rank or frame["bytes_per_rank"])].to_dict("records")
    return (
        {str(key): float(value) for key, value in rows[0].items() if str(key).endswith("_gbps")}
        if rows
        else None
    )


def permutation_provenance(topology: str) -> str:
    """Provenance of the published permutation of ``topology``; empty where there is none."""
    frame = _load("permutation_small")
    found = frame.loc[frame["topology"] == topology, "provenance"].tolist()
    return str(found[0]) if found else ""


def cost_layout_musd(cluster: str, topology: str) -> float | None:
    """Cost in million dollars to the third decimal, recomputed from the published bill of materials."""
    frame = _load("cost_layout")
    found = frame.loc[(frame["cluster"] == cluster) & (frame["topology"] == topology), "cost_musd"].tolist()
    return float(found[0]) if found else None


@cache
def _alltoall(cluster: str) -> dict[tuple[str, int], Reference]:
    if cluster != "small":
        return {}
    return {
        (str(row["topology"]), int(row["message_bytes"])): Reference(
            float(row["time_s"]),
            float(row["bandwidth_gbps"]),
            float(row["percent_of_injection"]),
            str(row["provenance"]),
            _note(row["note"]),
            _end_barriers_s().get(str(row["topology"])),
        )
        for row in _load("alltoall_small").to_dict("records")
    }


@cache
def _allreduce(cluster: str, single_plane: bool) -> dict[tuple[str, str, int], Reference]:
    if cluster not in CLUSTERS:
        return {}
    found = {}
    for row in _load(f"allreduce_{cluster}").to_dict("records"):
        note = _note(row["note"])
        if (note == PLANE_NOTE) != single_plane:
            continue
        scale = PLANE_SCALE if single_plane else 1
        found[str(row["topology"]), str(row["algorithm"]), int(row["bytes"]) * scale] = Reference(
            float(row["time_s"]),
            float(row["bandwidth_gbps"]) * scale,
            float(row["percent_of_peak"]) * scale,
            str(row["provenance"]),
            note,
            _end_barriers_s().get(str(row["topology"])) if cluster == "small" else None,
        )
    return found


@cache
def _end_barriers_s() -> dict[str, float]:
    """Seconds of the barrier at the end of the published runs of the small cluster, by network (README.md of
    ``measured``).
    """
    with as_file(files("analysis") / "measured" / "end_barrier_small.csv") as path:
        frame = _BARRIERS.validate(pd.read_csv(path))
    return {str(row["topology"]): float(row["time_us"]) * 1e-6 for row in frame.to_dict("records")}


def _note(value: object) -> str:
    return value if isinstance(value, str) else ""
