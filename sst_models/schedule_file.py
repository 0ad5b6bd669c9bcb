"""Schedule files for the SST elements: binary, one slice a rank, so that an endpoint reads only its own.

The format is described in `elements/README.md`; the elements read it with `elements/schedule_file.cc`.
"""

from __future__ import annotations

import os
import zlib
from pathlib import Path

import numpy as np
import numpy.typing as npt

from motifs.schedule import ArraySchedule, OpKind, Schedule
from topologies.errors import ConfigError

__all__ = ["FILE_VERSION", "read", "write"]

FILE_VERSION = 1

_MAGIC = b"HXMSCHED"
_NONE = 0xFFFFFFFF

_HEADER = np.dtype(
    [
        ("magic", "S8"),
        ("version", "<u4"),
        ("header_bytes", "<u4"),
        ("ranks", "<u8"),
        ("operations", "<u8"),
        ("dependencies", "<u8"),
        ("file_bytes", "<u8"),
        ("zero", "<u8", 2),
    ]
)
_INDEX = np.dtype(
    [
        ("offset", "<u8"),
        ("operations", "<u8"),
        ("dependencies", "<u8"),
        ("endpoint", "<u4"),
        ("crc", "<u4"),
    ]
)
_OPERATION = np.dtype(
    [
        ("value", "<i8"),
        ("peer", "<u4"),
        ("peer_endpoint", "<u4"),
        ("match", "<u4"),
        ("dependencies", "<u4"),
        ("tag", "<i4"),
        ("kind", "u1"),
        ("zero", "u1", 3),
    ]
)


def write(path: str | os.PathLike[str], schedule: Schedule, placement: npt.ArrayLike | None = None) -> None:
    """Write `schedule` to `path`, complete or not at all; the same schedule always gives the same bytes.

    `placement[rank]` is the endpoint of each rank (default: rank r at endpoint r).

    Raises ConfigError for a schedule that fails its own check or has too many operations to be listed, a
    placement that is no list of distinct endpoints, and a file that cannot be written.
    """
    schedule.check()
    graph = schedule.expand()
    ranks = graph.num_ranks
    endpoint = _endpoints(ranks, placement)
    operations = np.diff(graph.op_offset)
    if ranks and operations.max(initial=0) >= _NONE:
        raise ConfigError(f"operations of a rank are {operations.max()} but must be below {_NONE}.")
    table = _operations(graph, endpoint)
    # Dependencies count within the rank in the file.
    owner_rank = graph.op_rank()
    first = graph.op_offset[:-1]
    counts = np.diff(graph.dep_offset)
    dep = (graph.dep - np.repeat(first[owner_rank], counts)).astype("<u4")
    dep_first = graph.dep_offset[graph.op_offset]
    dependencies = np.diff(dep_first)

    slice_bytes = operations * _OPERATION.itemsize + dependencies * dep.itemsize
    start = _HEADER.itemsize + ranks * _INDEX.itemsize
    index = np.zeros(ranks, dtype=_INDEX)
    index["offset"] = start + np.concatenate([[0], np.cumsum(slice_bytes)[:-1]])
    index["operations"] = operations
    index["dependencies"] = dependencies
    index["endpoint"] = endpoint
    header = np.zeros((), dtype=_HEADER)
    header["magic"] = _MAGIC
    header["version"] = FILE_VERSION
    header["header_bytes"] = _HEADER.itemsize
    header["ranks"] = ranks
    header["operations"] = graph.num_operations
    header["dependencies"] = len(dep)
    header["file_bytes"] = start + int(slice_bytes.sum())

    target = Path(path)
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            file.seek(start)
            for rank in range(ranks):
                part = table[graph.op_offset[rank] : graph.op_offset[rank + 1]].tobytes()
                part += dep[dep_first[rank] : dep_first[rank + 1]].tobytes()
                index["crc"][rank] = zlib.crc32(part)
                file.write(part)
            file.seek(0)
            file.write(header.tobytes() + index.tobytes())
        partial.replace(target)
    except OSError as error:
        raise ConfigError(f"schedule file {target} cannot be written: {error.strerror}.") from error
    finally:
        partial.unlink(missing_ok=True)


