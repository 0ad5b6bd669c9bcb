"""Distances and cuts, against breadth-first search on the exported graph and against closed forms."""

from __future__ import annotations

import networkx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topologies import ConfigError, Dragonfly, FatTree, HxMesh, HyperX2D, Topology, Torus2D, catalog
from topologies.metrics import (
    average_distance_hops,
    cut_bandwidth_bps,
    diameter_hops,
    relative_cut_width,
    router_hops,
    switch_diameter_hops,
)

SIDE = st.integers(1, 4)
SMALL_NETWORKS = st.one_of(
    st.builds(HxMesh, SIDE, SIDE, st.integers(1, 6), st.integers(2, 6), radix=st.sampled_from([6, 8, 64])),
    st.builds(Torus2D, st.integers(2, 6), st.integers(2, 6)),
    st.builds(HyperX2D, SIDE, st.integers(2, 5)),
    st.builds(Dragonfly, SIDE, SIDE, st.integers(1, 3), st.integers(2, 4)),
    st.builds(FatTree.merlin, st.lists(st.tuples(SIDE, SIDE), min_size=1, max_size=2), st.integers(2, 3)),
    st.builds(
        FatTree.clos,
        st.integers(2, 60),
        radix=st.just(8),
        leaf_down=st.just(4),
        leaf_up=st.integers(2, 4),
        levels=st.just(3),
    ),
)


def searched_distances(network: Topology) -> np.ndarray:
    """[N, N] distances in the exported graph."""
    graph = network.to_networkx()
    lengths = dict(networkx.all_pairs_shortest_path_length(graph))
    ranks = range(network.num_endpoints)
    return np.array([[lengths[f"a{one}"][f"a{other}"] for other in ranks] for one in ranks])


@given(SMALL_NETWORKS)
@settings(max_examples=60, deadline=None)
def test_diameter_and_average_are_those_of_a_search_over_all_pairs(network: Topology) -> None:
    n = network.num_endpoints
    if n < 2:
        return
    distances = searched_distances(network)
    assert diameter_hops(network) == distances.max()
    assert average_distance_hops(network) == pytest.approx(distances.sum() / (n * (n - 1)))


