"""Steps that repeat are skipped with the same result as if each had been simulated."""

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
from motifs import Schedule
from topologies import Dragonfly, FatTree, HxMesh, HyperX2D, Topology, Torus2D
from topologies.errors import ConfigError

Bare = Callable[..., NetworkParams]

DETERMINISTIC: dict[str, Callable[[], Topology]] = {
    "torus": lambda: Torus2D(4, 6),
    "hyperx": lambda: HyperX2D(4, 4),
    "dragonfly": lambda: Dragonfly(2, 4, 1, 4),
    "fat tree": lambda: FatTree.merlin([(4, 2)], top=4),
}
COSTS: dict[str, dict[str, int]] = {
    "none": {},
    "all": {
        "send_overhead_ps": 900,
        "recv_overhead_ps": 500,
        "match_overhead_ps": 1_100,
        "nic_send_latency_ps": 300,
        "nic_recv_latency_ps": 450,
        "message_header_bytes": 45,
    },
    "eager": {"eager_limit_bytes": 2**31, "send_overhead_ps": 900, "nic_command_ps": 1_300},
}


def everything(result: RunResult) -> dict[str, Any]:
    """All of a result but how long it took and how."""
    assert result.links is not None
    names = ("status", "simulated_time_ps", "packets", "packet_hops", "messages", "bytes_delivered")
    tables = {"ranks": result.ranks.to_dict("list"), "links": result.links.to_dict("list")}
    return {**{name: getattr(result, name) for name in names}, **tables}


def both_ways(topology: Topology, schedule: Schedule, params: NetworkParams) -> tuple[RunResult, RunResult]:
    skipped = engine.run(topology, schedule, params, links=True)
    simulated = engine.run(topology, schedule, params, links=True, repetitions="simulate")
    assert simulated.repeated_packet_hops == 0
    assert everything(skipped) == everything(simulated)
    assert skipped.complete
    return skipped, simulated


@pytest.mark.parametrize("costs", COSTS)
@pytest.mark.parametrize("name", DETERMINISTIC)
def test_most_of_a_long_ring_is_skipped(bare: Bare, name: str, costs: str) -> None:
    topology = DETERMINISTIC[name]()
    ranks = topology.num_endpoints
    # Twenty times around.
    once = motifs.ring(np.arange(ranks), ranks * 3_000, reduce_fs_per_byte=100)
    schedule = dataclasses.replace(once, steps=once.steps * 20)
    skipped, _ = both_ways(topology, schedule, bare(**COSTS[costs]))
    assert skipped.repeated_packet_hops > skipped.packet_hops // 2


@pytest.mark.parametrize("algorithm", ["two-rings", "bucket", "torus-2d"])
@pytest.mark.parametrize("name", ["torus", "hyperx"])
def test_collectives_of_grids_repeat(name: str, algorithm: str) -> None:
    topology = Torus2D(16, 16) if name == "torus" else HyperX2D(16, 16)
    schedule = motifs.build(algorithm, topology, total_bytes=2**24, reduce_fs_per_byte=0)
    skipped, _ = both_ways(topology, schedule, NetworkParams())
    assert skipped.repeated_packet_hops > 0


def test_small_buffers_and_a_slow_crossbar_repeat_too(bare: Bare) -> None:
    topology = Torus2D(4, 6)
    once = motifs.ring(np.arange(24), 24 * 5_000, reduce_fs_per_byte=0)
    schedule = dataclasses.replace(once, steps=once.steps * 20)
    params = bare(input_buffer_bytes=8192, output_buffer_bytes=8192, crossbar_bps=1_600_000_000_000)
    skipped, _ = both_ways(topology, schedule, params)
    assert skipped.repeated_packet_hops > 0


def test_a_nic_that_cannot_keep_up_with_commands_is_not_skipped(bare: Bare) -> None:
    topology = Torus2D(4, 4)
    once = motifs.ring(np.arange(16), 16 * 64, reduce_fs_per_byte=0)
    schedule = dataclasses.replace(once, steps=once.steps * 20)
    skipped, _ = both_ways(topology, schedule, bare(nic_command_ps=2_000_000))
    assert skipped.repeated_packet_hops == 0


def test_blocks_of_different_sizes_are_not_skipped(bare: Bare) -> None:
    topology = Torus2D(4, 4)
    once = motifs.ring(np.arange(16), 16 * 3_000 + 1, reduce_fs_per_byte=0)
    schedule = dataclasses.replace(once, steps=once.steps * 20)
    skipped, _ = both_ways(topology, schedule, bare())
    assert skipped.repeated_packet_hops == 0


def test_adaptive_routing_is_never_skipped(bare: Bare) -> None:
    topology = HxMesh(2, 2, 2, 2)
    once = motifs.ring(np.arange(16), 16 * 3_000, reduce_fs_per_byte=0)
    schedule = dataclasses.replace(once, steps=once.steps * 20)
    skipped, _ = both_ways(topology, schedule, bare())
    assert skipped.repeated_packet_hops == 0


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_any_rings_end_at_the_same_picosecond(bare: Bare, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(list(DETERMINISTIC)))
    topology = DETERMINISTIC[name]()
    ranks = data.draw(st.integers(2, topology.num_endpoints))
    order = np.array(data.draw(st.permutations(range(ranks))))
    build = data.draw(st.sampled_from([motifs.ring, motifs.bidirectional_ring]))
    once = build(
        order,
        ranks * data.draw(st.integers(0, 20_000)),
        reduce_fs_per_byte=data.draw(st.sampled_from([0, 333, 2_500])),
    )
    schedule = dataclasses.replace(
        once, steps=once.steps * data.draw(st.integers(1, 12)), lockstep=data.draw(st.booleans())
    )
    costs = COSTS[data.draw(st.sampled_from(list(COSTS)))]
    buffers = data.draw(st.sampled_from([4_096, 16_384, 1_000_000]))
    both_ways(topology, schedule, bare(input_buffer_bytes=buffers, output_buffer_bytes=buffers, **costs))


def test_an_unknown_way_is_refused(bare: Bare) -> None:
    schedule = motifs.ring(np.arange(4), 4096, reduce_fs_per_byte=0)
    with pytest.raises(ConfigError, match="repetitions is 'never' but must be one of"):
        engine.run(Torus2D(2, 2), schedule, bare(), repetitions="never")  # type: ignore[arg-type]
