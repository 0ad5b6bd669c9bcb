"""What a network costs, counted on its own routers and cables.

Prices and layout rules: HammingMesh article, cost section (64-port switches; copper within a rack row, active
optics beyond; board traces free). With them every printed cost of Table 2 comes out to its last digit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topologies.base import Cable, Int64, LinkKind, Topology
from topologies.errors import require, require_integer


@dataclass(frozen=True)
class PriceList:
    """US dollars apiece.

    Defaults: the prices printed in the HammingMesh article (vendor list prices of 2022): 64-port 400 Gb/s
    switch, 20 m active optical cable, 5 m direct-attach copper cable. Board traces come with the boards.
    """

    switch_usd: float = 14_280
    aoc_usd: float = 603
    dac_usd: float = 272


@dataclass(frozen=True)
class BillOfMaterials:
    """Switches and cables of one physical plane, and the price of all planes."""

    switches_per_plane: int
    dac_per_plane: int
    aoc_per_plane: int
    planes: int
    cost_usd: float

    @property
    def cost_musd(self) -> float:
        """Price of all planes in millions of US dollars."""
        return self.cost_usd / 1e6


def bill_of_materials(
    topology: Topology, prices: PriceList | None = None, *, switch_radix: int = 64
) -> BillOfMaterials:
    """Count what one plane needs and price all planes.

    * Accelerators that forward packets are no switches, and their host link is no cable.
    * Routers of one `switch_group` are put into switches of `switch_radix` ports in order of their numbers,
      as many to a switch as their cables fit: four lines of 16 ports, two Dragonfly routers of 31. A cable
      between two routers of one switch is not needed.
    * A router with more cables than `switch_radix` (only in networks that were simulated and not priced) is
      made of several switches: leaves with half of their ports down, then switches to join them, two levels
      or as many as it takes, the cables between them optical.

    Raises ConfigError for a radix that is odd or below 4.
    """
    require_integer("switch_radix", switch_radix, 4)
    require(switch_radix % 2 == 0, "switch_radix", switch_radix, "even")
    prices = prices or PriceList()
    switch_of_router, switches = _switches(topology, switch_radix)
    count = dict.fromkeys(Cable, 0)
    for ports in topology.connected_ports[topology.switch_group >= 0]:
        if ports > switch_radix:
            parts, cables = _composite(int(ports), switch_radix)
            switches += parts
            count[Cable.AOC] += cables

    first, second = topology.links()
    ends = switch_of_router[topology.port_router[first]], switch_of_router[topology.port_router[second]]
    is_cable = (ends[0] != ends[1]) | (ends[0] < 0)
    cables_by_kind = np.bincount(topology.port_kind[first[is_cable]], minlength=256)
    cables_by_kind[LinkKind.HOST] = topology.num_endpoints
    for kind, cable in topology.cable.items():
        count[cable] += int(cables_by_kind[kind])
    dac, aoc = count[Cable.DAC], count[Cable.AOC]
    planes = topology.planes * topology.merged_planes
    plane_usd = switches * prices.switch_usd + dac * prices.dac_usd + aoc * prices.aoc_usd
    return BillOfMaterials(switches, dac, aoc, planes, planes * plane_usd)


def _switches(topology: Topology, radix: int) -> tuple[Int64, int]:
    """[R] number of the shared switch that holds each router (-1 = in none), and how many there are."""
    used, group = topology.connected_ports.tolist(), topology.switch_group.tolist()
    switch_of_router = np.full(topology.num_routers, -1, dtype=np.int64)
    switches = 0
    filling: dict[int, tuple[int, int]] = {}  # by group: the switch being filled and its free ports
    for router in np.flatnonzero((topology.switch_group >= 0) & (topology.connected_ports > 0)).tolist():
        ports = used[router]
        if ports > radix:
            continue
        switch, free = filling.get(group[router], (0, 0))
        if ports > free:
            switch, free = switches, radix
            switches += 1
        switch_of_router[router] = switch
        filling[group[router]] = (switch, free - ports)
    return switch_of_router, switches


def _composite(ports: int, radix: int) -> tuple[int, int]:
    """Switches, and cables between them, that make one nonblocking switch of more than `radix` ports."""
    half = radix // 2
    leaves = -(-ports // half)
    if leaves <= radix:
        return leaves + -(-leaves // 2), leaves * half
    switches, cables = _composite(leaves, radix)
    return leaves + half * switches, leaves * half + half * cables
