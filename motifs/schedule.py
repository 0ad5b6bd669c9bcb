"""Schedules: traffic as arrays of send, receive, compute and wait operations.

Three forms, from explicit to compact:

* :class:`ArraySchedule` lists every operation and its dependencies;
* :class:`ShiftSchedule` describes an alltoall by its list of shifts;
* :class:`StreamSchedule` describes ring-like collectives by segments of equal steps.

The compact forms expand to an exactly equivalent :class:`ArraySchedule`. A schedule knows no network and no
engine: ranks are numbers, sizes are bytes, computation is picoseconds.
"""

from __future__ import annotations

import dataclasses
import os
import reprlib
import sys
import zipfile
from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from motifs.matching import pair_messages
from topologies.errors import ConfigError

__all__ = [
    "ArraySchedule",
    "OpKind",
    "Schedule",
    "ShiftSchedule",
    "StreamSchedule",
    "block_bytes",
    "load_schedule",
]

Int32Array = NDArray[np.int32]
Int64Array = NDArray[np.int64]
UInt8Array = NDArray[np.uint8]

FILE_FORMAT = "hxmesh-schedule"
FILE_VERSION = 1
DEFAULT_OPERATION_LIMIT = 200_000_000
"""Largest expansion made without asking: about 10 GB of arrays."""

FS_PER_PS = 1000

MAX_RANKS = 2**24
"""Ranks cost memory even where they do nothing; a few bytes of a file must not ask for all of it."""
MAX_TOTAL = 2**62
"""Largest sum of a schedule's bytes, or of its picoseconds of computation: times are 64-bit integers."""


class OpKind(IntEnum):
    """What an operation does and when it is complete."""

    SEND = 0
    """Complete when its last packet has left the endpoint."""
    RECV = 1
    """Complete when it was posted and its last byte has arrived."""
    COMPUTE = 2
    """Complete `value` picoseconds after its start."""
    WAIT = 3
    """Complete at its start: a join of its dependencies."""