def _endpoints(ranks: int, placement: npt.ArrayLike | None) -> npt.NDArray[np.uint32]:
    if placement is None:
        return np.arange(ranks, dtype=np.uint32)
    places = np.asarray(placement)
    if places.shape != (ranks,) or places.dtype.kind not in "iu":
        raise ConfigError(f"placement has shape {places.shape} but must be {ranks} integers.")
    if ranks and (int(places.min()) < 0 or int(places.max()) >= _NONE):
        raise ConfigError(f"placement must hold endpoints 0 to {_NONE - 1}.")
    if len(np.unique(places)) != ranks:
        raise ConfigError("placement puts two ranks on one endpoint; every rank needs its own.")
    return places.astype(np.uint32)


def _operations(graph: ArraySchedule, endpoint: npt.NDArray[np.uint32]) -> npt.NDArray[np.void]:
    """All operations as they stand in the file."""
    table = np.zeros(graph.num_operations, dtype=_OPERATION)
    message = graph.kind <= OpKind.RECV
    partner = graph.match()
    table["value"] = graph.value
    table["tag"] = graph.tag
    table["kind"] = graph.kind
    table["dependencies"] = np.diff(graph.dep_offset)
    for field in ("peer", "peer_endpoint", "match"):
        table[field] = _NONE
    peer = graph.peer[message]
    table["peer"][message] = peer
    table["peer_endpoint"][message] = endpoint[peer]
    table["match"][message] = partner[message] - graph.op_offset[peer]
    return table


def read(path: str | os.PathLike[str]) -> tuple[ArraySchedule, npt.NDArray[np.uint32]]:
    """Return the schedule in the file at `path` and the endpoint of each rank.

    Raises ConfigError for a file that cannot be read, is no schedule file of this version, is cut short or
    damaged; whether the schedule can run is for :meth:`ArraySchedule.check` to say.
    """
    name = os.fspath(path)
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"schedule file {name} cannot be opened: {error.strerror}.") from error
    if len(data) < _HEADER.itemsize or not data.startswith(_MAGIC):
        raise ConfigError(f"schedule file {name} is not a schedule file.")
    header = np.frombuffer(data, dtype=_HEADER, count=1)[0]
    if header["version"] != FILE_VERSION:
        raise ConfigError(
            f"schedule file {name} has version {header['version']} but must have {FILE_VERSION}."
        )
    damaged = ConfigError(f"schedule file {name} is cut short or damaged.")
    ranks = int(header["ranks"])
    if header["header_bytes"] != _HEADER.itemsize or header["file_bytes"] != len(data):
        raise damaged
    if not 0 < ranks <= (len(data) - _HEADER.itemsize) // _INDEX.itemsize:
        raise damaged
    index = np.frombuffer(data, dtype=_INDEX, count=ranks, offset=_HEADER.itemsize)
    # Parts follow each other without gaps, so that none can be read twice.
    at = _HEADER.itemsize + ranks * _INDEX.itemsize
    tables: list[npt.NDArray[np.void]] = []
    deps: list[npt.NDArray[np.int64]] = []
    first = 0
    for rank, entry in enumerate(index):
        offset, count, m = (int(entry[field]) for field in ("offset", "operations", "dependencies"))
        size = count * _OPERATION.itemsize + m * 4
        if offset != at or offset + size > len(data):
            raise damaged
        at += size
        if zlib.crc32(data[offset : offset + size]) != entry["crc"]:
            raise ConfigError(f"schedule file {name} is damaged in the part of rank {rank}.")
        tables.append(np.frombuffer(data, dtype=_OPERATION, count=count, offset=offset))
        dep = np.frombuffer(data, dtype="<u4", count=m, offset=offset + count * _OPERATION.itemsize)
        deps.append(dep.astype(np.int64) + first)
        first += count
    if at != len(data):
        raise damaged
    table = np.concatenate(tables)
    peer = table["peer"].astype(np.int64)
    try:
        schedule = ArraySchedule(
            num_ranks=ranks,
            op_offset=np.concatenate([[0], np.cumsum(index["operations"].astype(np.int64))]),
            kind=table["kind"],
            peer=np.where(peer == _NONE, -1, peer),
            value=table["value"],
            tag=table["tag"],
            dep_offset=np.concatenate([[0], np.cumsum(table["dependencies"].astype(np.int64))]),
            dep=np.concatenate(deps),
        )
    except ConfigError as error:
        raise ConfigError(f"schedule file {name}: {error}") from None
    return schedule, index["endpoint"].astype(np.uint32)
