"""Fat trees: switches in levels, leaves first, with any taper.

`FatTree.merlin` builds what merlin.fattree simulates (sst-elements, pymerlin-topo-fattree.py): one cable
between a switch and each of its parents. `FatTree.clos` builds what the HammingMesh article prices: trees
of switches of one radix, with parallel cables where that needs fewer switches.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from topologies.base import (
    Bool,
    Cable,
    Int32,
    Int64,
    LinkKind,
    RoutingSpec,
    Topology,
    Wiring,
    merged_bandwidth_bps,
)
from topologies.errors import ConfigError, require, require_integer


@dataclass(frozen=True)
class _Level:
    """The switches of one level above the leaves and their cables down.

    The cables: `lower`, `upper` are switch indices within their levels, in the order of the lower switch's
    uplinks. Switch s stands above the leaves of `group[s]`, `group_leaves` to a group (the last group may
    have fewer), and tells them apart in children of `child_leaves` leaves.
    """

    switches: int
    lower: Int64
    upper: Int64
    group: Int64
    group_leaves: int
    child_leaves: int


class FatTree(Topology):
    """Fat tree; made by `merlin`, `from_shape` or `clos`.

    Switches are numbered level by level from the leaves; a switch has its down ports first, then its up
    ports. Endpoint e is at leaf e // d0, port e % d0. Parallel cables to one child are neighbouring ports
    of the upper switch. Routing goes up by destination modulo ports, or to the port with most credits with
    `adaptive`, and down parallel cables by the number of the one it came up by.
    """

    def __init__(
        self,
        name: str,
        endpoints: int,
        leaf_down: int,
        levels: Sequence[_Level],
        divisors: Sequence[int],
        adaptive: bool,
    ) -> None:
        leaves = -(-endpoints // leaf_down)
        sizes = np.array([leaves] + [level.switches for level in levels], dtype=np.int64)
        first = np.concatenate([[0], np.cumsum(sizes)])
        routers = int(first[-1])
        level_of = np.repeat(np.arange(sizes.size, dtype=np.uint8), sizes)
        down = np.zeros(routers, dtype=np.int64)
        up = np.zeros(routers, dtype=np.int64)
        down[:leaves] = leaf_down
        for number, level in enumerate(levels, start=1):
            down[first[number] : first[number + 1]] = np.bincount(level.upper, minlength=level.switches)
            up[first[number - 1] : first[number]] = np.bincount(level.lower, minlength=sizes[number - 1])

        first_leaf, last_leaf = np.arange(routers), np.arange(routers)
        child_span = np.ones(routers, dtype=np.int64)
        children = np.zeros(routers, dtype=np.int64)
        child_first_port, child_count = [], []
        up_switch = []
        wiring = Wiring(down + up)
        endpoint = np.arange(endpoints)
        wiring.hosts(endpoint // leaf_down, endpoint % leaf_down)
        for number, level in enumerate(levels, start=1):
            switches = slice(int(first[number]), int(first[number + 1]))
            first_leaf[switches] = level.group * level.group_leaves
            last_leaf[switches] = np.minimum(first_leaf[switches] + level.group_leaves, leaves) - 1
            child_span[switches] = level.child_leaves
            children[switches] = -(-(last_leaf - first_leaf + 1)[switches] // level.child_leaves)

            lower, upper = first[number - 1] + level.lower, first[number] + level.upper
            child = (first_leaf[lower] - first_leaf[upper]) // level.child_leaves
            lower_port = down[lower] + _occurrence(level.lower)
            order = np.lexsort((np.arange(upper.size), child, upper))
            upper_port = np.empty_like(upper)
            upper_port[order] = _occurrence(level.upper[order])
            wiring.link(lower, lower_port, upper, upper_port, LinkKind.UPLINK)
            up_switch.append(upper)

            most = int(children[switches].max())
            count = np.bincount(level.upper * most + child, minlength=level.switches * most)
            count = count.reshape(level.switches, most)
            before = np.cumsum(count, axis=1) - count
            has_child = np.arange(most)[None, :] < children[switches][:, None]
            child_first_port.append(before[has_child])
            child_count.append(count[has_child])

        def int32(*arrays: Int64) -> Int32:
            return np.concatenate([np.zeros(0, dtype=np.int64), *arrays]).astype(np.int32)

        super().__init__(
            name=name,
            **wiring.fields(),
            bandwidth_bps=merged_bandwidth_bps(),
            planes=4,
            merged_planes=4,
            routing=RoutingSpec(
                "fattree",
                {"levels": len(sizes), "adaptive": int(adaptive), "d0": leaf_down},
                {
                    "level": level_of,
                    "down_ports": int32(down),
                    "up_ports": int32(up),
                    "first_leaf": int32(first_leaf),
                    "last_leaf": int32(last_leaf),
                    "child_span": int32(child_span),
                    "child_offset": int32(np.concatenate([[0], np.cumsum(children)])),
                    "child_first_port": int32(*child_first_port),
                    "child_count": int32(*child_count),
                    "level_divisor": np.array(divisors, dtype=np.int32),
                    "up_switch_offset": int32(np.concatenate([[0], np.cumsum(up)])),
                    "up_switch": int32(*up_switch),
                },
            ),
            cable={LinkKind.HOST: Cable.DAC, LinkKind.UPLINK: Cable.AOC},
            switch_group=level_of.astype(np.int32),
            accelerator_is_router=False,
        )

    @classmethod
    def merlin(cls, levels: Sequence[tuple[int, int]], top: int, *, adaptive: bool = False) -> Self:
        """The tree of merlin.fattree's shape: (down, up) ports of each level from the leaves, then the
        top's down.

        `FatTree.merlin([(32, 32)], top=32)` is the shape "32,32:32": 32 leaves of 32 accelerators under 32
        top switches. Uplink u of switch i of a group goes to switch u * (switches in the group) + i of the
        parent group, and there to the port with the group's number.

        Raises ConfigError without any level below the top and for ports below 1.
        """
        require(len(levels) >= 1, "levels of a fat tree below its top", len(levels), "at least 1")
        for number, (down, up) in enumerate(levels):
            require_integer(f"down ports of level {number} of a fat tree", down, 1)
            require_integer(f"up ports of level {number} of a fat tree", up, 1)
        require_integer("down ports of the top level of a fat tree", top, 1)
        downs, ups = [*(down for down, _ in levels), top], [up for _, up in levels]
        built = []
        leaves = int(np.prod(downs[1:]))
        groups, in_group, group_leaves = leaves, 1, 1
        for down, up in zip(downs[1:], ups, strict=True):
            lower = np.arange(groups * in_group)
            parent_group = lower // in_group // down
            groups //= down
            parents = in_group * up
            upper = parent_group[:, None] * parents + np.arange(up) * in_group + (lower % in_group)[:, None]
            built.append(
                _Level(
                    switches=groups * parents,
                    lower=np.repeat(lower, up),
                    upper=upper.ravel(),
                    group=np.repeat(np.arange(groups), parents),
                    group_leaves=group_leaves * down,
                    child_leaves=group_leaves,
                )
            )
            in_group, group_leaves = parents, group_leaves * down
        shape = ":".join([f"{down},{up}" for down, up in levels] + [str(top)])
        divisors = [int(np.prod(downs[:level])) for level in range(len(downs))]
        return cls(f"fat tree {shape}", leaves * downs[0], downs[0], built, divisors, adaptive)

    @classmethod
    def from_shape(cls, shape: str, *, adaptive: bool = False) -> Self:
        """The tree of a shape in merlin.fattree's notation, e.g. "32,16:32"; see `merlin`.

        Raises ConfigError where `shape` is no such text.
        """
        if not re.fullmatch(r"(\d+,\d+:)+\d+", shape):
            raise ConfigError(f'shape of a fat tree is {shape!r} but must read like "32,16:32".')
        *levels, top = shape.split(":")
        pairs = [(int(down), int(up)) for down, up in (level.split(",") for level in levels)]
        return cls.merlin(pairs, int(top), adaptive=adaptive)

    @classmethod
    def clos(
        cls,
        endpoints: int,
        *,
        radix: int = 64,
        leaf_down: int = 32,
        leaf_up: int = 32,
        levels: int = 2,
        adaptive: bool = False,
    ) -> Self:
        """The smallest tree of two or three levels of `radix`-port switches for `endpoints` accelerators.

        Leaves have `leaf_down` ports for accelerators and `leaf_up` uplinks; only they taper the tree. Two
        levels: uplinks go round the spines. Three: pods of radix/2 leaves, whose uplinks go round the pod's
        middle switches, which have as many uplinks as downlinks; all of these, pod by pod, go round the top
        switches. A last pod with fewer uplinks than there are top switches spreads them, so that every middle
        switch finds a way to it; where that needs free ports at the top, there are up to 1/(radix-1) more top
        switches.

        Raises ConfigError where leaves do not fit the radix, or the accelerators not the levels.
        """
        require_integer("endpoints of a fat tree", endpoints, 1)
        require_integer("radix of a fat tree", radix, 4)
        require(radix % 2 == 0, "radix of a fat tree", radix, "even")
        require_integer("leaf_down of a fat tree", leaf_down, 1)
        require_integer("leaf_up of a fat tree", leaf_up, 1)
        ports = leaf_down + leaf_up
        require(ports <= radix, "leaf_down + leaf_up of a fat tree", ports, f"at most its radix {radix}")
        require(levels in (2, 3), "levels of a fat tree", levels, "2 or 3")
        leaves = -(-endpoints // leaf_down)
        most_leaves = radix if levels == 2 else radix * radix // 2
        if leaves > most_leaves:
            raise ConfigError(
                f"endpoints of a fat tree is {endpoints} but must be at most {most_leaves * leaf_down} for "
                f"{levels} levels of radix {radix} with {leaf_down} accelerators to a leaf."
            )
        leaf = np.repeat(np.arange(leaves), leaf_up)
        if levels == 2:
            spines = -(-leaves * leaf_up // radix)
            spine = np.arange(leaves * leaf_up) % spines
            built = [_Level(spines, leaf, spine, np.zeros(spines, dtype=np.int64), leaves, 1)]
        else:
            built = _pods(leaf, leaf_up, leaves, radix)
        divisors = [1, leaf_down, leaf_down * radix // 2][:levels]
        name = f"fat tree of {levels} levels of {radix}-port switches, leaves {leaf_down}:{leaf_up}"
        return cls(name, endpoints, leaf_down, built, divisors, adaptive)

    def structural_cuts(self) -> dict[str, Bool]:
        """For each level below the top, one subtree, and half of the subtrees, against the rest."""
        tables = self.routing.tables
        level, first, last = tables["level"], tables["first_leaf"], tables["last_leaf"]
        leaves = int(np.count_nonzero(level == 0))
        cuts: dict[str, Bool] = {}
        span = 1
        for number in range(self.routing.params["levels"] - 1):
            switches = level == number
            span = int((last - first + 1)[switches].max())
            trees = -(-leaves // span)
            for what, size in (("one", 1), ("half of the", trees // 2)):
                if 0 < size < trees:
                    name = f"{what} level-{number} subtree" + ("s" if size > 1 or what != "one" else "")
                    cuts[name] = (level <= number) & (last < size * span)
        return cuts


def _pods(leaf: Int64, leaf_up: int, leaves: int, radix: int) -> list[_Level]:
    """The middle and the top level of a three-level tree of `leaves`; `leaf` of each uplink, in order."""
    half = radix // 2
    if leaf_up > half:
        raise ConfigError(f"leaf_up of a fat tree is {leaf_up} but must be at most {half} with three levels.")
    pods = -(-leaves // half)
    pod_links = np.full(pods, half * leaf_up)
    pod_links[-1] = (leaves - (pods - 1) * half) * leaf_up
    pod_mids = -(-pod_links // half)
    first_mid = np.cumsum(pod_mids) - pod_mids
    mids = int(pod_mids.sum())
    pod = leaf // half
    number_in_pod = np.arange(leaf.size) - (np.cumsum(pod_links) - pod_links)[pod]
    mid = first_mid[pod] + number_in_pod % pod_mids[pod]
    middle = _Level(mids, leaf, mid, np.repeat(np.arange(pods), pod_mids), half, 1)

    mid_of_uplink = np.repeat(np.arange(mids), np.bincount(mid, minlength=mids))
    pod_of_uplink = middle.group[mid_of_uplink]
    fewest, spare = -(-leaf.size // radix), -(-leaf.size // (radix - 1))
    for tops in range(fewest, spare + 1):
        top = _round_the_tops(tops, leaf.size, int(pod_links[-1]), radix)
        has_pod = np.zeros((tops, pods), dtype=np.bool_)
        has_pod[top, pod_of_uplink] = True
        first_uplink = np.searchsorted(mid_of_uplink, np.arange(mids))
        if np.logical_or.reduceat(has_pod[top], first_uplink).all():
            no_group = np.zeros(tops, dtype=np.int64)
            return [middle, _Level(tops, mid_of_uplink, top, no_group, leaves, half)]
    # With `spare` tops every one has a port left for the last pod, at most radix/2 tops apart.
    raise AssertionError(f"no wiring of {leaves} leaves with {leaf_up} uplinks found")


def _round_the_tops(tops: int, uplinks: int, last: int, radix: int) -> Int64:
    """Top switch of each uplink: round and round, but the `last` ones of a short pod spread over all tops."""
    top = np.arange(uplinks) % tops
    if last < tops and last < uplinks:
        taken = np.bincount(top[:-last], minlength=tops)
        open_tops = np.roll(np.arange(tops), -int(top[-last]))
        open_tops = open_tops[taken[open_tops] < radix]
        top[-last:] = open_tops[np.arange(last) * open_tops.size // last]
    return top


def _occurrence(values: Int64) -> Int64:
    """For each entry, how many equal entries come before it."""
    order = np.argsort(values, kind="stable")
    counts = np.bincount(values)
    starts = np.cumsum(counts) - counts
    result = np.empty_like(values)
    result[order] = np.arange(values.size) - starts[values[order]]
    return result
