"""FatTree: Merlin's shapes, priced trees, and the tables that routing reads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topologies import ConfigError, FatTree, LinkKind

SHAPES = st.builds(
    FatTree.merlin,
    st.lists(st.tuples(st.integers(1, 4), st.integers(1, 3)), min_size=1, max_size=3),
    st.integers(1, 4),
)


def three_levels(leaves: int, leaf_up: int, short: int) -> FatTree:
    """Radix 16, pods of 8 leaves of 4 accelerators; the last leaf lacks `short`."""
    return FatTree.clos(4 * leaves - short, radix=16, leaf_down=4, leaf_up=leaf_up, levels=3)


def two_levels(leaf_down: int, leaf_up: int, leaves: int) -> FatTree:
    return FatTree.clos(leaf_down * leaves, radix=16, leaf_down=leaf_down, leaf_up=leaf_up)


PRICED = st.one_of(
    st.builds(two_levels, st.integers(1, 8), st.integers(1, 8), st.integers(1, 16)),
    st.builds(three_levels, st.integers(1, 128), st.integers(1, 8), st.integers(0, 3)),
)


def peer(network: FatTree, router: int, port: int) -> tuple[int, int]:
    there = int(network.port_peer[network.port_offset[router] + port])
    owner = int(network.port_router[there])
    return owner, there - int(network.port_offset[owner])


def test_shape_in_merlins_notation() -> None:
    network = FatTree.from_shape("32,16:32")
    assert (network.num_endpoints, network.num_routers) == (1024, 48)
    for leaf in range(32):
        for uplink in range(16):
            assert peer(network, leaf, 32 + uplink) == (32 + uplink, leaf)
    assert network.routing.tables["level_divisor"].tolist() == [1, 32]
    assert network.same_network(FatTree.merlin([(32, 16)], top=32))


def test_three_levels_as_merlin_wires_them() -> None:
    """ "2,2:3,2:2": 6 leaves in 2 groups of 3, 2 middle switches a group, 4 tops."""
    network = FatTree.from_shape("2,2:3,2:2")
    assert (network.num_endpoints, network.num_routers) == (12, 6 + 4 + 4)
    for leaf in range(6):
        for uplink in range(2):
            assert peer(network, leaf, 2 + uplink) == (6 + leaf // 3 * 2 + uplink, leaf % 3)
    for group in range(2):
        for middle in range(2):
            for uplink in range(2):
                assert peer(network, 6 + 2 * group + middle, 3 + uplink) == (10 + 2 * uplink + middle, group)
    assert network.routing.tables["level_divisor"].tolist() == [1, 2, 6]


@given(SHAPES)
@settings(max_examples=50, deadline=None)
def test_merlin_links_every_switch_and_parent_once(network: FatTree) -> None:
    assert network.adjacency().data.max() == 1


@given(st.one_of(SHAPES, PRICED))
@settings(max_examples=120, deadline=None)
def test_tables_describe_the_wiring(network: FatTree) -> None:
    tables = network.routing.tables
    level, first, last = tables["level"], tables["first_leaf"], tables["last_leaf"]
    d0 = network.routing.params["d0"]
    assert np.array_equal(network.endpoint_router, np.arange(network.num_endpoints) // d0)
    assert np.array_equal(network.endpoint_port, np.arange(network.num_endpoints) % d0)
    for switch in range(network.num_routers):
        down, up = int(tables["down_ports"][switch]), int(tables["up_ports"][switch])
        assert down + up == network.port_offset[switch + 1] - network.port_offset[switch]
        start = tables["up_switch_offset"][switch]
        for u in range(up):
            above, _ = peer(network, switch, down + u)
            assert above == tables["up_switch"][start + u]
            assert level[above] == level[switch] + 1
            assert first[above] <= first[switch] <= last[switch] <= last[above]
        children = range(tables["child_offset"][switch], tables["child_offset"][switch + 1])
        if level[switch] == 0:
            assert len(children) == 0
            assert first[switch] == last[switch] == switch
            continue
        port = 0
        for number, child in enumerate(children):
            assert tables["child_first_port"][child] == port
            below = [peer(network, switch, port + k)[0] for k in range(tables["child_count"][child])]
            low = first[switch] + number * tables["child_span"][switch]
            for switch_below in below:
                assert low == first[switch_below]
                assert last[switch_below] < low + tables["child_span"][switch]
            assert below == sorted(below)
            port += len(below)
        assert port == down


@given(PRICED)
@settings(max_examples=80, deadline=None)
def test_priced_trees_fit_their_radix_and_reach_everything(network: FatTree) -> None:
    assert network.connected_ports.max() <= 16
    tables = network.routing.tables
    leaves = int(np.count_nonzero(tables["level"] == 0))

    def reaches(switch: int, leaf: int) -> bool:
        if not tables["first_leaf"][switch] <= leaf <= tables["last_leaf"][switch]:
            start, end = tables["up_switch_offset"][switch : switch + 2]
            return any(reaches(int(above), leaf) for above in set(tables["up_switch"][start:end]))
        if tables["level"][switch] == 0:
            return True
        child = (leaf - tables["first_leaf"][switch]) // tables["child_span"][switch]
        return bool(tables["child_count"][tables["child_offset"][switch] + child] > 0)

    for switch in np.flatnonzero(tables["level"] < network.routing.params["levels"] - 1):
        assert reaches(int(switch), 0)
        assert reaches(int(switch), leaves - 1)


@pytest.mark.parametrize(
    ("network", "per_level"),
    [
        (FatTree.clos(1024), [32, 16]),
        (FatTree.clos(1050, leaf_down=42, leaf_up=22), [25, 9]),
        (FatTree.clos(1071, leaf_down=51, leaf_up=13), [21, 5]),
        (FatTree.clos(16384, levels=3), [512, 512, 256]),
        (FatTree.clos(16422, leaf_down=42, leaf_up=22, levels=3), [391, 269, 135]),
        (FatTree.clos(16422, leaf_down=51, leaf_up=13, levels=3), [322, 131, 66]),
    ],
    ids=lambda value: value.name if isinstance(value, FatTree) else "",
)
def test_priced_machines_of_the_article(network: FatTree, per_level: list[int]) -> None:
    assert np.bincount(network.routing.tables["level"]).tolist() == per_level
    assert network.connected_ports.max() <= 64


def test_uplinks_go_round_the_spines() -> None:
    network = FatTree.clos(30, radix=8, leaf_down=5, leaf_up=3)
    spines = [peer(network, leaf, 5 + u)[0] - 6 for leaf in range(6) for u in range(3)]
    assert spines == [k % 3 for k in range(18)]


def test_a_last_leaf_may_be_partly_filled() -> None:
    network = FatTree.clos(33)
    assert network.router_endpoints.tolist() == [32, 1, 0]
    assert network.connected_ports.tolist() == [64, 33, 64]


def test_adaptive_is_handed_to_the_routing() -> None:
    assert FatTree.from_shape("2,2:2").routing.params["adaptive"] == 0
    assert FatTree.from_shape("2,2:2", adaptive=True).routing.params["adaptive"] == 1
    assert FatTree.clos(4, adaptive=True).routing.params["adaptive"] == 1


def test_only_the_host_and_uplink_kinds_occur() -> None:
    kinds = np.unique(FatTree.clos(1024).port_kind)
    assert kinds.tolist() == [LinkKind.HOST, LinkKind.UPLINK]


@pytest.mark.parametrize("shape", ["32", "32,32", "32,32:", "a,b:c", "32,32:32,32", ""])
def test_other_texts_are_no_shape(shape: str) -> None:
    with pytest.raises(ConfigError, match="shape of a fat tree is"):
        FatTree.from_shape(shape)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"endpoints": 0}, "endpoints of a fat tree is 0"),
        ({"radix": 7}, "radix of a fat tree is 7 but must be even"),
        ({"leaf_down": 40}, "leaf_down . leaf_up of a fat tree is 72 but must be at most its radix 64"),
        ({"leaf_up": 0}, "leaf_up of a fat tree is 0"),
        ({"levels": 4}, "levels of a fat tree is 4 but must be 2 or 3"),
        ({"endpoints": 3000}, "must be at most 2048 for 2 levels"),
        ({"endpoints": 3000, "leaf_down": 20, "leaf_up": 40, "levels": 3}, "leaf_up of a fat tree is 40"),
    ],
)
def test_impossible_trees_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        FatTree.clos(**{"endpoints": 64, **arguments})


def test_empty_levels_are_refused() -> None:
    with pytest.raises(ConfigError, match="levels of a fat tree below its top is 0"):
        FatTree.merlin([], top=4)
    with pytest.raises(ConfigError, match="up ports of level 0"):
        FatTree.merlin([(4, 0)], top=4)
