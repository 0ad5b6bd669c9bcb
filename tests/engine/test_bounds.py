"""No measured bandwidth is above what the network's cuts, or any routing at all, can carry."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import engine
import motifs
from engine import NetworkParams
from motifs import Schedule
from topologies import Dragonfly, FatTree, HxMesh, HyperX2D, Topology, Torus2D
from topologies.bounds import allreduce_bound, alltoall_bound, max_concurrent_flow, routing_bound

NETWORKS: dict[str, Callable[[], Topology]] = {
    "hx1mesh": lambda: HxMesh(1, 1, 4, 4),
    "hx2mesh": lambda: HxMesh(2, 2, 3, 3),
    "hx4mesh": lambda: HxMesh(4, 4, 2, 1),
    "long boards": lambda: HxMesh(4, 1, 2, 3),
    "line trees": lambda: HxMesh(1, 2, 4, 3, radix=4),
    "failed boards": lambda: HxMesh(2, 2, 3, 3, failed_boards=[(0, 0), (1, 1)]),
    "torus": lambda: Torus2D(5, 4),
    "torus, balanced": lambda: Torus2D(6, 4, balanced=True),
    "hyperx": lambda: HyperX2D(4, 5),
    "dragonfly": lambda: Dragonfly(2, 4, 2, 3),
    "dragonfly, ugal": lambda: Dragonfly(2, 4, 1, 3, algorithm="ugal"),
    "fat tree": lambda: FatTree.merlin([(4, 4)], top=5),
    "fat tree, tapered, adaptive": lambda: FatTree.merlin([(4, 2)], top=6, adaptive=True),
    "clos, uneven": lambda: FatTree.clos(30, radix=8, leaf_down=5, leaf_up=3),
    "clos, three levels": lambda: FatTree.clos(32, radix=8, leaf_down=4, leaf_up=4, levels=3),
}
SLACK = 1 + 1e-9
"""The linear program's and floating point's."""

built = cache(lambda name: NETWORKS[name]())
optimum_percent = cache(lambda name: max_concurrent_flow(built(name)))


def percent_of_injection(topology: Topology, schedule: Schedule, params: NetworkParams) -> float:
    """Bytes that an accelerator receives in the simulated time, in percent of what its host link carries."""
    result = engine.run(topology, schedule, params)
    assert result.complete, result.message
    received_bits = 8 * result.bytes_delivered / topology.num_endpoints
    return 100 * received_bits / (topology.injection_bps * result.simulated_time_ps * 1e-12)


@pytest.mark.parametrize("buffer_bytes", [16_384, 32_000_000])
@pytest.mark.parametrize("name", NETWORKS)
def test_no_alltoall_is_faster_than_cuts_or_the_best_routing_allow(name: str, buffer_bytes: int) -> None:
    topology = built(name)
    params = NetworkParams(input_buffer_bytes=buffer_bytes, output_buffer_bytes=buffer_bytes)
    measured = percent_of_injection(topology, motifs.alltoall(topology.num_endpoints, 131_072), params)
    assert measured <= alltoall_bound(topology).percent * SLACK
    assert measured <= optimum_percent(name) * SLACK
    # A unit that is wrong would be seen too.
    assert measured > optimum_percent(name) / 4


@pytest.mark.parametrize("name", ["torus", "fat tree", "dragonfly", "clos, uneven", "hyperx"])
def test_no_alltoall_is_faster_than_a_fixed_routing_allows(name: str) -> None:
    topology = built(name)
    schedule = motifs.alltoall(topology.num_endpoints, 131_072)
    assert percent_of_injection(topology, schedule, NetworkParams()) <= routing_bound(topology) * SLACK


@pytest.mark.parametrize("name", NETWORKS)
def test_no_allreduce_is_faster_than_accelerators_and_cuts_allow(name: str) -> None:
    topology, size = built(name), 4 << 20
    grid = not isinstance(topology, (FatTree, Dragonfly)) and name != "failed boards"
    for motif in ("bidirectional-ring", "bucket") if grid else ("ring", "bidirectional-ring"):
        schedule = motifs.build(motif, topology, total_bytes=size)
        result = engine.run(topology, schedule)
        assert result.complete, result.message
        peak_bps = topology.injection_bps / 2
        measured = 100 * 8 * size / (peak_bps * result.simulated_time_ps * 1e-12)
        assert 0 < measured <= allreduce_bound(topology).percent * SLACK


SIDE = st.integers(1, 3)
TINY_NETWORKS = st.one_of(
    st.builds(HxMesh, SIDE, SIDE, SIDE, st.integers(2, 3), radix=st.sampled_from([4, 64])),
    st.builds(Torus2D, st.integers(2, 5), st.integers(2, 4), balanced=st.booleans()),
    st.builds(HyperX2D, st.integers(1, 4), st.integers(2, 4)),
    st.builds(Dragonfly, SIDE, SIDE, SIDE, st.integers(2, 4), algorithm=st.sampled_from(["minimal", "ugal"])),
    st.builds(FatTree.merlin, st.lists(st.tuples(SIDE, SIDE), min_size=1, max_size=2), st.integers(2, 3)),
)


@settings(max_examples=25, deadline=None)
@given(TINY_NETWORKS, st.integers(1, 12), st.integers(0, 2), st.integers(1, 8))
def test_no_network_carries_more_than_the_linear_program_says(
    topology: Topology, packets: int, window: int, buffer_packets: int
) -> None:
    if not 2 <= topology.num_endpoints <= 18:
        return
    size = buffer_packets * 1024
    params = NetworkParams(
        packet_bytes=1024, flit_bytes=64, input_buffer_bytes=size, output_buffer_bytes=size
    )
    schedule = motifs.alltoall(topology.num_endpoints, packets * 1024, window=window)
    bound = min(alltoall_bound(topology).percent, max_concurrent_flow(topology))
    assert percent_of_injection(topology, schedule, params) <= bound * SLACK
