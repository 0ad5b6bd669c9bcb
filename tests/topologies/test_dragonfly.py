"""Dragonfly: the default wiring of merlin.dragonfly, and machines that use every global port."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topologies import ConfigError, Dragonfly, LinkKind

COUNT = st.integers(1, 5)


def global_links_between_groups(network: Dragonfly) -> np.ndarray:
    """[g, g] cables between every two groups, counted on the wiring."""
    a, g = network.routing.params["a"], network.routing.params["g"]
    first, second = network.links()
    is_global = network.port_kind[first] == LinkKind.GLOBAL
    ends = [network.port_router[ports[is_global]] // a for ports in (first, second)]
    count = np.zeros((g, g), dtype=int)
    np.add.at(count, (ends[0], ends[1]), 1)
    return count + count.T


@given(COUNT, COUNT, COUNT, st.integers(2, 6))
@settings(max_examples=60, deadline=None)
def test_groups_fill_their_routers_with_rounds_over_the_other_groups(p: int, a: int, n: int, g: int) -> None:
    network = Dragonfly(p, a, n, g)
    per_group = n * (g - 1)
    h = -(-per_group // a)
    router, slot = [], []
    for position in range(a):
        held = h - 1 if position >= a - (h * a - per_group) else h
        router += [position] * held
        slot += list(range(held))
    for group in range(g):
        for i in range(per_group):
            d = i % (g - 1)
            other = d + (d >= group)
            back = i // (g - 1) * (g - 1) + (group - (group > other))
            near = network.port_offset[group * a + router[i]] + p + a - 1 + slot[i]
            far = network.port_offset[other * a + router[back]] + p + a - 1 + slot[back]
            assert network.port_peer[near] == far
            assert network.port_kind[near] == LinkKind.GLOBAL


@given(COUNT, COUNT, COUNT, st.integers(2, 4))
@settings(max_examples=30, deadline=None)
def test_hosts_and_local_ports(p: int, a: int, n: int, g: int) -> None:
    network = Dragonfly(p, a, n, g)
    assert np.array_equal(network.endpoint_router, np.arange(network.num_endpoints) // p)
    assert np.array_equal(network.endpoint_port, np.arange(network.num_endpoints) % p)
    for router in range(a):
        for other in set(range(a)) - {router}:
            near = network.port_offset[router] + p + other - (other > router)
            far = network.port_offset[other] + p + router - (router > other)
            assert network.port_peer[near] == far
            assert network.port_kind[near] == LinkKind.LOCAL


@given(
    st.one_of(
        st.builds(Dragonfly, COUNT, COUNT, COUNT, st.integers(2, 6)),
        st.builds(
            Dragonfly.with_global_ports, COUNT, st.integers(2, 5), st.integers(3, 5), st.integers(2, 7)
        ),
    )
)
@settings(max_examples=60, deadline=None)
def test_routing_tables_list_both_ends_of_every_cable(network: Dragonfly) -> None:
    tables, a, g = network.routing.tables, network.routing.params["a"], network.routing.params["g"]
    offset = tables["group_link_offset"]
    between = global_links_between_groups(network)

    def port(group: int, index: int) -> int:
        router = group * a + tables["group_link_router"][index]
        return int(network.port_offset[router] + tables["group_link_port"][index])

    for group in range(g):
        for other in range(g):
            start, end = offset[group * g + other], offset[group * g + other + 1]
            assert end - start == between[group, other]
            for slice_number in range(end - start):
                far = port(other, offset[other * g + group] + slice_number)
                assert network.port_peer[port(group, start + slice_number)] == far


@given(COUNT, st.integers(1, 6), st.integers(1, 6), st.integers(2, 8))
@settings(max_examples=80, deadline=None)
def test_all_global_ports_are_used_and_spread_evenly(p: int, a: int, h: int, g: int) -> None:
    if a * h < g - 1:
        with pytest.raises(ConfigError, match="global ports per group of a Dragonfly is"):
            Dragonfly.with_global_ports(p, a, h, g)
        return
    network = Dragonfly.with_global_ports(p, a, h, g)
    between = global_links_between_groups(network)
    pairs = between[~np.eye(g, dtype=bool)]
    assert pairs.sum() // 2 == g * a * h // 2
    assert pairs.max() - pairs.min() <= 1
    used = between.sum(axis=1)
    assert used.max() == a * h
    assert (used < a * h).sum() == g * a * h % 2


def test_published_machines() -> None:
    small = Dragonfly(8, 16, 18, 8)
    assert (small.num_endpoints, small.num_routers) == (1024, 128)
    assert set(global_links_between_groups(small)[0, 1:]) == {18}
    assert small.connected_ports[:16].tolist() == [31] * 14 + [30] * 2
    costed = Dragonfly.with_global_ports(8, 16, 8, 8)
    assert global_links_between_groups(costed).sum() // 2 == 512
    assert set(costed.connected_ports) == {31}
    large = Dragonfly.with_global_ports(17, 32, 16, 30)
    assert global_links_between_groups(large).sum() // 2 == 7680
    assert set(large.connected_ports) == {64}


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((0, 4, 1, 3), "hosts per router of a Dragonfly is 0"),
        ((1, 0, 1, 3), "routers per group of a Dragonfly is 0"),
        ((1, 4, 0, 3), "links between two groups of a Dragonfly is 0"),
        ((1, 4, 1, 1), "groups of a Dragonfly is 1 but must be an integer of at least 2"),
    ],
)
def test_impossible_shapes_are_refused(shape: tuple[int, int, int, int], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Dragonfly(*shape)


def test_an_algorithm_is_handed_to_the_routing() -> None:
    minimal, ugal = Dragonfly(1, 2, 1, 3), Dragonfly.with_global_ports(1, 2, 1, 3, algorithm="ugal")
    assert (minimal.routing.params["ugal"], ugal.routing.params["ugal"]) == (0, 1)
    with pytest.raises(ConfigError, match="did you mean 'ugal'"):
        Dragonfly(1, 2, 1, 3, algorithm="ugla")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="balanced of a Dragonfly with UGAL is True but must be false"):
        Dragonfly(1, 2, 1, 3, balanced=True, algorithm="ugal")


def test_extra_links_join_two_different_groups() -> None:
    with pytest.raises(ConfigError, match="extra_links"):
        Dragonfly(1, 4, 1, 3, extra_links=((1, 1),))
    with pytest.raises(ConfigError, match="two different groups below 3"):
        Dragonfly(1, 4, 1, 3, extra_links=((0, 3),))
