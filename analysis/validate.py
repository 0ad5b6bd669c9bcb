"""Both engines side by side: the same network and traffic on SST and on the packet engine, one row a pair."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pandera.pandas as pa

from analysis import networks
from analysis.collect import COMPLETE, MISSING, Study, run_dir
from analysis.measures import PS_PER_S
from analysis.render import Column, Table, table

AGREEMENT = 0.02
"""Relative difference of simulated times up to which a row needs no explanation."""

SPEED_RATIO = 100
"""How many times faster than SST the packet engine is to be in the median."""

ENGINES = ("sst", "packet")

_SECONDS = pa.Column("Float64", pa.Check.ge(0), nullable=True)
_COUNT = pa.Column("Int64", pa.Check.ge(0), nullable=True)
_SHARE = pa.Column("Float64", nullable=True)
_TEXT = pa.Column(str)

SCHEMA = pa.DataFrameSchema(
    {
        "topology": _TEXT,
        "accelerators": _COUNT,
        "motif": _TEXT,
        "simulated_time_sst_s": _SECONDS,
        "simulated_time_packet_s": _SECONDS,
        "relative_difference": pa.Column("Float64", pa.Check.ge(-1), nullable=True),
        "wall_sst_s": _SECONDS,
        "wall_packet_s": _SECONDS,
        "speed_ratio": _SHARE,
        "ports": _COUNT,
        "ports_differing": _COUNT,
        "port_bytes_relative_difference": _SHARE,
        "size_bytes": _COUNT,
        "variant": _TEXT,
        "seed": pa.Column("Int64", nullable=True),
        "status": _TEXT,
        "note": _TEXT,
    },
    strict=True,
    coerce=True,
    ordered=True,
)
"""Columns in order.

``relative_difference`` is SST's simulated time over the packet engine's, less one. ``wall_packet_s`` is the
simulation alone; ``wall_sst_s`` is the whole process of SST, start and reading of the graph included.
``speed_ratio`` is the latter over the former. ``ports`` counts both directions of every link, endpoints' too;
``ports_differing`` those that carried a different number of bytes; ``port_bytes_relative_difference`` is the
sum of all differences over the sum of all bytes. ``size_bytes`` is the message, or the vector of an
allreduce.
"""

_SAME = (
    "topology",
    "variant",
    "cluster",
    "accelerators",
    "motif",
    "message_bytes",
    "bytes",
    "seed",
    "single_plane",
)
"""What the two runs of a row have in common."""


@dataclass(frozen=True)
class Cause:
    """Why rows of some families and motifs differ by more than ``AGREEMENT``; empty tuples stand for all."""

    text: str
    families: tuple[str, ...] = ()
    motifs: tuple[str, ...] = ()

    def explains(self, family: str, motif: str) -> bool:
        """Whether it is a cause for rows of `family` and `motif`."""
        return (not self.families or family in self.families) and (not self.motifs or motif in self.motifs)


CAUSES = (
    Cause(
        "adaptive choices: an idle port of Merlin's starts a packet one flit time after it gets it, and "
        "packets that arrive meanwhile find it in the queue and are spread (sst_models/README.md, cause "
        "2); with that in the packet engine the difference is 0.00% on 64 accelerators",
        families=("hxmesh",),
        motifs=("alltoall", "permutation"),
    ),
    Cause(
        "ranks in perfect step: with cables 0.01 to 0.4 ns longer or shorter the packet engine's time moves "
        "by as much as the difference (sst_models/README.md, cause 3); not so the bucket on Hx1Mesh, which "
        "in both engines takes one of two times, 5% apart, by the length of the messages' headers (cause 4)",
        families=("dragonfly", "hxmesh", "fattree"),
        motifs=("bucket", "two-rings"),
    ),
    Cause(
        "ranks in perfect step: with cables 0.01 to 0.4 ns longer or shorter the packet engine's time moves "
        "by 2.8%, within 1.2% of SST's (sst_models/README.md, cause 3)",
        families=("dragonfly",),
        motifs=("alltoall",),
    ),
    Cause(
        "a chain of short messages: an idle port of Merlin's starts a packet one flit time after it gets "
        "it, at each router of each step (sst_models/README.md, cause 1); with that in the packet engine "
        "the difference is 0.2% (256 accelerators)",
        families=("hyperx", "torus", "hxmesh"),
        motifs=("ring", "two-rings"),
    ),
)
"""Causes, found by giving the packet engine one of Merlin's rules at a time. They are given for a kind of
row, not measured for each one.
"""

UNKNOWN = "cause not known"


def build(results_dir: Path, runs: pd.DataFrame) -> pd.DataFrame:
    """One row for each network, traffic and seed of the collected frame, small networks first.

    A row whose runs are not both complete has no difference, and its note says what is missing. Rows beyond
    ``AGREEMENT`` have the cause in their note.
    """
    pairs = runs.groupby(list(_SAME), sort=False, dropna=False)
    rows = [_row(results_dir, part) for _, part in pairs]
    frame = SCHEMA.validate(pd.DataFrame(rows, columns=list(SCHEMA.columns)))
    return frame.sort_values("accelerators", kind="stable", ignore_index=True)


def _row(results_dir: Path, part: pd.DataFrame) -> dict[str, Any]:
    by_engine = {str(run["engine"]): run for run in part.to_dict("records")}
    any_run = next(iter(by_engine.values()))
    row: dict[str, Any] = {str(name): None for name in SCHEMA.columns}
    row |= {name: any_run[name] for name in ("topology", "accelerators", "motif", "variant", "seed")}
    row["size_bytes"] = any_run["bytes"] if pd.isna(any_run["message_bytes"]) else any_run["message_bytes"]
    faults = []
    for engine in ENGINES:
        run = by_engine.get(engine)
        status = MISSING if run is None else str(run["status"])
        if run is not None and status == COMPLETE:
            row[f"simulated_time_{engine}_s"] = run["simulated_time_ps"] / PS_PER_S
            row[f"wall_{engine}_s"] = run["wall_s"]
        else:
            message = "" if run is None else str(run["message"])
            faults.append((status, f"{engine}: {status}" + (f" ({message})" if message else "")))
    row["status"] = COMPLETE if not faults else "; ".join(sorted({status for status, _ in faults}))
    row["note"] = "; ".join(text for _, text in faults)
    if not faults:
        sst, packet = by_engine["sst"], by_engine["packet"]
        difference = int(sst["simulated_time_ps"]) / int(packet["simulated_time_ps"]) - 1
        row["relative_difference"] = difference
        if packet["wall_s"] > 0:
            row["speed_ratio"] = sst["wall_s"] / packet["wall_s"]
        row |= compare_ports(run_dir(results_dir, sst["run_id"]), run_dir(results_dir, packet["run_id"]))
        if abs(difference) > AGREEMENT:
            row["note"] = cause(str(any_run["family"]), str(any_run["motif"]))
    return row


def cause(family: str, motif: str) -> str:
    """Why simulated times of `motif` on a network of `family` differ, or that it is not known."""
    return "; ".join(found.text for found in CAUSES if found.explains(family, motif)) or UNKNOWN


def compare_ports(sst: Path, packet: Path) -> dict[str, Any]:
    """What two runs sent through each port: the three columns of ``SCHEMA`` named after ports.

    sst, packet: directories of the runs. Nothing where one of them kept no table of its links.
    """
    try:
        tables = [pd.read_parquet(directory / "links.parquet") for directory in (sst, packet)]
    except OSError:
        return {}
    theirs, ours = (found.set_index(["router", "port"])["flits"] for found in tables)
    theirs, ours = theirs.align(ours, fill_value=0)
    apart = (theirs - ours).abs()
    total = int(ours.sum())
    return {
        "ports": len(apart),
        "ports_differing": int((apart > 0).sum()),
        "port_bytes_relative_difference": float(apart.sum() / total) if total else None,
    }


def left_out(frame: pd.DataFrame) -> list[str]:
    """Combinations of the study's networks and motifs for which there is no row, one sentence a network."""
    motifs = list(dict.fromkeys(frame["motif"]))
    sentences = []
    for _, part in frame.groupby(["topology", "accelerators"], sort=False, dropna=False):
        topology, accelerators = part["topology"].iloc[0], part["accelerators"].iloc[0]
        missing = [motif for motif in motifs if motif not in set(part["motif"])]
        if missing:
            size = "" if pd.isna(accelerators) else f" with {accelerators} accelerators"
            sentences.append(f"Left out: {', '.join(missing)} on {networks.label(str(topology))}{size}.")
    return sentences


