"""The C++ routing functions on the wiring that Python builds: every route arrives, and none can deadlock."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from topologies import Dragonfly, FatTree, HxMesh, HyperX2D, LinkKind, Topology, Torus2D
from topologies._routing import Routing
from topologies.deadlock import channel_cycle, channel_dependencies, route_steps, routing_of
from topologies.errors import ConfigError
from topologies.metrics import diameter_hops, router_hops

MANY_FAILED = [(1, 1), (2, 1), (2, 2), (4, 2), (0, 3), (1, 3), (3, 3), (0, 4), (1, 4), (3, 4), (4, 4)]

NETWORKS: dict[str, Callable[[], Topology]] = {
    "hx1mesh 4x4": lambda: HxMesh(1, 1, 4, 4),
    "hx2mesh 4x4": lambda: HxMesh(2, 2, 4, 4),
    "hx2mesh 3x5": lambda: HxMesh(2, 2, 3, 5),
    "hx4mesh 2x2": lambda: HxMesh(4, 4, 2, 2),
    "hx3mesh 2x3": lambda: HxMesh(3, 3, 2, 3),
    "hx5mesh 2x1": lambda: HxMesh(5, 5, 2, 1),
    "boards 4x2": lambda: HxMesh(4, 2, 2, 3),
    "boards 2x3": lambda: HxMesh(2, 3, 3, 2),
    "boards 1x4": lambda: HxMesh(1, 4, 3, 2),
    "hx1mesh 1x7": lambda: HxMesh(1, 1, 1, 7),
    "hx1mesh 6x1": lambda: HxMesh(1, 1, 6, 1),
    "one row": lambda: HxMesh(2, 2, 6, 1),
    "one column": lambda: HxMesh(3, 2, 1, 4),
    "one board": lambda: HxMesh(3, 4, 1, 1),
    "line trees, radix 4": lambda: HxMesh(2, 2, 3, 4, radix=4),
    "line trees, radix 8": lambda: HxMesh(1, 1, 7, 5, radix=8),
    "line trees, odd": lambda: HxMesh(1, 2, 13, 2, radix=8),
    "line trees, one column": lambda: HxMesh(2, 2, 1, 4, radix=4),
    "line trees, one row of long boards": lambda: HxMesh(4, 1, 9, 1, radix=8),
    # radix/2 odd: some boards have their edges on two leaves.
    "split boards, one column": lambda: HxMesh(1, 2, 1, 11, radix=10),
    "split boards, one row": lambda: HxMesh(2, 1, 11, 1, radix=10),
    "split boards, 1x1": lambda: HxMesh(1, 1, 9, 4, radix=6),
    "split boards, 2x2": lambda: HxMesh(2, 2, 4, 4, radix=6),
    "split boards, 3x2": lambda: HxMesh(3, 2, 5, 4, radix=6),
    "split boards, 5x5": lambda: HxMesh(5, 5, 4, 1, radix=6),
    # Failed boards: one corner gone, both corners gone (a detour of three lines), most boards gone.
    "hx2mesh 4x4, 1 failed": lambda: HxMesh(2, 2, 4, 4, failed_boards=[(1, 2)]),
    "hx2mesh 4x4, detours": lambda: HxMesh(2, 2, 4, 4, failed_boards=[(0, 0), (1, 1), (3, 2)]),
    "hx3mesh 3x3, detours": lambda: HxMesh(3, 3, 3, 3, failed_boards=[(0, 0), (1, 1)]),
    "hx1mesh 5x5, 11 failed": lambda: HxMesh(1, 1, 5, 5, failed_boards=MANY_FAILED),
    "hx4mesh 3x2, failed": lambda: HxMesh(4, 4, 3, 2, failed_boards=[(2, 0)]),
    "boards 2x3, detours": lambda: HxMesh(2, 3, 3, 3, failed_boards=[(0, 1), (1, 0)]),
    "a whole row failed": lambda: HxMesh(2, 2, 3, 3, failed_boards=[(0, 1), (1, 1), (2, 1)]),
    "line trees, failed": lambda: HxMesh(2, 2, 4, 4, radix=4, failed_boards=[(0, 0), (1, 1), (2, 3)]),
    "split boards, failed": lambda: HxMesh(2, 2, 4, 4, radix=6, failed_boards=[(0, 0), (1, 1), (2, 3)]),
    "one row, failed": lambda: HxMesh(3, 2, 5, 1, failed_boards=[(2, 0)]),
    "one column, failed": lambda: HxMesh(2, 3, 1, 6, failed_boards=[(0, 1), (0, 4)]),
    "torus 2x2": lambda: Torus2D(2, 2),
    "torus 7x2 balanced": lambda: Torus2D(7, 2, balanced=True),
    "torus 4x4": lambda: Torus2D(4, 4),
    "torus 5x3": lambda: Torus2D(5, 3),
    "torus 2x6": lambda: Torus2D(2, 6),
    "torus 6x6 balanced": lambda: Torus2D(6, 6, balanced=True),
    "hyperx 1x5": lambda: HyperX2D(1, 5),
    "hyperx 6x1": lambda: HyperX2D(6, 1),
    "hyperx 4x5": lambda: HyperX2D(4, 5),
    "dragonfly": lambda: Dragonfly(2, 4, 2, 5),
    "dragonfly, two groups": lambda: Dragonfly(2, 3, 2, 2),
    "dragonfly, groups of one": lambda: Dragonfly(2, 1, 2, 4),
    "dragonfly, uneven": lambda: Dragonfly.with_global_ports(1, 3, 3, 5),
    "dragonfly, extra links": lambda: Dragonfly(2, 3, 2, 4, extra_links=((0, 1), (2, 3))),
    "dragonfly balanced": lambda: Dragonfly(2, 3, 3, 4, balanced=True),
    "dragonfly, ugal": lambda: Dragonfly(2, 4, 2, 5, algorithm="ugal"),
    "dragonfly, ugal, both cables of a slice at a router": lambda: Dragonfly(1, 2, 3, 4, algorithm="ugal"),
    "dragonfly, ugal, uneven": lambda: Dragonfly.with_global_ports(1, 3, 3, 5, algorithm="ugal"),
    "dragonfly, ugal, two groups": lambda: Dragonfly(2, 3, 2, 2, algorithm="ugal"),
    "dragonfly, ugal, groups of one": lambda: Dragonfly(2, 1, 2, 4, algorithm="ugal"),
    "dragonfly, ugal, extra links": lambda: Dragonfly(
        2, 3, 2, 4, extra_links=((0, 1), (2, 3)), algorithm="ugal"
    ),
    "one switch": lambda: FatTree.merlin([(6, 1)], top=1),
    "fat tree": lambda: FatTree.merlin([(4, 4)], top=4),
    "fat tree, tapered": lambda: FatTree.merlin([(4, 2)], top=4),
    "fat tree, adaptive": lambda: FatTree.merlin([(4, 4)], top=4, adaptive=True),
    "fat tree, tapered, adaptive": lambda: FatTree.merlin([(4, 2)], top=4, adaptive=True),
    "fat tree, three levels": lambda: FatTree.merlin([(2, 2), (3, 3)], top=4),
    "fat tree, three levels, adaptive": lambda: FatTree.merlin([(2, 2), (3, 3)], top=4, adaptive=True),
    "clos": lambda: FatTree.clos(40, radix=8, leaf_down=4, leaf_up=4, levels=3),
    "clos, adaptive": lambda: FatTree.clos(40, radix=8, leaf_down=4, leaf_up=4, levels=3, adaptive=True),
    "clos, tapered, adaptive": lambda: FatTree.clos(
        33, radix=8, leaf_down=5, leaf_up=3, levels=2, adaptive=True
    ),
    "clos, tapered": lambda: FatTree.clos(33, radix=8, leaf_down=5, leaf_up=3, levels=2),
    "clos, three tapered levels": lambda: FatTree.clos(70, radix=8, leaf_down=5, leaf_up=3, levels=3),
}


LARGER_NETWORKS: dict[str, Callable[[], Topology]] = {
    "hx1mesh 12x12": lambda: HxMesh(1, 1, 12, 12),
    "hx2mesh 6x7": lambda: HxMesh(2, 2, 6, 7),
    "hx4mesh 3x3": lambda: HxMesh(4, 4, 3, 3),
    "line trees, 7x5": lambda: HxMesh(2, 2, 7, 5, radix=8),
    "failed boards": lambda: HxMesh(2, 2, 6, 6, failed_boards=[(0, 0), (1, 1), (5, 2), (3, 3)]),
    "torus 12x11": lambda: Torus2D(12, 11),
    "torus 12x12 balanced": lambda: Torus2D(12, 12, balanced=True),
    "hyperx 12x12": lambda: HyperX2D(12, 12),
    "dragonfly": lambda: Dragonfly(3, 6, 3, 7, balanced=True),
    "dragonfly, ugal": lambda: Dragonfly(2, 4, 2, 7, algorithm="ugal"),
    "fat tree, adaptive": lambda: FatTree.merlin([(8, 8)], top=16, adaptive=True),
    "clos, uneven": lambda: FatTree.clos(150, radix=16, leaf_down=11, leaf_up=5, adaptive=True),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_every_route_arrives_and_channels_cannot_wait_in_a_circle(name: str) -> None:
    assert channel_cycle(NETWORKS[name]()) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGER_NETWORKS)
def test_channels_cannot_wait_in_a_circle_in_larger_networks(name: str) -> None:
    assert channel_cycle(LARGER_NETWORKS[name]()) == []


class WithoutLastChannel:
    """A routing that uses the channel before its last one in place of that: circles of channels close."""

    def __init__(self, routing: Routing) -> None:
        self._routing = routing
        self.num_vcs = routing.num_vcs

    def candidates(
        self, router: int, in_port: int, in_vc: int, src: int, dst: int, state: int = 0
    ) -> list[tuple[int, int, int]]:
        found = self._routing.candidates(router, in_port, in_vc, src, dst, state)
        return [(port, min(vc, self.num_vcs - 2), noted) for port, vc, noted in found]


@pytest.mark.parametrize("name", ["torus 4x4", "dragonfly", "dragonfly, ugal"])
def test_the_cycle_test_catches_a_broken_routing(name: str) -> None:
    topology = NETWORKS[name]()
    broken = WithoutLastChannel(routing_of(topology))
    cycle = channel_cycle(topology, broken)
    assert len(cycle) == len(set(cycle)) > 1
    # It is a circle: each is held by a packet that may ask for the next.
    depends = channel_dependencies(topology, broken)
    assert set(zip(cycle, [*cycle[1:], cycle[0]], strict=True)) <= depends


class Wrong:
    """The routing of a torus with one mistake, made at router 1."""

    num_vcs = 2

    def __init__(self, topology: Topology, change: Callable[[int, int], list[tuple[int, int]]]) -> None:
        self._routing = routing_of(topology)
        self._change = change

    def candidates(
        self, router: int, in_port: int, in_vc: int, src: int, dst: int, state: int = 0
    ) -> list[tuple[int, int, int]]:
        [(port, vc, noted)] = self._routing.candidates(router, in_port, in_vc, src, dst, state)
        return [(p, v, noted) for p, v in (self._change(port, vc) if router == 1 else [(port, vc)])]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda port, vc: [], "has no way on"),
        (lambda port, vc: [(5, vc)], "names port 5, which has no cable"),
        (lambda port, vc: [(port, 2)], "names channel 2 but must stay below 2"),
        (lambda port, vc: [(4, vc)], "leaves by port 4, to another accelerator"),
    ],
)
def test_routes_that_do_not_arrive_are_named(
    change: Callable[[int, int], list[tuple[int, int]]], message: str
) -> None:
    topology = Torus2D(4, 3)
    pattern = f"the routing of {topology.name} from [0-9]+ to [0-9]+, at router 1, {message}"
    with pytest.raises(ConfigError, match=pattern):
        channel_cycle(topology, Wrong(topology, change))


@pytest.mark.parametrize(("name", "channels"), [("dragonfly", 2), ("dragonfly, ugal", 3)])
def test_a_dragonfly_has_the_channels_of_merlin(name: str, channels: int) -> None:
    """merlin/topology/dragonfly.cc: "minimal" has 2 of each virtual network, "ugal" 3."""
    assert routing_of(NETWORKS[name]()).num_vcs == channels


@pytest.mark.parametrize("name", [name for name in NETWORKS if "ugal" in name])
def test_ugal_takes_every_cable_between_two_groups_and_every_way_round(name: str) -> None:
    topology = NETWORKS[name]()
    p, a = topology.routing.params["p"], topology.routing.params["a"]
    routing, group = routing_of(topology), topology.port_router // a
    is_global = topology.port_kind == LinkKind.GLOBAL
    for src, dst in ((0, topology.num_endpoints - 1), (topology.num_endpoints - 1, 0)):
        taken = {out for _, (out, _), _ in route_steps(topology, routing, src, dst) if is_global[out]}
        first, last = src // (a * p), dst // (a * p)
        for out in np.flatnonzero(is_global).tolist():
            # Straight from the first group to the last, or into any group between and out of it.
            near, far = group[out], group[topology.port_peer[out]]
            on_a_way = (near == first or far == last) and near != last and far != first
            assert (out in taken) == on_a_way
    if a > 1:
        local = {
            out for _, (out, _), _ in route_steps(topology, routing, 0, p) if topology.port_peer[out] >= 0
        }
        assert {int(topology.port_router[topology.port_peer[out]]) for out in local} == set(range(1, a))


@pytest.mark.parametrize(
    ("name", "detour"),
    [
        ("torus 5x3", 0),
        ("hyperx 4x5", 0),
        ("fat tree", 0),
        ("hx1mesh 4x4", 0),
        ("hx2mesh 4x4", 0),
        # North last: a packet that may not leave northwards yet cannot go round through a row's switch later.
        ("hx4mesh 2x2", 1),
        ("split boards, one column", 0),
        ("split boards, 1x1", 0),
        ("split boards, 2x2", 0),
        ("split boards, 3x2", 0),
        ("split boards, 5x5", 0),
    ],
)
def test_shortest_routes(name: str, detour: int) -> None:
    """Where the routing is minimal, the fewest hops it can take are those of the network."""
    topology = NETWORKS[name]()
    routing = routing_of(topology)
    for src in range(0, topology.num_endpoints, 3):
        fewest = router_hops(topology, np.array([topology.endpoint_router[src]]))[0]
        for dst in range(topology.num_endpoints):
            if src == dst:
                continue
            last = [
                hops
                for _, (out, _), hops in route_steps(topology, routing, src, dst)
                if topology.port_peer[out] < 0
            ]
            excess = min(last) - fewest[topology.endpoint_router[dst]]
            assert 0 <= excess <= detour


def longest_route(topology: Topology, routing: Routing, src: int, dst: int) -> int:
    """Hops of the longest way that the routing allows from router to router."""
    offset, peer = topology.port_offset, topology.port_peer
    known: dict[tuple[int, int, int], int] = {}

    def rest(router: int, in_port: int, in_vc: int) -> int:
        at = (router, in_port, in_vc)
        if at not in known:
            known[at] = 0
            for port, vc, _ in routing.candidates(*at, src, dst):
                other = int(peer[offset[router] + port])
                if other >= 0:
                    there = int(topology.port_router[other])
                    known[at] = max(known[at], 1 + rest(there, int(other - offset[there]), vc))
        return known[at]

    return rest(int(topology.endpoint_router[src]), int(topology.endpoint_port[src]), 0)


@pytest.mark.parametrize(
    "name",
    [name for name in NETWORKS if ("split" in name or "line trees" in name) and "failed" not in name],
)
def test_no_route_over_line_trees_is_longer_than_the_diameter(name: str) -> None:
    topology = NETWORKS[name]()
    routing = routing_of(topology)
    diameter = diameter_hops(topology)
    n = topology.num_endpoints
    for src in range(0, n, 1 + n // 40):
        assert max(longest_route(topology, routing, src, dst) for dst in range(n) if dst != src) <= diameter


@pytest.mark.parametrize(("leaf_down", "leaf_up", "leaves"), [(8, 8, 8), (12, 4, 8), (11, 5, 8), (7, 6, 5)])
def test_parallel_cables_share_what_goes_from_leaf_to_leaf(leaf_down: int, leaf_up: int, leaves: int) -> None:
    """Also where the two leaves have different numbers of cables to a spine, as in the last two trees."""
    network = FatTree.clos(leaf_down * leaves, radix=16, leaf_down=leaf_down, leaf_up=leaf_up)
    routing = routing_of(network)
    uplinks = np.flatnonzero(network.port_kind == LinkKind.UPLINK).tolist()
    for src in range(0, network.num_endpoints, leaf_down):
        for leaf in set(range(leaves)) - {src // leaf_down}:
            used = dict.fromkeys(uplinks, 0)
            for dst in range(leaf * leaf_down, (leaf + 1) * leaf_down):
                for _, (out, _), _ in route_steps(network, routing, src, dst):
                    if out in used:
                        used[out] += 1
            for spine in range(leaves, network.num_routers):
                ports = range(network.port_offset[spine], network.port_offset[spine + 1])
                down = [used[out] for out in ports if network.port_router[network.port_peer[out]] == leaf]
                assert max(down) - min(down) <= 1


def test_routing_names_what_is_missing() -> None:
    with pytest.raises(ValueError, match="unknown routing family ring"):
        Routing("ring", {}, {})
    with pytest.raises(ValueError, match="needs parameter balanced"):
        Routing("torus", {"size0": 3, "size1": 3}, {})
    with pytest.raises(ValueError, match="needs table level"):
        Routing("fattree", {"d0": 3, "adaptive": 0}, {})


@pytest.mark.parametrize("name", [name for name in NETWORKS if "fail" in name or "detours" in name])
def test_routes_around_failed_boards_take_three_lines_at_most(name: str) -> None:
    """And a fourth channel only where both boards at the corners have failed."""
    network = NETWORKS[name]()
    assert isinstance(network, HxMesh)
    routing = routing_of(network)
    assert routing.num_vcs == 4
    a, b = network.board
    grid, failed = network.endpoint_at, set(network.failed_boards)
    board = {int(e): (c // a, r // b) for (r, c), e in np.ndenumerate(grid) if e >= 0}
    assert set(board.values()).isdisjoint(failed)
    line = (network.port_kind == LinkKind.ROW) | (network.port_kind == LinkKind.COLUMN)
    detours = 0
    for src in range(network.num_endpoints):
        for dst in range(network.num_endpoints):
            if src == dst:
                continue
            (column, row), (last_column, last_row) = board[src], board[dst]
            corners = {(column, last_row), (last_column, row)}
            turns = column != last_column and row != last_row
            leaves = {vc for _, (out, vc), _ in route_steps(network, routing, src, dst) if line[out]}
            lines = 3 if turns and corners <= failed else 2
            assert max(leaves, default=0) <= lines
            detours += turns and corners <= failed
    assert (detours > 0) == (name in WITH_DETOURS)


WITH_DETOURS = {
    "hx2mesh 4x4, detours",
    "hx3mesh 3x3, detours",
    "hx1mesh 5x5, 11 failed",
    "boards 2x3, detours",
    "line trees, failed",
    "split boards, failed",
}


def test_routing_refuses_boards_too_far_apart() -> None:
    params = {"a": 1, "b": 1, "x": 2, "y": 2, "radix": 64}
    with pytest.raises(ValueError, match="boards 0 and 3 are more than three lines apart"):
        Routing("hxmesh-failed", params, {"failed": [1, 2]})
    with pytest.raises(ValueError, match="there is no board 4 that could fail"):
        Routing("hxmesh-failed", params, {"failed": [4]})
