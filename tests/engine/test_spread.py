"""Which links traffic takes: adaptive routing spreads it, deterministic routing does not."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import pytest

import engine
from engine import NetworkParams
from motifs import ArraySchedule, ShiftSchedule, parse_goal
from topologies import FatTree, HxMesh, LinkKind, Topology, Torus2D

PACKET = 1024


def params(buffer_packets: int = 8) -> NetworkParams:
    size = buffer_packets * PACKET
    return NetworkParams(
        packet_bytes=PACKET,
        flit_bytes=64,
        input_buffer_bytes=size,
        output_buffer_bytes=size,
        crossbar_bps=0,
        message_header_bytes=0,
    )


def link_table(
    topology: Topology, schedule: ArraySchedule | ShiftSchedule, network: NetworkParams | None = None
) -> pd.DataFrame:
    result = engine.run(topology, schedule, network or params(), links=True)
    assert result.status == "complete", result.message
    assert result.links is not None
    return result.links


def sends(ranks: int, pairs: list[tuple[int, int]], packets: int) -> ArraySchedule:
    """One long message for each pair."""
    size = packets * PACKET
    lines = [f"num_ranks {ranks}"]
    for rank in range(ranks):
        lines.append(f"rank {rank} {{")
        lines += [f"send {size}b to {target}" for source, target in pairs if source == rank]
        lines += [f"recv {size}b from {source}" for source, target in pairs if target == rank]
        lines.append("}")
    return parse_goal("\n".join(lines))


def uplinks(links: pd.DataFrame, leaf: int, down: int) -> list[int]:
    """Packets on each uplink of a leaf."""
    up = links[(links.router == leaf) & (links.port >= down)]
    return [int(packets) for packets in up.sort_values("port").packets]


def test_a_deterministic_fat_tree_takes_one_uplink_for_each_destination() -> None:
    tree = FatTree.merlin([(4, 4)], top=3)
    many_to_one = sends(12, [(rank, 6) for rank in range(4)], packets=40)
    assert uplinks(link_table(tree, many_to_one), leaf=0, down=4) == [0, 0, 160, 0]
    each_its_own = sends(12, [(rank, 4 + rank) for rank in range(4)], packets=40)
    assert uplinks(link_table(tree, each_its_own), leaf=0, down=4) == [40, 40, 40, 40]
    two_modulo_four = sends(12, [(0, 5), (1, 9)], packets=40)
    assert uplinks(link_table(tree, two_modulo_four), leaf=0, down=4) == [0, 80, 0, 0]


def test_an_adaptive_fat_tree_takes_all_uplinks_when_one_fills_up() -> None:
    tree = FatTree.merlin([(4, 4)], top=3, adaptive=True)
    many_to_one = sends(12, [(rank, 6) for rank in range(4)], packets=40)
    used = uplinks(link_table(tree, many_to_one), leaf=0, down=4)
    assert sum(used) == 160
    assert min(used) > 0
    # All to one leaf, but to one host each: still more than the one uplink of each destination.
    collide = sends(12, [(rank, 4 * (1 + rank % 2) + 1) for rank in range(4)], packets=40)
    assert min(uplinks(link_table(tree, collide), leaf=0, down=4)) > 0


def test_an_adaptive_fat_tree_keeps_to_the_deterministic_uplink_while_that_has_room() -> None:
    tree = FatTree.merlin([(4, 4)], top=3, adaptive=True)
    many_to_one = sends(12, [(rank, 6) for rank in range(4)], packets=40)
    links = link_table(tree, many_to_one, params(buffer_packets=1_000))
    assert uplinks(links, leaf=0, down=4) == [0, 0, 160, 0]


def one_packet_each(delays_ps: list[int], size: int) -> ArraySchedule:
    """Ranks 0, 1, ... send to rank 6, each when it has computed for so long."""
    text = ["num_ranks 12"]
    for rank, delay in enumerate(delays_ps):
        text.append(f"rank {rank} {{\na: calc {delay}\nb: send {size}b to 6\nb requires a\n}}")
    received = "\n".join(f"recv {size}b from {rank}" for rank in range(len(delays_ps)))
    return parse_goal("\n".join([*text, f"rank 6 {{\n{received}\n}}"]), calc_unit_ps=1)


@pytest.mark.parametrize(
    ("late_ps", "used", "behind"), [(0, [0, 0, 4, 0], 3), (1, [1, 0, 3, 0], 2), (2, [1, 0, 3, 0], 2)]
)
def test_packets_that_arrive_together_choose_by_the_same_credits(
    bare: Callable[..., NetworkParams], late_ps: int, used: list[int], behind: int
) -> None:
    # Queues hold two packets. Of four together the first goes onto the link, two into the queue and the last
    # waits for room: none has seen another. One that is later sees a queue with less than half free.
    tree = FatTree.merlin([(4, 4)], top=3, adaptive=True)
    result = engine.run(
        tree,
        one_packet_each([0, 0, 0, late_ps], PACKET),
        bare(output_buffer_bytes=2 * PACKET, bandwidth_bps={"uplink": 400 * 10**9}),
        links=True,
    )
    assert result.links is not None
    assert uplinks(result.links, leaf=0, down=4) == used
    # Packets take 20.48 ns on an uplink; two of them, host links and three routers with delays of `bare`.
    assert result.ranks.end_ps[6] == 2 * 31_000 + 2 * 41_000 + 3 * 10_000 + behind * 20_480


@pytest.mark.parametrize("apart_ps", [-1, 0, 1])
def test_a_queue_that_a_packet_came_to_and_left_at_once_is_no_better_than_an_empty_one(
    bare: Callable[..., NetworkParams], apart_ps: int
) -> None:
    # Uplink 0 is crowded; each time that it ends a packet a packet of rank 6 or 7 chooses. Uplink 3
    # has two packets until twice the time of a packet, when its third comes.
    packet_ps = 20_480
    messages = [
        *((0, rank, 11, PACKET) for rank in (0, 1)),
        *((0, rank, 8, PACKET) for rank in (2, 3, 4, 5)),
        *((0, rank, 8, 2 * PACKET) for rank in (6, 7)),
        (2 * packet_ps + apart_ps, 0, 11, PACKET),
    ]
    lines: list[list[str]] = [[] for _ in range(12)]
    for tag, (delay, source, target, size) in enumerate(messages):
        lines[source] += [f"a{tag}: calc {delay}", f"s{tag}: send {size}b to {target} tag {tag}"]
        lines[source].append(f"s{tag} requires a{tag}")
        lines[target].append(f"recv {size}b from {source} tag {tag}")
    ranks = [f"rank {rank} {{\n" + "\n".join(own) + "\n}" for rank, own in enumerate(lines)]
    result = engine.run(
        FatTree.merlin([(8, 4)], top=3, adaptive=True),
        parse_goal("\n".join(["num_ranks 12", *ranks]), calc_unit_ps=1),
        bare(output_buffer_bytes=3 * PACKET, bandwidth_bps={"uplink": 400 * 10**9}),
        links=True,
    )
    assert result.links is not None
    assert uplinks(result.links, leaf=0, down=8) == [6, 2, 0, 3]


@pytest.mark.parametrize(("packet_flits", "used"), [(17, [0, 0, 3, 0]), (18, [1, 0, 2, 0])])
def test_half_a_queue_of_an_odd_number_of_flits_is_rounded_down(
    bare: Callable[..., NetworkParams], packet_flits: int, used: list[int]
) -> None:
    # One after the other: onto the link, into the queue of 33 flits, and a third that sees 16 or 15 free.
    size = packet_flits * 64
    tree = FatTree.merlin([(4, 4)], top=3, adaptive=True)
    result = engine.run(
        tree,
        one_packet_each([0, 1, 2], size),
        bare(packet_bytes=size, output_buffer_bytes=33 * 64),
        links=True,
    )
    assert result.links is not None
    assert uplinks(result.links, leaf=0, down=4) == used


def test_an_hxmesh_with_line_trees_takes_all_uplinks_to_one_leaf() -> None:
    # One accelerator to a board, two boards to a leaf, and as many uplinks as cables: four.
    mesh = HxMesh(1, 1, 16, 1, radix=8)
    first_leaf, packets = 16, 200
    links = link_table(mesh, sends(16, [(0, 8), (1, 9)], packets))
    for rank, end in ((0, "router"), (1, "router"), (8, "peer_router"), (9, "peer_router")):
        cables = links[(links[end] == rank) & (links.router >= 0) & (links.peer_router >= 0)]
        assert len(cables) == 4 // 2
        assert cables.packets.sum() == packets
        assert (cables.packets > 0).all()
    used = uplinks(links, first_leaf, down=4)
    assert sum(used) == 2 * packets
    assert min(used) > 0


def test_an_hxmesh_line_turns_within_a_leaf_where_it_can() -> None:
    mesh = HxMesh(1, 1, 16, 1, radix=8)
    links = link_table(mesh, sends(16, [(0, 1)], packets=200))
    assert links[links.kind == LinkKind.UPLINK].packets.sum() == 0


def test_an_hxmesh_board_sends_to_another_board_through_both_dimensions() -> None:
    # Both edges of the corner are as near, and the target is in the same column of its board.
    mesh = HxMesh(2, 2, 2, 2)
    links = link_table(mesh, sends(16, [(0, 14)], packets=200))
    own = links[(links.router == 0) & (links.peer_router >= 0)]
    by_kind = own.groupby("kind").packets.sum()
    assert by_kind[LinkKind.ROW] + by_kind[LinkKind.COLUMN] == 200
    assert by_kind[LinkKind.ROW] > 0
    assert by_kind[LinkKind.COLUMN] > 0


def direction_loads(topology: Topology) -> list[int]:
    """Flits on all links out of the ports +x, -x, +y, -y in an alltoall."""
    links = link_table(topology, ShiftSchedule(topology.num_endpoints, 4 * PACKET))
    between = links[(links.router >= 0) & (links.peer_router >= 0)]
    return [int(flits) for flits in between.groupby("port").flits.sum()]


@pytest.mark.parametrize(("columns", "rows"), [(4, 4), (6, 4), (2, 4)])
def test_a_torus_goes_the_positive_way_when_both_are_as_far_unless_balanced(columns: int, rows: int) -> None:
    ranks, flits = columns * rows, 4 * 16
    for balanced in (False, True):
        plus_x, minus_x, plus_y, minus_y = direction_loads(Torus2D(columns, rows, balanced=balanced))
        for plus, minus, size in ((plus_x, minus_x, columns), (plus_y, minus_y, rows)):
            # Each rank sends to every place of a ring of `size` once for each such ring; the far side is
            # size/2 hops away on either way.
            rings = columns * rows // size
            near = sum(range(1, size // 2)) * rings * ranks * flits
            far = size // 2 * rings * ranks * flits
            assert (plus, minus) == ((near + far // 2,) * 2 if balanced else (near + far, near))


def test_a_torus_of_odd_sides_loads_both_ways_alike() -> None:
    plus_x, minus_x, plus_y, minus_y = direction_loads(Torus2D(5, 3))
    assert plus_x == minus_x
    assert plus_y == minus_y
    assert plus_x > plus_y > 0


def test_no_uplink_of_a_balanced_ring_is_busier_than_another() -> None:
    for balanced, distinct in ((True, 1), (False, 2)):
        links = link_table(
            Torus2D(4, 4, balanced=balanced), ShiftSchedule(16, PACKET), params(buffer_packets=100)
        )
        between = links[(links.router >= 0) & (links.peer_router >= 0)]
        assert between.packets.nunique() == distinct, f"balanced {balanced}"