@given(st.integers(1, 7), st.integers(2, 12), st.integers(2, 12), st.sampled_from([12, 64]))
@settings(max_examples=60, deadline=None)
def test_diameter_of_hxmeshes_with_square_boards(a: int, x: int, y: int, radix: int) -> None:
    """4*floor((a-1)/2) + 2*L_row + 2*L_col hops."""
    network = HxMesh(a, a, x, y, radix=radix)
    row, column = network.line_levels
    assert diameter_hops(network) == 4 * ((a - 1) // 2) + 2 * row + 2 * column


@given(st.integers(2, 40), st.integers(2, 40))
@settings(max_examples=30, deadline=None)
def test_diameter_of_tori(columns: int, rows: int) -> None:
    assert diameter_hops(Torus2D(columns, rows)) == columns // 2 + rows // 2


@pytest.mark.parametrize(
    ("cluster", "name", "hops"),
    [
        ("small", "fattree", 4),
        ("small", "fattree50", 4),
        ("small", "fattree75", 4),
        ("small", "hyperx", 4),
        ("small", "hx2mesh", 4),
        ("small", "hx4mesh", 8),
        ("small", "torus", 32),
        ("large", "fattree", 6),
        ("large", "fattree50", 6),
        ("large", "fattree75", 6),
        ("large", "dragonfly", 5),
        ("large", "hyperx", 8),
        ("large", "hx2mesh", 8),
        ("large", "hx4mesh", 8),
        ("large", "torus", 128),
    ],
)
def test_published_diameters(cluster: catalog.Cluster, name: str, hops: int) -> None:
    assert diameter_hops(catalog.table2(name, cluster, "as-costed")) == hops


def test_switch_to_switch_diameters_leave_out_host_cables() -> None:
    dragonfly = catalog.table2("dragonfly", "large")
    assert (switch_diameter_hops(dragonfly), diameter_hops(dragonfly)) == (3, 5)
    # At 18 cables to each group, every one of the 16 routers has one of them.
    small = catalog.table2("dragonfly", "small")
    assert (switch_diameter_hops(small), diameter_hops(small)) == (2, 4)
    mesh = catalog.table2("hx4mesh")
    assert switch_diameter_hops(mesh) == diameter_hops(mesh) == 8


def test_average_of_a_torus_in_closed_form() -> None:
    """A ring of even size n has mean distance n/4 over all pairs, the own one included."""
    n = 32 * 32
    assert average_distance_hops(Torus2D(32, 32)) == pytest.approx((32 / 4 + 32 / 4) * n / (n - 1))


def test_average_of_a_sample_is_near_the_exact_one_and_repeatable() -> None:
    network = Dragonfly(2, 6, 1, 5)
    exact = average_distance_hops(network)
    sampled = average_distance_hops(network, max_sources=12, seed=3)
    assert sampled == pytest.approx(exact, rel=0.05)
    assert sampled == average_distance_hops(network, max_sources=12, seed=3)
    assert average_distance_hops(network, max_sources=10**6) == exact
    with pytest.raises(ConfigError, match="max_sources is 0"):
        average_distance_hops(network, max_sources=0)


def test_one_accelerator_has_no_average_distance() -> None:
    with pytest.raises(ConfigError, match="at least 2"):
        average_distance_hops(FatTree.clos(1))


def test_router_hops_from_some_sources() -> None:
    hops = router_hops(Torus2D(5, 2), np.array([0, 7]))
    assert hops.tolist() == [[0, 1, 2, 2, 1, 1, 2, 3, 3, 2], [3, 2, 1, 2, 3, 2, 1, 0, 1, 2]]


@given(SMALL_NETWORKS, st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None)
def test_a_cut_carries_as_much_both_ways_and_what_crosses_it(network: Topology, random: object) -> None:
    rng = np.random.default_rng(random.randrange(2**32))  # type: ignore[attr-defined]
    side = rng.random(network.num_routers) < 0.5
    crossing = 0
    for first, second in zip(*network.links(), strict=True):
        if side[network.port_router[first]] != side[network.port_router[second]]:
            crossing += int(network.port_bandwidth_bps[first])
    assert cut_bandwidth_bps(network, side) == cut_bandwidth_bps(network, ~side) == crossing


@given(st.integers(1, 5), st.integers(1, 5), st.integers(2, 9), st.integers(2, 9))
@settings(max_examples=40, deadline=None)
def test_relative_cut_width_of_an_hxmesh_depends_on_the_boards_only(a: int, b: int, x: int, y: int) -> None:
    assert relative_cut_width(HxMesh(a, b, x, y, radix=8)) == pytest.approx(1 / (2 * max(a, b)))


def test_relative_cut_widths_in_closed_form() -> None:
    assert relative_cut_width(Torus2D(32, 32)) == pytest.approx(2 * 2 * 400 / (32 * 1600))
    assert relative_cut_width(HyperX2D(32, 32)) == pytest.approx(16 * 400 / 1600)
    assert relative_cut_width(FatTree.from_shape("32,16:32")) == pytest.approx(1 / 2)
    assert relative_cut_width(catalog.table2("fattree75", "large", "as-costed")) == pytest.approx(13 / 51)
    assert relative_cut_width(Dragonfly(8, 16, 18, 8)) == pytest.approx(4 * 18 / 128)


@given(SMALL_NETWORKS)
@settings(max_examples=60, deadline=None)
def test_structural_cuts_have_accelerators_on_both_sides(network: Topology) -> None:
    for side in network.structural_cuts().values():
        assert side.shape == (network.num_routers,)
        assert 0 < network.router_endpoints[side].sum() < network.num_endpoints


def test_a_mask_is_a_mask_of_all_routers() -> None:
    with pytest.raises(ConfigError, match=r"side of a cut is bool of shape \(3,\) but must be bool\[4\]"):
        cut_bandwidth_bps(Torus2D(2, 2), np.zeros(3, dtype=bool))
    with pytest.raises(ConfigError, match="without accelerators"):
        relative_cut_width(Torus2D(2, 2), np.zeros(4, dtype=bool))


def test_a_network_without_named_cuts_needs_one_given() -> None:
    single_leaf = FatTree.clos(4)
    with pytest.raises(ConfigError, match="needs a cut"):
        relative_cut_width(single_leaf)
