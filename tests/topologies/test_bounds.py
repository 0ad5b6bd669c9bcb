"""Upper bounds: never below the exact optimum, and above everything that was published."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topologies import ConfigError, Dragonfly, FatTree, HxMesh, HyperX2D, LinkKind, Topology, Torus2D, catalog
from topologies.bounds import allreduce_bound, alltoall_bound, max_concurrent_flow, routing_bound

SIDE = st.integers(1, 3)
TINY_NETWORKS = st.one_of(
    st.builds(HxMesh, SIDE, SIDE, SIDE, st.integers(2, 3), radix=st.sampled_from([4, 64])),
    st.builds(Torus2D, st.integers(2, 5), st.integers(2, 5)),
    st.builds(HyperX2D, st.integers(1, 4), st.integers(2, 4)),
    st.builds(Dragonfly, SIDE, SIDE, SIDE, st.integers(2, 4)),
    st.builds(FatTree.merlin, st.lists(st.tuples(SIDE, SIDE), min_size=1, max_size=2), st.integers(2, 3)),
    st.builds(FatTree.clos, st.integers(2, 20), radix=st.just(8), leaf_down=st.just(5), leaf_up=SIDE),
)


@given(TINY_NETWORKS)
@settings(max_examples=40, deadline=None)
def test_no_bound_is_below_the_exact_optimum(network: Topology) -> None:
    if network.num_endpoints < 2 or network.num_endpoints > 24:
        return
    optimum = max_concurrent_flow(network)
    for percent in alltoall_bound(network).percent_by_name.values():
        assert percent >= optimum * (1 - 1e-6)
    assert 0 < optimum <= 100 * (1 + 1e-9)


@pytest.mark.parametrize(
    ("network", "binding"),
    [
        (Torus2D(4, 4), "average distance"),
        (Torus2D(3, 5), "half of the rows"),
        (HxMesh(1, 1, 4, 4), "average distance"),
        (HxMesh(2, 2, 3, 3), "one board column"),
        (HxMesh(3, 3, 2, 2), "one board column"),
        (HxMesh(4, 1, 4, 1), "one board column"),
        (HxMesh(4, 4, 1, 1), "half of the accelerator columns"),
        (HyperX2D(4, 4), "average distance"),
        (Dragonfly(2, 4, 1, 4), "one group"),
        (Dragonfly(2, 4, 3, 4), "injection"),
        (FatTree.from_shape("4,2:4,2:4"), "one level-1 subtree"),
        (FatTree.clos(60, radix=8, leaf_down=4, leaf_up=4, levels=3), "injection"),
    ],
    ids=lambda value: value.name if isinstance(value, Topology) else "",
)
def test_the_least_bound_is_reached_by_some_routing(network: Topology, binding: str) -> None:
    bound = alltoall_bound(network)
    assert bound.percent == pytest.approx(max_concurrent_flow(network), rel=1e-6)
    assert bound.percent == bound.percent_by_name[bound.binding]
    assert bound.percent_by_name[binding] == pytest.approx(bound.percent)


@pytest.mark.parametrize(
    ("cluster", "name", "variant", "percent"),
    [
        ("small", "fattree", "as-simulated", 100),
        ("small", "fattree50", "as-simulated", 51.56),
        ("small", "fattree75", "as-simulated", 25.78),
        ("small", "fattree50", "as-costed", 54.51),
        ("small", "dragonfly", "as-simulated", 100),
        ("small", "hyperx", "as-simulated", 100),
        ("small", "hyperx", "as-costed", 51.56),
        ("small", "hx2mesh", "as-simulated", 26.64),
        ("small", "hx4mesh", "as-simulated", 14.27),
        ("small", "torus", "as-simulated", 6.24),
        ("large", "hyperx", "as-costed", 50.39),
        ("large", "hx2mesh", "as-simulated", 25.40),
        ("large", "hx4mesh", "as-simulated", 12.90),
        ("large", "torus", "as-simulated", 1.56),
    ],
)
def test_bounds_of_table_2(
    cluster: catalog.Cluster, name: str, variant: catalog.Variant, percent: float
) -> None:
    assert alltoall_bound(catalog.table2(name, cluster, variant)).percent == pytest.approx(percent, abs=0.005)


def test_an_hxmesh_is_bound_by_what_leaves_its_boards() -> None:
    """With x board columns, (N - N/x)/(N - 1) of the traffic leaves through the row links."""
    a, b, x, y = 3, 2, 5, 4
    n = a * b * x * y
    leaving = (n - n // x) / (n - 1)
    links_per_accelerator = 2 * x * b * y / n
    limit = alltoall_bound(HxMesh(a, b, x, y)).percent_by_name["one board column"]
    assert limit == pytest.approx(100 * links_per_accelerator * 400 / 1600 / leaving)


def test_published_bandwidths_are_below_the_bounds() -> None:
    with (Path(__file__).parents[2] / "analysis" / "published" / "table2.csv").open() as file:
        rows = list(csv.DictReader(file))
    small = [row for row in rows if row["cluster"] == "small"]
    assert len(small) == 8
    for row in small:
        network = catalog.table2(row["topology"])
        assert float(row["alltoall_percent_of_injection"]) <= alltoall_bound(network).percent
        assert float(row["allreduce_percent_of_peak"]) <= allreduce_bound(network).percent


@pytest.mark.parametrize("name", catalog.TABLE2_NAMES)
def test_allreduce_on_the_networks_of_table_2_is_bound_by_sending(name: str) -> None:
    network = catalog.table2(name)
    bound = allreduce_bound(network)
    n = network.num_endpoints
    assert bound.binding == "sending"
    assert bound.percent == pytest.approx(100 * n / (n - 1))


def test_allreduce_is_bound_by_the_links_of_accelerators_that_lack_some() -> None:
    """A row of 4 accelerators on one board: 1600 Gb/s host links, but 6 directed links of 400 Gb/s."""
    bound = allreduce_bound(HxMesh(4, 1, 1, 1))
    assert bound.percent_by_name["sending"] == pytest.approx(100 * 6 * 400 / (2 * 3) / 800)
    assert bound.percent_by_name["one accelerator"] == pytest.approx(100 * 400 / 800)
    assert bound.percent_by_name["half of the accelerator columns"] == pytest.approx(100 * 400 / 800)
    assert bound.percent == pytest.approx(50)


@pytest.mark.parametrize(
    ("network", "percent"),
    [
        # Every uplink carries 2 of the 4 accelerators of a leaf to the other 12.
        (FatTree.from_shape("4,2:4"), 100 * 15 / 24),
        (FatTree.clos(64, radix=16, leaf_down=8, leaf_up=8), 100),
        (FatTree.clos(96, radix=16, leaf_down=12, leaf_up=4), 100 * 95 / (3 * 84)),
        # A ring of 5 both ways: a link carries the 3 pairs that are one or two hops apart.
        (Torus2D(5, 2), 100 * 9 * 400 / 1600 / 6),
    ],
    ids=lambda value: value.name if isinstance(value, Topology) else "",
)
def test_bound_of_a_fixed_routing_by_hand(network: Topology, percent: float) -> None:
    assert routing_bound(network) == pytest.approx(percent)
    assert routing_bound(network) <= alltoall_bound(network).percent * (1 + 1e-9)


@pytest.mark.parametrize(("name", "pairs"), [("fattree50", 2520), ("fattree75", 5406)])
def test_uneven_leaves_lose_by_their_routing(name: str, pairs: int) -> None:
    """22 or 13 uplinks on 9 or 5 spines: 2 or 3 cables to each, which all carry the same traffic down."""
    network = catalog.table2(name, variant="as-costed")
    assert routing_bound(network) == pytest.approx(100 * (network.num_endpoints - 1) / pairs)


@pytest.mark.parametrize(
    "network", [HxMesh(2, 2, 2, 2), FatTree.clos(128, adaptive=True), Dragonfly(1, 2, 1, 3, algorithm="ugal")]
)
def test_a_routing_with_a_choice_has_no_fixed_bound(network: Topology) -> None:
    with pytest.raises(ConfigError, match="chooses between ports"):
        routing_bound(network)


def test_bounds_scale_with_the_links() -> None:
    network = Torus2D(4, 4)
    faster = network.with_bandwidth({kind: 800 * 10**9 for kind in LinkKind if kind is not LinkKind.HOST})
    assert alltoall_bound(faster).percent == pytest.approx(2 * alltoall_bound(network).percent)
    assert max_concurrent_flow(faster) == pytest.approx(2 * max_concurrent_flow(network))


def test_sizes_that_have_no_answer_are_refused() -> None:
    with pytest.raises(ConfigError, match="must be 2 to 128"):
        max_concurrent_flow(Torus2D(16, 16))
    with pytest.raises(ConfigError, match="must be 2 to 128"):
        max_concurrent_flow(FatTree.clos(1))
    with pytest.raises(ConfigError, match="at least 2"):
        allreduce_bound(FatTree.clos(1))
    with pytest.raises(ConfigError, match="at least 2"):
        alltoall_bound(FatTree.clos(1))
    with pytest.raises(ConfigError, match="at least 2"):
        routing_bound(FatTree.clos(1))
