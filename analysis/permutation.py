"""Random permutations: the distribution of receive bandwidth over accelerators."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pandera.pandas as pa

from analysis import measures, networks, published
from analysis.collect import COMPLETE, UNREADABLE, Study, by_cluster, load_ranks, sort_rows
from analysis.comparison import Comparison
from analysis.render import Column, Table, table

STATISTICS = ("mean", "median", "p1", "p99", "min", "max")
"""Statistics over accelerators; p1 is the bandwidth that 99% of them exceed."""

_BANDWIDTH = pa.Column("Float64", pa.Check.ge(0), nullable=True)
_TEXT = pa.Column(str)

SCHEMA = pa.DataFrameSchema(
    {
        "topology": _TEXT,
        "variant": _TEXT,
        "seed": pa.Column("Int64", nullable=True),
        **{f"{name}_gbps": _BANDWIDTH for name in STATISTICS},
        **{f"published_{name}_gbps": _BANDWIDTH for name in STATISTICS},
        "mean_relative_difference": pa.Column("Float64", pa.Check.ge(-1), nullable=True),
        "accelerators": pa.Column("Int64", nullable=True),
        "bytes_per_rank": pa.Column("Int64", nullable=True),
        "engine": _TEXT,
        "packets": pa.Column("Int64", nullable=True),
        "packet_hops": pa.Column("Int64", nullable=True),
        "wall_s": _BANDWIDTH,
        "peak_memory_bytes": pa.Column("Int64", nullable=True),
        "status": _TEXT,
        "note": _TEXT,
        "cluster": _TEXT,
    },
    strict="filter",
    coerce=True,
    ordered=True,
)
"""Columns of the permutation table in order; bandwidths per accelerator in Gb/s."""

ACCELERATOR_SCHEMA = pa.DataFrameSchema(
    {
        "cluster": _TEXT,
        "topology": _TEXT,
        "variant": _TEXT,
        "seed": pa.Column("Int64", nullable=True),
        "rank": pa.Column("int64", pa.Check.ge(0)),
        "bytes_received": pa.Column("int64", pa.Check.ge(0)),
        "time_s": pa.Column("float64", pa.Check.gt(0)),
        "receive_gbps": pa.Column("float64", pa.Check.ge(0)),
    },
    strict=True,
    coerce=True,
    ordered=True,
)
"""Per-accelerator values: bytes received, time from the start to the end of the rank, and their quotient in
Gb/s.
"""


def build(results_dir: Path, runs: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Statistics, one row a run (``SCHEMA`` and provenance), and the per-accelerator values behind them."""
    rows, accelerators = [], []
    wanted = runs["role"].isin(["permutation", ""]) | (runs["motif"] == "permutation")
    for run in runs[wanted].to_dict("records"):
        row = {str(name): value for name, value in run.items() if name != "message"}
        row["note"] = run["message"] if run["status"] != COMPLETE else ""
        if run["status"] == COMPLETE:
            try:
                ranks = load_ranks(results_dir, run["run_id"])
            except (OSError, ValueError, KeyError) as error:
                row |= {"status": UNREADABLE, "note": f"ranks.parquet cannot be read: {error}"}
            else:
                values = _per_accelerator(run, ranks)
                accelerators.append(values)
                row |= _statistics(values["receive_gbps"].to_numpy(dtype=np.float64))
                row["bytes_per_rank"] = int(ranks["bytes_sent"].max())
                _add_published(row)
        rows.append(row)
    extra = ["published_mean_gbps_provenance"]
    frame = pd.DataFrame(rows, columns=[*SCHEMA.columns, *extra])
    frame = sort_rows(pd.concat([SCHEMA.validate(frame), frame[extra]], axis="columns"))
    empty = pd.DataFrame(columns=list(ACCELERATOR_SCHEMA.columns))
    each = pd.concat(accelerators, ignore_index=True) if accelerators else empty
    return frame, ACCELERATOR_SCHEMA.validate(each)


