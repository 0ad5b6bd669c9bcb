"""Putting schedules together: one after another on some ranks, beside each other on others.

A :class:`Program` collects operations rank by rank. Each rank has a point that its next operation starts
from; steps that are overlapped are remembered instead, until something waits for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from motifs.schedule import ArraySchedule, OpKind
from topologies.errors import require

__all__ = ["Interval", "Program", "computation_ps"]

Int64 = NDArray[np.int64]

Number = TypeVar("Number", bound="np.generic[Any]")

_START = -1
"""The point before everything."""


@dataclass(frozen=True)
class Interval:
    """What a traced rank did between two points; `begin` and `end` are endpoints that end then (see
    :meth:`Program.trace`), `begin` is None at the start.
    """

    label: str
    op: str
    begin: int | None
    end: int


class Program:
    """Operations of `num_ranks` ranks under construction.

    jitter_ps: what a computation takes longer at most, drawn for each with `seed`.
    """

    def __init__(
        self, num_ranks: int, traced: int | None = None, *, jitter_ps: int = 0, seed: int = 0
    ) -> None:
        self.num_ranks = num_ranks
        self._jitter_ps = jitter_ps
        self._random = np.random.default_rng(seed)
        self._count = 0
        self._rank: list[Int64] = []
        self._kind: list[NDArray[np.uint8]] = []
        self._peer: list[NDArray[np.int32]] = []
        self._value: list[Int64] = []
        self._tag: list[NDArray[np.int32]] = []
        self._owner: list[Int64] = []
        self._dep: list[Int64] = []
        self._point = np.full(num_ranks, _START, dtype=np.int64)
        self._open_rank: list[Int64] = []
        self._open_op: list[Int64] = []
        self._tags = 0
        self._traced = traced
        self._marks = np.empty(0, dtype=np.int64)
        self._intervals: list[tuple[str, str, int, int]] = []

    # -- steps -----------------------------------------------------------------------------------------------

    def compute(self, ranks: Int64, time_ps: int | Int64, label: str = "") -> None:
        """Let each of `ranks` compute for `time_ps`, all for the same or each for its own."""
        before = self._point[ranks]
        if self._jitter_ps:
            time_ps = time_ps + self._random.integers(0, self._jitter_ps, len(ranks), endpoint=True)
        ops = self._add(ranks, OpKind.COMPUTE, -1, time_ps)
        self._after(ops, before)
        self._record(label, "compute", ranks, before, ops)
        self._point[ranks] = ops

    def run(
        self,
        schedule: ArraySchedule,
        groups: Int64,
        *,
        overlapped: bool = False,
        label: str = "",
        op: str = "",
    ) -> None:
        """Run `schedule` on every group of ranks, int64[groups, schedule.num_ranks].

        It starts on each rank from the rank's point. Overlapped, it leaves the points where they are.
        """
        copies, members = groups.shape
        require(members == schedule.num_ranks, "the size of a group", members, str(schedule.num_ranks))
        if schedule.num_operations == 0:
            return
        local = schedule.op_rank()
        each = schedule.num_operations
        ranks = groups[:, local].reshape(-1)
        safe = np.maximum(schedule.peer, 0)
        peer = np.where(schedule.peer >= 0, groups[:, safe], -1).reshape(-1)
        tags = int(schedule.tag.max(initial=0)) + 1
        ops = self._add(
            ranks,
            np.tile(schedule.kind, copies),
            peer,
            np.tile(schedule.value, copies),
            self._tags + np.tile(schedule.tag, copies),
        )
        self._tags += tags
        first = ops[0] + np.arange(copies, dtype=np.int64)[:, np.newaxis] * each
        owner = np.repeat(np.arange(each, dtype=np.int64), np.diff(schedule.dep_offset))
        self._owner.append((first + owner).reshape(-1))
        self._dep.append((first + schedule.dep).reshape(-1))
        before = self._point[ranks]
        roots = np.tile(np.diff(schedule.dep_offset) == 0, copies)
        self._after(ops[roots], before[roots])
        last = np.ones(each, dtype=np.bool_)
        last[schedule.dep] = False
        # One join a rank, so that what follows depends on one operation.
        active, where = np.unique(local, return_inverse=True)
        joined = groups[:, active].reshape(-1)
        begin = self._point[joined]
        ends = self._add(joined, OpKind.WAIT, -1, 0)
        by_copy = np.arange(copies, dtype=np.int64)[:, np.newaxis] * len(active)
        self._owner.append((ends[0] + by_copy + where[last]).reshape(-1))
        self._dep.append((first + np.flatnonzero(last)).reshape(-1))
        self._record(label, op, joined, begin, ends)
        self._leave(joined, ends, overlapped)

    def point(self, ranks: Int64) -> Int64:
        """The operation after which the next one of each rank starts, -1 for none."""
        return self._point[ranks].copy()

    def after(self, ops: Int64, before: Int64) -> None:
        """Let operations that are there already wait for others of the same ranks, -1 for none."""
        self._after(ops, before)

    def message(self, source: Int64, target: Int64, size_bytes: int, label: str = "") -> Int64:
        """Send `size_bytes` from each source to its target, overlapped; return the receives' operations.

        The receives are posted at the start unless they are made to wait (:meth:`after`).
        """
        before = self._point[source]
        sends = self._add(source, OpKind.SEND, target, size_bytes, self._tags)
        receives = self._add(target, OpKind.RECV, source, size_bytes, self._tags)
        self._tags += 1
        self._after(sends, before)
        self._record(label or "send", "send", source, before, sends)
        self._leave(source, sends, overlapped=True)
        return receives

    def wait(self, ranks: Int64, receives: Int64 | None = None, *, everything: bool = False) -> None:
        """Let each of `ranks` wait for its operation of `receives`, or for all that is overlapped."""
        before = self._point[ranks]
        ops = self._add(ranks, OpKind.WAIT, -1, 0)
        self._after(ops, before)
        if receives is not None:
            self._after(ops, receives)
        if everything and self._open_rank:
            rank, op = np.concatenate(self._open_rank), np.concatenate(self._open_op)
            join = np.full(self.num_ranks, _START, dtype=np.int64)
            join[ranks] = ops
            due = join[rank] >= 0
            self._after(join[rank[due]], op[due])
            self._open_rank, self._open_op = [rank[~due]], [op[~due]]
        self._point[ranks] = ops

    def keep_open(self, ranks: Int64, ops: Int64) -> None:
        """Let the next wait for everything wait for these operations too."""
        self._leave(ranks, ops, overlapped=True)

    # -- the result ------------------------------------------------------------------------------------------

    def trace(self) -> list[Interval]:
        """Make the traced rank tell when each of its steps begins and ends; to be called last.

        It sends a message of no bytes to an idle rank at each point, which ends when that arrives: a few
        hundred nanoseconds late, and with almost no effect on the rest. It goes before what else starts at
        that point, but waits where all send machines are busy. Raises ConfigError where the network
        has too few idle endpoints.
        """
        assert self._traced is not None
        busy = np.unique(np.concatenate(self._rank))
        idle = np.setdiff1d(np.arange(self.num_ranks), busy)
        points = sorted({op for _, _, begin, end in self._intervals for op in (begin, end)} - {_START})
        require(
            len(points) <= len(idle), "the idle endpoints for a trace", len(idle), f"at least {len(points)}"
        )
        marks = dict(zip(points, idle.tolist(), strict=False))
        rank = np.full(len(points), self._traced, dtype=np.int64)
        listeners = np.array([marks[op] for op in points], dtype=np.int64)
        sends = self._add(rank, OpKind.SEND, listeners, 0, self._tags)
        self._add(listeners, OpKind.RECV, rank, 0, self._tags)
        self._marks = sends
        self._after(sends, np.array(points, dtype=np.int64))
        return [
            Interval(label, op, None if begin == _START else marks[begin], marks[end])
            for label, op, begin, end in self._intervals
        ]

    def schedule(self) -> ArraySchedule:
        """All operations so far, rank by rank in the order in which they came, those of a trace first."""
        rank = _joined(self._rank)
        later = np.ones(len(rank), dtype=np.bool_)
        later[self._marks] = False
        order = np.lexsort((later, rank))
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        owner, dep = place[_joined(self._owner)], place[_joined(self._dep)]
        by_owner = np.argsort(owner, kind="stable")
        count = np.bincount(owner, minlength=len(rank))
        return ArraySchedule(
            num_ranks=self.num_ranks,
            op_offset=np.searchsorted(rank[order], np.arange(self.num_ranks + 1)),
            kind=_joined(self._kind)[order],
            peer=_joined(self._peer)[order],
            value=_joined(self._value)[order],
            tag=_joined(self._tag)[order],
            dep_offset=np.concatenate([[0], np.cumsum(count)]),
            dep=dep[by_owner],
        )

    # -- inside ----------------------------------------------------------------------------------------------

    def _add(
        self, ranks: Int64, kind: ArrayLike, peer: ArrayLike, value: ArrayLike, tag: ArrayLike = 0
    ) -> Int64:
        count = len(ranks)
        self._rank.append(np.asarray(ranks, dtype=np.int64))
        self._kind.append(np.broadcast_to(np.asarray(kind, dtype=np.uint8), count))
        self._peer.append(np.broadcast_to(np.asarray(peer, dtype=np.int32), count))
        self._value.append(np.broadcast_to(np.asarray(value, dtype=np.int64), count))
        self._tag.append(np.broadcast_to(np.asarray(tag, dtype=np.int32), count))
        self._count += count
        return np.arange(self._count - count, self._count, dtype=np.int64)

    def _after(self, ops: Int64, before: Int64) -> None:
        """Let each operation wait for the one in `before`, if there is one."""
        known = before >= 0
        self._owner.append(ops[known])
        self._dep.append(before[known])

    def _leave(self, ranks: Int64, ops: Int64, overlapped: bool) -> None:
        if overlapped:
            self._open_rank.append(ranks)
            self._open_op.append(ops)
        else:
            self._point[ranks] = ops

    def _record(self, label: str, op: str, ranks: Int64, begin: Int64, end: Int64) -> None:
        if self._traced is None:
            return
        for index in np.flatnonzero(ranks == self._traced).tolist():
            self._intervals.append((label or op, op, int(begin[index]), int(end[index])))


def _joined(parts: Sequence[NDArray[Number]]) -> NDArray[Number]:
    """One array of all parts, of which there is at least one."""
    return np.concatenate(parts)


def computation_ps(schedule: ArraySchedule) -> int:
    """Time of `schedule` where messages take none: the longest path through its computations, picoseconds.

    A receive waits for its send. Raises ConfigError for sends without receives.
    """
    ops = schedule.num_operations
    owner = np.repeat(np.arange(ops, dtype=np.int64), np.diff(schedule.dep_offset))
    send = np.flatnonzero(schedule.kind == OpKind.SEND)
    before = np.concatenate([schedule.dep, send])
    after = np.concatenate([owner, schedule.match()[send]])
    by_before = np.argsort(before, kind="stable")
    after = after[by_before]
    offset = np.concatenate([[0], np.cumsum(np.bincount(before, minlength=ops))])
    missing = np.bincount(after, minlength=ops)
    cost = np.where(schedule.kind == OpKind.COMPUTE, schedule.value, 0)
    start = np.zeros(ops, dtype=np.int64)
    ready = np.flatnonzero(missing == 0)
    longest = 0
    # Level by level: all operations whose predecessors are done.
    while len(ready):
        end = start[ready] + cost[ready]
        longest = max(longest, int(end.max()))
        count = offset[ready + 1] - offset[ready]
        edges = np.repeat(offset[ready] - (np.cumsum(count) - count), count) + np.arange(int(count.sum()))
        following = after[edges]
        np.maximum.at(start, following, np.repeat(end, count))
        np.subtract.at(missing, following, 1)
        candidates = np.unique(following)
        ready = candidates[missing[candidates] == 0]
    return longest
