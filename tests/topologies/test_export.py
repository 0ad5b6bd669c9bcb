"""Graphs for other tools."""

from __future__ import annotations

from pathlib import Path

import networkx

from topologies import FatTree, HxMesh, Torus2D
from topologies.export import to_networkx, write_graphml


def test_accelerators_of_a_mesh_are_nodes_that_forward() -> None:
    network = HxMesh(2, 2, 2, 2)
    graph = to_networkx(network)
    types = networkx.get_node_attributes(graph, "type")
    assert list(types.values()).count("accelerator") == 16
    assert list(types.values()).count("switch") == 8
    assert graph.number_of_edges() == network.num_links
    assert graph.nodes["a4"] == {"type": "accelerator", "rank": 4, "row": 0, "column": 2}
    edge = graph.get_edge_data("a0", "a1")[0]
    assert edge == {"kind": "board", "bandwidth_bps": 400 * 10**9, "cable": "pcb"}
    assert {data["kind"] for *_, data in graph.edges("s16", data=True)} == {"row"}


def test_accelerators_of_a_switched_network_hang_on_host_cables() -> None:
    network = FatTree.clos(8, radix=8, leaf_down=4, leaf_up=4)
    graph = to_networkx(network)
    assert graph.number_of_nodes() == 8 + 3
    assert graph.number_of_edges() == 8 + network.num_links
    assert graph.get_edge_data("a5", "s1")[0]["cable"] == "dac"
    # Every uplink of both leaves goes to the only spine, each as an edge of its own.
    assert graph.number_of_edges("s0", "s2") == 4


def test_parallel_links_stay_apart() -> None:
    assert to_networkx(Torus2D(2, 3)).number_of_edges("a0", "a1") == 2


def test_method_and_function_give_the_same_graph() -> None:
    network = Torus2D(3, 3)
    assert networkx.utils.graphs_equal(network.to_networkx(), to_networkx(network))


def test_graphml_can_be_read_back(tmp_path: Path) -> None:
    network = HxMesh(2, 1, 3, 1)
    path = tmp_path / "network.graphml"
    write_graphml(network, path)
    graph = networkx.read_graphml(path)
    original = to_networkx(network)
    assert list(graph.nodes(data=True)) == list(original.nodes(data=True))
    assert sorted(map(sorted, graph.edges())) == sorted(map(sorted, original.edges()))
    kinds = sorted(data["kind"] for *_, data in graph.edges(data=True))
    assert kinds == ["board"] * 3 + ["row"] * 6
