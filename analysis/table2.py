"""Table 2 of the article: price, global bandwidth and allreduce bandwidth of every network, published
values beside ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd
import pandera.pandas as pa

from analysis import measures, networks, published, sweeps
from analysis.collect import COMPLETE, MISSING, Study, by_cluster, sort_rows
from analysis.comparison import Comparison
from analysis.render import Column, Table, size_label, table

NONBLOCKING = "fattree"
"""The network that savings are relative to."""

_NULLABLE_NUMBER = pa.Column("Float64", pa.Check.ge(0), nullable=True)
_NULLABLE_COUNT = pa.Column("Int64", pa.Check.ge(0), nullable=True)
_DIFFERENCE = pa.Column("Float64", pa.Check.ge(-1), nullable=True)
_TEXT = pa.Column(str)

SCHEMA = pa.DataFrameSchema(
    {
        "cluster": _TEXT,
        "topology": _TEXT,
        "variant": _TEXT,
        "accelerators": _NULLABLE_COUNT,
        "cost_musd": _NULLABLE_NUMBER,
        "diameter_hops": _NULLABLE_COUNT,
        "alltoall_percent_of_injection": _NULLABLE_NUMBER,
        "allreduce_percent_of_peak": _NULLABLE_NUMBER,
        "allreduce_algorithm": _TEXT,
        "alltoall_saving": _NULLABLE_NUMBER,
        "allreduce_saving": _NULLABLE_NUMBER,
        "alltoall_bound_percent": _NULLABLE_NUMBER,
        "published_cost_musd": _NULLABLE_NUMBER,
        "published_alltoall_percent": _NULLABLE_NUMBER,
        "published_allreduce_percent": _NULLABLE_NUMBER,
        "engine": _TEXT,
        "packets": _NULLABLE_COUNT,
        "packet_hops": _NULLABLE_COUNT,
        "simulated_time_s": _NULLABLE_NUMBER,
        "wall_s": _NULLABLE_NUMBER,
        "peak_memory_bytes": _NULLABLE_COUNT,
        "alltoall_relative_difference": _DIFFERENCE,
        "allreduce_relative_difference": _DIFFERENCE,
        "message_bytes": _NULLABLE_COUNT,
        "status": _TEXT,
        "note": _TEXT,
        "published_alltoall_saving": _NULLABLE_NUMBER,
        "published_allreduce_saving": _NULLABLE_NUMBER,
        "allreduce_bytes": _NULLABLE_COUNT,
        "alltoall_percent_of_bound": _NULLABLE_NUMBER,
        "allreduce_bound_percent": _NULLABLE_NUMBER,
        "allreduce_percent_of_bound": _NULLABLE_NUMBER,
        "alltoall_low_percent": _NULLABLE_NUMBER,
        "alltoall_high_percent": _NULLABLE_NUMBER,
        "alltoall_samples": _NULLABLE_COUNT,
        "allreduce_packet_hops": _NULLABLE_COUNT,
        "allreduce_wall_s": _NULLABLE_NUMBER,
        "allreduce_peak_memory_bytes": _NULLABLE_COUNT,
    },
    strict="filter",
    coerce=True,
    ordered=True,
    unique=["cluster", "topology", "variant"],
)
"""Columns of ``table2.csv`` in order.

