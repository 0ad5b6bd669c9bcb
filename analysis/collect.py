"""Run directories to one tidy frame: one row for every run a study asks for, whether it ended well or not."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import pandas as pd
import pandera.pandas as pa
from pydantic import BaseModel, ConfigDict, ValidationError

from analysis.published import PLANE_SCALE
from topologies.catalog import CLUSTERS, NAMES, VARIANTS
from topologies.errors import ConfigError

COMPLETE = "complete"
"""Status of a run whose numbers count."""
MISSING = "missing"
"""Status of a run without a result."""
UNREADABLE = "unreadable"
"""Status of a run whose result or experiment cannot be read."""

Kind = Literal["table2", "alltoall", "allreduce", "permutation", "validate", "dnn", "generic"]

_ALLREDUCES = ("ring", "bidirectional-ring", "two-rings", "bucket", "torus-2d")
_SIZE_KEYS = ("total_bytes", "bytes", "message_bytes")


class StudyRow(BaseModel):
    """One row of a study: the run and the labels under which tables show it.

    ``message_bytes`` is the message of an alltoall or permutation, ``bytes`` the vector of an allreduce on
    the whole machine.
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    run_id: str
    topology: str = ""
    variant: str = VARIANTS[0]
    cluster: str = ""
    role: str = ""
    algorithm: str = ""
    message_bytes: int | None = None
    bytes: int | None = None
    seed: int | None = None


class Study(BaseModel):
    """The table of contents of a results directory (its ``study.json``)."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    name: str
    kind: Kind = "generic"
    description: str = ""
    rows: tuple[StudyRow, ...] = ()


def _nullable_int(*, minimum: int = 0) -> pa.Column:
    return pa.Column("Int64", pa.Check.ge(minimum), nullable=True)


RUN_SCHEMA = pa.DataFrameSchema(
    {
        "run_id": pa.Column(str),
        "topology": pa.Column(str),
        "variant": pa.Column(str),
        "cluster": pa.Column(str),
        "role": pa.Column(str),
        "motif": pa.Column(str),
        "algorithm": pa.Column(str),
        "message_bytes": _nullable_int(),
        "bytes": _nullable_int(),
        "shifts": _nullable_int(minimum=1),
        "seed": pa.Column("Int64", nullable=True),
        "accelerators": _nullable_int(minimum=1),
        "family": pa.Column(str),
        "planes": _nullable_int(minimum=1),
        "single_plane": pa.Column(bool),
        "merged_planes": pa.Column(int, pa.Check.ge(1)),
        "injection_bps": _nullable_int(minimum=1),
        "status": pa.Column(str, pa.Check.str_length(min_value=1)),
        "message": pa.Column(str),
        "engine": pa.Column(str),
        "simulated_time_ps": _nullable_int(minimum=1),
        "packets": _nullable_int(),
        "packet_hops": _nullable_int(),
        "messages": _nullable_int(),
        "bytes_delivered": _nullable_int(),
        "wall_s": pa.Column("Float64", pa.Check.ge(0), nullable=True),
        "peak_memory_bytes": _nullable_int(),
        "versions": pa.Column(str),
    },
    strict=True,
    coerce=True,
    ordered=True,
    checks=pa.Check(
        lambda frame: (frame["status"] == COMPLETE) | frame["simulated_time_ps"].isna(),
        error="a run that is not complete has no simulated time",
    ),
)
"""One row a run. Results (times and counts) are missing, not zero, where ``status`` is not ``complete``.

``shifts`` is how many shifts of an alltoall ran, missing where all of them did.
"""

_MEASURED = (
    "simulated_time_ps",
    "packets",
    "packet_hops",
    "messages",
    "bytes_delivered",
    "wall_s",
    "peak_memory_bytes",
)


def load_study(results_dir: Path) -> Study:
    """The study of ``results_dir``.

    Without a ``study.json`` every run directory there becomes a row of a generic study named after the
    directory. Raises ``ConfigError`` for a directory that does not exist, or a study.json that cannot be
    read or has a wrong field.
    """
    if not results_dir.is_dir():
        raise ConfigError(
            f"results directory {str(results_dir)!r} does not exist: name a directory written by a run."
        )
    path = results_dir / "study.json"
    if not path.is_file():
        runs = sorted(p.name for p in (results_dir / "runs").glob("*") if p.is_dir())
        if not runs:
            raise ConfigError(f"results directory {str(results_dir)!r} holds neither study.json nor runs.")
        return Study(name=results_dir.name, rows=tuple(StudyRow(run_id=run) for run in runs))
    try:
        return Study.model_validate_json(path.read_bytes())
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "the file"
        allowed = f" (kinds are {', '.join(get_args(Kind))})" if field == "kind" else ""
        raise ConfigError(f"study {str(path)!r}: {field} is wrong: {first['msg']}{allowed}.") from None


def run_dir(results_dir: Path, run_id: str) -> Path:
    """Directory of one run."""
    return results_dir / "runs" / run_id


def collect(results_dir: Path, study: Study | None = None) -> pd.DataFrame:
    """One row per row of the study, as ``RUN_SCHEMA`` says, in the order of Table 2 and then by algorithm,
    size and seed.

    A run named by two rows appears in both. Units are in the column names; ``injection_bps`` is that of one
    plane, ``bytes`` the size of an allreduce on the machine (a run in one of four merged planes counts with
    four times its bytes).
    """
    study = study or load_study(results_dir)
    frame = pd.DataFrame([_tidy(results_dir, row) for row in study.rows], columns=list(RUN_SCHEMA.columns))
    return sort_rows(RUN_SCHEMA.validate(frame))


def sort_rows(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows by cluster, topology (order of Table 2, others by name), variant, role, algorithm, size and
    seed.
    """

    def rank(value: str, known: Sequence[str]) -> tuple[int, str]:
        return (list(known).index(value) if value in known else len(known), value)

    def key(index: int) -> tuple[Any, ...]:
        row = frame.iloc[index]
        numbers = (row.get(name) for name in ("message_bytes", "bytes", "seed"))
        return (
            rank(row.get("cluster", ""), CLUSTERS),
            rank(row["topology"], NAMES),
            rank(row["variant"], VARIANTS),
            row.get("role", ""),
            row.get("algorithm", ""),
            *(-1 if number is None or pd.isna(number) else int(number) for number in numbers),
            row.get("run_id", ""),
        )

    order = sorted(range(len(frame)), key=key)
    return frame.iloc[order].reset_index(drop=True)


