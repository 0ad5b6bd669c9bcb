"""Networks for other tools: networkx graphs and GraphML files."""

from __future__ import annotations

from pathlib import Path

import networkx
import numpy as np

from topologies.base import Cable, LinkKind, Topology


def to_networkx(topology: Topology) -> networkx.MultiGraph[str]:
    """The network as a multigraph with one edge per cable or trace.

    Nodes: accelerators "a<rank>", switches "s<router>"; an accelerator that forwards packets is one node.
    Node attributes: type ("accelerator" or "switch"), rank and, in grids, row and column of accelerators.
    Edge attributes: kind (lower case), bandwidth_bps, cable.
    """
    graph: networkx.MultiGraph[str] = networkx.MultiGraph(name=topology.name)
    is_accelerator = topology.switch_group < 0
    node_of_router = [f"s{router}" for router in range(topology.num_routers)]
    for rank, router in enumerate(topology.endpoint_router.tolist()):
        if is_accelerator[router]:
            node_of_router[router] = f"a{rank}"
    for rank in range(topology.num_endpoints):
        graph.add_node(f"a{rank}", type="accelerator", rank=rank)
    for router in np.flatnonzero(~is_accelerator).tolist():
        graph.add_node(node_of_router[router], type="switch")
    if topology.grid_endpoint is not None:
        for (row, column), endpoint in np.ndenumerate(topology.grid_endpoint):
            graph.nodes[f"a{endpoint}"].update(row=row, column=column)

    attributes = {
        kind: {
            "kind": kind.name.lower(),
            "bandwidth_bps": topology.bandwidth_bps[kind],
            "cable": str(topology.cable.get(kind, Cable.NONE)),
        }
        for kind in topology.bandwidth_bps
    }
    for rank, router in enumerate(topology.endpoint_router.tolist()):
        if not is_accelerator[router]:
            graph.add_edge(f"a{rank}", node_of_router[router], **attributes[LinkKind.HOST])
    first, second = topology.links()
    ends = topology.port_router[first], topology.port_router[second]
    for here, there, kind in zip(*ends, topology.port_kind[first], strict=True):
        graph.add_edge(node_of_router[here], node_of_router[there], **attributes[LinkKind(kind)])
    return graph


def write_graphml(topology: Topology, path: str | Path) -> None:
    """Write `to_networkx(topology)` as a GraphML file."""
    networkx.write_graphml(to_networkx(topology), path)
