"""Comparisons of results with the published values that may judge them, as a frame."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields

import pandas as pd
import pandera.pandas as pa

from analysis import measures

SCHEMA = pa.DataFrameSchema(
    {
        "cluster": pa.Column(str),
        "topology": pa.Column(str),
        "variant": pa.Column(str),
        "algorithm": pa.Column(str),
        "bytes": pa.Column("Int64", nullable=True),
        "metric": pa.Column(str),
        "ours": pa.Column("Float64", nullable=True),
        "published": pa.Column("Float64", pa.Check.gt(0)),
        "relative_difference": pa.Column("Float64", nullable=True),
        "tolerance": pa.Column("Float64", pa.Check.gt(0)),
        "within": pa.Column(bool),
        "status": pa.Column(str),
        "provenance": pa.Column(str),
        "source": pa.Column(str),
    },
    strict=True,
    coerce=True,
    ordered=True,
)
"""One row a comparison; ``within`` is false where our value is missing."""


@dataclass(frozen=True)
class Comparison:
    """One value of ours (None where the run has none) beside a published one from the file ``source``.

    ``bytes`` is the message of an alltoall, the vector of an allreduce, what a rank sends in a permutation;
    ``tolerance`` the largest allowed relative difference.
    """

    cluster: str
    topology: str
    variant: str
    status: str
    metric: str
    ours: float | None
    published: float
    tolerance: float
    provenance: str
    source: str
    algorithm: str = ""
    bytes: int | None = None


def frame(comparisons: Iterable[Comparison]) -> pd.DataFrame:
    """The comparisons as ``SCHEMA`` says, with their relative differences and verdicts."""
    rows = []
    for comparison in comparisons:
        row = {field.name: getattr(comparison, field.name) for field in fields(comparison)}
        difference = measures.relative_difference(comparison.ours, comparison.published)
        row["relative_difference"] = difference
        row["within"] = difference is not None and abs(difference) <= comparison.tolerance
        rows.append(row)
    return SCHEMA.validate(pd.DataFrame(rows, columns=list(SCHEMA.columns)))
