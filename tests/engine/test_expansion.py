"""A compact schedule and its list of operations are the same traffic: both must take the same time."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import engine
import motifs
from engine import NetworkParams, RunResult
from engine.run import count_packets
from motifs import Schedule, ShiftSchedule, StreamSchedule
from topologies import FatTree, HxMesh, HyperX2D, Topology, Torus2D

Bare = Callable[..., NetworkParams]

NETWORKS: dict[str, Callable[[], Topology]] = {
    "torus": lambda: Torus2D(4, 4),
    "hx2mesh": lambda: HxMesh(2, 2, 2, 2),
    "fat tree": lambda: FatTree.merlin([(4, 2)], top=4),
    "adaptive fat tree": lambda: FatTree.merlin([(4, 4)], top=4, adaptive=True),
}
OVERHEADS: dict[str, dict[str, int]] = {
    "no overheads": {},
    "sends": {"send_overhead_ps": 900},
    "receives": {"recv_overhead_ps": 500},
    "matches": {"match_overhead_ps": 1_100},
    "sends and receives": {"send_overhead_ps": 900, "recv_overhead_ps": 500},
    "all": {
        "send_overhead_ps": 900,
        "recv_overhead_ps": 500,
        "match_overhead_ps": 1_100,
    },
    "NIC": {
        "nic_command_ps": 700,
        "nic_send_latency_ps": 300,
        "nic_recv_latency_ps": 450,
        "message_header_bytes": 45,
    },
    "eager": {"eager_limit_bytes": 2**31, "send_overhead_ps": 900, "nic_command_ps": 1_300},
}
GRID = np.arange(16).reshape(4, 4)


def outcome(result: RunResult) -> dict[str, Any]:
    """What must not depend on the form of a schedule."""
    names = ("status", "simulated_time_ps", "packets", "packet_hops", "messages", "bytes_delivered")
    ranks = {str(column): result.ranks[column].tolist() for column in result.ranks}
    return {**{name: getattr(result, name) for name in names}, **ranks}


def assert_equivalent(topology: Topology, schedule: Schedule, params: NetworkParams, **options: Any) -> None:
    # Only compact ones let events of the same time come in another order, so that they can repeat.
    compact = outcome(engine.run(topology, schedule, params, repetitions="ignore", **options))
    listed = outcome(engine.run(topology, schedule.expand(), params, **options))
    assert compact["status"] == "complete"
    assert compact == listed


@st.composite
def streams(draw: st.DrawFn, ranks: int, max_block_bytes: int = 5000) -> StreamSchedule:
    """Rings in any order; each stream has its partition of the ranks, segments differ in steps and sizes."""
    count, segments = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    shape = (ranks, count, segments)
    send = np.full(shape, -1, dtype=np.int32)
    recv = np.full(shape, -1, dtype=np.int32)
    steps, first, reduce = (np.zeros(shape, dtype=np.int32) for _ in range(3))
    parts = np.ones(shape, dtype=np.int32)
    size = np.zeros(shape, dtype=np.int64)
    for stream in range(count):
        order = draw(st.permutations(range(ranks)))
        cuts = sorted(draw(st.sets(st.integers(2, ranks - 2), max_size=2))) if ranks >= 4 else []
        for low, high in zip([0, *cuts], [*cuts, ranks], strict=True):
            length = high - low
            if length < 2:
                continue
            for segment in range(segments):
                ring = np.array(draw(st.permutations(order[low:high])))
                where = (ring, stream, segment)
                send[where], recv[where] = np.roll(ring, -1), np.roll(ring, 1)
                parts[where] = draw(st.sampled_from([p for p in range(1, length + 1) if length % p == 0]))
                first[where] = (np.arange(length) + draw(st.integers(0, length))) % parts[where]
                steps[where] = draw(st.integers(0, 2 * length + 1))
                size[where] = draw(st.integers(0, max_block_bytes * int(parts[ring[0], stream, segment])))
                reduce[where] = draw(st.sampled_from([0, 1, 333, 2_500]))
    return StreamSchedule(ranks, send, recv, steps, size, parts, first, reduce, lockstep=draw(st.booleans()))


@pytest.mark.parametrize("overheads", OVERHEADS)
@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("message_bytes", [0, 300, 5_000])
def test_shifts_run_like_their_operations(bare: Bare, name: str, overheads: str, message_bytes: int) -> None:
    schedule = ShiftSchedule(16, message_bytes)
    assert_equivalent(NETWORKS[name](), schedule, bare(**OVERHEADS[overheads]))


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("window", [1, 2, 5])
@pytest.mark.parametrize("machines", [1, 4])
@pytest.mark.parametrize("overheads", ["no overheads", "all"])
def test_windowed_shifts_run_like_their_operations(
    bare: Bare, name: str, window: int, machines: int, overheads: str
) -> None:
    schedule = ShiftSchedule(16, 3_000, window=window)
    assert_equivalent(NETWORKS[name](), schedule, bare(send_machines=machines, **OVERHEADS[overheads]))


def test_a_send_that_a_window_kept_back_costs_its_overhead_when_it_starts(bare: Bare) -> None:
    schedule = ShiftSchedule(2, 0, np.array([1, 1], dtype=np.int32), window=1)
    assert_equivalent(HyperX2D(2, 1), schedule, bare(send_overhead_ps=1_000))


@pytest.mark.parametrize("window", [0, 1])
def test_no_rank_waits_for_an_eager_message_of_a_shift_to_leave(bare: Bare, window: int) -> None:
    # Without latency the message is there before the last of it has left.
    schedule = ShiftSchedule(2, 1024, window=window)
    params = bare(
        eager_limit_bytes=2**31, host_latency_ps=0, router_input_latency_ps=0, router_output_latency_ps=0
    )
    network = FatTree.merlin([(2, 1)], top=1)
    assert_equivalent(network, schedule, params)
    assert engine.run(network, schedule, params).simulated_time_ps == 0


@pytest.mark.parametrize("overheads", OVERHEADS)
@pytest.mark.parametrize("name", NETWORKS)
def test_a_ring_runs_like_its_operations(bare: Bare, name: str, overheads: str) -> None:
    schedule = motifs.ring(np.arange(16), 40_009)
    assert_equivalent(NETWORKS[name](), schedule, bare(**OVERHEADS[overheads]))


@pytest.mark.parametrize("overheads", OVERHEADS)
@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("total_bytes", [0, 40_009])
def test_streams_in_lockstep_run_like_their_operations(
    bare: Bare, name: str, overheads: str, total_bytes: int
) -> None:
    for motif in (motifs.two_rings, motifs.torus_2d):
        schedule = motif(GRID, total_bytes, lockstep=True)
        assert_equivalent(NETWORKS[name](), schedule, bare(**OVERHEADS[overheads]))


@pytest.mark.parametrize("overheads", OVERHEADS)
@pytest.mark.parametrize("name", NETWORKS)
def test_free_streams_run_like_their_operations(bare: Bare, name: str, overheads: str) -> None:
    for motif in (motifs.two_rings, motifs.torus_2d):
        schedule = motif(GRID, 40_009)
        assert_equivalent(NETWORKS[name](), schedule, bare(**OVERHEADS[overheads]))


@pytest.mark.parametrize("buffer_packets", [1, 3])
@pytest.mark.parametrize("name", ["hx2mesh", "adaptive fat tree"])
def test_free_streams_run_like_their_operations_where_messages_overtake(
    bare: Bare, name: str, buffer_packets: int
) -> None:
    # Adaptive routing in a crowded network: a message may arrive before the one sent before it.
    size = buffer_packets * 1024
    params = bare(input_buffer_bytes=size, output_buffer_bytes=size, link_latency_ps=1_000)
    scattered = np.random.default_rng(1).permutation(16)
    for motif in (motifs.two_rings, motifs.torus_2d):
        assert_equivalent(NETWORKS[name](), motif(scattered.reshape(4, 4), 60_000), params)


def two_streams(first_bytes: int, second_bytes: int) -> StreamSchedule:
    """Two ranks, two streams of two steps."""

    def both(first: int, second: int) -> Any:
        return np.array([[[first], [second]]] * 2)

    peers = np.array([[[1], [1]], [[0], [0]]])
    size, ones, zeros = both(first_bytes, second_bytes), both(1, 1), both(0, 0)
    return StreamSchedule(2, peers, peers, both(2, 2), size, ones, zeros, zeros)


def test_a_message_is_compared_with_receives_in_the_order_they_were_posted(bare: Bare) -> None:
    # Stream 0 has posted its second receive before the first message of stream 1, of three packets, comes.
    assert_equivalent(HyperX2D(2, 1), two_streams(0, 3 * 1024), bare(match_overhead_ps=1_000))


def test_a_step_that_costs_nothing_waits_while_another_message_is_matched(bare: Bare) -> None:
    # Stream 0 goes on when its message is matched; that of stream 1 came meanwhile and is next.
    assert_equivalent(HyperX2D(2, 1), two_streams(0, 0), bare(match_overhead_ps=5_000))


@settings(max_examples=40, deadline=None)
@given(st.data(), st.integers(2, 8), st.integers(0, 4_000), st.sampled_from(sorted(OVERHEADS)))
def test_any_shifts_run_like_their_operations(
    bare: Bare, data: st.DataObject, ranks: int, message_bytes: int, overheads: str
) -> None:
    shifts = data.draw(st.lists(st.integers(1, ranks - 1), max_size=10))
    window = data.draw(st.integers(0, 4))
    schedule = ShiftSchedule(ranks, message_bytes, np.array(shifts, dtype=np.int32), window)
    places = data.draw(st.permutations(range(9)))[:ranks]
    params = bare(
        packet_bytes=data.draw(st.integers(1, 1024)),
        send_machines=data.draw(st.integers(1, 3)),
        **OVERHEADS[overheads],
    )
    assert_equivalent(Torus2D(3, 3), schedule, params, placement=places)


@settings(max_examples=40, deadline=None)
@given(st.data(), st.integers(2, 8), st.sampled_from(sorted(OVERHEADS)))
def test_any_streams_run_like_their_operations(
    bare: Bare, data: st.DataObject, ranks: int, overheads: str
) -> None:
    schedule = data.draw(streams(ranks))
    params = bare(packet_bytes=data.draw(st.integers(300, 1024)), **OVERHEADS[overheads])
    assert_equivalent(HyperX2D(3, 3), schedule, params)


@settings(max_examples=40, deadline=None)
@given(data=st.data(), ranks=st.integers(2, 8), packet_bytes=st.integers(1, 600))
def test_packets_of_streams_are_counted_as_those_of_their_operations(
    bare: Bare, data: st.DataObject, ranks: int, packet_bytes: int
) -> None:
    schedule = data.draw(streams(ranks))
    params = bare(packet_bytes=packet_bytes)
    assert count_packets(schedule, params) == count_packets(schedule.expand(), params)


@pytest.mark.parametrize("message_bytes", [0, 1, 99, 100, 101, 1_000])
def test_packets_of_shifts_are_counted_as_those_of_their_operations(bare: Bare, message_bytes: int) -> None:
    schedule = ShiftSchedule(5, message_bytes)
    params = bare(packet_bytes=100)
    assert count_packets(schedule, params) == 20 * max(1, -(-message_bytes // 100))
    assert count_packets(schedule.expand(), params) == count_packets(schedule, params)


@pytest.mark.parametrize("lockstep", [False, True])
def test_computation_before_streams_moves_them(bare: Bare, lockstep: bool) -> None:
    topology = HxMesh(2, 2, 2, 2)
    at_once = motifs.two_rings(GRID, 20_000, lockstep=lockstep)
    later = dataclasses.replace(at_once, start_ps=7_000_000)
    assert later.num_operations == at_once.num_operations + 16
    later.expand().check()
    assert_equivalent(topology, later, bare())
    first, second = (engine.run(topology, schedule, bare()) for schedule in (at_once, later))
    assert second.simulated_time_ps == first.simulated_time_ps + 7_000_000
    assert (second.ranks["end_ps"] - first.ranks["end_ps"] == 7_000_000).all()
