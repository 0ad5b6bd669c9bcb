"""What a table needs to know of the network behind a row: price, diameter, bound."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import cast

from topologies import bounds, catalog, cost, metrics
from topologies.base import Topology
from topologies.errors import ConfigError


@dataclass(frozen=True)
class Network:
    """Accelerators, price in million dollars, diameter in cables, and upper bounds: of the alltoall in
    percent of injection, of the allreduce in percent of its peak, half of injection.
    """

    accelerators: int
    cost_musd: float
    diameter_hops: int
    alltoall_bound_percent: float
    allreduce_bound_percent: float


@cache
def network(topology: str, cluster: str, variant: str) -> Network | None:
    """The facts of a network of the catalog, or None for one that is not in it."""
    built = _build(topology, cluster, variant)
    if built is None:
        return None
    return Network(
        accelerators=built.num_endpoints,
        cost_musd=cost.bill_of_materials(built).cost_musd,
        diameter_hops=metrics.diameter_hops(built),
        alltoall_bound_percent=bounds.alltoall_bound(built).percent,
        allreduce_bound_percent=bounds.allreduce_bound(built).percent,
    )


def variants_differ(topology: str, cluster: str) -> bool:
    """Whether a network of the catalog was simulated as another network than the one that was priced."""
    try:
        return catalog.differs(topology, cast(catalog.Cluster, cluster))
    except ConfigError:
        return False


def label(topology: str) -> str:
    """How tables and figures call a network: its label in the catalog, or its own name."""
    return catalog.label(topology) if topology in catalog.NAMES else topology


def _build(topology: str, cluster: str, variant: str) -> Topology | None:
    try:
        return catalog.table2(topology, cast(catalog.Cluster, cluster), cast(catalog.Variant, variant))
    except ConfigError:
        return None