``cost_musd`` is the price of the machine a row stands for: the bill of materials of the as-costed network,
in both variants, as the as-simulated network is a device of the simulation. ``engine`` to
``peak_memory_bytes`` belong to the alltoall. Where that ran on samples of the shifts,
``alltoall_low_percent`` and ``alltoall_high_percent`` are the interval of 95%
(``measures.sampled_alltoall``), counts and times the sums over the ``alltoall_samples``, and the memory
that of the largest.
"""


def build(runs: pd.DataFrame) -> pd.DataFrame:
    """One row per cluster, topology and variant of the collected runs: the columns of ``SCHEMA`` and, after
    them, provenance.

    Savings are (fat tree cost / fat tree percent) / (own cost / own percent), with the fat tree of the same
    cluster and variant.
    """
    rows = [
        _row(str(cluster), str(topology), str(variant), group)
        for (cluster, topology, variant), group in runs.groupby(
            ["cluster", "topology", "variant"], sort=False, dropna=False
        )
    ]
    reference = {(row["cluster"], row["variant"]): row for row in rows if row["topology"] == NONBLOCKING}
    for row in rows:
        _add_savings(row, reference.get((row["cluster"], row["variant"])))
        row["note"] = "; ".join(row["note"])
    extra = ["published_alltoall_percent_provenance", "published_allreduce_percent_provenance"]
    frame = pd.DataFrame(rows, columns=[*SCHEMA.columns, *extra])
    return sort_rows(pd.concat([SCHEMA.validate(frame), frame[extra]], axis="columns"))


def _row(cluster: str, topology: str, variant: str, group: pd.DataFrame) -> dict[str, Any]:
    alltoall_run, alltoall = _alltoall(group[group["role"] == "alltoall"])
    allreduce_run = _best(group[group["role"] == "allreduce"], measures.allreduce, "bytes")
    allreduce = measures.allreduce(allreduce_run) if allreduce_run else None
    network = networks.network(topology, cluster, variant)
    costed = networks.network(topology, cluster, "as-costed")
    printed = published.table2(cluster, topology)
    accelerators = _accelerators(group) or (network.accelerators if network else None)

    notes = []
    if alltoall and alltoall.note:
        notes.append(alltoall.note)
    notes += _size_notes(cluster, alltoall_run, allreduce_run, printed is not None)
    if costed is None:
        notes.append("no price: not a network of the catalog")
    elif accelerators is not None and costed.accelerators != accelerators:
        notes.append(f"cost is that of the as-costed machine of {costed.accelerators} accelerators")
    if printed and variant == "as-costed" and networks.variants_differ(topology, cluster):
        notes.append("published bandwidths belong to the as-simulated network")

    measured = alltoall_run if alltoall and alltoall_run else {}
    row: dict[str, Any] = {
        "cluster": cluster,
        "topology": topology,
        "variant": variant,
        "accelerators": accelerators,
        "cost_musd": costed.cost_musd if costed else None,
        "diameter_hops": network.diameter_hops if network else None,
        "alltoall_percent_of_injection": alltoall.percent if alltoall else None,
        "allreduce_percent_of_peak": allreduce.percent if allreduce else None,
        "allreduce_algorithm": allreduce_run["algorithm"] if allreduce_run else "",
        "alltoall_bound_percent": network.alltoall_bound_percent if network else None,
        "allreduce_bound_percent": network.allreduce_bound_percent if network else None,
        "engine": (alltoall_run or allreduce_run or {}).get("engine", ""),
        "simulated_time_s": measured["simulated_time_ps"] / measures.PS_PER_S if measured else None,
        **{name: measured.get(name) for name in ("packets", "packet_hops", "wall_s", "peak_memory_bytes")},
        "message_bytes": alltoall_run["message_bytes"] if alltoall_run else None,
        "allreduce_bytes": allreduce_run["bytes"] if allreduce_run else None,
        "status": _status({"alltoall": alltoall_run, "allreduce": allreduce_run}),
        "note": notes,
    }
    if isinstance(alltoall, measures.SampledMeasure):
        row["alltoall_low_percent"] = alltoall.low_percent
        row["alltoall_high_percent"] = alltoall.high_percent
        row["alltoall_samples"] = alltoall.samples
    if allreduce and allreduce_run:
        for name in ("packet_hops", "wall_s", "peak_memory_bytes"):
            row[f"allreduce_{name}"] = allreduce_run[name]
    for role, percent in (("alltoall", "percent_of_injection"), ("allreduce", "percent_of_peak")):
        row[f"{role}_percent_of_bound"] = measures.percent_of(
            row[f"{role}_{percent}"], row[f"{role}_bound_percent"]
        )
    notes += [f"{role}: {run['message']}" for role, run in _failed(alltoall_run, allreduce_run)]
    if printed:
        row["published_cost_musd"] = printed.cost_musd
        row["published_alltoall_percent"] = printed.alltoall_percent
        row["published_allreduce_percent"] = printed.allreduce_percent
        row["published_alltoall_percent_provenance"] = printed.alltoall_provenance
        row["published_allreduce_percent_provenance"] = printed.allreduce_provenance
        row["alltoall_relative_difference"] = measures.relative_difference(
            row["alltoall_percent_of_injection"], printed.alltoall_percent
        )
        row["allreduce_relative_difference"] = measures.relative_difference(
            row["allreduce_percent_of_peak"], printed.allreduce_percent
        )
    return row


def _alltoall(
    runs: pd.DataFrame,
) -> tuple[dict[str, Any] | None, measures.Measure | measures.SampledMeasure | None]:
    """The alltoall a row shows and its bandwidth: a whole one, or else all samples of the largest size, as
    if they were one run: the first that is not complete, or the sum of all.
    """
    whole = _best(runs[runs["shifts"].isna()], measures.alltoall, "message_bytes")
    sampled = runs[runs["shifts"].notna()]
    if whole is not None or sampled.empty:
        return whole, measures.alltoall(whole) if whole else None
    samples = _records(sampled[sampled["message_bytes"] == sampled["message_bytes"].max()])
    unfinished = [run for run in samples if run["status"] != COMPLETE]
    if unfinished:
        return unfinished[0], None
    added = ("simulated_time_ps", "packets", "packet_hops", "wall_s")
    together = samples[0] | {name: sum(run[name] for run in samples) for name in added}
    together["peak_memory_bytes"] = max(run["peak_memory_bytes"] for run in samples)
    return together, measures.sampled_alltoall(samples)


def _best(runs: pd.DataFrame, measure: Any, size: str) -> dict[str, Any] | None:
    """The run a row shows: among complete runs of the largest size the fastest, else the first of those
    that are not.
    """

    def key(run: dict[str, Any]) -> tuple[bool, int, float]:
        got = measure(run)
        return (got is not None, 0 if pd.isna(run[size]) else int(run[size]), got.percent if got else 0.0)

    return max(_records(runs), key=key, default=None)


def _records(runs: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(name): value for name, value in run.items()} for run in runs.to_dict("records")]


def _accelerators(group: pd.DataFrame) -> int | None:
    known = group["accelerators"].dropna()
    return int(known.iloc[0]) if len(known) else None


def _size_notes(
    cluster: str, alltoall: dict[str, Any] | None, allreduce: dict[str, Any] | None, printed: bool
) -> list[str]:
    notes = []
    standard = published.TABLE2_ALLREDUCE_BYTES.get(cluster)
    if printed and alltoall and not pd.isna(alltoall["message_bytes"]):
        size = int(alltoall["message_bytes"])
        if size != published.TABLE2_MESSAGE_BYTES:
            notes.append(
                f"alltoall at {size_label(size)}, published at {size_label(published.TABLE2_MESSAGE_BYTES)}"
            )
    if printed and standard and allreduce and not pd.isna(allreduce["bytes"]):
        size = int(allreduce["bytes"])
        if size != standard:
            notes.append(f"allreduce at {size_label(size)}, published at {size_label(standard)}")
    return notes


def _failed(
    alltoall: dict[str, Any] | None, allreduce: dict[str, Any] | None
) -> Iterable[tuple[str, dict[str, Any]]]:
    for role, run in (("alltoall", alltoall), ("allreduce", allreduce)):
        if run and run["status"] != COMPLETE and run["message"]:
            yield role, run


def _status(runs: dict[str, dict[str, Any] | None]) -> str:
    states = {role: run["status"] if run else MISSING for role, run in runs.items()}
    if set(states.values()) == {COMPLETE}:
        return COMPLETE
    return "; ".join(f"{role} {state}" for role, state in states.items())


def _add_savings(row: dict[str, Any], reference: dict[str, Any] | None) -> None:
    """Ours against the fat tree row of the same variant, and the published one from published prices and
    percentages.
    """
    printed = published.table2(row["cluster"], row["topology"])
    printed_reference = published.table2(row["cluster"], NONBLOCKING)
    for role, percent in (("alltoall", "percent_of_injection"), ("allreduce", "percent_of_peak")):
        name = f"{role}_{percent}"
        got = None
        if reference:
            got = measures.saving(reference["cost_musd"], reference[name], row["cost_musd"], row[name])
        if got is None and row[name] is not None and row["cost_musd"] is not None:
            row["note"].append(f"no {role} saving: the fat tree of this variant has no value")
        row[f"{role}_saving"] = got
        row[f"published_{role}_saving"] = (
            measures.saving(
                printed_reference.cost_musd,
                getattr(printed_reference, f"{role}_percent"),
                printed.cost_musd,
                getattr(printed, f"{role}_percent"),
            )
            if printed and printed_reference
            else None
        )


def has_sweep(runs: pd.DataFrame) -> bool:
    """Whether a network ran several allreduces. A row shows one of them; all have a table of their own."""
    allreduces = runs[runs["role"] == "allreduce"]
    return bool(allreduces.duplicated(["cluster", "topology", "variant"]).any())


def check(runs: pd.DataFrame) -> list[Comparison]:
    """Comparison of the as-simulated rows, of every price and, where there is a sweep of allreduces, of each
    of these with the published values that may judge.
    """
    found = sweeps.check_allreduce(runs[runs["role"] == "allreduce"]) if has_sweep(runs) else []
    for row in build(runs).to_dict("records"):
        printed = published.table2(row["cluster"], row["topology"])
        if printed is None:
            continue
        cost = published.cost_layout_musd(row["cluster"], row["topology"])
        if cost is not None:
            # Half a unit of the third decimal.
            found.append(_comparison(row, "cost_musd", cost, 0.0005 / cost, "artifact", "cost_layout.csv"))
        if row["variant"] == "as-simulated":
            found += _check_alltoall(row, printed) + _check_allreduce(row, printed)
    return found


def _comparison(
    row: Mapping[Any, Any],
    metric: str,
    value: float,
    tolerance: float,
    provenance: str,
    source: str,
    size: int | None = None,
) -> Comparison:
    return Comparison(
        cluster=row["cluster"],
        topology=row["topology"],
        variant=row["variant"],
        status=row["status"],
        metric=metric,
        ours=None if pd.isna(row[metric]) else float(row[metric]),
        published=value,
        tolerance=tolerance,
        provenance=provenance,
        source=source,
        bytes=size,
    )


def _check_alltoall(row: Mapping[Any, Any], printed: published.Table2Row) -> list[Comparison]:
    """With the printed row at its size, with the published sweep at any other."""
    metric = "alltoall_percent_of_injection"
    if pd.isna(row["message_bytes"]):
        return []
    size = int(row["message_bytes"])
    source, value, provenance = "table2.csv", printed.alltoall_percent, printed.alltoall_provenance
    if size != published.TABLE2_MESSAGE_BYTES:
        swept = published.alltoall(row["cluster"], row["topology"], size)
        if swept is None or swept.note:
            return []
        source, value, provenance = f"alltoall_{row['cluster']}.csv", swept.percent, swept.provenance
    if not published.is_bar(provenance):
        return []
    tolerance = published.tolerance(metric, size).relative
    return [_comparison(row, metric, value, tolerance, provenance, source, size)]


def _check_allreduce(row: Mapping[Any, Any], printed: published.Table2Row) -> list[Comparison]:
    """Bandwidth and, where the fat tree's may judge too, the saving; only at the printed table's size."""
    size = published.TABLE2_ALLREDUCE_BYTES.get(row["cluster"])
    percent, provenance = printed.allreduce_percent, printed.allreduce_provenance
    if percent is None or not published.is_bar(provenance):
        return []
    if size is None or pd.isna(row["allreduce_bytes"]) or int(row["allreduce_bytes"]) != size:
        return []
    values = {"allreduce_percent_of_peak": percent}
    reference = published.table2(row["cluster"], NONBLOCKING)
    if reference and published.is_bar(reference.allreduce_provenance) and row["topology"] != NONBLOCKING:
        values["allreduce_saving"] = float(row["published_allreduce_saving"])
    return [
        _comparison(
            row, metric, value, published.tolerance(metric, size).relative, provenance, "table2.csv", size
        )
        for metric, value in values.items()
    ]


_COLUMNS = {
    "topology": Column("network", left=True),
    "variant": Column("variant", left=True),
    "accelerators": Column("accelerators"),
    "cost_musd": Column("cost, M$", ".3f"),
    "published_cost_musd": Column("published", ".5g"),
    "diameter_hops": Column("diameter, hops"),
    "alltoall_percent_of_injection": Column("alltoall, % of injection", ".2f"),
    "alltoall_interval": Column("95% interval"),
    "published_alltoall_percent": Column("published", ".2f"),
    "alltoall_relative_difference": Column("relative difference", "+.1%"),
    "alltoall_bound_percent": Column("upper bound, %", ".2f"),
    "alltoall_percent_of_bound": Column("% of bound", ".1f"),
    "allreduce_percent_of_peak": Column("allreduce, % of peak", ".2f"),
    "published_allreduce_percent": Column("published", ".2f"),
    "allreduce_relative_difference": Column("relative difference", "+.1%"),
    "allreduce_percent_of_bound": Column("% of bound", ".1f"),
    "allreduce_algorithm": Column("algorithm", left=True),
}
_SAVING_COLUMNS = {
    "topology": Column("network", left=True),
    "variant": Column("variant", left=True),
    "alltoall_saving": Column("alltoall", "factor"),
    "published_alltoall_saving": Column("published", "factor"),
    "allreduce_saving": Column("allreduce", "factor"),
    "published_allreduce_saving": Column("published", "factor"),
}
_RUN_COLUMNS = {
    "topology": Column("network", left=True),
    "variant": Column("variant", left=True),
    "status": Column("status", left=True),
    "engine": Column("engine", left=True),
    "message_bytes": Column("message", "size"),
    "allreduce_bytes": Column("allreduce", "size"),
    "packets": Column("packets", ",d"),
    "packet_hops": Column("packet-hops", ",d"),
    "simulated_time_s": Column("simulated, ms", "ms"),
    "wall_s": Column("wall, s", ".1f"),
    "speed": Column("million packet-hops/s", ".1f"),
    "peak_memory_bytes": Column("memory, MiB", "MiB"),
    "allreduce_wall_s": Column("allreduce: wall, s", ".1f"),
    "allreduce_speed": Column("million packet-hops/s", ".1f"),
    "allreduce_peak_memory_bytes": Column("memory, MiB", "MiB"),
    "note": Column("note", left=True),
}
_SAMPLE_NOTE = (
    "Where the note says so, the alltoall ran on random samples of its shifts; the interval covers the "
    "choice of shifts, not what a sample leaves out: queues that only the whole alltoall fills "
    "(docs/large.md)."
)


def tables(study: Study, frame: pd.DataFrame) -> list[Table]:
    """Readable tables of ``build``: bandwidth, savings, what ran."""
    named = frame.assign(
        topology=frame["topology"].map(networks.label),
        alltoall_interval=_intervals(frame),
        speed=frame["packet_hops"] / frame["wall_s"] / 1e6,
        allreduce_speed=frame["allreduce_packet_hops"] / frame["allreduce_wall_s"] / 1e6,
    )
    sampled = frame["alltoall_samples"].notna().any()
    columns = {name: _COLUMNS[name] for name in _COLUMNS if sampled or name != "alltoall_interval"}
    sizes = sorted({int(size) for size in frame["message_bytes"].dropna()})
    size_text = ", ".join(size_label(size) for size in sizes) or "unknown"
    found = []
    for cluster, part in by_cluster(named):
        where = f", {cluster} cluster" if cluster else ""
        found.append(
            table(
                f"Cost and bandwidth{where} (alltoall with {size_text} messages)",
                columns,
                part,
                [
                    "Cost is the bill of materials of the as-costed network in both variants: the "
                    "as-simulated network is a device of the simulation.",
                    "The diameter counts the cables between two accelerators, those of the hosts too; the "
                    "Dragonfly's printed one counts switch to switch.",
                    "Published bandwidths were simulated on the as-simulated networks; alltoall at 1 MiB.",
                    "Upper bounds hold for any routing (cuts, injection, what all links together carry).",
                    *([_SAMPLE_NOTE] if sampled else []),
                ],
            )
        )
        found.append(
            table(
                f"Cost saving{where}: cost per bandwidth of the nonblocking fat tree over one's own",
                _SAVING_COLUMNS,
                part,
                ["Published savings are computed from the published costs and percentages."],
            )
        )
        found.append(table(f"What ran{where}", _RUN_COLUMNS, part))
    return found


def _intervals(frame: pd.DataFrame) -> list[str]:
    """Intervals of sampled alltoalls as text, empty for others."""

    def text(low: float, high: float) -> str:
        if pd.isna(low):
            return ""
        return f"{low:.2f} to {high:.2f}" if not pd.isna(high) else f"from {low:.2f}"

    return [
        text(*ends)
        for ends in zip(frame["alltoall_low_percent"], frame["alltoall_high_percent"], strict=True)
    ]
