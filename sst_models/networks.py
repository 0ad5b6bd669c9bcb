"""Which Merlin topology, with which parameters, is a network of this program: same routers, ports and routes.

Merlin builds what its parameters say. A network is described here only if Merlin's own constructor rules give
back exactly our wiring and its routing function is ours; everything else is refused with one sentence.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from topologies import ConfigError, Dragonfly, FatTree, HxMesh, HyperX2D, LinkKind, Topology, Torus2D
from topologies.base import UNCONNECTED

Value = str | int | float | list[int] | list[str]

PORT_GROUPS = "hxmesh.port_groups"
"""Element that gives names to the ports of a Merlin topology that has none."""


@dataclass(frozen=True)
class MerlinTopology:
    """A topology subcomponent of `merlin.hr_router`.

    element: its name. parameters: the same in every router. first_router: further ones of router 0 only.
    group_of: name that the element gives to the ports of a kind, where it gives any; such kinds can have
    their own bandwidth. adaptive: packets of one pair may take several routes.
    """

    element: str
    parameters: dict[str, Value]
    virtual_channels: int
    first_router: dict[str, Value] = field(default_factory=dict)
    group_of: dict[LinkKind, str] = field(default_factory=dict)
    adaptive: bool = False


def merlin_topology(topology: Topology) -> MerlinTopology:
    """The Merlin topology that is `topology`; raises ConfigError where there is none."""
    family = topology.routing.family
    if isinstance(topology, HxMesh) and topology.failed_boards:
        raise _refuse(topology, "the element hxmesh.topology has no failed boards; use engine: packet")
    if family not in _FAMILIES:
        raise ConfigError(
            f"{topology.name} is of the family {family!r} but SST can run {', '.join(sorted(_FAMILIES))}."
        )
    return _FAMILIES[family](topology)


def _same_wiring(topology: Topology, other: Topology) -> bool:
    names = ("port_offset", "port_peer", "port_kind", "endpoint_router", "endpoint_port")
    return all(np.array_equal(getattr(topology, name), getattr(other, name)) for name in names)


def _refuse(topology: Topology, why: str) -> ConfigError:
    return ConfigError(f"{topology.name} cannot run on SST: {why}.")


def _fattree(topology: Topology) -> MerlinTopology:
    tables = topology.routing.tables
    level, down, up = (tables[name].astype(np.int64) for name in ("level", "down_ports", "up_ports"))
    parts = []
    for number in range(topology.routing.params["levels"]):
        ports = {(int(d), int(u)) for d, u in zip(down[level == number], up[level == number], strict=True)}
        if len(ports) > 1:
            raise _refuse(topology, f"merlin.fattree has no levels with uneven switches (level {number})")
        downs, ups = ports.pop()
        parts.append(f"{downs},{ups}" if ups else f"{downs}")
    shape = ":".join(parts)
    adaptive = bool(topology.routing.params["adaptive"])
    try:
        same = _same_wiring(topology, FatTree.from_shape(shape, adaptive=adaptive))
    except ConfigError:
        same = False
    if not same:
        raise _refuse(
            topology,
            f"merlin.fattree wires a tree of the shape {shape} with one cable between a switch and each "
            f"of its "
            "parents, and this one is wired otherwise",
        )
    algorithm = "adaptive" if adaptive else "deterministic"
    parameters: dict[str, Value] = {"shape": shape, "routing_alg": algorithm, "adaptive_threshold": 0.5}
    return MerlinTopology("merlin.fattree", parameters, 1, adaptive=adaptive)


def _dragonfly(topology: Topology) -> MerlinTopology:
    params = topology.routing.params
    if params["balanced"]:
        raise _refuse(
            topology, "merlin.dragonfly chooses the global link by the source alone (balanced: false)"
        )
    p, a, g = params["p"], params["a"], params["g"]
    if params["ugal"] and (g < 3 or a < 2):
        raise _refuse(
            topology, "merlin.dragonfly's UGAL needs three groups of two routers: it would never start"
        )
    offset = topology.routing.tables["group_link_offset"].astype(np.int64)
    links = set((np.diff(offset).reshape(g, g)[~np.eye(g, dtype=np.bool_)]).tolist())
    if len(links) > 1:
        raise _refuse(topology, "merlin.dragonfly has as many links between any two groups as between others")
    n = links.pop()
    if not _same_wiring(topology, Dragonfly(p, a, n, g)):
        raise _refuse(topology, "its global links are not wired as merlin.dragonfly wires them")
    # Group 0 says for each global port which cable it holds: number of the cable of a pair * (groups - 1) +
    # the other group, the own one not counted. All groups are alike ("absolute" links).
    h = -(-n * (g - 1) // a)
    first = p + a - 1
    cables = np.full(a * h, -1, dtype=np.int64)
    tables = topology.routing.tables
    for other in range(1, g):
        for slice_number in range(n):
            at = int(offset[other]) + slice_number
            position = int(tables["group_link_router"][at])
            slot = int(tables["group_link_port"][at]) - first
            cables[position * h + slot] = slice_number * (g - 1) + other - 1
    parameters: dict[str, Value] = {
        "network_name": "network",
        "hosts_per_router": p,
        "routers_per_group": a,
        "intergroup_per_router": h,
        "intergroup_links": n,
        "intragroup_links": 1,
        "num_groups": g,
        "algorithm": "ugal" if params["ugal"] else "minimal",
        "global_route_mode": "absolute",
    }
    groups = {LinkKind.HOST: "host", LinkKind.LOCAL: "group", LinkKind.GLOBAL: "global"}
    return MerlinTopology(
        "merlin.dragonfly",
        parameters,
        3 if params["ugal"] else 2,
        first_router={"global_link_map": cables.tolist()},
        group_of=groups,
        adaptive=bool(params["ugal"]),
    )


def _grid(topology: Topology) -> dict[str, Value]:
    columns, rows = topology.routing.params["size0"], topology.routing.params["size1"]
    return {"shape": f"{columns}x{rows}", "width": "1x1", "local_ports": 1}


def _torus(topology: Topology) -> MerlinTopology:
    if topology.routing.params["balanced"]:
        raise _refuse(topology, "merlin.torus always goes the positive way round on ties (balanced: false)")
    size = topology.routing.params
    if not _same_cables(topology, Torus2D(size["size0"], size["size1"])):
        raise _refuse(topology, "it is not wired as merlin.torus")
    return MerlinTopology("merlin.torus", _grid(topology), 2)


def _hyperx(topology: Topology) -> MerlinTopology:
    size = topology.routing.params
    if not _same_cables(topology, HyperX2D(size["size0"], size["size1"])):
        raise _refuse(topology, "it is not wired as merlin.hyperx")
    return MerlinTopology("merlin.hyperx", _grid(topology) | {"algorithm": "DOR"}, 1)


def _same_cables(topology: Topology, other: Topology) -> bool:
    """The same wiring, whatever the kinds of the cables (they depend on the size of the boards)."""
    names = ("port_offset", "port_peer", "endpoint_router", "endpoint_port")
    return all(np.array_equal(getattr(topology, name), getattr(other, name)) for name in names)


def _hxmesh(topology: Topology) -> MerlinTopology:
    params = topology.routing.params
    sides = {name: params[name] for name in ("a", "b", "x", "y")}
    own = HxMesh(params["a"], params["b"], params["x"], params["y"], radix=params["radix"])
    if not _same_wiring(topology, own):
        raise _refuse(topology, "it is not wired as hxmesh.topology")
    kinds = (LinkKind.HOST, LinkKind.BOARD, LinkKind.ROW, LinkKind.COLUMN, LinkKind.UPLINK)
    return MerlinTopology(
        "hxmesh.topology",
        {**sides, "radix": params["radix"]},
        3,
        group_of={kind: kind.name.lower() for kind in kinds},
        adaptive=True,
    )


_FAMILIES: dict[str, Callable[[Topology], MerlinTopology]] = {
    "fattree": _fattree,
    "dragonfly": _dragonfly,
    "torus": _torus,
    "hyperx": _hyperx,
    "hxmesh": _hxmesh,
}


def present_kinds(topology: Topology) -> list[LinkKind]:
    """Kinds of the links there are, host links included."""
    return [LinkKind(kind) for kind in np.unique(topology.port_kind).tolist() if kind != UNCONNECTED]


_UNCUT = (LinkKind.BOARD, LinkKind.LOCAL)


def places(topology: Topology) -> npt.NDArray[np.float64]:
    """[R] where a router stands, from 0 to below 1: partition p of n takes the places p/n up to (p+1)/n.

    Routers that must not be parted have the same place: a board of accelerators, the switches of one row or
    column, a group of a Dragonfly. What is cut is then a cable of a row or column (or, in networks without
    boards, between switches), the longest and so the best one to synchronise over.
    """
    uncut = set(_UNCUT)
    if topology.routing.family == "hxmesh":
        uncut.add(LinkKind.UPLINK)
    first, second = topology.links()
    kept = np.isin(topology.port_kind[first], [int(kind) for kind in uncut])
    ones = np.ones(int(kept.sum()), dtype=np.int8)
    shape = (topology.num_routers, topology.num_routers)
    ends = topology.port_router[first[kept]], topology.port_router[second[kept]]
    _, unit = connected_components(coo_array((ones, ends), shape=shape), directed=False)

    units = int(unit.max()) + 1
    weight = np.bincount(unit, weights=topology.router_endpoints, minlength=units)
    before = np.cumsum(weight) - weight
    place = (before + weight / 2) / max(weight.sum(), 1)
    bare = np.flatnonzero(weight == 0)
    if bare.size:
        # A switch without endpoints: in the order of what it is linked to, all of them evenly spread.
        near, far = topology.port_router[first], topology.port_router[second]
        total, count = np.zeros(units), np.zeros(units)
        for here, there in ((near, far), (far, near)):
            linked = weight[unit[there]] > 0
            np.add.at(total, unit[here][linked], place[unit[there]][linked])
            np.add.at(count, unit[here][linked], 1)
        mean = np.divide(total, count, out=np.full(units, 0.5), where=count > 0)
        order = bare[np.argsort(mean[bare], kind="stable")]
        place[order] = (np.arange(bare.size) + 0.5) / bare.size
    result: npt.NDArray[np.float64] = place[unit]
    return result


def max_partitions(topology: Topology) -> int:
    """Partitions that `places` allows so that each one holds endpoints."""
    hosts = np.unique(places(topology)[topology.endpoint_router])
    return int(hosts.size)
