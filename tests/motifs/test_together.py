"""Several schedules as one."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import motifs
from motifs import ArraySchedule, OpKind, Schedule, StreamSchedule, together
from topologies import ConfigError


def messages(schedule: Schedule, first: int = 0) -> list[tuple[int, int, int]]:
    expanded = schedule.expand()
    sends = np.flatnonzero(expanded.kind == OpKind.SEND)
    ranks = expanded.op_rank()
    return sorted(
        (int(ranks[op]) + first, int(expanded.peer[op]) + first, int(expanded.value[op])) for op in sends
    )


PARTS = {
    "streams": [
        motifs.build("bucket", 6, total_bytes=1000, grid=(2, 3)),
        motifs.build("ring", 4, total_bytes=77),
        motifs.build("bucket", 1, total_bytes=5, grid=(1, 1)),
    ],
    "mixed": [
        motifs.build("alltoall", 3, message_bytes=10, window=1),
        motifs.build("ring", 4, total_bytes=77),
        motifs.build("permutation", 5, message_bytes=9),
    ],
    "lockstep and not": [
        motifs.build("bucket", 6, total_bytes=100, grid=(2, 3), lockstep=True),
        motifs.build("ring", 4, total_bytes=77),
    ],
}


@pytest.mark.parametrize("name", PARTS)
def test_jobs_keep_their_messages_and_do_not_mix(name: str) -> None:
    parts = PARTS[name]
    whole, ranks = together(parts)
    whole.check()
    assert isinstance(whole, StreamSchedule if name == "streams" else ArraySchedule)
    assert [len(one) for one in ranks] == [part.num_ranks for part in parts]
    assert ranks[0].start == 0
    assert all(after.start == before.stop for before, after in pairwise(ranks))
    expected = [m for part, one in zip(parts, ranks, strict=True) for m in messages(part, one.start)]
    assert messages(whole) == sorted(expected)
    assert whole.num_operations == sum(part.expand().num_operations for part in parts)
    assert whole.total_bytes == sum(part.total_bytes for part in parts)


def test_dependencies_stay_within_their_job() -> None:
    parts = PARTS["mixed"]
    whole = together(parts)[0].expand()
    expected, first = [], 0
    for part in parts:
        expanded = part.expand()
        for op in range(expanded.num_operations):
            dep = expanded.dep[expanded.dep_offset[op] : expanded.dep_offset[op + 1]]
            expected.append((dep + first).tolist())
        first += expanded.num_operations
    found = [
        whole.dep[whole.dep_offset[op] : whole.dep_offset[op + 1]].tolist()
        for op in range(whole.num_operations)
    ]
    assert found == expected


def test_no_schedules_are_refused() -> None:
    with pytest.raises(ConfigError, match="number of schedules is 0"):
        together([])