def by_cluster(frame: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """The rows of every cluster, in the order in which clusters appear."""
    return [(str(cluster), part) for cluster, part in frame.groupby("cluster", sort=False)]


def load_ranks(results_dir: Path, run_id: str) -> pd.DataFrame:
    """Per-rank table of a run (rank, bytes_sent, bytes_received, start_ps, end_ps); raises ``OSError`` if
    it is not there.
    """
    return pd.read_parquet(run_dir(results_dir, run_id) / "ranks.parquet").sort_values(
        "rank", ignore_index=True
    )


def _tidy(results_dir: Path, row: StudyRow) -> dict[str, Any]:
    directory = run_dir(results_dir, row.run_id)
    experiment, experiment_error = _read_json(directory / "experiment.json")
    result, result_error = _read_json(directory / "result.json")
    status, message = _status(result, result_error)
    if status == COMPLETE and experiment is None:
        status, message = UNREADABLE, experiment_error or "experiment.json is missing"

    topology = (experiment or {}).get("topology", {})
    motif = (experiment or {}).get("motif", {})
    single_plane = bool(topology.get("single_plane", False))
    allreduce = _is_allreduce(row, motif)
    own_size = next((int(motif[key]) for key in _SIZE_KEYS if motif.get(key) is not None), None)
    merged_planes = _merged_planes(row, own_size) if allreduce and single_plane else 1
    size = _first(row.bytes, own_size * merged_planes if own_size is not None else None)
    seeds = (row.seed, (experiment or {}).get("seed"), (result or {}).get("seed"))

    tidy: dict[str, Any] = {
        "run_id": row.run_id,
        "topology": row.topology or topology.get("name", ""),
        "variant": row.variant,
        "cluster": row.cluster or topology.get("cluster") or "",
        "role": row.role,
        "motif": motif.get("name", ""),
        "algorithm": row.algorithm or (motif.get("name", "") if allreduce else ""),
        "message_bytes": None if allreduce else _first(own_size, row.message_bytes),
        "bytes": size if allreduce else None,
        "shifts": _sampled_shifts(motif),
        "seed": _first(*seeds),
        "accelerators": topology.get("num_endpoints"),
        "family": topology.get("family", ""),
        "planes": topology.get("planes"),
        "single_plane": single_plane,
        "merged_planes": merged_planes,
        "injection_bps": topology.get("injection_bps"),
        "status": status,
        "message": message,
        "engine": (result or {}).get("engine") or (experiment or {}).get("engine") or "",
        "versions": json.dumps((result or {}).get("versions", {}), sort_keys=True),
    }
    complete = status == COMPLETE and result is not None
    tidy.update({name: result.get(name) if complete and result else None for name in _MEASURED})
    return tidy


def _is_allreduce(row: StudyRow, motif: dict[str, Any]) -> bool:
    return row.role == "allreduce" or bool(row.algorithm) or motif.get("name") in _ALLREDUCES


def _sampled_shifts(motif: dict[str, Any]) -> int | None:
    chosen = motif.get("shifts")
    return motif.get("sample") if chosen is None else len(chosen)


def _merged_planes(row: StudyRow, own_size: int | None) -> int:
    """How many planes share the vector of an allreduce that ran in one of them."""
    return row.bytes // own_size if row.bytes and own_size else PLANE_SCALE


def _status(result: dict[str, Any] | None, error: str) -> tuple[str, str]:
    if result is None:
        return (UNREADABLE, error) if error else (MISSING, "no result.json")
    status = str(result.get("status") or UNREADABLE)
    message = str(result.get("message") or "")
    if status == COMPLETE and not (result.get("simulated_time_ps") or 0) > 0:
        return UNREADABLE, "result.json has no simulated time"
    return status, message


def _read_json(path: Path) -> tuple[dict[str, Any] | None, str]:
    """Content and "" of a file, None and "" where there is none, None and a reason where it is damaged."""
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None, ""
    except (OSError, ValueError) as error:
        return None, f"{path.name} cannot be read: {error}"
    if not isinstance(content, dict):
        return None, f"{path.name} is not an object"
    return content, ""


def _first(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)