def block_bytes(total_bytes: ArrayLike, parts: ArrayLike, block: ArrayLike) -> Int64Array:
    """Size in bytes of block `block` of `total_bytes` bytes cut into `parts` blocks.

    The first ``total_bytes % parts`` blocks are one byte larger, so the sizes add up exactly. Arguments
    broadcast.
    """
    total = np.asarray(total_bytes, dtype=np.int64)
    count = np.asarray(parts, dtype=np.int64)
    return np.asarray(total // count + (np.asarray(block, dtype=np.int64) < total % count), dtype=np.int64)


def _array(field: str, values: ArrayLike, dtype: type[np.integer[Any]], ndim: int = 1) -> NDArray[Any]:
    """Return `values` as a read-only contiguous array of `dtype`; refuse values that do not fit."""
    array = np.asarray(values)
    if array.size == 0 and array.dtype.kind == "f":
        array = array.astype(dtype)  # an empty list has no integer type of its own
    if array.dtype.kind not in "iu":
        raise ConfigError(f"{field} must be an array of integers, not of {array.dtype}.")
    if array.ndim != ndim:
        raise ConfigError(f"{field} must have {ndim} dimension{'s' * (ndim > 1)}, not {array.ndim}.")
    if array.dtype != dtype and array.size:
        limits = np.iinfo(dtype)
        low, high = int(array.min()), int(array.max())
        if low < limits.min or high > limits.max:
            bad = low if low < limits.min else high
            raise ConfigError(f"{field} holds {bad} but must be {limits.min} to {limits.max}.")
    # A view, so that the caller's own array stays writable.
    array = np.ascontiguousarray(array, dtype=dtype).view()
    array.flags.writeable = False
    return array


def _integer(field: str, value: object, minimum: int, maximum: int) -> int:
    """Return `value` as int; refuse booleans, other types and values not from `minimum` to `maximum`."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise ConfigError(f"{field} must be an integer, not {reprlib.repr(value)}.")
    if value < minimum:
        raise ConfigError(f"{field} is {value} but must be {minimum} or more.")
    if value > maximum:
        raise ConfigError(f"{field} is {value} but must be {maximum} or less.")
    return int(value)


def _refuse_total(what: str, unit: str, amount: NDArray[Any]) -> None:
    """Refuse amounts, 0 or more each, whose sum is beyond `MAX_TOTAL`."""
    # As floating point, whose error is nothing beside the distance from MAX_TOTAL to the largest integer.
    total = float(amount.sum(dtype=np.float64))
    if total > MAX_TOTAL:
        raise ConfigError(f"{what} add up to {total:.6g} {unit} but must be at most {MAX_TOTAL} together.")


def _offsets(field: str, offset: Int64Array, segments: int, total: int) -> None:
    """Refuse an offset array that does not cut `total` items into `segments` runs."""
    if len(offset) != segments + 1:
        raise ConfigError(f"{field} has {len(offset)} entries but must have {segments + 1}.")
    if offset[0] != 0 or offset[-1] != total or np.any(np.diff(offset) < 0):
        raise ConfigError(f"{field} must rise from 0 to {total} without falling.")


def _exclusive_sum(counts: Int64Array) -> Int64Array:
    """Offsets of runs of the given lengths: one entry more than `counts`, starting with 0."""
    offset = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=offset[1:])
    return offset


def _ranges(start: Int64Array, count: Int64Array) -> Int64Array:
    """Concatenate ``arange(start[i], start[i] + count[i])`` over all i."""
    offset = _exclusive_sum(count)
    return np.arange(offset[-1], dtype=np.int64) + np.repeat(start - offset[:-1], count)


class Schedule(ABC):
    """What each of `num_ranks` ranks sends, receives and computes, and in which order."""

    num_ranks: int
    _classes: ClassVar[dict[str, type[Schedule]]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Register the class under its name, which files carry."""
        super().__init_subclass__(**kwargs)
        Schedule._classes[cls.__name__] = cls

    @property
    @abstractmethod
    def num_messages(self) -> int:
        """Number of messages sent by all ranks."""

    @property
    @abstractmethod
    def num_operations(self) -> int:
        """Number of operations of the expanded schedule."""

    @property
    def total_bytes(self) -> int:
        """Bytes sent by all ranks."""
        return int(self.sent_bytes().sum())

    @abstractmethod
    def sent_bytes(self) -> Int64Array:
        """Bytes each rank sends, int64[ranks]."""

    @abstractmethod
    def received_bytes(self) -> Int64Array:
        """Bytes each rank receives, int64[ranks]."""

    @abstractmethod
    def check(self) -> None:
        """Raise ConfigError, naming rank and operation, if the schedule cannot run to its end."""

    @abstractmethod
    def expand(self, operation_limit: int = DEFAULT_OPERATION_LIMIT) -> ArraySchedule:
        """Return the equivalent list of operations; ConfigError if there are more than `operation_limit`."""

    def _refuse_expansion(self, operation_limit: int) -> None:
        if self.num_operations > operation_limit:
            raise ConfigError(
                f"schedule has {self.num_operations} operations "
                f"but must have at most {operation_limit} (operation_limit) to be expanded."
            )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the schedule to `path` as an uncompressed .npz archive, complete or not at all.

        The same schedule always gives the same bytes.
        """
        target = Path(path)
        fields = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}  # type: ignore[arg-type]
        partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
        try:
            with partial.open("wb") as file:
                np.savez(
                    file,
                    format=np.array(FILE_FORMAT),
                    version=np.array(FILE_VERSION),
                    schedule=np.array(type(self).__name__),
                    **fields,
                )
            partial.replace(target)
        finally:
            partial.unlink(missing_ok=True)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a schedule written by :meth:`save`; ConfigError if `path` does not hold one of this class."""
        where = f"schedule file {os.fspath(path)}"
        content = _load_arrays(path, where)
        scalars = {key: value.item() for key, value in content.items() if value.ndim == 0}
        if scalars.get("format") != FILE_FORMAT:
            raise ConfigError(f"{where} is not a schedule.")
        version, name = scalars.get("version"), scalars.get("schedule")
        if version != FILE_VERSION:
            raise ConfigError(f"{where} has version {reprlib.repr(version)} but must have {FILE_VERSION}.")
        found = Schedule._classes.get(name) if isinstance(name, str) else None
        if found is None or not issubclass(found, cls):
            raise ConfigError(f"{where} holds {reprlib.repr(name)} but must hold {cls.__name__}.")
        names = {f.name for f in dataclasses.fields(found)}  # type: ignore[arg-type]
        fields = {key: scalars.get(key, value) for key, value in content.items() if key not in _FILE_KEYS}
        if set(fields) != names:
            odd = reprlib.repr(sorted(set(fields) ^ names))
            raise ConfigError(f"{where} has missing or unknown fields: {odd}.")
        try:
            return found(**fields)
        except ConfigError as error:
            raise ConfigError(f"{where}: {error}") from None


_FILE_KEYS = ("format", "version", "schedule")


def _load_arrays(path: str | os.PathLike[str], where: str) -> dict[str, NDArray[Any]]:
    """The arrays of an uncompressed .npz archive; ConfigError, starting with `where`, for anything else."""
    try:
        with Path(path).open("rb") as file, zipfile.ZipFile(file) as archive:
            names = archive.namelist()
            # Damaged entries could otherwise grow to any size.
            if any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.infolist()):
                raise ConfigError(f"{where} cannot be read: it is compressed.")
            content = {}
            for name in names:
                with archive.open(name) as member:
                    array = np.lib.format.read_array(member, allow_pickle=False)
                # NumPy does not look whether what it takes for text is text.
                letters = (
                    np.frombuffer(array.tobytes(), np.uint32) if array.dtype.kind == "U" else np.zeros(1)
                )
                if array.dtype.kind not in "iubU" or letters.max(initial=0) > sys.maxunicode:
                    raise ValueError("it holds what is neither an integer nor text")
                content[name.removesuffix(".npy")] = array
        return content
    except ConfigError:
        raise
    # zipfile and NumPy have no errors of their own for the most of what a damaged file can be.
    except Exception as error:
        reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        reason = reason if len(reason) <= 150 else f"{reason[:147]}..."
        raise ConfigError(f"{where} cannot be read: {reason}.") from error


