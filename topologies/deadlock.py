"""Whether packets can wait for each other in a circle: channel dependencies of a network's routing.

With credit-based flow control a packet holds the channel that it came by, (link, virtual channel), until it
gets the next one. A routing cannot deadlock if no chain of "held by a packet that may ask for" comes back to
its start (Dally and Seitz, 1987). All functions enumerate the routing function (topologies/include/hxmesh):
seconds for all pairs of 100 accelerators, growing with the pairs and with the choices on the way.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import networkx as nx
import numpy as np
import numpy.typing as npt

from topologies._routing import Routing
from topologies.base import UNCONNECTED, Topology
from topologies.errors import ConfigError

__all__ = ["Channel", "RoutingFunction", "channel_cycle", "channel_dependencies", "route_steps", "routing_of"]


class Channel(NamedTuple):
    """A virtual channel of the link behind an output port, which is numbered as in `Topology.port_peer`."""

    out: int
    vc: int


class RoutingFunction(Protocol):
    """What is asked of a routing: `topologies._routing.Routing`, or another one in its place."""

    @property
    def num_vcs(self) -> int:
        """Virtual channels of a link."""

    def candidates(
        self, router: int, in_port: int, in_vc: int, src: int, dst: int, state: int = 0
    ) -> list[tuple[int, int, int]]:
        """(port, virtual channel, state) that a packet may take."""


def routing_of(topology: Topology) -> Routing:
    """The C++ routing function that `topology` names."""
    spec = topology.routing
    return Routing(spec.family, spec.params, {name: table.tolist() for name, table in spec.tables.items()})


def route_steps(
    topology: Topology, routing: RoutingFunction, src: int, dst: int
) -> Iterator[tuple[Channel | None, Channel, int]]:
    """Every (channel held, channel asked for, routers passed before) that a packet from `src` to `dst` can
    come to; at its first router it holds none.

    Raises ConfigError, naming the router, for a routing that ends on the way, names ports or channels that
    are not there, leaves at another accelerator or may pass more routers than there are.
    """
    offset, peer = topology.port_offset, topology.port_peer
    host_out = int(offset[topology.endpoint_router[dst]] + topology.endpoint_port[dst])
    first = (int(topology.endpoint_router[src]), int(topology.endpoint_port[src]), 0, 0)
    todo: list[tuple[tuple[int, int, int, int], Channel | None, int]] = [(first, None, 0)]
    seen = set()
    while todo:
        at, held, hops = todo.pop()
        where = f"the routing of {topology.name} from {src} to {dst}, at router {at[0]},"
        if hops > topology.num_routers:
            raise ConfigError(f"{where} goes in circles.")
        found = routing.candidates(*at[:3], src, dst, at[3])
        if not found:
            raise ConfigError(f"{where} has no way on.")
        for port, vc, noted in found:
            out = int(offset[at[0]]) + port
            if out >= offset[at[0] + 1] or topology.port_kind[out] == UNCONNECTED:
                raise ConfigError(f"{where} names port {port}, which has no cable.")
            if vc >= routing.num_vcs:
                raise ConfigError(f"{where} names channel {vc} but must stay below {routing.num_vcs}.")
            asked = Channel(out, vc)
            yield held, asked, hops
            if peer[out] < 0:
                if out != host_out:
                    raise ConfigError(f"{where} leaves by port {port}, to another accelerator.")
                continue
            there = int(topology.port_router[peer[out]])
            state = (there, int(peer[out] - offset[there]), vc, noted)
            if (state, asked) not in seen:
                seen.add((state, asked))
                todo.append((state, asked, hops + 1))


def channel_dependencies(
    topology: Topology, routing: RoutingFunction | None = None, pairs: npt.ArrayLike | None = None
) -> set[tuple[Channel, Channel]]:
    """All (channel held, channel asked for meanwhile) of `routing`, by default the topology's own.

    pairs: int[n, 2], source and destination of the packets looked at; default: all pairs of accelerators.

    Raises ConfigError as :func:`route_steps` does.
    """
    routing = routing or routing_of(topology)
    n = topology.num_endpoints
    every = np.argwhere(~np.eye(n, dtype=bool)) if pairs is None else np.asarray(pairs)
    return {
        (held, asked)
        for src, dst in every.tolist()
        for held, asked, _ in route_steps(topology, routing, src, dst)
        if held is not None
    }


def channel_cycle(
    topology: Topology, routing: RoutingFunction | None = None, pairs: npt.ArrayLike | None = None
) -> list[Channel]:
    """Channels that can wait for each other in a circle, each for the next, the last one for the first; none
    where there is no circle: then the routing cannot deadlock. Arguments as in :func:`channel_dependencies`.

    Raises ConfigError as :func:`route_steps` does.
    """
    graph = nx.DiGraph(channel_dependencies(topology, routing, pairs))
    for component in nx.strongly_connected_components(graph):
        start = min(component)
        if len(component) > 1 or graph.has_edge(start, start):
            return [held for held, _ in nx.find_cycle(graph.subgraph(component), start)]
    return []
