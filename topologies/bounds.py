"""Upper bounds on what any routing and any schedule can reach on a network.

Closed forms for networks of any size, and the exact maximum concurrent flow of small ones. `routing_bound` is
narrower: what a fixed routing leaves of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_array

from topologies._routing import Routing
from topologies.base import Topology
from topologies.errors import ConfigError, require
from topologies.metrics import average_distance_hops, cut_bandwidth_bps, host_hops


@dataclass(frozen=True)
class Bound:
    """The least of several upper bounds, in percent."""

    percent: float
    binding: str
    """name of the bound that is the least"""
    percent_by_name: dict[str, float]
    """all of them"""


def alltoall_bound(topology: Topology) -> Bound:
    """Upper bound on the alltoall bandwidth, percent of injection.

    Every accelerator sends at rate f * injection, the same to each of the N-1 others. Bounds:

    * "injection": 100.
    * "average distance": all links together carry f * N * injection * (mean links per path).
    * each structural cut of the family: with A accelerators on one side, A * (N-A) / (N-1) * f * injection
      has to fit through it. For an HxMesh "one board column" is the traffic that leaves boards along their
      rows, which is what limits the HxMeshes of the study.

    Raises ConfigError for fewer than two accelerators.
    """
    n, injection = topology.num_endpoints, topology.injection_bps
    hops = average_distance_hops(topology) - host_hops(topology)
    linked = topology.port_peer >= 0
    capacity = int(topology.port_bandwidth_bps[linked].sum())
    limits = {"injection": 1.0}
    if hops > 0:
        limits["average distance"] = capacity / (n * injection * hops)
    for name, side in topology.structural_cuts().items():
        inside = int(topology.router_endpoints[side].sum())
        if 0 < inside < n:
            through = cut_bandwidth_bps(topology, side)
            limits[name] = through * (n - 1) / (inside * (n - inside) * injection)
    return _least(limits)


def allreduce_bound(topology: Topology) -> Bound:
    """Upper bound on the bandwidth (data per rank over time) of a large allreduce, percent of injection / 2.

    Without reduction in the network. Bounds:

    * "sending": all ranks together send at least 2 (N-1) times the data, each as fast as its host link, and
      where accelerators forward packets the links of its router, allow: 100 N/(N-1) if these do not limit.
    * "one accelerator" and each structural cut: the data crosses at least once in each direction.

    Raises ConfigError for fewer than two accelerators.
    """
    n, injection = topology.num_endpoints, topology.injection_bps
    require(n >= 2, f"num_endpoints of {topology.name}", n, "at least 2 for an allreduce")
    linked = np.where(topology.port_peer >= 0, topology.port_bandwidth_bps, 0)
    router_bps = np.bincount(topology.port_router, weights=linked, minlength=topology.num_routers)
    endpoint_bps = np.full(n, float(injection))
    if topology.accelerator_is_router:
        endpoint_bps = np.minimum(endpoint_bps, router_bps[topology.endpoint_router])
    peak = injection / 2
    limits = {
        "sending": float(endpoint_bps.sum()) / (2 * (n - 1)) / peak,
        "one accelerator": float(endpoint_bps.min()) / peak,
    }
    for name, side in topology.structural_cuts().items():
        if 0 < topology.router_endpoints[side].sum() < n:
            limits[name] = cut_bandwidth_bps(topology, side) / peak
    return _least(limits)


def routing_bound(topology: Topology) -> float:
    """Upper bound on the alltoall bandwidth with the routing of `topology`, percent of injection.

    Follows every pair of accelerators and counts the pairs on each link; the link with most of them for its
    bandwidth limits. Takes seconds at 1,000 accelerators, growing with their square.

    Raises ConfigError for fewer than two accelerators, and for a routing that has a choice of ports.
    """
    n, injection = topology.num_endpoints, topology.injection_bps
    require(n >= 2, f"num_endpoints of {topology.name}", n, "at least 2 for an alltoall")
    spec = topology.routing
    routing = Routing(spec.family, spec.params, {name: table.tolist() for name, table in spec.tables.items()})
    offset, peer, router = (
        array.tolist() for array in (topology.port_offset, topology.port_peer, topology.port_router)
    )
    hosts = list(zip(topology.endpoint_router.tolist(), topology.endpoint_port.tolist(), strict=True))
    pairs = [0] * topology.num_ports
    for src in range(n):
        for dst in range(n):
            (at, port), vc = hosts[src], 0
            while src != dst:
                (port, vc, _), *others = routing.candidates(at, port, vc, src, dst)
                if others:
                    raise ConfigError(f"The routing of {topology.name} chooses between ports on the way.")
                out = offset[at] + port
                if peer[out] < 0:
                    break
                pairs[out] += 1
                at = router[peer[out]]
                port = peer[out] - offset[at]
    load = np.array(pairs)
    used = load > 0
    links = topology.port_bandwidth_bps[used] * (n - 1) / (load[used] * injection)
    return 100 * float(links.min(initial=1.0))


def max_concurrent_flow(topology: Topology, *, max_endpoints: int = 128) -> float:
    """The exact maximum of uniform alltoall traffic over all routings, percent of injection.

    Linear program over the flow of each source router on each link, paths of any length; takes seconds at 64
    accelerators. Host links limit the result to 100.

    Raises ConfigError for fewer than two or more than `max_endpoints` accelerators.
    """
    n = topology.num_endpoints
    require(2 <= n <= max_endpoints, f"num_endpoints of {topology.name}", n, f"2 to {max_endpoints}")
    sources = np.flatnonzero(topology.router_endpoints)
    ports = np.flatnonzero(topology.port_peer >= 0)
    ends = np.stack([topology.port_router[ports], topology.port_router[topology.port_peer[ports]]])
    edges, edge_of_port = np.unique(ends, axis=1, return_inverse=True)
    capacity = np.bincount(edge_of_port, weights=topology.port_bandwidth_bps[ports]) / topology.injection_bps
    num_edges, num_sources, num_routers = edges.shape[1], sources.size, topology.num_routers

    # Variables: flow of (source, edge), then the throughput; balance at every router but the source itself.
    flow = np.arange(num_sources * num_edges).reshape(num_sources, num_edges)
    balance = np.arange(num_sources * num_routers).reshape(num_sources, num_routers)
    throughput = flow.size
    endpoints = topology.router_endpoints.astype(np.float64)
    demand = endpoints[sources][:, None] * endpoints[None, :] / (n - 1)
    at_source = sources[:, None] == np.arange(num_routers)[None, :]
    kept = ~at_source.ravel()
    balanced: Any = coo_array(
        (
            np.concatenate([np.ones(flow.size), -np.ones(flow.size), -demand.ravel()]),
            (
                np.concatenate([balance[:, edges[1]].ravel(), balance[:, edges[0]].ravel(), balance.ravel()]),
                np.concatenate([flow.ravel(), flow.ravel(), np.full(balance.size, throughput)]),
            ),
        ),
        shape=(balance.size, throughput + 1),
    ).tocsr()[kept]
    loads: Any = coo_array(
        (np.ones(flow.size), (np.tile(np.arange(num_edges), num_sources), flow.ravel())),
        shape=(num_edges, throughput + 1),
    ).tocsr()
    objective = np.zeros(throughput + 1)
    objective[throughput] = -1
    solution = linprog(
        objective,
        A_ub=loads,
        b_ub=capacity,
        A_eq=balanced,
        b_eq=np.zeros(balanced.shape[0]),
        bounds=[(0, None)] * throughput + [(0, 1)],
        method="highs-ipm",
    )
    if solution.x is None:
        raise ConfigError(f"The maximum flow of {topology.name} has no solution: {solution.message}.")
    return 100 * float(solution.x[throughput])


def _least(limits: dict[str, float]) -> Bound:
    percent = {name: 100 * limit for name, limit in limits.items()}
    binding = min(percent, key=percent.__getitem__)
    return Bound(percent[binding], binding, percent)
