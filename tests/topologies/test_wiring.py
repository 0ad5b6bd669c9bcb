"""What every network of every family must be: a well-formed, connected graph of numbered ports."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topologies import (
    UNCONNECTED,
    Cable,
    ConfigError,
    Dragonfly,
    FatTree,
    HxMesh,
    HyperX2D,
    LinkKind,
    RoutingSpec,
    Topology,
    Torus2D,
    Wiring,
    check_wiring,
    mesh_bandwidth_bps,
)
from topologies.base import AnyInt

SIDE = st.integers(1, 5)
HXMESHES = st.builds(HxMesh, SIDE, SIDE, SIDE, st.integers(2, 6), radix=st.sampled_from([6, 8, 10, 64]))
TORI = st.builds(Torus2D, st.integers(2, 7), st.integers(2, 7), board=st.tuples(SIDE, SIDE))
HYPERXES = st.builds(HyperX2D, st.integers(1, 6), st.integers(2, 6))
DRAGONFLIES = st.one_of(
    st.builds(Dragonfly, SIDE, SIDE, SIDE, st.integers(2, 5)),
    st.builds(Dragonfly.with_global_ports, SIDE, st.integers(2, 5), st.integers(2, 5), st.integers(2, 5)),
)
FAT_TREES = st.one_of(
    st.builds(
        FatTree.merlin,
        st.lists(st.tuples(st.integers(1, 4), st.integers(1, 3)), min_size=1, max_size=3),
        st.integers(1, 4),
    ),
    st.builds(FatTree.clos, st.integers(1, 24), radix=st.just(8), leaf_down=st.just(5), leaf_up=st.just(3)),
    st.builds(
        FatTree.clos,
        st.integers(1, 120),
        radix=st.just(8),
        leaf_down=st.just(4),
        leaf_up=st.integers(2, 4),
        levels=st.just(3),
    ),
)
NETWORKS = st.one_of(HXMESHES, TORI, HYPERXES, DRAGONFLIES, FAT_TREES)


@given(NETWORKS)
@settings(max_examples=150, deadline=None)
def test_ports_pair_up_endpoints_have_own_ports_and_everything_is_connected(network: Topology) -> None:
    check_wiring(network)
    assert network.port_offset[0] == 0
    assert network.num_routers == len(network.port_offset) - 1
    assert network.router_endpoints.sum() == network.num_endpoints
    hosts = np.count_nonzero(network.port_kind == LinkKind.HOST)
    connected = np.count_nonzero(network.port_kind != UNCONNECTED)
    assert hosts == network.num_endpoints
    assert connected == hosts + 2 * network.num_links


@given(NETWORKS)
@settings(max_examples=50, deadline=None)
def test_every_link_kind_in_use_has_a_bandwidth_and_a_cable(network: Topology) -> None:
    kinds = {LinkKind(kind) for kind in np.unique(network.port_kind) if kind != UNCONNECTED}
    assert kinds <= set(network.cable)
    assert (network.port_bandwidth_bps[network.port_kind != UNCONNECTED] > 0).all()
    assert (network.port_bandwidth_bps[network.port_kind == UNCONNECTED] == 0).all()


@given(NETWORKS)
@settings(max_examples=50, deadline=None)
def test_adjacency_counts_parallel_links_and_is_symmetric(network: Topology) -> None:
    adjacency = network.adjacency()
    assert adjacency.sum() == 2 * network.num_links
    assert abs(adjacency - adjacency.T).sum() == 0


@given(NETWORKS)
@settings(max_examples=50, deadline=None)
def test_a_grid_places_every_endpoint_once(network: Topology) -> None:
    if network.grid_endpoint is not None:
        assert network.grid == network.grid_endpoint.shape
        assert sorted(network.grid_endpoint.ravel()) == list(range(network.num_endpoints))


def test_arrays_and_tables_are_read_only() -> None:
    for network in (HxMesh(2, 2, 2, 2), FatTree.from_shape("2,2:2"), Dragonfly(1, 2, 1, 2)):
        arrays: list[AnyInt] = [network.port_peer, network.port_kind, network.port_offset]
        arrays += [network.endpoint_router, network.port_router, *network.routing.tables.values()]
        for array in arrays:
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 0


def test_a_topology_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Torus2D(2, 2).planes = 3  # type: ignore[misc]


def own_network(**changes: object) -> Topology:
    """Three switches in a row with one endpoint each, put together by hand."""
    wiring = Wiring(np.array([2, 3, 2]))
    wiring.hosts(np.arange(3), 0)
    wiring.link(np.array([0, 1]), np.array([1, 2]), np.array([1, 2]), np.array([1, 1]), LinkKind.LOCAL)
    fields: dict[str, object] = {
        "name": "own",
        **wiring.fields(),
        "bandwidth_bps": mesh_bandwidth_bps(),
        "planes": 1,
        "routing": RoutingSpec("own"),
        "cable": {LinkKind.HOST: Cable.DAC, LinkKind.LOCAL: Cable.DAC},
        "switch_group": np.zeros(3, dtype=np.int32),
        "accelerator_is_router": False,
    }
    return Topology(**{**fields, **changes})  # type: ignore[arg-type]


def changed(array: np.ndarray, at: list[int], values: list[int]) -> np.ndarray:
    copy = array.copy()
    copy[at] = values
    return copy


def test_a_user_can_build_a_network_of_their_own() -> None:
    network = own_network()
    check_wiring(network)
    assert network.num_links == 2
    assert network.structural_cuts() == {}


def test_check_wiring_names_the_port_at_fault() -> None:
    good = own_network()
    peer, kind = good.port_peer, good.port_kind
    # Ports: router 0 owns 0-1, router 1 owns 2-4, router 2 owns 5-6; links 1-3 and 4-6.
    broken = {
        "is its own peer": {"port_peer": changed(peer, [1, 3], [1, -1])},
        "linked elsewhere": {"port_peer": changed(peer, [1], [4])},
        "differ in link kind": {"port_kind": changed(kind, [1], [LinkKind.GLOBAL])},
        "has a peer that is no port": {"port_peer": changed(peer, [6], [99])},
        "has another kind": {"port_kind": changed(kind, [4, 6], [UNCONNECTED, UNCONNECTED])},
        "Port 0 of router 0 of own has two endpoints": {
            "endpoint_router": np.array([0, 0, 2], dtype=np.int32)
        },
        "host port without endpoint": {"port_kind": changed(kind, [0], [UNCONNECTED])},
        "has a kind but no cable": {"port_peer": changed(peer, [4, 6], [-1, -1])},
    }
    for message, change in broken.items():
        with pytest.raises(ConfigError, match=message):
            check_wiring(own_network(**change))


def test_check_wiring_finds_parts_that_cannot_be_reached() -> None:
    good = own_network()
    change = {
        "port_peer": changed(good.port_peer, [4, 6], [-1, -1]),
        "port_kind": changed(good.port_kind, [4, 6], [UNCONNECTED, UNCONNECTED]),
    }
    with pytest.raises(ConfigError, match="Router 2 of own cannot be reached"):
        check_wiring(own_network(**change))


def test_arrays_of_a_wrong_shape_are_refused() -> None:
    with pytest.raises(ConfigError, match="endpoint_port of own"):
        own_network(endpoint_port=np.zeros(2, dtype=np.int32))


def test_a_port_takes_one_cable() -> None:
    wiring = Wiring(np.array([2, 2]))
    wiring.hosts(np.array([0]), 0)
    with pytest.raises(ConfigError, match="two cables"):
        wiring.link(np.array([0]), 0, np.array([1]), 0, LinkKind.LOCAL)
    with pytest.raises(ConfigError, match="two cables"):
        Wiring(np.array([2, 2])).link(np.array([0, 0]), 0, np.array([1, 1]), np.arange(2), LinkKind.LOCAL)


def test_with_bandwidth_changes_speeds_and_nothing_else() -> None:
    network = Torus2D(4, 4)
    assert network.port_bandwidth_bps.max() == 1600 * 10**9
    faster = network.with_bandwidth({LinkKind.ROW: 800 * 10**9}, planes=2)
    assert isinstance(faster, Torus2D)
    assert (faster.planes, faster.bandwidth_bps[LinkKind.ROW]) == (2, 800 * 10**9)
    assert set(faster.port_bandwidth_bps[faster.port_kind == LinkKind.ROW]) == {800 * 10**9}
    assert (network.planes, network.bandwidth_bps[LinkKind.ROW]) == (4, 400 * 10**9)
    assert not faster.same_network(network)
    assert np.array_equal(faster.port_peer, network.port_peer)
    with pytest.raises(ConfigError, match="bandwidth_bps of ROW is 0"):
        network.with_bandwidth({LinkKind.ROW: 0})
    with pytest.raises(ConfigError, match="planes is 0"):
        network.with_bandwidth({}, planes=0)


def test_single_plane_splits_merged_planes_and_keeps_the_machine() -> None:
    merged = FatTree.from_shape("4,4:4")
    single = merged.single_plane()
    assert (merged.injection_bps, merged.planes) == (1600 * 10**9, 4)
    assert (single.injection_bps, single.planes) == (400 * 10**9, 16)
    assert merged.injection_bps * merged.planes == single.injection_bps * single.planes
    mesh = HxMesh(2, 2, 2, 2)
    assert mesh.single_plane().same_network(mesh)