def load_schedule(path: str | os.PathLike[str]) -> Schedule:
    """Read a schedule of any class from a file written by :meth:`Schedule.save`."""
    return Schedule.load(path)


@dataclass(frozen=True, eq=False)
class ArraySchedule(Schedule):
    """Every operation of every rank, with dependencies (the model of the GOAL language).

    An operation starts when all operations it depends on are complete. The k-th SEND from s to d with tag t
    matches the k-th RECV at d from s with tag t, counted in the order of the arrays.

    num_ranks: number of ranks.
    op_offset: int64[ranks + 1]; rank r owns the operations op_offset[r] up to op_offset[r + 1].
    kind: uint8[ops], see :class:`OpKind`.
    peer: int32[ops], the other rank of a SEND or RECV, -1 otherwise.
    value: int64[ops], bytes of a SEND or RECV, picoseconds of a COMPUTE, 0 of a WAIT.
    tag: int32[ops], 0 or more.
    dep_offset: int64[ops + 1]; operation i depends on dep[dep_offset[i]:dep_offset[i + 1]].
    dep: int64[deps], operation numbers (over all ranks) of the same rank.

    Raises ConfigError for arrays of the wrong shape or type; the content is judged by :meth:`check`.
    """

    num_ranks: int
    op_offset: Int64Array
    kind: UInt8Array
    peer: Int32Array
    value: Int64Array
    tag: Int32Array
    dep_offset: Int64Array
    dep: Int64Array

    def __post_init__(self) -> None:
        """Bring the arrays to their types and check their shapes."""
        put = object.__setattr__
        put(self, "num_ranks", _integer("num_ranks", self.num_ranks, 1, MAX_RANKS))
        for field, dtype in (
            ("op_offset", np.int64),
            ("kind", np.uint8),
            ("peer", np.int32),
            ("value", np.int64),
            ("tag", np.int32),
            ("dep_offset", np.int64),
            ("dep", np.int64),
        ):
            put(self, field, _array(field, getattr(self, field), dtype))
        ops = len(self.kind)
        for field in ("peer", "value", "tag"):
            if len(getattr(self, field)) != ops:
                raise ConfigError(
                    f"{field} has {len(getattr(self, field))} entries but must have {ops}, as many as kind."
                )
        _offsets("op_offset", self.op_offset, self.num_ranks, ops)
        _offsets("dep_offset", self.dep_offset, ops, len(self.dep))

    @property
    def num_operations(self) -> int:
        """Number of operations of all ranks."""
        return len(self.kind)

    @property
    def num_messages(self) -> int:
        """Number of SEND operations."""
        return int(np.count_nonzero(self.kind == OpKind.SEND))

    def op_rank(self) -> Int32Array:
        """Rank of each operation, int32[ops]."""
        return np.repeat(np.arange(self.num_ranks, dtype=np.int32), np.diff(self.op_offset))

    def _bytes_of(self, kind: OpKind) -> Int64Array:
        # Sums over runs; an appended zero lets runs start at the very end.
        amount = np.append(np.where(self.kind == kind, self.value, 0), 0)
        total = np.add.reduceat(amount, self.op_offset[:-1])
        return np.where(np.diff(self.op_offset) > 0, total, 0)

    def sent_bytes(self) -> Int64Array:
        """Bytes each rank sends, int64[ranks]."""
        return self._bytes_of(OpKind.SEND)

    def received_bytes(self) -> Int64Array:
        """Bytes each rank receives, int64[ranks]."""
        return self._bytes_of(OpKind.RECV)

    def describe(self, operation: int) -> str:
        """Return "rank r operation i (KIND)" for the operation number `operation` over all ranks."""
        rank = int(np.searchsorted(self.op_offset, operation, side="right")) - 1
        number = int(self.kind[operation])
        kind = OpKind(number).name if number < len(OpKind) else f"kind {number}"
        return f"rank {rank} operation {operation - int(self.op_offset[rank])} ({kind})"

    def _refuse(self, bad: NDArray[np.bool_], field: str, allowed: str) -> None:
        """Raise ConfigError for the first operation marked in `bad`."""
        if bad.any():
            op = int(np.argmax(bad))
            raise ConfigError(
                f"{self.describe(op)}: {field} is {getattr(self, field)[op]} but must be {allowed}."
            )

    def _check_values(self) -> None:
        message = self.kind <= OpKind.RECV
        self._refuse(self.kind >= len(OpKind), "kind", f"0 to {len(OpKind) - 1}")
        self._refuse(
            message & ((self.peer < 0) | (self.peer >= self.num_ranks)), "peer", f"0 to {self.num_ranks - 1}"
        )
        self._refuse(message & (self.peer == self.op_rank()), "peer", "another rank than its own")
        self._refuse(~message & (self.peer != -1), "peer", "-1")
        self._refuse(self.value < 0, "value", "0 or more")
        self._refuse((self.kind == OpKind.WAIT) & (self.value != 0), "value", "0")
        self._refuse(self.tag < 0, "tag", "0 or more")
        for kind, what, unit in (
            (OpKind.SEND, "messages", "bytes"),
            (OpKind.RECV, "receives", "bytes"),
            (OpKind.COMPUTE, "computations", "ps"),
        ):
            _refuse_total(what, unit, self.value[self.kind == kind])

    def _check_dependencies(self, owner: Int64Array) -> None:
        rank = self.op_rank()[owner]
        bad = (self.dep < self.op_offset[rank]) | (self.dep >= self.op_offset[rank + 1])
        if not bad.any():
            return
        first = int(np.argmax(bad))
        dep, where = int(self.dep[first]), self.describe(int(owner[first]))
        if 0 <= dep < self.num_operations:
            raise ConfigError(f"{where}: dep is {self.describe(dep)} but must be of the same rank.")
        raise ConfigError(f"{where}: dep is operation {dep} but must be 0 to {self.num_operations - 1}.")

    def _check_progress(self, owner: Int64Array, match: Int64Array) -> None:
        """Refuse cycles of dependencies, also through messages (a receive waits for its send)."""
        send = np.flatnonzero(self.kind == OpKind.SEND)
        before = np.concatenate([self.dep, send])
        after = np.concatenate([owner, match[send]])
        if np.any(before == after):
            op = int(before[np.argmax(before == after)])
            raise ConfigError(f"{self.describe(op)}: dep is the operation itself but must be another one.")
        ops = self.num_operations
        graph = coo_array((np.ones(len(before)), (before, after)), shape=(ops, ops))
        count, label = connected_components(graph, directed=True, connection="strong")
        if count == ops:
            return
        size = np.bincount(label, minlength=count)
        cycle = np.flatnonzero(label == label[np.argmax(size[label] > 1)])
        through = " and ".join(self.describe(int(op)) for op in cycle[:2])
        raise ConfigError(
            f"{through}: dep forms a cycle of {len(cycle)} operations but must be free of cycles."
        )

    def match(self) -> Int64Array:
        """Partner of each operation, int64[ops]: of a SEND its RECV and vice versa, -1 for other operations.

        Raises ConfigError, naming rank and operation, for an operation without partner or of another size.
        """
        rank = self.op_rank()
        send, recv = (np.flatnonzero(self.kind == kind) for kind in (OpKind.SEND, OpKind.RECV))
        pairs, lonely = pair_messages(
            (rank[send], self.peer[send], self.tag[send]), (self.peer[recv], rank[recv], self.tag[recv])
        )
        if lonely is not None:
            side, index = lonely
            op = int((send if side == 0 else recv)[index])
            what = ("to", "receive") if side == 0 else ("from", "send")
            raise ConfigError(
                f"{self.describe(op)}: {what[0]} rank {self.peer[op]} with tag {self.tag[op]} "
                f"has no matching {what[1]} but must have one."
            )
        partner = np.full(self.num_operations, -1, dtype=np.int64)
        partner[send] = recv[pairs]
        partner[partner[send]] = send
        bad = self.value[send] != self.value[partner[send]]
        if bad.any():
            op = int(send[np.argmax(bad)])
            other = int(partner[op])
            raise ConfigError(
                f"{self.describe(op)}: value is {self.value[op]} bytes "
                f"but must be the {self.value[other]} bytes of {self.describe(other)}."
            )
        return partner

    def check(self) -> None:
        """Raise ConfigError, naming rank and operation, if the schedule cannot run to its end.

        Refused are: unknown kinds, peers out of range or equal to the own rank, negative values and tags,
        sends without receive and vice versa, different sizes of the two, dependencies on other ranks'
        operations, cycles of dependencies, also through messages, and bytes or times that add up to more than
        `MAX_TOTAL`.
        """
        self._check_values()
        owner = np.repeat(np.arange(self.num_operations, dtype=np.int64), np.diff(self.dep_offset))
        self._check_dependencies(owner)
        self._check_progress(owner, self.match())

    def expand(self, operation_limit: int = DEFAULT_OPERATION_LIMIT) -> ArraySchedule:
        """Return the schedule itself: it is expanded already, whatever `operation_limit` is."""
        return self


