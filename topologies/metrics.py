"""Distances and cuts of a network, exact and measured on its wiring.

Hops are cables and traces crossed between two accelerators. Accelerators of mesh networks are their own
switches, so nothing is added for them; in switched networks both host cables count. So counted, fat trees
have the diameters of the article's Table 2, 4 and 6. Its small Dragonfly's 3 is the longest route from switch
to switch (local, global, local), its large one's 5 counts the host cables too. `switch_diameter_hops` leaves
host cables out; it is 2 for the small Dragonfly, where every router has a cable to every group.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from topologies.base import Bool, Int32, Int64, Topology
from topologies.errors import ConfigError, require

_CHUNK_ENTRIES = 1 << 24


def host_hops(topology: Topology) -> int:
    """Host cables that every path between two accelerators crosses: 0 in mesh networks, else 2."""
    return 0 if topology.accelerator_is_router else 2


def router_hops(topology: Topology, sources: npt.NDArray[np.integer]) -> Int32:
    """[sources, R] links on a shortest path from each source router to every router; -1 = there is none."""
    adjacency = topology.adjacency().astype(np.float32)
    sources = np.asarray(sources)
    hops = np.full((topology.num_routers, sources.size), -1, dtype=np.int32)
    front = np.zeros(hops.shape, dtype=np.float32)
    front[sources, np.arange(sources.size)] = 1
    hops[sources, np.arange(sources.size)] = 0
    distance = 0
    while front.any():
        distance += 1
        new = (adjacency @ front > 0) & (hops < 0)
        hops[new] = distance
        front = new.astype(np.float32)
    return np.ascontiguousarray(hops.T)


def switch_diameter_hops(topology: Topology) -> int:
    """The greatest distance of two accelerators, host cables not counted."""
    axes = topology.axis_hops()
    if axes is not None:
        return int(axes[0].max() + axes[1].max())
    routers, _ = _hosting_routers(topology)
    return max(int(hops[:, routers].max()) for _, hops in _chunks(topology, routers))


def diameter_hops(topology: Topology) -> int:
    """The greatest distance of two accelerators, host cables counted where there are any."""
    return switch_diameter_hops(topology) + host_hops(topology)


def average_distance_hops(topology: Topology, *, max_sources: int | None = None, seed: int = 0) -> float:
    """Mean distance over all ordered pairs of different accelerators.

    Exact for every family of this package. A general network is searched from each of its routers with
    accelerators, or from `max_sources` of them drawn by `seed`, which makes an estimate of a large one cheap.
    """
    n = topology.num_endpoints
    require(n >= 2, f"num_endpoints of {topology.name}", n, "at least 2 for a distance")
    axes = topology.axis_hops()
    if axes is not None:
        columns, rows = len(axes[0]), len(axes[1])
        total = axes[0].sum(dtype=np.int64) * rows**2 + axes[1].sum(dtype=np.int64) * columns**2
        return host_hops(topology) + float(total) / (n * (n - 1))
    routers, weights = _hosting_routers(topology)
    chosen = np.arange(routers.size)
    if max_sources is not None and max_sources < routers.size:
        require(max_sources >= 1, "max_sources", max_sources, "at least 1")
        chosen = np.sort(np.random.default_rng(seed).choice(routers.size, max_sources, replace=False))
    total_hops = pairs = 0
    for part, hops in _chunks(topology, routers[chosen]):
        here = weights[chosen[part]]
        total_hops += int(here @ (hops[:, routers].astype(np.int64) @ weights))
        pairs += int(here.sum()) * (n - 1)
    return host_hops(topology) + total_hops / pairs


def cut_bandwidth_bps(topology: Topology, side: Bool) -> int:
    """Bits per second that fit from the routers in `side` ([R] mask) to the others, in one plane.

    Raises ConfigError where `side` is no mask of the routers.
    """
    side = np.asarray(side)
    is_mask = side.dtype == np.bool_ and side.shape == (topology.num_routers,)
    require(is_mask, "side of a cut", f"{side.dtype} of shape {side.shape}", f"bool[{topology.num_routers}]")
    ports = np.flatnonzero(topology.port_peer >= 0)
    here, there = side[topology.port_router[ports]], side[topology.port_router[topology.port_peer[ports]]]
    return int(topology.port_bandwidth_bps[ports[here & ~there]].sum())


def relative_cut_width(topology: Topology, side: Bool | None = None) -> float:
    """Bandwidth of a cut relative to the injection of the accelerators on its smaller side.

    Of the cut `side`, or the least over the family's structural cuts. Closed forms at equal link speeds and 4
    links an accelerator: 1/(2a) for an HxMesh with boards of side a (article), 1/columns for a torus of even
    side, columns/8 for a direct HyperX, up/down ports of the leaf for a fat tree tapered there.

    Raises ConfigError for a network without structural cuts, and for a side without accelerators.
    """
    if side is None:
        cuts = topology.structural_cuts()
        if not cuts:
            raise ConfigError(f"The cut width of {topology.name} needs a cut, since its family names none.")
        return min(relative_cut_width(topology, cut) for cut in cuts.values())
    inside = int(topology.router_endpoints[np.asarray(side, dtype=np.bool_)].sum())
    smaller = min(inside, topology.num_endpoints - inside)
    require(smaller > 0, "the smaller side of a cut", "without accelerators", "a side with accelerators")
    return cut_bandwidth_bps(topology, side) / (smaller * topology.injection_bps)


def _hosting_routers(topology: Topology) -> tuple[Int64, Int64]:
    """Routers with accelerators, and how many each has."""
    routers = np.flatnonzero(topology.router_endpoints).astype(np.int64)
    return routers, topology.router_endpoints[routers]


def _chunks(topology: Topology, sources: Int64) -> Iterator[tuple[slice, Int32]]:
    """Hops from `sources` to every router, a bounded number of sources at a time."""
    step = max(1, _CHUNK_ENTRIES // topology.num_routers)
    for start in range(0, sources.size, step):
        part = slice(start, start + step)
        yield part, router_hops(topology, sources[part])
