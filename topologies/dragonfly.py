"""Dragonfly: fully connected groups of routers, every two groups joined by several cables.

Wiring as merlin.dragonfly does it by default (sst-elements, merlin/topology/dragonfly.cc and
pymerlin-topo-dragonfly.py); the priced machines of the HammingMesh article use every global port.
"""

from __future__ import annotations

from typing import Literal, Self, get_args

import numpy as np

from topologies.base import (
    Bool,
    Cable,
    Int64,
    LinkKind,
    RoutingSpec,
    Topology,
    Wiring,
    merged_bandwidth_bps,
)
from topologies.errors import require, require_integer, unknown_name

Algorithm = Literal["minimal", "ugal"]
"""How packets find their way, by Merlin's names."""


class Dragonfly(Topology):
    """Dragonfly "hosts:routers:links:groups", e.g. 8:16:18:8: `links` cables between every two groups.

    Router = group * routers + position, endpoint = router * hosts + host. Ports: hosts, then the other
    routers of the group by position (own one skipped), then global cables. A group numbers its cables by
    rounds over the other groups and fills its routers with them in order, the last ones with one fewer.
    `extra_links` adds further cables between pairs of groups.

    `algorithm` "minimal" goes straight to the destination's group, over one of the cables by the source, or,
    with `balanced`, by source and destination. "ugal" chooses among all of them, and a way through a third
    group, by the packets that queue for each (topologies/include/hxmesh/dragonfly.hpp; merlin.dragonfly's
    "ugal"); it draws random numbers.

    Raises ConfigError for counts below 1, fewer than two groups, extra links within a group, an unknown
    algorithm, and `balanced` with UGAL.
    """

    def __init__(
        self,
        hosts_per_router: int,
        routers_per_group: int,
        links_per_group_pair: int,
        groups: int,
        *,
        extra_links: tuple[tuple[int, int], ...] = (),
        balanced: bool = False,
        algorithm: Algorithm = "minimal",
    ) -> None:
        for field, value, least in (
            ("hosts per router of a Dragonfly", hosts_per_router, 1),
            ("routers per group of a Dragonfly", routers_per_group, 1),
            ("links between two groups of a Dragonfly", links_per_group_pair, 1),
            ("groups of a Dragonfly", groups, 2),
        ):
            require_integer(field, value, least)
        if algorithm not in get_args(Algorithm):
            raise unknown_name("the algorithm of a Dragonfly", algorithm, get_args(Algorithm))
        require(
            not balanced or algorithm == "minimal", "balanced of a Dragonfly with UGAL", balanced, "false"
        )
        p, a, n, g = hosts_per_router, routers_per_group, links_per_group_pair, groups
        extra = np.array(extra_links, dtype=np.int64).reshape(-1, 2)
        allowed = f"two different groups below {g}"
        require(
            bool(((extra >= 0) & (extra < g)).all() and (extra[:, 0] != extra[:, 1]).all()),
            "a pair in extra_links of a Dragonfly",
            extra_links,
            allowed,
        )

        # Cable ends, one for each (group, other group, slice): the rounds first, then the extra cables.
        others = np.array([[d for d in range(g) if d != own] for own in range(g)], dtype=np.int64)
        own_group = np.concatenate([np.repeat(np.arange(g), n * (g - 1)), extra[:, 0], extra[:, 1]])
        other_group = np.concatenate([np.tile(others, n).ravel(), extra[:, 1], extra[:, 0]])
        by_group = np.argsort(own_group, kind="stable")
        own_group, other_group = own_group[by_group], other_group[by_group]
        per_group = np.bincount(own_group, minlength=g)
        h = -(-int(per_group.max()) // a)
        number = np.arange(own_group.size) - (np.cumsum(per_group) - per_group)[own_group]
        position, slot = _fill(number, per_group[own_group], h, a)

        # In order of (group, other group, slice); slice s of both directions is one cable.
        pair = own_group * g + other_group
        by_pair = np.argsort(pair, kind="stable")
        pair, position, slot = pair[by_pair], position[by_pair], slot[by_pair]
        offset = np.searchsorted(pair, np.arange(g * g + 1))
        slice_number = np.arange(pair.size) - offset[pair]
        reverse = offset[pair % g * g + pair // g] + slice_number

        routers = a * g
        wiring = Wiring(np.full(routers, p + a - 1 + h, dtype=np.int64))
        endpoints = np.arange(routers * p)
        wiring.hosts(endpoints // p, endpoints % p)
        low, high = np.triu_indices(a, k=1)
        base = a * np.arange(g)[:, None]
        wiring.link(base + low, p + high - 1, base + high, p + low, LinkKind.LOCAL)
        router, port = pair // g * a + position, p + a - 1 + slot
        once = pair // g < pair % g
        far = reverse[once]
        wiring.link(router[once], port[once], router[far], port[far], LinkKind.GLOBAL)

        super().__init__(
            name=f"Dragonfly of {g} groups of {a} routers with {p} accelerators",
            **wiring.fields(),
            bandwidth_bps=merged_bandwidth_bps(),
            planes=4,
            merged_planes=4,
            routing=RoutingSpec(
                "dragonfly",
                {"p": p, "a": a, "g": g, "balanced": int(balanced), "ugal": int(algorithm == "ugal")},
                {
                    "group_link_offset": offset.astype(np.int32),
                    "group_link_router": position.astype(np.int32),
                    "group_link_port": port.astype(np.int32),
                },
            ),
            cable={LinkKind.HOST: Cable.DAC, LinkKind.LOCAL: Cable.DAC, LinkKind.GLOBAL: Cable.AOC},
            switch_group=np.repeat(np.arange(g, dtype=np.int32), a),
            accelerator_is_router=False,
        )

    @classmethod
    def with_global_ports(
        cls,
        hosts_per_router: int,
        routers_per_group: int,
        global_ports: int,
        groups: int,
        *,
        balanced: bool = False,
        algorithm: Algorithm = "minimal",
    ) -> Self:
        """A Dragonfly that uses all global ports of its routers, as evenly over the pairs of groups as they
        go.

        What is left after the same number of cables for every pair goes to pairs at small distances in a
        ring of the groups. Where groups and leftover are both odd, the last group leaves one port free.

        Raises ConfigError where the ports do not reach every other group.
        """
        require_integer("global ports per router of a Dragonfly", global_ports, 1)
        require_integer("routers per group of a Dragonfly", routers_per_group, 1)
        require_integer("groups of a Dragonfly", groups, 2)
        ports, g = routers_per_group * global_ports, groups
        require(ports >= g - 1, "global ports per group of a Dragonfly", ports, f"at least {g - 1}")
        links, left = divmod(ports, g - 1)
        extra = [(i, (i + d) % g) for d in range(1, left // 2 + 1) for i in range(g)]
        if left % 2:
            extra += [(i, i + g // 2) for i in range(g // 2)]
        return cls(
            hosts_per_router,
            routers_per_group,
            links,
            groups,
            extra_links=tuple((min(pair), max(pair)) for pair in extra),
            balanced=balanced,
            algorithm=algorithm,
        )

    def structural_cuts(self) -> dict[str, Bool]:
        """One group, and half of the groups, against the rest."""
        a, g = self.routing.params["a"], self.routing.params["g"]
        group = np.arange(self.num_routers) // a
        return {"one group": group < 1, "half of the groups": group < g // 2}


def _fill(number: Int64, total: Int64, per_router: int, routers: int) -> tuple[Int64, Int64]:
    """Router and port of the `number`-th of `total` cables: `per_router` each, the last routers one fewer."""
    fuller = routers - (per_router * routers - total)
    in_fuller = number < fuller * per_router
    rest = number - fuller * per_router
    fewer = max(per_router - 1, 1)
    position = np.where(in_fuller, number // per_router, fuller + rest // fewer)
    slot = np.where(in_fuller, number % per_router, rest % fewer)
    return position, slot
