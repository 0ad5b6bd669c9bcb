"""Schedule classes: checks, equivalence of compact and expanded forms, files."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import motifs
from motifs import ArraySchedule, OpKind, Schedule, ShiftSchedule, StreamSchedule, block_bytes, load_schedule
from topologies.errors import ConfigError

SEND, RECV, COMPUTE, WAIT = OpKind

Op = tuple[int, int, int, int, list[int]]


def from_ops(ranks: list[list[Op]]) -> ArraySchedule:
    """Schedule from (kind, peer, value, tag, local dependencies) of each rank."""
    offset = np.cumsum([0, *(len(ops) for ops in ranks)])
    flat = [op for ops in ranks for op in ops]
    deps = [[int(offset[r]) + d for d in op[4]] for r, ops in enumerate(ranks) for op in ops]
    kind, peer, value, tag = (np.array([op[i] for op in flat], dtype=np.int64) for i in range(4))
    return ArraySchedule(
        num_ranks=len(ranks),
        op_offset=offset,
        kind=kind,  # type: ignore[arg-type]  # brought to its type by the class, as all of them
        peer=peer,  # type: ignore[arg-type]
        value=value,
        tag=tag,  # type: ignore[arg-type]
        dep_offset=np.cumsum([0, *(len(d) for d in deps)]),
        dep=np.array([d for ds in deps for d in ds], dtype=np.int64),
    )


def ping(size: int = 8, other_size: int | None = None, tag: int = 0, other_tag: int = 0) -> list[list[Op]]:
    got = size if other_size is None else other_size
    return [[(SEND, 1, size, tag, [])], [(COMPUTE, -1, 5, 0, []), (RECV, 0, got, other_tag, [0])]]


def assert_same(one: Schedule, other: Schedule) -> None:
    assert type(one) is type(other)
    for field in dataclasses.fields(one):  # type: ignore[arg-type]
        a, b = getattr(one, field.name), getattr(other, field.name)
        assert np.array_equal(a, b), field.name
        if isinstance(a, np.ndarray):
            assert a.dtype == b.dtype
        else:
            assert type(a) is type(b)


@st.composite
def schedules(draw: st.DrawFn, min_messages: int = 0) -> ArraySchedule:
    """Valid schedules: operations are made in an order in which they could run."""
    ranks = draw(st.integers(2, 5))
    ops: list[list[Op]] = [[] for _ in range(ranks)]

    def deps(rank: int) -> list[int]:
        return sorted(draw(st.sets(st.integers(0, len(ops[rank]) - 1), max_size=3))) if ops[rank] else []

    for _ in range(draw(st.integers(min_messages, 12))):
        src, dst = draw(st.permutations(range(ranks)))[:2]
        tag, size = draw(st.integers(0, 2)), draw(st.integers(0, 2**40))
        ops[src].append((SEND, dst, size, tag, deps(src)))
        ops[dst].append((RECV, src, size, tag, deps(dst)))
        if draw(st.booleans()):
            kind = draw(st.sampled_from([COMPUTE, WAIT]))
            ops[dst].append((kind, -1, draw(st.integers(1, 10**9)) if kind == COMPUTE else 0, 0, deps(dst)))
    return from_ops(ops)


@settings(deadline=None)
@given(schedules())
def test_valid_schedules_pass_and_match(schedule: ArraySchedule) -> None:
    schedule.check()
    match = schedule.match()
    message = schedule.kind <= RECV
    assert np.array_equal(match >= 0, message)
    paired = np.flatnonzero(message)
    assert np.array_equal(match[match[paired]], paired)
    rank = schedule.op_rank()
    assert np.array_equal(schedule.peer[paired], rank[match[paired]])
    assert np.array_equal(schedule.tag[paired], schedule.tag[match[paired]])
    assert np.all(schedule.kind[paired] != schedule.kind[match[paired]])
    assert schedule.sent_bytes().sum() == schedule.received_bytes().sum() == schedule.total_bytes
    assert schedule.num_messages == len(paired) // 2
    assert schedule.expand() is schedule


@settings(deadline=None)
@given(schedules())
def test_match_keeps_the_order_of_each_channel(schedule: ArraySchedule) -> None:
    match = schedule.match()
    rank = schedule.op_rank()
    last: dict[tuple[int, int, int], int] = {}
    for op in np.flatnonzero(schedule.kind == SEND):
        channel = (int(rank[op]), int(schedule.peer[op]), int(schedule.tag[op]))
        assert match[op] > last.get(channel, -1)
        last[channel] = int(match[op])


@settings(deadline=None)
@given(schedules(min_messages=1), st.data())
def test_any_changed_message_is_noticed(schedule: ArraySchedule, data: st.DataObject) -> None:
    op = data.draw(st.sampled_from(np.flatnonzero(schedule.kind <= RECV).tolist()))
    field, value = data.draw(
        st.sampled_from(
            [
                ("value", schedule.value[op] + 1),
                ("value", -1),
                ("tag", schedule.tag[op] + 10),
                ("tag", -1),
                ("peer", schedule.num_ranks),
                ("peer", -1),
                ("peer", schedule.op_rank()[op]),
                ("kind", SEND + RECV - schedule.kind[op]),
                ("kind", WAIT),
                ("kind", 4),
            ]
        )
    )
    changed = getattr(schedule, field).copy()
    changed[op] = value
    with pytest.raises(ConfigError, match=r"rank \d+ operation \d+"):
        dataclasses.replace(schedule, **{field: changed}).check()


@settings(deadline=None)
@given(schedules())
def test_array_files_round_trip(tmp_path_factory: pytest.TempPathFactory, schedule: ArraySchedule) -> None:
    path = tmp_path_factory.mktemp("files") / "schedule"
    schedule.save(path)
    assert_same(load_schedule(path), schedule)


def test_operations_are_named() -> None:
    schedule = from_ops([[], *ping(), []])
    assert [schedule.describe(op) for op in range(3)] == [
        "rank 1 operation 0 (SEND)",
        "rank 2 operation 0 (COMPUTE)",
        "rank 2 operation 1 (RECV)",
    ]
    assert schedule.sent_bytes().tolist() == [0, 8, 0, 0]
    assert schedule.received_bytes().tolist() == [0, 0, 8, 0]


def edited(ranks: list[list[Op]], rank: int, op: int, **changes: Any) -> list[list[Op]]:
    names = ("kind", "peer", "value", "tag", "deps")
    values = dict(zip(names, ranks[rank][op], strict=True)) | changes
    ranks[rank][op] = tuple(values[name] for name in names)  # type: ignore[assignment]
    return ranks


@pytest.mark.parametrize(
    ("ranks", "message"),
    [
        (edited(ping(), 0, 0, peer=2), r"rank 0 operation 0 \(SEND\): peer is 2 but must be 0 to 1"),
        (edited(ping(), 1, 1, peer=-1), r"rank 1 operation 1 \(RECV\): peer is -1 "),
        (edited(ping(), 0, 0, peer=0), r"rank 0 operation 0 \(SEND\): peer is 0 but must be another rank"),
        (edited(ping(), 1, 0, peer=0), r"rank 1 operation 0 \(COMPUTE\): peer is 0 but must be -1"),
        (edited(ping(), 0, 0, value=-8), r"rank 0 operation 0 \(SEND\): value is -8 but must be 0 or more"),
        (edited(ping(), 1, 0, kind=WAIT), r"rank 1 operation 0 \(WAIT\): value is 5 but must be 0"),
        (edited(ping(), 1, 1, tag=-1), r"rank 1 operation 1 \(RECV\): tag is -1 "),
        (edited(ping(), 1, 0, kind=7), r"rank 1 operation 0 \(kind 7\): kind is 7 but must be 0 to 3"),
        (
            ping(8, 9),
            r"rank 0 operation 0 \(SEND\): value is 8 bytes but must be the 9 bytes of rank 1 operation 1",
        ),
        (ping(tag=1), r"rank 1 operation 1 \(RECV\): from rank 0 with tag 0 has no matching send"),
        (ping(other_tag=1), r"rank 0 operation 0 \(SEND\): to rank 1 with tag 0 has no matching receive"),
        ([ping()[0], []], r"rank 0 operation 0 \(SEND\): to rank 1 with tag 0 has no matching receive"),
        ([[], ping()[1]], r"rank 1 operation 1 \(RECV\): from rank 0 with tag 0 has no matching send"),
        (
            [ping()[0] * 2, ping()[1]],
            r"rank 0 operation 1 \(SEND\): to rank 1 with tag 0 has no matching receive",
        ),
        (
            edited(ping(), 1, 0, deps=[-1]),
            r"rank 1 operation 0 \(COMPUTE\): dep is rank 0 operation 0 \(SEND\)",
        ),
        (
            edited(ping(), 1, 0, deps=[9]),
            r"rank 1 operation 0 \(COMPUTE\): dep is operation 10 but must be 0 to 2",
        ),
        (edited(ping(), 0, 0, deps=[-1]), r"rank 0 operation 0 \(SEND\): dep is operation -1 "),
        (edited(ping(), 1, 0, deps=[0]), r"rank 1 operation 0 \(COMPUTE\): dep is the operation itself"),
        (
            edited(ping(), 1, 0, deps=[1]),
            r"rank 1 operation 0 \(COMPUTE\) and rank 1 operation 1 .*cycle of 2",
        ),
    ],
)
def test_wrong_operations_are_named(ranks: list[list[Op]], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        from_ops(ranks).check()


def test_a_deadlock_through_messages_is_a_cycle() -> None:
    ranks: list[list[Op]] = [
        [(RECV, 1, 8, 0, []), (SEND, 1, 8, 0, [0])],
        [(RECV, 0, 8, 0, []), (SEND, 0, 8, 0, [0])],
    ]
    with pytest.raises(ConfigError, match=r"rank 0 operation 0 .*cycle of 4 operations"):
        from_ops(ranks).check()
    ranks[1][1] = (SEND, 0, 8, 0, [])
    from_ops(ranks).check()


def test_many_repeated_dependencies_are_no_trouble() -> None:
    """Counts of parallel edges must not wrap around in the cycle search."""
    ranks: list[list[Op]] = [[(WAIT, -1, 0, 0, [1] * 256), (WAIT, -1, 0, 0, [0])]]
    with pytest.raises(ConfigError, match="cycle"):
        from_ops(ranks).check()


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("num_ranks", 0, "num_ranks is 0"),
        ("num_ranks", True, "num_ranks must be an integer"),
        ("op_offset", [0, 1], "op_offset has 2 entries but must have 3"),
        ("op_offset", [0, 4, 3], "op_offset must rise from 0 to 3"),
        ("peer", [1, -1], "peer has 2 entries but must have 3"),
        ("peer", [2**31, -1, 0], "peer holds 2147483648 "),
        ("kind", [-1, 2, 1], "kind holds -1 "),
        ("value", [1.0, 2.0, 3.0], "value must be an array of integers"),
        ("tag", [[0], [0], [0]], "tag must have 1 dimension"),
        ("dep_offset", [0, 0, 0, 2], "dep_offset must rise from 0 to 1"),
    ],
)
def test_wrong_arrays_are_refused(field: str, value: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        dataclasses.replace(from_ops(ping()), **{field: value})


def test_arrays_are_read_only_and_the_callers_are_not() -> None:
    value = np.array([8, 5, 8])
    schedule = dataclasses.replace(from_ops(ping()), value=value)
    with pytest.raises(ValueError, match="read-only"):
        schedule.value[0] = 1
    value[0] = 1


# Shift schedules


@settings(deadline=None)
@given(ranks=st.integers(2, 9), message_bytes=st.integers(0, 100), window=st.integers(0, 10), data=st.data())
def test_shift_expansion(ranks: int, message_bytes: int, window: int, data: st.DataObject) -> None:
    shifts = data.draw(st.none() | st.lists(st.integers(1, ranks - 1), max_size=12))
    schedule = ShiftSchedule(ranks, message_bytes, shifts, window)  # type: ignore[arg-type]
    schedule.check()
    expanded = schedule.expand()
    expanded.check()
    used = list(range(1, ranks)) if shifts is None else shifts
    assert expanded.num_operations == schedule.num_operations
    assert expanded.num_messages == schedule.num_messages == ranks * len(used)
    assert np.array_equal(expanded.sent_bytes(), schedule.sent_bytes())
    assert np.array_equal(expanded.received_bytes(), schedule.received_bytes())
    assert schedule.total_bytes == ranks * len(used) * message_bytes
    for rank in range(ranks):
        ops = slice(int(expanded.op_offset[rank]), int(expanded.op_offset[rank + 1]))
        assert expanded.kind[ops].tolist() == [RECV] * len(used) + [SEND] * len(used) + [WAIT]
        assert expanded.peer[ops].tolist() == [
            *((rank - s) % ranks for s in used),
            *((rank + s) % ranks for s in used),
            -1,
        ]
        first = ops.start + len(used)
        for i in range(len(used)):
            dep = expanded.dep[expanded.dep_offset[first + i] : expanded.dep_offset[first + i + 1]]
            assert dep.tolist() == ([first + i - window] if window and i >= window else [])


def test_alltoall_sends_to_every_other_rank_once() -> None:
    expanded = motifs.alltoall(7, 100).expand()
    rank = expanded.op_rank()
    pairs = {(int(rank[i]), int(expanded.peer[i])) for i in np.flatnonzero(expanded.kind == SEND)}
    assert pairs == {(a, b) for a in range(7) for b in range(7) if a != b}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1, 8), "num_ranks is 1 but must be 2 or more"),
        ((4, -1), "message_bytes is -1"),
        ((4, 8, [1, 4]), r"shifts\[1\] is 4 but must be 1 to 3"),
        ((4, 8, [0]), r"shifts\[0\] is 0"),
        ((4, 8, [1], -1), "window is -1"),
        ((4, 8.5), "message_bytes must be an integer"),
    ],
)
def test_wrong_shift_schedules_are_refused(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ShiftSchedule(*arguments)


def test_expansions_have_a_limit() -> None:
    schedule = motifs.alltoall(16384, 1)
    with pytest.raises(ConfigError, match="schedule has 536854528 operations"):
        schedule.expand()
    with pytest.raises(ConfigError, match="must have at most 10 "):
        motifs.ring(np.arange(8), 64).expand(operation_limit=10)


# Stream schedules


@st.composite
def streams(draw: st.DrawFn) -> StreamSchedule:
    """Valid stream schedules: each stream and segment goes around some rings of random ranks."""
    ranks, count, segments = draw(st.integers(2, 6)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    shape = (ranks, count, segments)
    names = ("steps", "segment_bytes", "first_block", "reduce")
    field: dict[str, NDArray[Any]] = {name: np.zeros(shape, dtype=np.int32) for name in names}
    parts = np.ones(shape, dtype=np.int32)
    send_peer, recv_peer = (np.full(shape, -1, dtype=np.int32) for _ in range(2))
    for k in range(count):
        # The same ranks and the same number of steps in all segments keep neighbours in the same step.
        members = draw(st.permutations(range(ranks)))[: draw(st.integers(2, ranks))]
        for j in range(segments):
            order = np.array(draw(st.permutations(members)))
            steps = draw(st.integers(0, 7))
            cut = draw(st.sampled_from([len(order), *range(2, len(order) - 1)]))
            for ring in (order[:cut], order[cut:]):
                if len(ring) == 0:
                    continue
                blocks = draw(st.sampled_from([n for n in range(1, len(ring) + 1) if len(ring) % n == 0]))
                send_peer[ring, k, j], recv_peer[ring, k, j] = np.roll(ring, -1), np.roll(ring, 1)
                parts[ring, k, j] = blocks
                field["steps"][ring, k, j] = steps
                field["segment_bytes"][ring, k, j] = draw(st.integers(0, 40))
                field["first_block"][ring, k, j] = (np.arange(len(ring)) + draw(st.integers(0, 5))) % blocks
                field["reduce"][ring, k, j] = draw(st.sampled_from([0, 1700, 2500]))
    return StreamSchedule(
        ranks,
        send_peer,
        recv_peer,
        field["steps"],
        field["segment_bytes"],
        parts,
        field["first_block"],
        field["reduce"],
        draw(st.booleans()),
    )


LATENCY = 37


def stream_times(schedule: StreamSchedule) -> NDArray[np.int64]:
    """End of each rank on an ideal network of 1 byte a ps, from the definition of a stream schedule."""
    ranks, count, _ = schedule.steps.shape
    lengths = schedule.steps.sum(axis=2)
    now = np.zeros((ranks, count), dtype=np.int64)
    for i in range(int(lengths.max(initial=0))):
        begin = now.copy()
        for r in range(ranks):
            for k in range(count):
                if i >= lengths[r, k]:
                    continue
                ends = np.cumsum(schedule.steps[r, k])
                j = int(np.searchsorted(ends, i, side="right"))
                s = i - int(ends[j] - schedule.steps[r, k, j])
                at = (r, k, j)
                total, parts = schedule.segment_bytes[at], schedule.parts[at]
                first = schedule.first_block[at]
                sent = int(block_bytes(total, parts, (first - s) % parts))
                got = int(block_bytes(total, parts, (first - 1 - s) % parts))
                arrival = begin[schedule.recv_peer[at], k] + got + LATENCY
                reduce = (got * int(schedule.reduce_fs_per_byte[at]) + 500) // 1000
                now[r, k] = max(begin[r, k] + sent, arrival) + reduce
        if schedule.lockstep:
            for r in range(ranks):
                now[r, i < lengths[r]] = now[r, i < lengths[r]].max(initial=0)
    return np.asarray(now.max(axis=1))


def array_times(schedule: ArraySchedule) -> NDArray[np.int64]:
    """End of each rank on the same ideal network, from operations and dependencies."""
    match = schedule.match()
    start, end = (np.full(schedule.num_operations, -1, dtype=np.int64) for _ in range(2))
    left = list(range(schedule.num_operations))
    while left:
        waiting = []
        for op in left:
            deps = schedule.dep[schedule.dep_offset[op] : schedule.dep_offset[op + 1]]
            kind = schedule.kind[op]
            if np.any(end[deps] < 0) or (kind == RECV and start[match[op]] < 0):
                waiting.append(op)
                continue
            start[op] = end[deps].max(initial=0)
            if kind == RECV:
                end[op] = max(start[op], start[match[op]] + schedule.value[op] + LATENCY)
            else:
                end[op] = start[op] + schedule.value[op]
        assert len(waiting) < len(left)
        left = waiting
    return np.array(
        [
            end[schedule.op_offset[r] : schedule.op_offset[r + 1]].max(initial=0)
            for r in range(schedule.num_ranks)
        ]
    )


@settings(deadline=None, max_examples=150)
@given(streams())
def test_stream_expansion_is_equivalent(schedule: StreamSchedule) -> None:
    schedule.check()
    expanded = schedule.expand()
    expanded.check()
    assert expanded.num_operations == schedule.num_operations
    assert expanded.num_messages == schedule.num_messages
    assert np.array_equal(expanded.sent_bytes(), schedule.sent_bytes())
    assert np.array_equal(expanded.received_bytes(), schedule.received_bytes())
    assert schedule.total_bytes == expanded.total_bytes
    assert np.array_equal(array_times(expanded), stream_times(schedule))


@pytest.mark.parametrize("lockstep", [False, True])
def test_grid_collectives_expand_to_the_same_times(lockstep: bool) -> None:
    for schedule in (
        motifs.bucket(np.arange(8).reshape(2, 4), 403, lockstep=lockstep),
        motifs.torus_2d(np.arange(8).reshape(4, 2), 403, lockstep=lockstep),
    ):
        assert np.array_equal(array_times(schedule.expand()), stream_times(schedule))


def test_lockstep_makes_streams_wait() -> None:
    grid = np.arange(12).reshape(2, 6)
    free, bound = (motifs.bucket(grid, 1201, lockstep=lockstep) for lockstep in (False, True))
    assert stream_times(bound).max() > stream_times(free).max()


@settings(deadline=None)
@given(streams())
def test_compact_files_round_trip(tmp_path_factory: pytest.TempPathFactory, schedule: StreamSchedule) -> None:
    path = tmp_path_factory.mktemp("files") / "schedule.npz"
    schedule.save(path)
    assert_same(StreamSchedule.load(path), schedule)


@pytest.mark.parametrize(
    ("field", "at", "value", "message"),
    [
        ("steps", (2, 0, 0), -1, "steps is -1 but must be 0 or more"),
        ("segment_bytes", (2, 0, 0), -5, "segment_bytes is -5"),
        ("parts", (2, 0, 0), 0, "parts is 0 but must be 1 or more"),
        ("first_block", (2, 0, 0), 5, "first_block is 5 but must be 0 to parts - 1"),
        ("reduce_fs_per_byte", (2, 0, 0), -1, "reduce_fs_per_byte is -1"),
        ("send_peer", (2, 0, 0), 5, "send_peer is 5 but must be 0 to 4"),
        ("recv_peer", (2, 0, 0), -1, "recv_peer is -1 but must be 0 to 4"),
        ("send_peer", (2, 0, 0), 2, "send_peer is 2 but must be another rank"),
        ("send_peer", (2, 0, 0), 4, "send_peer is 4 but must be a rank whose recv_peer is this one"),
    ],
)
def test_wrong_streams_are_named(field: str, at: tuple[int, ...], value: int, message: str) -> None:
    good = motifs.ring(np.arange(5), 64)
    changed = getattr(good, field).copy()
    changed[at] = value
    with pytest.raises(ConfigError, match=f"rank 2 stream 0 segment 0: {message}"):
        dataclasses.replace(good, **{field: changed}).check()


@pytest.mark.parametrize(
    ("field", "value"), [("steps", 3), ("segment_bytes", 63), ("parts", 6), ("first_block", 0)]
)
def test_disagreeing_neighbours_are_named(field: str, value: int) -> None:
    good = motifs.ring(np.arange(5), 64)
    changed = getattr(good, field).copy()
    changed[2, 0, 1] = value
    with pytest.raises(ConfigError, match=rf"rank [12] stream 0 segment 1: {field} is .* send_peer"):
        dataclasses.replace(good, **{field: changed}).check()


def test_neighbours_out_of_step_are_refused() -> None:
    """Rings of different length before a common ring would leave its members at different steps."""
    peers = np.array([[[1, 1]], [[0, 2]], [[-1, 0]]])
    sources = np.array([[[1, 2]], [[0, 0]], [[-1, 1]]])
    schedule = StreamSchedule(
        3,
        peers,
        sources,
        steps=np.array([[[1, 2]], [[1, 2]], [[0, 2]]]),
        segment_bytes=np.full((3, 1, 2), 6),
        parts=np.array([[[2, 3]], [[2, 3]], [[1, 3]]]),
        first_block=np.array([[[0, 0]], [[1, 1]], [[0, 2]]]),
        reduce_fs_per_byte=np.zeros((3, 1, 2), dtype=np.int64),
    )
    with pytest.raises(ConfigError, match=r"rank 1 stream 0 segment 1: steps .*same step"):
        schedule.check()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lockstep": 1}, "lockstep must be true or false"),
        (
            {"parts": np.zeros((4, 1, 2), dtype=np.int64)},
            r"parts has the shape \(4, 1, 2\) but must have \(5, 1, 2\)",
        ),
        ({"steps": np.zeros((5, 2), dtype=np.int64)}, "steps must have 3 dimensions"),
        ({"segment_bytes": np.zeros((5, 1, 2))}, "segment_bytes must be an array of integers"),
    ],
)
def test_wrong_stream_arrays_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        dataclasses.replace(motifs.ring(np.arange(5), 64), **changes)


@settings(deadline=None)
@given(total=st.integers(0, 10**12), parts=st.integers(1, 1000))
def test_blocks_add_up(total: int, parts: int) -> None:
    sizes = block_bytes(total, parts, np.arange(parts))
    assert sizes.sum() == total
    assert sizes.max() - sizes.min() <= 1


# Files


def test_files_are_the_same_bytes_and_leave_no_rest(tmp_path: Path) -> None:
    for name in ("one.npz", "two.npz"):
        motifs.alltoall(9, 100, window=2).save(tmp_path / name)
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "two.npz").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.npz", "two.npz"]
    assert_same(ShiftSchedule.load(tmp_path / "one.npz"), motifs.alltoall(9, 100, window=2))


def test_wrong_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with pytest.raises(ConfigError, match="cannot be read"):
        load_schedule(path)
    for content in (b"", b"num_ranks 2", b"PK\x03\x04 no archive"):
        path.write_bytes(content)
        with pytest.raises(ConfigError, match="cannot be read"):
            load_schedule(path)
    with path.open("wb") as file:
        np.save(file, np.arange(3))
    with pytest.raises(ConfigError, match="cannot be read"):
        load_schedule(path)
    with path.open("wb") as file:
        np.savez(file, shifts=np.arange(3))
    with pytest.raises(ConfigError, match="is not a schedule"):
        load_schedule(path)
    motifs.alltoall(4, 8).save(path)
    with pytest.raises(ConfigError, match="holds 'ShiftSchedule' but must hold StreamSchedule"):
        StreamSchedule.load(path)
    with np.load(path) as archive:
        content_of = dict(archive)
    for change, message in (
        ({"version": np.array(99)}, "version 99"),
        ({"schedule": np.array("Other")}, "holds 'Other'"),
        ({"extra": np.array(1)}, r"missing or unknown fields: \['extra'\]"),
    ):
        with path.open("wb") as file:
            np.savez(file, **content_of | change)
        with pytest.raises(ConfigError, match=message):
            load_schedule(path)


def test_damage_that_numpy_and_zipfile_stumble_over_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    motifs.alltoall(4, 8).save(path)
    saved = path.read_bytes()
    with np.load(path) as archive:
        content = dict(archive)
    # A letter beyond Unicode, a name of thousands of letters, an encrypted and a compressed archive.
    flags_at, size_at = (saved.index(b"PK\x01\x02") + place for place in (8, 28))
    for data, message in (
        (saved.replace("Shift".encode("utf-32-le"), b"\xff" * 20), "cannot be read: Bad CRC-32"),
        (
            saved[:size_at] + b"\xff\x01" + saved[size_at + 2 :],
            r"cannot be read: File name in directory .*\.\.\.\.",
        ),
        (saved[:flags_at] + bytes([saved[flags_at] | 1]) + saved[flags_at + 1 :], "encrypted"),
    ):
        path.write_bytes(data)
        with pytest.raises(ConfigError, match=message) as caught:
            load_schedule(path)
        assert len(str(caught.value)) < 300
    np.savez_compressed(tmp_path / "packed.npz", **content)
    with pytest.raises(ConfigError, match=r"packed\.npz cannot be read: it is compressed\.$"):
        load_schedule(tmp_path / "packed.npz")
    broken = np.frombuffer(b"\xff" * 4, dtype="<U1")
    for field, value, message in (
        ("schedule", broken[0:1].reshape(()), "neither an integer nor text"),
        ("shifts", np.array([1.5]), "neither an integer nor text"),
        (
            "num_ranks",
            np.array(2**62),
            r"file: num_ranks is 4611686018427387904 but must be 16777216 or less",
        ),
        ("message_bytes", np.array(2**61), "file: message_bytes add up to 27670116110564327424 but"),
    ):
        with path.open("wb") as file:
            np.savez(file, **content | {field: value})
        with pytest.raises(ConfigError, match=message):
            load_schedule(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"segment_bytes": 2**61}, "messages add up to 9.22337e[+]18 bytes but"),
        (
            {"segment_bytes": 2**50, "reduce_fs_per_byte": 2**20},
            "reduce_fs_per_byte is 1048576 but must be such that a step",
        ),
        (
            {"segment_bytes": 2**42, "reduce_fs_per_byte": 2**20, "steps": 2**14},
            "computations add up to .* ps but",
        ),
    ],
)
def test_streams_whose_bytes_or_times_no_integer_holds_are_refused(
    changes: dict[str, int], message: str
) -> None:
    values = {"steps": 2, "segment_bytes": 8, "parts": 1, "first_block": 0, "reduce_fs_per_byte": 0} | changes
    shape = (2, 1, 1)
    peers = np.array([1, 0]).reshape(shape)
    arrays = {field: np.full(shape, value) for field, value in values.items()}
    schedule = StreamSchedule(num_ranks=2, send_peer=peers, recv_peer=peers, **arrays)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=message):
        schedule.check()
