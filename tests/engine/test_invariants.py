"""What holds for any traffic on any network: random small cases."""

from __future__ import annotations

import dataclasses
import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import engine
import motifs
from engine import NetworkParams, RunResult
from engine.run import count_packets
from motifs import ArraySchedule, OpKind, Schedule, ShiftSchedule
from topologies import Dragonfly, FatTree, HxMesh, HyperX2D, LinkKind, Topology, Torus2D
from topologies.metrics import router_hops

Int64 = npt.NDArray[np.int64]

# Rates at which a byte takes a whole number of picoseconds, so that times can be added up.
LINK_GBPS = (100, 200, 400, 800, 1600)
CROSSBAR_GBPS = (0, 1600, 4000, 8000)


@dataclass(frozen=True)
class Case:
    """One simulation, and the messages in it."""

    topology: Topology
    schedule: Schedule
    params: NetworkParams
    placement: Int64

    def run(self) -> RunResult:
        return engine.run(
            self.topology, self.schedule, self.params, placement=self.placement, links=True, validate=True
        )

    def messages(self) -> tuple[Int64, Int64, Int64]:
        """Source rank, destination rank and bytes of each message."""
        operations = self.schedule.expand()
        send = operations.kind == OpKind.SEND
        ranks, peers = operations.op_rank()[send], operations.peer[send]
        return ranks.astype(np.int64), peers.astype(np.int64), operations.value[send]

    def packets(self, size_bytes: Int64) -> Int64:
        """Of messages with so many bytes of payload."""
        whole = size_bytes + self.params.message_header_bytes
        return np.asarray(np.maximum(1, -(-whole // self.params.packet_bytes)), dtype=np.int64)

    @property
    def packet_flits(self) -> int:
        """Flits of a full packet."""
        return -(-self.params.packet_bytes // self.params.flit_bytes)

    def flits(self, size_bytes: Int64) -> Int64:
        full = self.packets(size_bytes) - 1
        rest = size_bytes + self.params.message_header_bytes - full * self.params.packet_bytes
        last = np.maximum(1, -(-rest // self.params.flit_bytes))
        return np.asarray(full * self.packet_flits + last, dtype=np.int64)

    def flit_ps(self, kind: int) -> int:
        bps = self.params.link_bandwidths_bps(self.topology)[LinkKind(kind)]
        time_ps, rest = divmod(self.params.flit_bytes * 8 * 10**12, bps)
        assert rest == 0
        return time_ps

    def least_latency_ps(self, source: Int64, destination: Int64) -> Int64:
        """Of an empty network between two NICs: no route from rank to rank is faster."""
        p, router = self.params, self.topology.endpoint_router[self.placement]
        hops = router_hops(self.topology, router)[source, router[destination]].astype(np.int64)
        crossing = p.router_input_latency_ps + p.router_output_latency_ps
        return 2 * p.host_latency_ps + crossing + hops * (p.link_latency_ps + crossing)

    @property
    def least_start_ps(self) -> int:
        """Before that no NIC has a message: five commands are in front of all others."""
        p = self.params
        return max(p.send_overhead_ps, 5 * p.nic_command_ps) + p.nic_send_latency_ps


SMALL_SIDE = st.integers(1, 3)
TOPOLOGIES: list[st.SearchStrategy[Topology]] = [
    st.builds(Torus2D, st.integers(2, 5), st.integers(2, 4), balanced=st.booleans()),
    st.builds(HyperX2D, st.integers(2, 4), SMALL_SIDE),
    st.builds(HxMesh, SMALL_SIDE, SMALL_SIDE, st.integers(2, 4), SMALL_SIDE, radix=st.sampled_from([4, 64])),
    st.builds(
        Dragonfly, st.integers(1, 2), SMALL_SIDE, st.integers(1, 2), st.integers(2, 4), balanced=st.booleans()
    ),
    st.builds(
        Dragonfly,
        st.integers(1, 2),
        SMALL_SIDE,
        st.integers(1, 2),
        st.integers(2, 4),
        algorithm=st.just("ugal"),
    ),
    st.builds(
        FatTree.merlin,
        st.lists(st.tuples(st.integers(2, 3), st.integers(1, 3)), min_size=1, max_size=2),
        st.integers(1, 3),
        adaptive=st.booleans(),
    ),
    st.builds(
        FatTree.clos,
        st.integers(3, 20),
        radix=st.just(8),
        leaf_down=st.integers(3, 4),
        leaf_up=st.integers(2, 4),
        levels=st.integers(2, 3),
        adaptive=st.booleans(),
    ),
]


@st.composite
def parameters(draw: st.DrawFn) -> NetworkParams:
    flit_bytes = draw(st.integers(1, 100))
    packet_bytes = draw(st.integers(1, 8 * flit_bytes))
    whole = -(-packet_bytes // flit_bytes) * flit_bytes
    kinds = [kind.name.lower() for kind in LinkKind]
    speeds = draw(st.lists(st.sampled_from(LINK_GBPS), min_size=len(kinds), max_size=len(kinds)))
    latency = st.sampled_from([0, 1, 700, 20_000])
    overhead = st.sampled_from([0, 0, 400])
    return NetworkParams(
        packet_bytes=packet_bytes,
        flit_bytes=flit_bytes,
        link_latency_ps=draw(latency),
        host_latency_ps=draw(latency),
        router_input_latency_ps=draw(latency),
        router_output_latency_ps=draw(latency),
        crossbar_bps=draw(st.sampled_from(CROSSBAR_GBPS)) * 10**9,
        input_buffer_bytes=whole * draw(st.integers(1, 4)) + draw(st.integers(0, flit_bytes)),
        output_buffer_bytes=whole * draw(st.integers(1, 4)) + draw(st.integers(0, flit_bytes)),
        send_machines=draw(st.integers(1, 4)),
        send_overhead_ps=draw(overhead),
        recv_overhead_ps=draw(overhead),
        match_overhead_ps=draw(overhead),
        nic_command_ps=draw(overhead),
        nic_send_latency_ps=draw(overhead),
        nic_recv_latency_ps=draw(overhead),
        message_header_bytes=draw(st.sampled_from([0, 1, 45])),
        eager_limit_bytes=draw(st.sampled_from([0, packet_bytes, 2**31])),
        bandwidth_bps={kind: speed * 10**9 for kind, speed in zip(kinds, speeds, strict=True)},
    )


@st.composite
def graphs(draw: st.DrawFn, ranks: int, most_bytes: int) -> ArraySchedule:
    """Operations in an order in which they could run, each requiring some earlier ones of its rank."""
    operations: list[list[tuple[int, int, int, int, list[int]]]] = [[] for _ in range(ranks)]

    def add(rank: int, kind: OpKind, peer: int, value: int, tag: int) -> None:
        mine = operations[rank]
        required = sorted(draw(st.sets(st.integers(0, len(mine) - 1), max_size=3))) if mine else []
        mine.append((kind, peer, value, tag, required))

    # Some rounds of a permutation, so that many messages are under way, then single ones.
    pairs: list[tuple[int, int]] = []
    for _ in range(draw(st.integers(0, 3))):
        pairs += [(r, t) for r, t in enumerate(draw(st.permutations(range(ranks)))) if r != t]
    for _ in range(draw(st.integers(0, 6))):
        source, distance = draw(st.integers(0, ranks - 1)), draw(st.integers(1, ranks - 1))
        pairs.append((source, (source + distance) % ranks))
    for source, target in pairs:
        size, tag = draw(st.integers(0, most_bytes)), draw(st.integers(0, 1))
        add(source, OpKind.SEND, target, size, tag)
        add(target, OpKind.RECV, source, size, tag)
        if draw(st.integers(0, 3)) == 0:
            compute = draw(st.booleans())
            add(target, OpKind.COMPUTE if compute else OpKind.WAIT, -1, 500 * compute, 0)
    flat = [operation for mine in operations for operation in mine]
    first = np.cumsum([0, *(len(mine) for mine in operations)])
    dep = [int(first[r]) + d for r, mine in enumerate(operations) for operation in mine for d in operation[4]]
    columns = np.array([operation[:4] for operation in flat], dtype=np.int64).reshape(-1, 4)
    return ArraySchedule(
        num_ranks=ranks,
        op_offset=first,
        kind=columns[:, 0].astype(np.uint8),
        peer=columns[:, 1].astype(np.int32),
        value=columns[:, 2],
        tag=columns[:, 3].astype(np.int32),
        dep_offset=np.cumsum([0, *(len(operation[4]) for operation in flat)]),
        dep=np.array(dep, dtype=np.int64),
    )


@st.composite
def cases(draw: st.DrawFn) -> Case:
    topology = draw(st.one_of(TOPOLOGIES))
    params = draw(parameters())
    endpoints = topology.num_endpoints
    ranks = draw(st.integers(2, min(endpoints, 12)))
    most_bytes = 5 * params.packet_bytes
    schedule: Schedule
    form = draw(st.sampled_from(["shifts", "streams", "graph", "graph"]))
    if form == "shifts":
        shifts = draw(st.lists(st.integers(1, ranks - 1), min_size=1, max_size=8))
        size, window = draw(st.integers(0, most_bytes)), draw(st.integers(0, 3))
        schedule = ShiftSchedule(ranks, size, np.array(shifts, dtype=np.int32), window)
    elif form == "streams":
        order, size = draw(st.permutations(range(ranks))), draw(st.integers(0, ranks * most_bytes))
        motif = draw(st.sampled_from([motifs.ring, motifs.bidirectional_ring]))
        schedule = motif(order, size, lockstep=draw(st.booleans()))
    else:
        schedule = draw(graphs(ranks, most_bytes))
    placement = draw(st.permutations(range(endpoints)))[:ranks]
    return Case(topology, schedule, params, np.array(placement, dtype=np.int64))


@settings(max_examples=40, deadline=None)
@given(cases())
def test_every_byte_and_every_packet_arrives_once(case: Case) -> None:
    result = case.run()
    assert result.status == "complete", result.message
    assert result.message == ""
    assert result.ranks.bytes_sent.tolist() == case.schedule.sent_bytes().tolist()
    assert result.ranks.bytes_received.tolist() == case.schedule.received_bytes().tolist()
    assert result.bytes_delivered == case.schedule.total_bytes
    assert result.messages == case.schedule.num_messages
    assert result.packets == count_packets(case.schedule, case.params)
    assert result.simulated_time_ps == result.ranks.end_ps.max()
    assert (result.ranks.start_ps == 0).all()


@settings(max_examples=40, deadline=None)
@given(cases())
def test_what_goes_into_the_network_and_into_each_router_comes_out(case: Case) -> None:
    result = case.run()
    links = result.links
    assert links is not None
    source, destination, size = case.messages()
    endpoints = case.topology.num_endpoints
    out_of, into = case.placement[source], case.placement[destination]
    for column, amount in (("packets", case.packets(size)), ("flits", case.flits(size))):
        sent = np.bincount(out_of, amount, endpoints)
        received = np.bincount(into, amount, endpoints)
        by_sender = links.groupby("router")[column].sum()
        by_receiver = links.groupby("peer_router")[column].sum()
        nics = -1 - np.arange(endpoints)
        assert by_sender.reindex(nics, fill_value=0).tolist() == sent.tolist()
        assert by_receiver.reindex(nics, fill_value=0).tolist() == received.tolist()
        routers = np.arange(case.topology.num_routers)
        assert by_sender.reindex(routers).tolist() == by_receiver.reindex(routers).tolist()
    assert links.packets.sum() == result.packet_hops
    hops = router_hops(case.topology, case.topology.endpoint_router[out_of])
    shortest = hops[np.arange(len(into)), case.topology.endpoint_router[into]] + 2
    assert result.packet_hops >= (case.packets(size) * shortest).sum()


@settings(max_examples=40, deadline=None)
@given(cases())
def test_no_link_is_busy_for_longer_than_the_run(case: Case) -> None:
    result = case.run()
    links = result.links
    assert links is not None
    for kind in links.kind.unique():
        of_kind = links[links.kind == kind]
        assert of_kind.busy_ps.tolist() == (of_kind.flits * case.flit_ps(kind)).tolist()
        # The last packet has arrived before the link is free again.
        assert of_kind.busy_ps.max() <= result.simulated_time_ps + case.packet_flits * case.flit_ps(kind)


@settings(max_examples=40, deadline=None)
@given(cases())
def test_no_rank_is_done_before_latency_and_its_own_link_allow(case: Case) -> None:
    result = case.run()
    source, destination, size = case.messages()
    end = result.ranks.end_ps.to_numpy()
    flit_ps = case.flit_ps(LinkKind.HOST)
    flits = case.flits(size)
    p = case.params
    # Nobody waits for an eager message to leave.
    waited_for = np.where(size < p.eager_limit_bytes, 0, flits)
    injected = np.bincount(source, waited_for, len(end)) * flit_ps
    assert (end >= np.where(injected > 0, case.least_start_ps + injected, 0)).all()
    # A message needs its latency from when its last packet leaves, and that leaves after all others of it.
    before_last = (case.packets(size) - 1) * case.packet_flits * flit_ps
    at_ends = case.least_start_ps + p.nic_recv_latency_ps + p.match_overhead_ps
    assert (end[destination] >= at_ends + case.least_latency_ps(source, destination) + before_last).all()
    received = np.bincount(destination, flits, len(end)) * flit_ps
    across = 2 * p.host_latency_ps + p.router_input_latency_ps + p.router_output_latency_ps
    bound = at_ends + across + received - case.packet_flits * flit_ps
    assert (end >= np.where(received > 0, bound, 0)).all()


@settings(max_examples=40, deadline=None)
@given(cases())
def test_the_same_run_gives_the_same_files(case: Case) -> None:
    def files() -> list[Any]:
        with tempfile.TemporaryDirectory() as name:
            directory = Path(name)
            case.run().save(directory)
            summary = json.loads((directory / "result.json").read_text())
            tables = [(directory / f"{table}.parquet").read_bytes() for table in ("ranks", "links")]
        for machine_dependent in ("wall_s", "peak_memory_bytes"):
            del summary[machine_dependent]
        return [summary, *tables]

    assert files() == files()


@settings(max_examples=40, deadline=None)
@given(cases())
def test_a_network_at_half_the_speed_takes_twice_as_long(case: Case) -> None:
    p = case.params
    slower = p.model_copy(
        update={
            **{
                name: 2 * value
                for name, value in p.model_dump().items()
                if name.endswith("_ps") and name != "latency_ps"
            },
            "latency_ps": {kind: 2 * ps for kind, ps in p.latency_ps.items()},
            "bandwidth_bps": {kind: bps // 2 for kind, bps in p.bandwidth_bps.items()},
            "crossbar_bps": p.crossbar_bps // 2,
        }
    )
    graph = case.schedule.expand()
    value = np.where(graph.kind == OpKind.COMPUTE, 2 * graph.value, graph.value)
    slow_graph = dataclasses.replace(graph, value=value)
    fast = Case(case.topology, graph, p, case.placement).run()
    slow = Case(case.topology, slow_graph, slower, case.placement).run()
    assert slow.ranks.end_ps.tolist() == (2 * fast.ranks.end_ps).tolist()


def renumbered(graph: ArraySchedule, number: Int64) -> ArraySchedule:
    """The same operations where rank r has become rank number[r]."""
    old = np.argsort(number)
    spans = [np.arange(graph.op_offset[r], graph.op_offset[r + 1]) for r in old]
    operations = np.concatenate(spans)
    place = np.empty_like(operations)
    place[operations] = np.arange(len(operations))
    deps = [place[graph.dep[graph.dep_offset[op] : graph.dep_offset[op + 1]]] for op in operations]
    peer = graph.peer[operations]
    return ArraySchedule(
        num_ranks=graph.num_ranks,
        op_offset=np.cumsum([0, *(len(span) for span in spans)]),
        kind=graph.kind[operations],
        peer=np.where(peer >= 0, number[peer], -1).astype(np.int32),
        value=graph.value[operations],
        tag=graph.tag[operations],
        dep_offset=np.cumsum([0, *(len(of_one) for of_one in deps)]),
        dep=np.concatenate([np.zeros(0, dtype=np.int64), *deps]),
    )


def at_odd_times(graph: ArraySchedule, seed: int) -> ArraySchedule:
    """Every operation waits for a computation of its own of up to 10 us, so that nothing happens together."""
    count = graph.num_operations
    start = np.random.default_rng(seed).integers(1, 10**7, count)
    twice = 2 * np.arange(count)
    deps = [
        np.append(2 * graph.dep[graph.dep_offset[op] : graph.dep_offset[op + 1]] + 1, twice[op])
        for op in range(count)
    ]

    def pairs(first: Any, second: Any, dtype: type) -> Any:
        return np.stack([np.broadcast_to(first, count), second], axis=1).reshape(-1).astype(dtype)

    counts = np.array([[0, len(of_one)] for of_one in deps], dtype=np.int64).reshape(-1)
    return ArraySchedule(
        num_ranks=graph.num_ranks,
        op_offset=2 * graph.op_offset,
        kind=pairs(OpKind.COMPUTE, graph.kind, np.uint8),
        peer=pairs(-1, graph.peer, np.int32),
        value=pairs(start, graph.value, np.int64),
        tag=pairs(0, graph.tag, np.int32),
        dep_offset=np.cumsum([0, *counts]),
        dep=np.concatenate([np.zeros(0, dtype=np.int64), *deps]),
    )


@settings(max_examples=40, deadline=None)
@given(cases(), st.integers(0, 2**32), st.data())
def test_other_numbers_for_the_ranks_change_nothing_but_the_numbers(
    case: Case, seed: int, data: st.DataObject
) -> None:
    # Where several things happen at the same time, lower ranks come first: so nothing does.
    graph = at_odd_times(case.schedule.expand(), seed)
    number = np.array(data.draw(st.permutations(range(graph.num_ranks))), dtype=np.int64)
    placement = np.empty_like(case.placement)
    placement[number] = case.placement
    one = Case(case.topology, graph, case.params, case.placement).run()
    other = Case(case.topology, renumbered(graph, number), case.params, placement).run()
    for column in ("bytes_sent", "bytes_received", "start_ps", "end_ps"):
        assert one.ranks[column].tolist() == other.ranks[column].to_numpy()[number].tolist()
    assert one.links is not None
    assert other.links is not None
    assert one.links.equals(other.links)


@settings(max_examples=20, deadline=None)
@given(parameters(), st.integers(2, 8), st.integers(0, 3), st.data())
def test_equal_ranks_may_change_places(
    params: NetworkParams, senders: int, packets: int, data: st.DataObject
) -> None:
    """Ranks that all send as much to one at the same time: who of them is where does not matter to it."""
    size = packets * params.packet_bytes
    lines = ["num_ranks", str(senders + 1)]
    blocks = [f"rank {rank} {{\nsend {size}b to 0\n}}" for rank in range(1, senders + 1)]
    received = "\n".join(f"recv {size}b from {rank}" for rank in range(1, senders + 1))
    incast = motifs.parse_goal("\n".join([" ".join(lines), f"rank 0 {{\n{received}\n}}", *blocks]))
    switch = FatTree.merlin([(9, 1)], top=1)
    places = [data.draw(st.permutations(range(1, 9)))[:senders] for _ in range(2)]
    one, other = (engine.run(switch, incast, params, placement=[0, *mine]) for mine in places)
    assert one.complete
    assert one.simulated_time_ps == other.simulated_time_ps
    assert sorted(one.ranks.end_ps) == sorted(other.ranks.end_ps)
    assert one.ranks.end_ps[0] == other.ranks.end_ps[0]


@pytest.mark.parametrize("columns", [2, 3, 4, 5, 6])
@pytest.mark.parametrize("balanced", [False, True])
def test_a_torus_with_buffers_of_one_packet_does_not_deadlock(columns: int, balanced: bool) -> None:
    params = NetworkParams(
        packet_bytes=64, flit_bytes=64, input_buffer_bytes=64, output_buffer_bytes=64, link_latency_ps=0
    )
    topology = Torus2D(columns, 4, balanced=balanced)
    result = engine.run(topology, ShiftSchedule(topology.num_endpoints, 640), params)
    assert result.status == "complete", result.message


ONE_PACKET_NETWORKS: dict[str, Callable[[], Topology]] = {
    "hyperx": lambda: HyperX2D(4, 3),
    "dragonfly": lambda: Dragonfly(2, 3, 2, 4),
    "dragonfly balanced": lambda: Dragonfly(2, 3, 3, 3, balanced=True),
    "dragonfly, ugal": lambda: Dragonfly(2, 3, 2, 4, algorithm="ugal"),
    "dragonfly, ugal, groups of one": lambda: Dragonfly(3, 1, 2, 5, algorithm="ugal"),
    "fat tree": lambda: FatTree.merlin([(3, 2), (2, 2)], top=3),
    "fat tree, adaptive": lambda: FatTree.merlin([(3, 2), (2, 2)], top=3, adaptive=True),
    "clos, uneven": lambda: FatTree.clos(30, radix=8, leaf_down=5, leaf_up=3, levels=2),
    "clos, adaptive": lambda: FatTree.clos(30, radix=8, leaf_down=5, leaf_up=3, levels=3, adaptive=True),
    "failed boards": lambda: HxMesh(2, 2, 3, 3, failed_boards=[(0, 0), (1, 1)]),
    "failed boards, line trees": lambda: HxMesh(1, 2, 4, 4, radix=4, failed_boards=[(0, 0), (1, 1), (2, 3)]),
}


@pytest.mark.parametrize("name", ONE_PACKET_NETWORKS)
def test_no_other_network_deadlocks_with_buffers_of_one_packet(name: str) -> None:
    params = NetworkParams(
        packet_bytes=64, flit_bytes=64, input_buffer_bytes=64, output_buffer_bytes=64, link_latency_ps=0
    )
    topology = ONE_PACKET_NETWORKS[name]()
    result = engine.run(topology, ShiftSchedule(topology.num_endpoints, 640), params)
    assert result.status == "complete", result.message


@pytest.mark.parametrize("shape", [(2, 2, 3, 3), (4, 4, 2, 2), (3, 2, 2, 3), (2, 4, 3, 1), (1, 1, 4, 4)])
@pytest.mark.parametrize("radix", [4, 6, 64])
def test_an_hxmesh_with_buffers_of_one_packet_does_not_deadlock(
    shape: tuple[int, int, int, int], radix: int
) -> None:
    params = NetworkParams(
        packet_bytes=64, flit_bytes=64, input_buffer_bytes=64, output_buffer_bytes=64, link_latency_ps=0
    )
    topology = HxMesh(*shape, radix=radix)
    result = engine.run(topology, ShiftSchedule(topology.num_endpoints, 640), params)
    assert result.status == "complete", result.message


@pytest.mark.parametrize(
    ("shape", "radix"),
    [((1, 2, 1, 11), 10), ((2, 1, 11, 1), 10), ((1, 2, 1, 9), 6), ((1, 2, 1, 10), 10), ((3, 2, 4, 4), 6)],
)
def test_packets_arrive_on_shortest_ways_where_boards_are_on_two_leaves(
    shape: tuple[int, int, int, int], radix: int
) -> None:
    topology = HxMesh(*shape, radix=radix)
    n = topology.num_endpoints
    params = NetworkParams(packet_bytes=64, flit_bytes=64, message_header_bytes=0)
    result = engine.run(topology, ShiftSchedule(n, 64), params)
    assert result.status == "complete", result.message
    distances = router_hops(topology, np.arange(n))[:, :n]
    assert result.packet_hops == distances.sum() + 2 * n * (n - 1)
