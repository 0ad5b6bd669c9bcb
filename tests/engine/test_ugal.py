"""UGAL on a Dragonfly: straight on when nothing queues, round when that pays, the same for a seed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import engine
import motifs
from engine import NetworkParams, RunResult
from engine.run import count_packets
from motifs import ShiftSchedule
from topologies import ConfigError, Dragonfly, LinkKind
from topologies.dragonfly import Algorithm

Bare = Callable[..., NetworkParams]

HOSTS, ROUTERS, LINKS, GROUPS = 4, 4, 2, 6
GROUP = HOSTS * ROUTERS


def dragonfly(algorithm: Algorithm = "ugal") -> Dragonfly:
    return Dragonfly(HOSTS, ROUTERS, LINKS, GROUPS, algorithm=algorithm)


def shift(distance: int, size: int) -> ShiftSchedule:
    """Every accelerator sends to the one `distance` further on."""
    return ShiftSchedule(GROUP * GROUPS, size, np.array([distance], dtype=np.int32))


def packets_on(result: RunResult, kind: LinkKind) -> int:
    assert result.links is not None
    return int(result.links.packets[result.links.kind == kind].sum())


@pytest.mark.parametrize("seed", range(4))
def test_a_packet_alone_takes_one_global_link_or_one_local_link(seed: int, bare: Bare) -> None:
    network = dragonfly()
    for dst in (1, HOSTS, GROUP - 1, GROUP, 3 * GROUP + 5):
        schedule = motifs.parse_goal(
            "num_ranks 2\nrank 0 {\nsend 1024b to 1\n}\nrank 1 {\nrecv 1024b from 0\n}\n"
        )
        result = engine.run(network, schedule, bare(), placement=[0, dst], seed=seed, links=True)
        assert packets_on(result, LinkKind.GLOBAL) == (dst >= GROUP)
        assert packets_on(result, LinkKind.LOCAL) <= (2 if dst >= GROUP else dst >= HOSTS)


def test_light_traffic_goes_the_minimal_way(bare: Bare) -> None:
    # One packet from each accelerator: less than 50 flits queue anywhere.
    result = engine.run(dragonfly(), shift(GROUP, 1024), bare(packet_bytes=1024, flit_bytes=1024), links=True)
    assert packets_on(result, LinkKind.GLOBAL) == result.packets


def test_traffic_from_group_to_group_goes_round_and_is_faster(bare: Bare) -> None:
    schedule, params = shift(GROUP, 2**18), bare(input_buffer_bytes=65_536, output_buffer_bytes=65_536)
    minimal = engine.run(dragonfly("minimal"), schedule, params, links=True)
    ugal = engine.run(dragonfly(), schedule, params, links=True)
    assert minimal.status == ugal.status == "complete"
    # 16 accelerators share the two cables of a pair of groups; with UGAL also those by four other groups.
    assert ugal.simulated_time_ps < 0.5 * minimal.simulated_time_ps
    assert packets_on(minimal, LinkKind.GLOBAL) == minimal.packets
    assert 1.5 * ugal.packets < packets_on(ugal, LinkKind.GLOBAL) <= 2 * ugal.packets
    assert ugal.links is not None
    cables = ugal.links[ugal.links.kind == LinkKind.GLOBAL].packets
    assert cables.min() > 0


def test_traffic_from_router_to_router_goes_round_within_the_group(bare: Bare) -> None:
    size = 2**18
    pairs = [(host, HOSTS + host) for host in range(HOSTS)]
    placement = [end for pair in pairs for end in pair]
    text = [f"num_ranks {2 * HOSTS}"]
    for host in range(HOSTS):
        text.append(f"rank {2 * host} {{\nsend {size}b to {2 * host + 1}\n}}")
        text.append(f"rank {2 * host + 1} {{\nrecv {size}b from {2 * host}\n}}")
    schedule = motifs.parse_goal("\n".join(text))
    params = bare(input_buffer_bytes=65_536, output_buffer_bytes=65_536)
    minimal, ugal = (
        engine.run(dragonfly(algorithm), schedule, params, placement=placement, links=True)
        for algorithm in ("minimal", "ugal")
    )
    assert ugal.simulated_time_ps < 0.6 * minimal.simulated_time_ps
    assert packets_on(minimal, LinkKind.LOCAL) == minimal.packets
    assert 1.2 * ugal.packets < packets_on(ugal, LinkKind.LOCAL) <= 2 * ugal.packets
    assert packets_on(ugal, LinkKind.GLOBAL) == 0


def test_a_seed_decides_and_another_one_makes_little_difference(bare: Bare) -> None:
    def run(seed: int) -> RunResult:
        return engine.run(dragonfly(), ShiftSchedule(GROUP * GROUPS, 8192), bare(), seed=seed, links=True)

    first, again, other = run(1), run(1), run(2)
    assert first.links is not None
    assert again.links is not None
    assert other.links is not None
    assert first.links.equals(again.links)
    assert first.ranks.equals(again.ranks)
    assert not first.links.equals(other.links)
    assert other.simulated_time_ps == pytest.approx(first.simulated_time_ps, rel=0.1)


def test_a_seed_makes_no_difference_to_other_routings(bare: Bare) -> None:
    first, second = (
        engine.run(dragonfly("minimal"), shift(GROUP, 8192), bare(), seed=seed, links=True) for seed in (1, 2)
    )
    assert first.links is not None
    assert second.links is not None
    assert first.links.equals(second.links)


@pytest.mark.parametrize("shape", [(2, 4, 2, 5), (2, 3, 1, 3), (1, 2, 3, 4), (2, 3, 2, 2), (3, 1, 1, 4)])
@pytest.mark.parametrize("crossbar_bps", [0, 1_600 * 10**9])
def test_buffers_of_one_packet_do_not_deadlock(shape: tuple[int, int, int, int], crossbar_bps: int) -> None:
    params = NetworkParams(
        packet_bytes=6400,
        flit_bytes=64,
        input_buffer_bytes=6400,
        output_buffer_bytes=6400,
        link_latency_ps=0,
        crossbar_bps=crossbar_bps,
    )
    topology = Dragonfly(*shape, algorithm="ugal")
    schedule = ShiftSchedule(topology.num_endpoints, 64_000)
    result = engine.run(topology, schedule, params)
    assert result.status == "complete", result.message
    assert result.bytes_delivered == schedule.total_bytes
    assert result.packets == count_packets(schedule, params)


def test_what_does_not_fit_into_a_packets_header_is_refused(bare: Bare) -> None:
    topology = Dragonfly(17, 32, 64, 4, algorithm="ugal")
    schedule = ShiftSchedule(2, 1024)
    with pytest.raises(ConfigError) as caught:
        engine.run(topology, schedule, bare(packet_bytes=4095, flit_bytes=1))
    assert str(caught.value) == (
        f"{topology.name} cannot be simulated: a packet's header has 32 bits but needs 35: 12 for 2176 "
        "endpoints, 12 for packets of up to 4095 flits, 11 for the routing's state."
    )
    assert engine.run(topology, schedule, bare(packet_bytes=511, flit_bytes=1)).complete
