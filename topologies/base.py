"""What a network is to the rest of the program: routers with numbered ports, endpoints, cables, routing.

A `Topology` describes one plane of a machine; planes are identical and independent. The families (`hxmesh`,
`torus`, `hyperx`, `dragonfly`, `fattree`) build theirs through `Wiring`; any other network can be built the
same way.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self, TypedDict

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components

from topologies.errors import ConfigError, require

if TYPE_CHECKING:
    import networkx

Bool = npt.NDArray[np.bool_]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
UInt8 = npt.NDArray[np.uint8]
AnyInt = npt.NDArray[np.integer[Any]]

UNCONNECTED = 255
"""`port_kind` of a port without a cable."""

GIGABIT = 10**9


class LinkKind(IntEnum):
    """What a link is, which fixes its bandwidth, cable and price."""

    HOST = 0
    BOARD = 1
    ROW = 2
    COLUMN = 3
    UPLINK = 4
    LOCAL = 5
    GLOBAL = 6


class Cable(StrEnum):
    """What a link is made of: nothing (inside a device), a board trace, passive copper, active optics."""

    NONE = "none"
    PCB = "pcb"
    DAC = "dac"
    AOC = "aoc"


@dataclass(frozen=True, eq=False)
class RoutingSpec:
    """The routing function of a network by name, for the C++ headers in `topologies/include/hxmesh`.

    `params` are its scalars, `tables` its read-only integer arrays.
    """

    family: str
    params: dict[str, int] = field(default_factory=dict)
    tables: dict[str, npt.NDArray[Any]] = field(default_factory=dict)


def mesh_bandwidth_bps() -> dict[LinkKind, int]:
    """Bits per second and direction in one of 4 planes of a mesh network: 4 x 400 Gb/s into each accelerator.

    Source: HammingMesh article, section on the evaluated systems, and its artifact.
    """
    return {kind: (1600 if kind is LinkKind.HOST else 400) * GIGABIT for kind in LinkKind}


def merged_bandwidth_bps() -> dict[LinkKind, int]:
    """Bits per second and direction where 4 of 16 planes of 400 Gb/s are treated as one plane of 1600 Gb/s.

    This is how the artifact simulates fat trees and Dragonfly for every load but ring allreduces.
    """
    return dict.fromkeys(LinkKind, 1600 * GIGABIT)


def frozen(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """`array` itself, made read-only."""
    array.setflags(write=False)
    return array


@dataclass(frozen=True, eq=False, kw_only=True)
class Topology:
    """One plane of a network. Immutable; its arrays are read-only.

    R routers, N endpoints (numbered in rank order), P ports; router r owns the global port ids
    `port_offset[r]` .. `port_offset[r + 1] - 1`.
    """

    name: str
    num_endpoints: int
    num_routers: int
    port_offset: Int64
    """[R+1]"""
    port_peer: Int32
    """[P] global port at the other end; -1 for endpoint ports and unconnected ports"""
    port_kind: UInt8
    """[P] LinkKind, or `UNCONNECTED`"""
    endpoint_router: Int32
    """[N]"""
    endpoint_port: Int32
    """[N] port number within its router"""
    bandwidth_bps: dict[LinkKind, int]
    """one direction of one link"""
    planes: int
    """planes of `bandwidth_bps` in the whole machine"""
    routing: RoutingSpec
    cable: dict[LinkKind, Cable]
    switch_group: Int32
    """[R] routers of the same number may share one physical switch; -1 = an accelerator, not a switch"""
    accelerator_is_router: bool
    """accelerators forward packets themselves, so that their host link is no cable"""
    merged_planes: int = 1
    """physical planes that one plane of this description stands for"""
    grid_endpoint: Int32 | None = None
    """[rows, columns] endpoint at each place of a mesh-like network"""

    def __post_init__(self) -> None:
        ports = int(self.port_offset[-1])
        shapes = (
            ("port_offset", self.port_offset, (self.num_routers + 1,)),
            ("port_peer", self.port_peer, (ports,)),
            ("port_kind", self.port_kind, (ports,)),
            ("endpoint_router", self.endpoint_router, (self.num_endpoints,)),
            ("endpoint_port", self.endpoint_port, (self.num_endpoints,)),
            ("switch_group", self.switch_group, (self.num_routers,)),
        )
        for name, array, shape in shapes:
            require(array.shape == shape, f"the shape of {name} of {self.name}", array.shape, str(shape))
            frozen(array)
        for table in self.routing.tables.values():
            frozen(table)
        if self.grid_endpoint is not None:
            frozen(self.grid_endpoint)

    # -- sizes ---------------------------------------------------------------------------------------------

    @property
    def num_ports(self) -> int:
        """Ports of all routers, connected or not."""
        return int(self.port_offset[-1])

    @property
    def num_links(self) -> int:
        """Cables and traces between routers (host links not counted)."""
        return int(np.count_nonzero(self.port_peer >= 0)) // 2

    @property
    def injection_bps(self) -> int:
        """What one endpoint can send into one plane, bits per second."""
        return self.bandwidth_bps[LinkKind.HOST]

    @property
    def grid(self) -> tuple[int, int] | None:
        """(rows, columns) of accelerators in a mesh-like network, else None."""
        if self.grid_endpoint is None:
            return None
        rows, columns = self.grid_endpoint.shape
        return rows, columns

    # -- views ---------------------------------------------------------------------------------------------

    @cached_property
    def port_router(self) -> Int32:
        """[P] router that owns each port."""
        routers = np.arange(self.num_routers, dtype=np.int32)
        return frozen(np.repeat(routers, np.diff(self.port_offset)))

    @cached_property
    def port_bandwidth_bps(self) -> Int64:
        """[P] bandwidth of each port, 0 where nothing is connected."""
        by_kind = np.zeros(256, dtype=np.int64)
        for kind, bandwidth in self.bandwidth_bps.items():
            by_kind[kind] = bandwidth
        return frozen(by_kind[self.port_kind])

    @cached_property
    def router_endpoints(self) -> Int64:
        """[R] endpoints attached to each router."""
        return frozen(np.bincount(self.endpoint_router, minlength=self.num_routers).astype(np.int64))

    @cached_property
    def connected_ports(self) -> Int64:
        """[R] ports of each router with a cable, host or other."""
        connected = self.port_kind != UNCONNECTED
        return frozen(np.bincount(self.port_router[connected], minlength=self.num_routers).astype(np.int64))

    def links(self) -> tuple[Int64, Int64]:
        """Both global ports of every link between routers, the lower one first; arrays of `num_links`."""
        first = np.flatnonzero(self.port_peer > np.arange(self.num_ports))
        return first.astype(np.int64), self.port_peer[first].astype(np.int64)

    def adjacency(self) -> csr_array[Any, tuple[int, int]]:
        """[R, R] number of parallel links between each pair of routers, sparse."""
        ports = np.flatnonzero(self.port_peer >= 0)
        here, there = self.port_router[ports], self.port_router[self.port_peer[ports]]
        ones = np.ones(ports.size, dtype=np.int32)
        shape = (self.num_routers, self.num_routers)
        return coo_array((ones, (here, there)), shape=shape).tocsr()

    def to_networkx(self) -> networkx.MultiGraph[str]:
        """The network as a multigraph; see `topologies.export.to_networkx`."""
        from topologies import export

        return export.to_networkx(self)

    # -- what a family adds --------------------------------------------------------------------------------

    def structural_cuts(self) -> dict[str, Bool]:
        """Cuts that may limit this family, by name: [R] mask of the routers on one side.

        Bounds and cut widths measure each of them on the wiring. The general network has none.
        """
        return {}

    def axis_hops(self) -> tuple[Int32, Int32] | None:
        """Hops between columns [columns, columns] and between rows [rows, rows] of accelerators.

        Given where the distance of two accelerators is the sum of both, as in products of graphs; else None.
        """
        return None

    # -- variants ------------------------------------------------------------------------------------------

    def with_bandwidth(
        self,
        bandwidth_bps: Mapping[LinkKind, int],
        *,
        planes: int | None = None,
        merged_planes: int | None = None,
    ) -> Self:
        """The same wiring with other link speeds (kinds left out keep theirs) and other numbers of planes.

        Raises ConfigError for a bandwidth or a number of planes that is not positive.
        """
        for kind, bandwidth in bandwidth_bps.items():
            require(bandwidth > 0, f"bandwidth_bps of {LinkKind(kind).name}", bandwidth, "positive")
        for name, number in (("planes", planes), ("merged_planes", merged_planes)):
            require(number is None or number > 0, name, number, "positive")
        other = copy.copy(self)
        other.__dict__.pop("port_bandwidth_bps", None)
        changes = {
            "bandwidth_bps": {**self.bandwidth_bps, **bandwidth_bps},
            "planes": planes or self.planes,
            "merged_planes": merged_planes or self.merged_planes,
        }
        for name, value in changes.items():
            object.__setattr__(other, name, value)
        return other

    def single_plane(self) -> Self:
        """One physical plane of a network described with several of them merged into one.

        16 planes of 400 Gb/s for the switched networks of the study; networks that merge nothing stay as
        they are.
        """
        merged = self.merged_planes
        speeds = {kind: bandwidth // merged for kind, bandwidth in self.bandwidth_bps.items()}
        return self.with_bandwidth(speeds, planes=self.planes * merged, merged_planes=1)

    def same_network(self, other: Topology) -> bool:
        """Whether both have the same wiring, speeds, cables and routing (names may differ)."""
        if (self.routing.family, self.routing.params) != (other.routing.family, other.routing.params):
            return False
        if (self.bandwidth_bps, self.planes, self.cable) != (other.bandwidth_bps, other.planes, other.cable):
            return False
        arrays = ("port_offset", "port_peer", "port_kind", "endpoint_router", "endpoint_port", "switch_group")
        return all(np.array_equal(getattr(self, name), getattr(other, name)) for name in arrays)


def grid_halves(topology: Topology) -> dict[str, Bool]:
    """Cuts of a grid whose routers are its accelerators' routers: half of the columns, half of the rows."""
    grid = topology.grid_endpoint
    assert grid is not None
    cuts: dict[str, Bool] = {}
    for what, lines in (("columns", grid.T), ("rows", grid)):
        if len(lines) > 1:
            mask = np.zeros(topology.num_routers, dtype=np.bool_)
            mask[lines[: len(lines) // 2]] = True
            cuts[f"half of the {what}"] = mask
    return cuts


class WiringFields(TypedDict):
    """The fields of a Topology that `Wiring` makes."""

    num_endpoints: int
    num_routers: int
    port_offset: Int64
    port_peer: Int32
    port_kind: UInt8
    endpoint_router: Int32
    endpoint_port: Int32


class Wiring:
    """Cables and endpoints put into numbered ports; makes `fields` of a Topology. Only used while building.

    Raises ConfigError when a port gets two cables.
    """

    def __init__(self, ports_per_router: AnyInt) -> None:
        self.port_offset: Int64 = np.zeros(len(ports_per_router) + 1, dtype=np.int64)
        np.cumsum(ports_per_router, out=self.port_offset[1:])
        ports = int(self.port_offset[-1])
        require(ports < 2**31, "the number of ports", ports, "below 2**31")
        self.port_peer: Int32 = np.full(ports, -1, dtype=np.int32)
        self.port_kind: UInt8 = np.full(ports, UNCONNECTED, dtype=np.uint8)
        self.endpoint_router: Int32 = np.zeros(0, dtype=np.int32)
        self.endpoint_port: Int32 = np.zeros(0, dtype=np.int32)

    def fields(self) -> WiringFields:
        """What has been wired, for the constructor of a Topology."""
        return {
            "num_endpoints": self.endpoint_router.size,
            "num_routers": self.port_offset.size - 1,
            "port_offset": self.port_offset,
            "port_peer": self.port_peer,
            "port_kind": self.port_kind,
            "endpoint_router": self.endpoint_router,
            "endpoint_port": self.endpoint_port,
        }

    def link(
        self,
        router: AnyInt,
        port: AnyInt | int,
        other_router: AnyInt,
        other_port: AnyInt | int,
        kind: LinkKind | UInt8,
    ) -> None:
        """Cables from ports (`router`, `port`) to (`other_router`, `other_port`): arrays that broadcast."""
        near, far = np.broadcast_arrays(
            self.port_offset[router] + port, self.port_offset[other_router] + other_port
        )
        kinds = np.broadcast_to(np.asarray(kind, dtype=np.uint8), near.shape)
        self._plug(near.ravel(), kinds.ravel())
        self._plug(far.ravel(), kinds.ravel())
        self.port_peer[near] = far
        self.port_peer[far] = near

    def hosts(self, router: AnyInt, port: AnyInt | int) -> None:
        """The next endpoints, in rank order, at (`router`, `port`): arrays that broadcast."""
        routers, ports = np.broadcast_arrays(np.asarray(router), np.asarray(port))
        self._plug(self.port_offset[routers] + ports, np.uint8(LinkKind.HOST))
        self.endpoint_router = np.concatenate([self.endpoint_router, routers.ravel().astype(np.int32)])
        self.endpoint_port = np.concatenate([self.endpoint_port, ports.ravel().astype(np.int32)])

    def _plug(self, ports: AnyInt, kinds: UInt8 | np.uint8) -> None:
        before = np.count_nonzero(self.port_kind == UNCONNECTED)
        self.port_kind[ports] = kinds
        free = before - np.count_nonzero(self.port_kind == UNCONNECTED)
        require(free == ports.size, "a port", "used by two cables", "used by one cable at most")


def check_wiring(topology: Topology) -> None:
    """Check that the arrays describe a network; raises ConfigError naming the first router at fault.

    Checked: peers are mutual and of one kind, no port is its own peer, a port has a kind exactly if it has a
    peer or an endpoint, endpoints sit on distinct host ports, and every router can be reached.
    """
    peer, kind = topology.port_peer, topology.port_kind

    def at(faulty: Bool, fault: str) -> None:
        if faulty.any():
            port = int(np.flatnonzero(faulty)[0])
            router = int(topology.port_router[port])
            number = port - int(topology.port_offset[router])
            raise ConfigError(f"Port {number} of router {router} of {topology.name} {fault}.")

    linked = peer >= 0
    ports = np.arange(topology.num_ports)
    at(peer >= topology.num_ports, "has a peer that is no port")
    at(linked & (peer == ports), "is its own peer")
    at(linked & (peer[np.where(linked, peer, 0)] != ports), "has a peer that is linked elsewhere")
    at(linked & (kind[np.where(linked, peer, 0)] != kind), "and its peer differ in link kind")
    no_link = (kind == LinkKind.HOST) | (kind == UNCONNECTED)
    at(linked & no_link, "is linked to a router but has another kind")

    hosts = topology.port_offset[topology.endpoint_router] + topology.endpoint_port
    owners = np.bincount(hosts, minlength=topology.num_ports)
    at(owners > 1, "has two endpoints")
    at((owners == 1) != (kind == LinkKind.HOST), "is a host port without endpoint, or the other way round")
    at(~linked & (owners == 0) & (kind != UNCONNECTED), "has a kind but no cable")

    # The switches of a line whose boards have all failed are left alone.
    _, part = connected_components(topology.adjacency(), directed=False)
    linked_routers = topology.connected_ports > 0
    alone = linked_routers & (part != part[np.flatnonzero(linked_routers)[0]])
    if alone.any():
        router = int(np.flatnonzero(alone)[0])
        raise ConfigError(f"Router {router} of {topology.name} cannot be reached from router 0.")
