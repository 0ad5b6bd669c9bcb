"""A run that cannot go on ends, and says who waits for whom."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest

import engine
from engine import NetworkParams, RunResult
from motifs import ArraySchedule, Schedule, ShiftSchedule, StreamSchedule, parse_goal
from topologies import (
    HyperX2D,
    LinkKind,
    RoutingSpec,
    Topology,
    Torus2D,
    Wiring,
    check_wiring,
    mesh_bandwidth_bps,
)
from topologies.deadlock import Channel, channel_cycle

NEXT, PREVIOUS, HOSTS = 1, 2, 3


def one_way_ring(nodes: int) -> Topology:
    """Routers in a ring that send everything the same way round, on one channel: no dateline breaks it.

    Dragonfly tables of groups of one router choose the port by destination. A router is said to have three
    hosts, so that the ports of the ring are not taken for global ones, which would change the channel;
    endpoint 3 * r, at port 0, is the one that can be reached.
    """
    wiring = Wiring(np.full(nodes, 5))
    router = np.arange(nodes)
    wiring.hosts(np.repeat(router, HOSTS), np.tile([0, 3, 4], nodes))
    wiring.link(router, NEXT, np.roll(router, -1), PREVIOUS, LinkKind.ROW)
    tables = {
        "group_link_offset": np.arange(nodes * nodes + 1, dtype=np.int32),
        "group_link_router": np.zeros(nodes * nodes, dtype=np.int32),
        "group_link_port": np.full(nodes * nodes, NEXT, dtype=np.int32),
    }
    topology = Topology(
        name="ring without dateline",
        **wiring.fields(),
        bandwidth_bps=mesh_bandwidth_bps(),
        planes=1,
        routing=RoutingSpec("dragonfly", {"p": HOSTS, "a": 1, "g": nodes, "balanced": 0, "ugal": 0}, tables),
        cable={},
        switch_group=np.full(nodes, -1, dtype=np.int32),
        accelerator_is_router=True,
    )
    check_wiring(topology)
    return topology


def one_packet_buffers() -> NetworkParams:
    return NetworkParams(packet_bytes=1024, flit_bytes=64, input_buffer_bytes=1024, output_buffer_bytes=1024)


def run_on_ring(schedule: Schedule, params: NetworkParams | None = None) -> RunResult:
    nodes = schedule.num_ranks
    places = HOSTS * np.arange(nodes)
    return engine.run(
        one_way_ring(nodes), schedule, params or one_packet_buffers(), placement=places, links=True
    )


def across(nodes: int, size: int = 65_536) -> ShiftSchedule:
    """Every rank sends to the rank on the other side of the ring."""
    return ShiftSchedule(nodes, size, np.array([nodes // 2], dtype=np.int32))


@pytest.mark.parametrize("nodes", [4, 6])
def test_packets_that_wait_in_a_circle_end_the_run_and_are_named(nodes: int) -> None:
    result = run_on_ring(across(nodes))
    assert result.status == "deadlock"
    assert not result.complete
    circle = " -> ".join(f"router {router} port {NEXT} vc 0" for router in range(nodes))
    assert result.message.endswith(f"; channels that wait for each other: {circle}")
    assert f"{nodes} of {nodes} ranks never finished: rank 0 waits for " in result.message
    assert result.bytes_delivered == 0
    assert result.simulated_time_ps > 0


@pytest.mark.parametrize("nodes", [4, 5])
def test_the_circle_of_the_run_is_the_one_that_the_routing_s_channels_have(nodes: int) -> None:
    ring = one_way_ring(nodes)
    ranks = HOSTS * np.arange(nodes)
    circle = channel_cycle(ring, pairs=[(src, dst) for src in ranks for dst in ranks if src != dst])
    assert sorted(circle) == [Channel(int(ring.port_offset[router]) + NEXT, 0) for router in range(nodes)]
    message = run_on_ring(across(nodes)).message
    named = [
        (int(router), int(port)) for router, port in re.findall(r"router (\d+) port (\d+) vc 0", message)
    ]
    assert [int(ring.port_offset[router]) + port for router, port in named] == sorted(
        out for out, _ in circle
    )


def test_a_long_circle_is_cut_short_in_the_message() -> None:
    result = run_on_ring(across(16))
    assert result.status == "deadlock"
    assert result.message.count("router ") == 12
    assert result.message.endswith("-> ... (16 channels)")


def test_the_same_load_runs_where_buffers_hold_it_or_a_dateline_breaks_the_circle() -> None:
    roomy = run_on_ring(across(4), NetworkParams(packet_bytes=1024, flit_bytes=64))
    assert roomy.status == "complete"
    # Two hops is as far either way; the torus goes the positive way too.
    torus = engine.run(Torus2D(4, 2), across(4), one_packet_buffers())
    assert torus.status == "complete"


def test_a_load_that_never_turns_a_corner_of_the_circle_runs() -> None:
    neighbours = ShiftSchedule(4, 65_536, np.array([1], dtype=np.int32))
    assert run_on_ring(neighbours).status == "complete"


def test_a_deadlock_is_the_same_every_time() -> None:
    first, second = run_on_ring(across(4)), run_on_ring(across(4))
    assert first.message == second.message
    assert first.simulated_time_ps == second.simulated_time_ps
    assert first.links is not None
    assert second.links is not None
    assert first.links.equals(second.links)


def test_ranks_caught_in_a_deadlock_have_no_end_in_an_array_schedule() -> None:
    result = run_on_ring(across(4).expand())
    assert result.status == "deadlock"
    assert result.ranks.end_ps.tolist() == [-1] * 4


def test_ranks_caught_in_a_deadlock_have_no_end_in_a_shift_schedule() -> None:
    # Messages to the neighbour arrive, those to the other side, which wait for them to leave, do not.
    one_by_one = one_packet_buffers().model_copy(update={"eager_limit_bytes": 0})
    result = run_on_ring(ShiftSchedule(4, 65_536, np.array([1, 2], dtype=np.int32), window=1), one_by_one)
    assert result.status == "deadlock"
    assert (result.ranks.bytes_received >= 65_536).all()
    assert result.ranks.end_ps.tolist() == [-1] * 4


def test_ranks_caught_in_a_deadlock_have_no_end_in_a_stream_schedule() -> None:
    # Stream 0 is a message to the neighbour, stream 1 one to the other side.
    rank = np.arange(4)[:, np.newaxis]
    send, recv = (((rank + sign * np.array([1, 2])) % 4)[:, :, np.newaxis] for sign in (1, -1))
    ones = np.ones((4, 2, 1), dtype=np.int64)
    size = 65_536 * np.array([0, 1])[np.newaxis, :, np.newaxis] * ones
    schedule = StreamSchedule(4, send, recv, ones, size, ones, 0 * ones, 0 * ones)  # type: ignore[arg-type]
    result = run_on_ring(schedule)
    assert result.status == "deadlock"
    assert re.search(
        r"rank 0 waits for step 0 of segment 0 of stream 1 \(a message from rank 2\)", result.message
    )
    assert result.ranks.end_ps.tolist() == [-1] * 4


class Unchecked(ArraySchedule):
    """A schedule that is run as it is."""

    def check(self) -> None:
        """Accept everything."""

    @classmethod
    def of(cls, text: str) -> Unchecked:
        parsed = parse_goal(text)
        return cls(**{field.name: getattr(parsed, field.name) for field in dataclasses.fields(parsed)})


def test_a_message_that_is_never_sent_is_told_from_a_stuck_network() -> None:
    # Ranks 0 and 1 both send only after they received; rank 2 has nothing to wait for.
    text = """num_ranks 3
    rank 0 {
    a: calc 7
    b: recv 8b from 1
    b requires a
    c: send 8b to 1
    c requires b
    }
    rank 1 {
    a: recv 8b from 0
    b: send 8b to 0
    b requires a
    }
    rank 2 {
    calc 5
    }"""
    result = engine.run(HyperX2D(3, 1), Unchecked.of(text))
    assert result.status == "deadlock"
    assert result.message == (
        "2 of 3 ranks never finished: rank 0 waits for receive from rank 1 (operation 1); "
        "rank 1 waits for receive from rank 0 (operation 0); "
        "no packet is stuck, so messages are missing from the schedule"
    )
    assert result.ranks.end_ps.tolist() == [-1, -1, 5_000]
    assert result.simulated_time_ps == 7_000
    assert result.packets == 0


def test_three_ranks_that_wait_are_named_and_the_others_counted() -> None:
    ranks = range(5)
    blocks = [
        f"rank {r} {{\na: recv 8b from {(r - 1) % 5}\nb: send 8b to {(r + 1) % 5}\nb requires a\n}}"
        for r in ranks
    ]
    result = engine.run(HyperX2D(5, 1), Unchecked.of("\n".join(["num_ranks 5", *blocks])))
    assert result.message.startswith("5 of 5 ranks never finished: rank 0 waits for receive from rank 4 ")
    assert "; rank 2 waits for receive from rank 1 (operation 0); ...;" in result.message
    assert "rank 3 waits" not in result.message