@dataclass(frozen=True, eq=False)
class ShiftSchedule(Schedule):
    """Balanced shift alltoall (paper section 5: for each i post a receive from r - i, send to r + i, then
    wait for all).

    All receives are posted at the start, the send to (r + shift) mod num_ranks of each shift follows in the
    order of `shifts`, and a rank is done when all its messages are complete. With a `window` of w > 0 at
    most w sends of a rank are in flight, that is started and not complete. The expansion lets the i-th send
    wait for the (i - w)-th, which is the same as long as sends complete in the order in which they start.

    num_ranks: number of ranks, 2 or more.
    message_bytes: size of each message.
    shifts: int32[shifts], each from 1 to num_ranks - 1; None = 1, 2, ..., num_ranks - 1.
    window: largest number of sends in flight of a rank, 0 = no limit.
    """

    num_ranks: int
    message_bytes: int
    shifts: Int32Array = None  # type: ignore[assignment]  # None stands for every shift and is replaced at once
    window: int = 0

    def __post_init__(self) -> None:
        """Fill in the default shifts and bring all fields to their types."""
        put = object.__setattr__
        put(self, "num_ranks", _integer("num_ranks", self.num_ranks, 2, MAX_RANKS))
        put(self, "message_bytes", _integer("message_bytes", self.message_bytes, 0, MAX_TOTAL))
        put(self, "window", _integer("window", self.window, 0, 2**31 - 1))
        shifts: ArrayLike = np.arange(1, self.num_ranks) if self.shifts is None else self.shifts
        put(self, "shifts", _array("shifts", shifts, np.int32))
        bad = (self.shifts < 1) | (self.shifts >= self.num_ranks)
        if bad.any():
            first = int(np.argmax(bad))
            raise ConfigError(
                f"shifts[{first}] is {self.shifts[first]} but must be 1 to {self.num_ranks - 1}."
            )
        total = self.num_messages * self.message_bytes
        if total > MAX_TOTAL:
            raise ConfigError(f"message_bytes add up to {total} but must be at most {MAX_TOTAL} together.")

    @property
    def num_operations(self) -> int:
        """Number of operations of the expanded schedule."""
        return self.num_ranks * (2 * len(self.shifts) + 1)

    @property
    def num_messages(self) -> int:
        """Number of messages sent by all ranks."""
        return self.num_ranks * len(self.shifts)

    def sent_bytes(self) -> Int64Array:
        """Bytes each rank sends, int64[ranks]."""
        return np.full(self.num_ranks, len(self.shifts) * self.message_bytes, dtype=np.int64)

    def received_bytes(self) -> Int64Array:
        """Bytes each rank receives, int64[ranks]."""
        return self.sent_bytes()

    def check(self) -> None:
        """Do nothing: every constructed shift schedule can run to its end."""

    def expand(self, operation_limit: int = DEFAULT_OPERATION_LIMIT) -> ArraySchedule:
        """Return the equivalent list of operations: on each rank the receives, the sends, a WAIT for all of
        them.

        Raises ConfigError if it would hold more than `operation_limit` operations.
        """
        self._refuse_expansion(operation_limit)
        ranks, count = self.num_ranks, len(self.shifts)
        ops = 2 * count + 1
        rank = np.arange(ranks, dtype=np.int64)[:, None]
        peer = np.full((ranks, ops), -1, dtype=np.int32)
        peer[:, :count] = (rank - self.shifts) % ranks
        peer[:, count : 2 * count] = (rank + self.shifts) % ranks
        kind = np.repeat(
            np.array([OpKind.RECV, OpKind.SEND, OpKind.WAIT], dtype=np.uint8), np.array([count, count, 1])
        )
        value = np.where(kind == OpKind.WAIT, 0, self.message_bytes)
        windowed = max(count - self.window, 0) if self.window else 0
        dep_count = np.zeros(ops, dtype=np.int64)
        dep_count[2 * count - windowed : 2 * count] = 1
        dep_count[-1] = 2 * count
        dep = np.concatenate([np.arange(count, count + windowed), np.arange(2 * count)])
        return ArraySchedule(
            num_ranks=ranks,
            op_offset=np.arange(ranks + 1, dtype=np.int64) * ops,
            kind=np.tile(kind, ranks),
            peer=peer.reshape(-1),
            value=np.tile(value, ranks),
            tag=np.zeros(ranks * ops, dtype=np.int32),
            dep_offset=_exclusive_sum(np.tile(dep_count, ranks)),
            dep=(rank * ops + dep).reshape(-1),
        )