def tables(study: Study, frame: pd.DataFrame) -> list[Table]:
    """Readable table of ``build``, with what it shows in all below it."""
    del study
    columns = {
        "topology": Column("network", left=True),
        "accelerators": Column("accelerators"),
        "motif": Column("motif", left=True),
        "size_bytes": Column("size", "size"),
        "simulated_time_sst_s": Column("SST, ms", "ms"),
        "simulated_time_packet_s": Column("packet, ms", "ms"),
        "relative_difference": Column("difference", "+.2%"),
        "wall_sst_s": Column("wall SST, s", ".3g"),
        "wall_packet_s": Column("wall packet, s", ".3g"),
        "speed_ratio": Column("ratio", ".0f"),
        "ports_differing": Column("ports that differ", ",d"),
        "ports": Column("of", ",d"),
        "port_bytes_relative_difference": Column("bytes that differ", ".2%"),
        "status": Column("status", left=True),
        "note": Column("note", left=True),
    }
    named = frame.assign(topology=frame["topology"].map(networks.label))
    complete = frame[frame["status"] == COMPLETE]
    notes = [
        "Difference: simulated time on SST over that of the packet engine, less one. Wall: the process of "
        "SST, the simulation of the packet engine. Ports: both directions of every link, by their bytes.",
    ]
    if not complete.empty:
        within = int((complete["relative_difference"].abs() <= AGREEMENT).sum())
        notes.append(
            f"{within} of {len(complete)} complete rows are within {AGREEMENT:.0%}; the largest difference "
            f"is {complete['relative_difference'].abs().max():.2%}. The ratio of wall times is "
            f"{complete['speed_ratio'].median():.0f} in the median (wanted: {SPEED_RATIO})."
        )
    return [table("SST and the packet engine", columns, named, [*notes, *left_out(frame)])]


__all__ = ["AGREEMENT", "CAUSES", "SCHEMA", "Cause", "build", "cause", "compare_ports", "left_out", "tables"]
