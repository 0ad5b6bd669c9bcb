"""Several schedules as one: jobs that run at the same time and do not know of each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from motifs.schedule import ArraySchedule, Schedule, StreamSchedule
from topologies.errors import require

__all__ = ["together"]


def together(schedules: Sequence[Schedule]) -> tuple[Schedule, list[range]]:
    """Return one schedule in which all of `schedules` run, and the ranks that each of them has in it.

    Ranks are numbered on: those of the first schedule, then those of the second one. Stream schedules that
    agree in `lockstep` and `start_ps` stay compact; others are expanded.

    Raises ConfigError for no schedules, and where an expansion is too large.
    """
    require(len(schedules) > 0, "the number of schedules", 0, "one or more")
    ends = np.cumsum([schedule.num_ranks for schedule in schedules]).tolist()
    ranks = [range(end - schedule.num_ranks, end) for end, schedule in zip(ends, schedules, strict=True)]
    streams = [schedule for schedule in schedules if isinstance(schedule, StreamSchedule)]
    common = {(schedule.lockstep, schedule.start_ps) for schedule in streams}
    if len(streams) == len(schedules) and len(common) == 1:
        return _streams(streams, [one.start for one in ranks]), ranks
    return _operations([schedule.expand() for schedule in schedules], [one.start for one in ranks]), ranks


def _operations(schedules: Sequence[ArraySchedule], first_rank: Sequence[int]) -> ArraySchedule:
    def joined(name: str) -> NDArray[Any]:
        return np.concatenate([getattr(schedule, name) for schedule in schedules])

    def offsets(name: str) -> NDArray[np.int64]:
        counts = [np.diff(getattr(schedule, name)) for schedule in schedules]
        return np.concatenate([[0], np.cumsum(np.concatenate(counts))]).astype(np.int64)

    peers = [
        np.where(schedule.peer >= 0, schedule.peer + first, -1)
        for schedule, first in zip(schedules, first_rank, strict=True)
    ]
    first_operation = np.cumsum([0] + [schedule.num_operations for schedule in schedules])
    dependencies = [
        schedule.dep + first for schedule, first in zip(schedules, first_operation[:-1], strict=True)
    ]
    return ArraySchedule(
        num_ranks=sum(schedule.num_ranks for schedule in schedules),
        op_offset=offsets("op_offset"),
        kind=joined("kind"),
        peer=np.concatenate(peers),
        value=joined("value"),
        tag=joined("tag"),
        dep_offset=offsets("dep_offset"),
        dep=np.concatenate(dependencies),
    )


def _streams(schedules: Sequence[StreamSchedule], first_rank: Sequence[int]) -> StreamSchedule:
    """Streams and segments that a schedule has fewer of than another one stay empty."""
    num_ranks = sum(schedule.num_ranks for schedule in schedules)
    shape = (
        num_ranks,
        max(schedule.num_streams for schedule in schedules),
        max(schedule.num_segments for schedule in schedules),
    )
    empty = {
        "send_peer": -1,
        "recv_peer": -1,
        "steps": 0,
        "segment_bytes": 0,
        "parts": 1,
        "first_block": 0,
        "reduce_fs_per_byte": 0,
    }
    fields: dict[str, Any] = {name: np.full(shape, value, dtype=np.int64) for name, value in empty.items()}
    for schedule, first in zip(schedules, first_rank, strict=True):
        where = (
            slice(first, first + schedule.num_ranks),
            slice(schedule.num_streams),
            slice(schedule.num_segments),
        )
        for name, field in fields.items():
            value = getattr(schedule, name).astype(np.int64)
            field[where] = np.where(value >= 0, value + first, -1) if name.endswith("_peer") else value
    first_of_all = schedules[0]
    return StreamSchedule(
        num_ranks=num_ranks, lockstep=first_of_all.lockstep, start_ps=first_of_all.start_ps, **fields
    )