_SEGMENT_FIELDS: tuple[tuple[str, type[np.integer[Any]]], ...] = (
    ("send_peer", np.int32),
    ("recv_peer", np.int32),
    ("steps", np.int32),
    ("segment_bytes", np.int64),
    ("parts", np.int32),
    ("first_block", np.int32),
    ("reduce_fs_per_byte", np.int32),
)


@dataclass(frozen=True, eq=False)
class StreamSchedule(Schedule):
    """Ring-like collectives: on each rank K parallel streams, each of them J segments one after the other.

    In step s of a segment the rank sends block (first_block - s) mod parts of segment_bytes to send_peer and
    receives block (first_block - 1 - s) mod parts from recv_peer; block j has the size given by
    :func:`block_bytes`. The step ends when the receive is complete and the send has left, plus
    reduce_fs_per_byte * received bytes of computation (rounded to whole picoseconds), and then the next
    one starts. Segment j of stream k of a rank sends to segment j of stream k of send_peer, whose recv_peer
    is that rank and which has taken as many steps before it. A segment of 0 steps does nothing.

    num_ranks: number of ranks.
    send_peer, recv_peer: int32[ranks, K, J], -1 allowed where steps is 0.
    steps: int32[ranks, K, J].
    segment_bytes: int64[ranks, K, J], bytes cut into the blocks of a segment.
    parts: int32[ranks, K, J], number of blocks, 1 or more.
    first_block: int32[ranks, K, J], 0 to parts - 1.
    reduce_fs_per_byte: int32[ranks, K, J], femtoseconds of computation a received byte costs.
    lockstep: if true, the streams of a rank wait for each other after every step (as an MPI program with one
        waitall a step does): step i of each stream, counted through its segments, starts when step i - 1 of
        all streams of the rank that have one is over.
    start_ps: picoseconds that every rank computes before its first steps.
    """

    num_ranks: int
    send_peer: Int32Array
    recv_peer: Int32Array
    steps: Int32Array
    segment_bytes: Int64Array
    parts: Int32Array
    first_block: Int32Array
    reduce_fs_per_byte: Int32Array
    lockstep: bool = False
    start_ps: int = 0

    def __post_init__(self) -> None:
        """Bring the arrays to their types and check their shapes."""
        put = object.__setattr__
        put(self, "num_ranks", _integer("num_ranks", self.num_ranks, 1, MAX_RANKS))
        if not isinstance(self.lockstep, (bool, np.bool_)):
            raise ConfigError(f"lockstep must be true or false, not {self.lockstep!r}.")
        put(self, "lockstep", bool(self.lockstep))
        put(self, "start_ps", _integer("start_ps", self.start_ps, 0, MAX_TOTAL))
        for field, dtype in _SEGMENT_FIELDS:
            put(self, field, _array(field, getattr(self, field), dtype, ndim=3))
        for field, _ in _SEGMENT_FIELDS:
            shape = getattr(self, field).shape
            allowed = (self.num_ranks, *self.steps.shape[1:])
            if shape != allowed:
                raise ConfigError(f"{field} has the shape {shape} but must have {allowed}.")

    @property
    def num_streams(self) -> int:
        """Streams of each rank (K)."""
        return int(self.steps.shape[1])

    @property
    def num_segments(self) -> int:
        """Segments of each stream (J)."""
        return int(self.steps.shape[2])

    @property
    def num_messages(self) -> int:
        """Number of messages sent by all ranks."""
        return int(self.steps.sum(dtype=np.int64))

    @property
    def num_operations(self) -> int:
        """Number of operations of the expanded schedule."""
        per_step = np.where(self.reduce_fs_per_byte > 0, 3, 2).astype(np.int64)
        starts = self.num_ranks if self.start_ps else 0
        return int((self.steps * per_step).sum() + self._waits().sum()) + starts

    def _waits(self) -> Int64Array:
        """Number of WAIT operations of each rank: one a step if streams wait for each other."""
        if not self.lockstep or self.num_streams < 2:
            return np.zeros(self.num_ranks, dtype=np.int64)
        return np.asarray(self.steps.sum(axis=2, dtype=np.int64).max(axis=1), dtype=np.int64)

    def _moved_bytes(self, first_block: Int64Array) -> Int64Array:
        """Bytes of the blocks first_block, first_block - 1, ... of all steps of each segment."""
        parts = self.parts.astype(np.int64)
        steps = self.steps.astype(np.int64)
        small, larger = self.segment_bytes // parts, self.segment_bytes % parts
        rounds, rest = steps // parts, steps % parts
        # Among the `rest` blocks low..first_block, wrapped at 0, those below `larger` have one byte more.
        low = first_block - rest + 1
        straight = np.maximum(np.minimum(first_block + 1, larger) - np.maximum(low, 0), 0)
        wrapped = np.where(low < 0, np.maximum(larger - (parts + low), 0), 0)
        moved = steps * small + rounds * larger + np.where(rest > 0, straight + wrapped, 0)
        return np.asarray(moved.sum(axis=(1, 2)), dtype=np.int64)

    def sent_bytes(self) -> Int64Array:
        """Bytes each rank sends, int64[ranks]."""
        return self._moved_bytes(self.first_block.astype(np.int64))

    def received_bytes(self) -> Int64Array:
        """Bytes each rank receives, int64[ranks]."""
        return self._moved_bytes((self.first_block.astype(np.int64) - 1) % self.parts)

    def _places(self) -> tuple[Int64Array, Int64Array]:
        """Stream and segment numbers, to index the arrays together with an array of ranks."""
        return np.arange(self.num_streams)[:, np.newaxis], np.arange(self.num_segments)

    def _refuse(self, bad: NDArray[np.bool_], field: str, allowed: str) -> None:
        """Raise ConfigError for the first segment marked in `bad`."""
        if bad.any():
            rank, stream, segment = (int(i) for i in np.unravel_index(int(np.argmax(bad)), bad.shape))
            value = getattr(self, field)[rank, stream, segment]
            raise ConfigError(
                f"rank {rank} stream {stream} segment {segment}: {field} is {value} but must be {allowed}."
            )

    def check(self) -> None:
        """Raise ConfigError, naming rank, stream and segment, if the schedule cannot run to its end.

        Refused are: negative sizes and counts, peers out of range or equal to the own rank, segments whose
        send_peer does not receive from them, neighbours that disagree in steps (of the segment or before it),
        sizes or the block that is sent, and bytes or times that add up to more than `MAX_TOTAL`.
        """
        self._refuse(self.steps < 0, "steps", "0 or more")
        self._refuse(self.segment_bytes < 0, "segment_bytes", "0 or more")
        self._refuse(self.parts < 1, "parts", "1 or more")
        self._refuse(
            (self.first_block < 0) | (self.first_block >= self.parts), "first_block", "0 to parts - 1"
        )
        self._refuse(self.reduce_fs_per_byte < 0, "reduce_fs_per_byte", "0 or more")
        self._check_totals()
        active = self.steps > 0
        rank = np.arange(self.num_ranks)[:, np.newaxis, np.newaxis]
        stream, segment = self._places()
        for field in ("send_peer", "recv_peer"):
            peer = getattr(self, field)
            out = (peer < 0) | (peer >= self.num_ranks)
            self._refuse(active & out, field, f"0 to {self.num_ranks - 1}")
            self._refuse(active & (peer == rank), field, "another rank than its own")
        for field, other in (("send_peer", "recv_peer"), ("recv_peer", "send_peer")):
            peer = np.where(active, getattr(self, field), 0)
            back = getattr(self, other)[peer, stream, segment]
            self._refuse(active & (back != rank), field, f"a rank whose {other} is this one")
        peer = np.where(active, self.send_peer, 0)
        for field in ("steps", "segment_bytes", "parts"):
            value = getattr(self, field)
            self._refuse(active & (value[peer, stream, segment] != value), field, "that of send_peer")
        arriving = (self.first_block[peer, stream, segment] - 1) % self.parts
        self._refuse(
            active & (arriving != self.first_block), "first_block", "one less than that of send_peer"
        )
        before = np.cumsum(self.steps, axis=2, dtype=np.int64) - self.steps
        self._refuse(
            active & (before[peer, stream, segment] != before),
            "steps",
            "such that send_peer is in the same step",
        )

    def _check_totals(self) -> None:
        block = -(-self.segment_bytes // self.parts).astype(np.float64)
        reduction_fs = block * self.reduce_fs_per_byte
        self._refuse(
            reduction_fs > MAX_TOTAL,
            "reduce_fs_per_byte",
            f"such that a step computes for at most {MAX_TOTAL} fs",
        )
        _refuse_total("messages", "bytes", self.steps * block)
        _refuse_total("computations", "ps", self.steps * reduction_fs / FS_PER_PS + self.start_ps)

    def expand(self, operation_limit: int = DEFAULT_OPERATION_LIMIT) -> ArraySchedule:
        """Return the equivalent list of operations.

        A step is a RECV, a SEND and, where the segment reduces, a COMPUTE; stream k uses tag k. The
        operations of a rank follow stream by stream, step by step, then one WAIT a step if the streams wait
        for each other, then a COMPUTE of `start_ps`, if it is not 0, for which the first steps wait. Raises
        ConfigError if it would hold more than `operation_limit` operations.
        """
        self._refuse_expansion(operation_limit)
        streams = self.num_streams
        per_stream = self.steps.sum(axis=2, dtype=np.int64).reshape(-1)
        steps = self.steps.reshape(-1)

        # One entry a step from here on, in the order rank, stream, segment, step.
        segment = np.repeat(np.arange(len(steps)), steps)
        step = _ranges(np.zeros(len(steps), dtype=np.int64), steps.astype(np.int64))
        in_stream = _ranges(np.zeros(len(per_stream), dtype=np.int64), per_stream)
        stream = np.repeat(np.arange(len(per_stream)), per_stream)
        rank = stream // max(streams, 1)
        flat = {field: getattr(self, field).reshape(-1)[segment] for field, _ in _SEGMENT_FIELDS}
        parts, total = flat["parts"].astype(np.int64), flat["segment_bytes"]
        sent = block_bytes(total, parts, (flat["first_block"] - step) % parts)
        received = block_bytes(total, parts, (flat["first_block"] - 1 - step) % parts)
        reduces = flat["reduce_fs_per_byte"] > 0

        waits = self._waits()
        starts = np.full(self.num_ranks, 1 if self.start_ps else 0, dtype=np.int64)
        ops_of_step = np.where(reduces, 3, 2).astype(np.int64)
        ops_of_rank = np.bincount(rank, ops_of_step, self.num_ranks).astype(np.int64) + waits + starts
        op_offset = _exclusive_sum(ops_of_rank)
        first = _exclusive_sum(ops_of_step)[:-1] + _exclusive_sum(waits + starts)[rank]
        compute = first[reduces] + 2
        start = op_offset[1:] - 1
        first_wait = op_offset[1:] - starts - waits
        num_ops = int(op_offset[-1])

        kind = np.full(num_ops, OpKind.WAIT, dtype=np.uint8)
        peer = np.full(num_ops, -1, dtype=np.int32)
        value = np.zeros(num_ops, dtype=np.int64)
        tag = np.zeros(num_ops, dtype=np.int32)
        kind[first], kind[first + 1], kind[compute] = OpKind.RECV, OpKind.SEND, OpKind.COMPUTE
        peer[first], peer[first + 1] = flat["recv_peer"], flat["send_peer"]
        value[first], value[first + 1] = received, sent
        value[compute] = ((received * flat["reduce_fs_per_byte"])[reduces] + FS_PER_PS // 2) // FS_PER_PS
        tag[first] = tag[first + 1] = stream % max(streams, 1)
        if self.start_ps:
            kind[start], value[start] = OpKind.COMPUTE, self.start_ps

        # A step ends with its COMPUTE or, without one, with its RECV and SEND.
        end_first = np.where(reduces, first + 2, first)
        end_count = np.where(reduces, 1, 2).astype(np.int64)
        later = np.flatnonzero(in_stream > 0)
        dep_count = np.zeros(num_ops, dtype=np.int64)
        dep_count[compute] = 2
        wait = first_wait[rank] + in_stream
        lockstep = bool(waits.any())
        if lockstep:
            dep_count += np.bincount(wait, end_count, num_ops).astype(np.int64)
            begin_first, begin_count = wait[later] - 1, np.ones(len(later), dtype=np.int64)
        else:
            begin_first, begin_count = end_first[later - 1], end_count[later - 1]
        dep_count[first[later]] = dep_count[first[later] + 1] = begin_count
        earliest = first[in_stream == 0] if self.start_ps else first[:0]
        dep_count[earliest] = dep_count[earliest + 1] = 1
        dep_offset = _exclusive_sum(dep_count)
        dep = np.empty(int(dep_offset[-1]), dtype=np.int64)
        begin = _ranges(begin_first, begin_count)
        for op in (first[later], first[later] + 1):
            dep[_ranges(dep_offset[op], begin_count)] = begin
        dep[dep_offset[compute]], dep[dep_offset[compute] + 1] = compute - 2, compute - 1
        if self.start_ps:
            begin_op = start[rank[in_stream == 0]]
            dep[dep_offset[earliest]] = dep[dep_offset[earliest + 1]] = begin_op
        if lockstep:
            by_wait = np.argsort(wait, kind="stable")
            joined = np.flatnonzero(kind == OpKind.WAIT)
            slots = _ranges(dep_offset[joined], dep_count[joined])
            dep[slots] = _ranges(end_first[by_wait], end_count[by_wait])
        return ArraySchedule(
            num_ranks=self.num_ranks,
            op_offset=op_offset,
            kind=kind,
            peer=peer,
            value=value,
            tag=tag,
            dep_offset=dep_offset,
            dep=dep,
        )
