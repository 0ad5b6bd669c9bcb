"""HxMesh: numbering, boards and line networks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topologies import ConfigError, HxMesh, LinkKind, Topology, check_wiring
from topologies.bounds import alltoall_bound
from topologies.metrics import diameter_hops

SIDE = st.integers(1, 5)
Port = tuple[int, int]


def links(network: Topology) -> dict[frozenset[Port], LinkKind]:
    """All links as pairs of (router, port)."""

    def local(port: int) -> Port:
        router = int(network.port_router[port])
        return router, port - int(network.port_offset[router])

    return {
        frozenset((local(a), local(b))): LinkKind(network.port_kind[a])
        for a, b in zip(*network.links(), strict=True)
    }


def expected_links(a: int, b: int, x: int, y: int, radix: int) -> dict[frozenset[Port], LinkKind]:
    """The same, one by one from coordinates."""

    def rank(gx: int, gy: int) -> int:
        return ((gy // b * x + gx // a) * b + gy % b) * a + gx % a

    found: dict[frozenset[Port], LinkKind] = {}
    north, east, south, west = range(4)
    for gy in range(b * y):
        for gx in range(a * x):
            if gx % a < a - 1:
                found[frozenset(((rank(gx, gy), east), (rank(gx + 1, gy), west)))] = LinkKind.BOARD
            if gy % b < b - 1:
                found[frozenset(((rank(gx, gy), south), (rank(gx, gy + 1), north)))] = LinkKind.BOARD
    router = a * b * x * y
    half = radix // 2
    for boards, lines, kind in ((x, b * y, LinkKind.ROW), (y, a * x, LinkKind.COLUMN)):
        if boards == 1:
            continue
        leaves = spines = 0
        if 2 * boards > radix:
            leaves = (2 * boards + half - 1) // half
            spines = (leaves * half + radix - 1) // radix
            while leaves * ((half + spines - 1) // spines) > radix:
                spines += 1
        for line in range(lines):
            for board in range(boards):
                for side in range(2):
                    q = 2 * board + side
                    switch = (router + q // half, q % half) if spines else (router, q)
                    if kind == LinkKind.ROW:
                        accelerator = (rank(board * a + side * (a - 1), line), east if side else west)
                    else:
                        accelerator = (rank(line, board * b + side * (b - 1)), south if side else north)
                    found[frozenset((accelerator, switch))] = kind
            for leaf in range(leaves):
                for u in range(half):
                    spine_port = leaf * ((half + spines - 1) // spines) + u // spines
                    upper = (router + leaves + u % spines, spine_port)
                    found[frozenset(((router + leaf, half + u), upper))] = LinkKind.UPLINK
            router += leaves + spines if spines else 1
    return found


@given(SIDE, SIDE, st.integers(1, 8), st.integers(2, 8), st.sampled_from([6, 8, 10, 12, 64]))
@settings(max_examples=80, deadline=None)
def test_wiring_is_the_one_given_by_coordinates(a: int, b: int, x: int, y: int, radix: int) -> None:
    assert links(HxMesh(a, b, x, y, radix=radix)) == expected_links(a, b, x, y, radix)


@given(SIDE, SIDE, st.integers(1, 18), st.integers(2, 18), st.sampled_from([10, 12, 14, 64]))
@settings(max_examples=60, deadline=None)
def test_no_line_switch_has_more_ports_than_its_radix(a: int, b: int, x: int, y: int, radix: int) -> None:
    network = HxMesh(a, b, x, y, radix=radix)
    switches = network.switch_group >= 0
    assert network.connected_ports[switches].max() <= radix
    assert np.diff(network.port_offset)[switches].max() <= radix
    assert set(np.diff(network.port_offset)[~switches]) == {5}


@pytest.mark.parametrize("boards", [33, 64, 96, 150, 160, 352, 1024])
def test_lines_of_64_port_switches_fit_at_every_length(boards: int) -> None:
    network = HxMesh(1, 1, boards, 1)
    assert network.connected_ports[boards:].max() <= 64
    assert network.line_levels == (2, 0)


def test_ranks_go_board_by_board() -> None:
    network = HxMesh(2, 2, 2, 1)
    assert network.grid == (2, 4)
    assert network.grid_endpoint is not None
    assert network.grid_endpoint.tolist() == [[0, 1, 4, 5], [2, 3, 6, 7]]


def test_two_by_two_boards_of_two_by_two_in_full() -> None:
    """16 accelerators, one switch for each of 4 rows and 4 columns with 4 ports."""
    network = HxMesh(2, 2, 2, 2)
    assert (network.num_endpoints, network.num_routers, network.num_links) == (16, 24, 48)
    kinds = np.bincount(network.port_kind, minlength=7)[:5] // np.array([1, 2, 2, 2, 2])
    assert kinds.tolist() == [16, 16, 16, 16, 0]
    assert set(network.connected_ports[:16]) == {5}
    assert set(network.connected_ports[16:]) == {4}


@given(SIDE, SIDE, st.integers(2, 6), st.integers(2, 6))
@settings(max_examples=40, deadline=None)
def test_every_accelerator_uses_all_ports_where_there_are_lines_both_ways(
    a: int, b: int, x: int, y: int
) -> None:
    network = HxMesh(a, b, x, y)
    assert set(network.connected_ports[: network.num_endpoints]) == {5}


@pytest.mark.parametrize("b", [1, 3])
def test_one_board_row_leaves_the_north_and_south_edges_unconnected(b: int) -> None:
    network = HxMesh(2, b, 4, 1)
    assert network.num_routers == network.num_endpoints + b
    assert not np.any(network.port_kind == LinkKind.COLUMN)
    north = network.port_peer[network.port_offset[:2]]
    assert north.tolist() == [-1, -1]


def test_published_line_networks() -> None:
    assert HxMesh(2, 2, 16, 16).line_levels == (1, 1)
    assert HxMesh(4, 4, 32, 32).line_levels == (1, 1)
    large = HxMesh(2, 2, 64, 64)
    assert large.line_levels == (2, 2)
    assert large.num_routers - large.num_endpoints == 256 * 6
    assert large.board == (2, 2)
    assert large.boards == (64, 64)


def test_from_grid_cuts_the_grid_into_boards() -> None:
    network = HxMesh.from_grid(48, 32, (4, 2))
    assert (network.board, network.boards, network.grid) == ((4, 2), (12, 16), (32, 48))
    assert network.same_network(HxMesh(4, 2, 12, 16))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"a": 0}, "a of an HxMesh is 0 but must be an integer of at least 1"),
        ({"y": -1}, "y of an HxMesh is -1"),
        ({"b": 2.0}, "b of an HxMesh is 2.0"),
        ({"x": True}, "x of an HxMesh is True"),
        ({"radix": 2}, "radix of an HxMesh is 2"),
        ({"radix": 9}, "radix of an HxMesh is 9 but must be even"),
        ({"a": 1, "b": 1, "x": 1, "y": 1}, "at least 2"),
        ({"x": 17, "radix": 8}, "x of an HxMesh is 17 but must be at most 16"),
    ],
)
def test_impossible_shapes_are_refused(arguments: dict[str, int], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        HxMesh(**{"a": 2, "b": 2, "x": 2, "y": 2, **arguments})  # type: ignore[arg-type]


def test_boards_that_do_not_divide_the_grid_are_refused() -> None:
    with pytest.raises(ConfigError, match="rows of the grid is 30 but must be a multiple of 4"):
        HxMesh.from_grid(32, 30, (4, 4))
    with pytest.raises(ConfigError, match="board side is 0"):
        HxMesh.from_grid(32, 32, (0, 4))


@given(SIDE, SIDE, st.integers(1, 5), st.integers(2, 5), st.sampled_from([6, 8, 64]), st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_failed_boards_are_left_out_and_nothing_else(
    a: int, b: int, x: int, y: int, radix: int, seed: int
) -> None:
    """The wiring of what works is that of the whole network."""
    rng = np.random.default_rng(seed)
    chosen = rng.permutation(x * y)[: rng.integers(1, max(2, x * y // 3))].tolist()
    failed = [(board % x, board // x) for board in chosen]
    try:
        network = HxMesh(a, b, x, y, radix=radix, failed_boards=failed)
    except ConfigError as error:
        assert "lines apart" in str(error) or "working accelerators" in str(error)  # noqa: PT017
        return
    whole = HxMesh(a, b, x, y, radix=radix)
    assert network.failed_boards == tuple(sorted(failed, key=lambda board: board[::-1]))
    assert network.num_endpoints == whole.num_endpoints - a * b * len(failed)
    # Routers of the whole network that are left, in order.
    kept = whole.endpoint_at[network.endpoint_at >= 0]
    renumbered = dict(zip(sorted(kept.tolist()), range(len(kept)), strict=True))
    for switch in range(whole.num_endpoints, whole.num_routers):
        renumbered[switch] = switch - a * b * len(failed)
    expected = {
        frozenset((renumbered[router], port) for router, port in ends): kind
        for ends, kind in links(whole).items()
        if all(router in renumbered for router, _ in ends)
    }
    assert links(network) == expected
    assert network.endpoint_at.shape == whole.endpoint_at.shape
    assert sorted(network.endpoint_at[network.endpoint_at >= 0].tolist()) == list(range(len(kept)))


def test_a_network_with_failed_boards_has_no_grid_but_distances_and_bounds() -> None:
    network = HxMesh(2, 2, 4, 4, failed_boards=[(0, 0), (1, 1)])
    assert network.name == "HxMesh of 4x4 boards of 2x2, 2 failed"
    assert network.grid is None
    assert network.axis_hops() is None
    check_wiring(network)
    # From (1, 0) to (0, 1), both corners gone: three lines of two hops and, in the middle boards, a hop each.
    assert diameter_hops(network) > diameter_hops(HxMesh(2, 2, 4, 4))
    assert alltoall_bound(network).percent <= 100


@pytest.mark.parametrize(
    ("failed", "message"),
    [
        ([(4, 0)], r"a failed board of an HxMesh is \(4, 0\) but must be one of \(0, 0\) to \(3, 3\)"),
        ([(0, 0), (0, 0)], "named once"),
        ([(0, 0, 3)], r"is \(0, 0, 3\) but must be \(column, row\) of a board: boards fail as a whole"),
        (
            [(c, r) for r in range(4) for c in range(4) if (c < 2) != (r < 2)],
            "more than three lines apart but must be at most three",
        ),
        ([(c, r) for r in range(4) for c in range(4)], "working accelerators of an HxMesh is 0"),
    ],
)
def test_failures_outside_of_the_model_are_refused(failed: list[tuple[int, int]], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        HxMesh(2, 2, 4, 4, failed_boards=failed)