def _per_accelerator(run: dict[Any, Any], ranks: pd.DataFrame) -> pd.DataFrame:
    """Ranks that received something, with their receive bandwidth."""
    received = ranks[(ranks["bytes_received"] > 0) & (ranks["end_ps"] > ranks["start_ps"])]
    time_s = (received["end_ps"] - received["start_ps"]) / measures.PS_PER_S
    return pd.DataFrame(
        {
            "cluster": run["cluster"],
            "topology": run["topology"],
            "variant": run["variant"],
            "seed": run["seed"],
            "rank": received["rank"],
            "bytes_received": received["bytes_received"],
            "time_s": time_s,
            "receive_gbps": received["bytes_received"] * 8 / time_s / 1e9,
        }
    ).reset_index(drop=True)


def _statistics(values: np.ndarray[Any, np.dtype[np.float64]]) -> dict[str, float | None]:
    if not len(values):
        return {}
    p1, median, p99 = np.percentile(values, [1, 50, 99])
    found = (values.mean(), median, p1, p99, values.min(), values.max())
    return {f"{name}_gbps": float(value) for name, value in zip(STATISTICS, found, strict=True)}


def _add_published(row: dict[str, Any]) -> None:
    reference = published.permutation(row["cluster"], row["topology"], row["bytes_per_rank"])
    if reference is None:
        return
    row |= {f"published_{name}": value for name, value in reference.items()}
    row["published_mean_gbps_provenance"] = published.permutation_provenance(row["topology"])
    row["mean_relative_difference"] = measures.relative_difference(
        row.get("mean_gbps"), reference["mean_gbps"]
    )


def check(results_dir: Path, runs: pd.DataFrame) -> list[Comparison]:
    """Comparison of mean and median, averaged over the seeds of an as-simulated network, with the published
    ones.
    """
    found: list[Comparison] = []
    frame, _ = build(results_dir, runs)
    simulated = frame[frame["variant"] == "as-simulated"]
    for (cluster, topology), part in simulated.groupby(["cluster", "topology"], sort=False):
        complete = part[part["status"] == COMPLETE]
        comparable = complete.dropna(subset=["published_mean_gbps"])
        reference = published.permutation(str(cluster), str(topology))
        if reference is None or (comparable.empty and not complete.empty):
            continue
        found += [
            Comparison(
                cluster=str(cluster),
                topology=str(topology),
                variant="as-simulated",
                status="; ".join(sorted(set(part["status"]))),
                metric=metric,
                ours=None if comparable.empty else float(comparable[metric].mean()),
                published=reference[metric],
                tolerance=published.tolerance(metric, 0).relative,
                provenance=published.permutation_provenance(str(topology)),
                source=f"permutation_{cluster}.csv",
                bytes=None if comparable.empty else int(comparable["bytes_per_rank"].iloc[0]),
            )
            for metric in ("mean_gbps", "median_gbps")
        ]
    return found


def tables(study: Study, frame: pd.DataFrame) -> list[Table]:
    """Readable table of ``build``."""
    named = frame.assign(topology=frame["topology"].map(networks.label))
    columns = {
        "topology": Column("network", left=True),
        "variant": Column("variant", left=True),
        "seed": Column("seed"),
        **{f"{name}_gbps": Column(f"{name}, Gb/s", ".2f") for name in STATISTICS},
        "published_mean_gbps": Column("published mean", ".2f"),
        "mean_relative_difference": Column("relative difference", "+.1%"),
        "status": Column("status", left=True),
        "note": Column("note", left=True),
    }
    notes = [
        "Receive bandwidth of an accelerator: bytes received over the time from its start to its end.",
        "p1 is exceeded by 99% of the accelerators. The published distribution covers a third of them.",
    ]
    return [
        table(
            f"Random permutation, {cluster} cluster" if cluster else "Random permutation",
            columns,
            part,
            notes,
        )
        for cluster, part in by_cluster(named)
    ]
