"""Networks as data: wiring, link speeds, cost, metrics and bounds.

Network families are classes (`HxMesh`, `Torus2D`, `HyperX2D`, `Dragonfly`, `FatTree`) whose instances are
`Topology` objects; `table2` gives the networks of the HammingMesh study by name. Routing functions live in
the C++ headers under `include/hxmesh`, which the packet engine and the SST element library share.
"""

from topologies.base import (
    UNCONNECTED,
    Cable,
    LinkKind,
    RoutingSpec,
    Topology,
    Wiring,
    check_wiring,
    merged_bandwidth_bps,
    mesh_bandwidth_bps,
)
from topologies.catalog import table2
from topologies.dragonfly import Dragonfly
from topologies.errors import ConfigError
from topologies.fattree import FatTree
from topologies.hxmesh import HxMesh
from topologies.hyperx import HyperX2D
from topologies.torus import Torus2D

__all__ = [
    "UNCONNECTED",
    "Cable",
    "ConfigError",
    "Dragonfly",
    "FatTree",
    "HxMesh",
    "HyperX2D",
    "LinkKind",
    "RoutingSpec",
    "Topology",
    "Torus2D",
    "Wiring",
    "check_wiring",
    "merged_bandwidth_bps",
    "mesh_bandwidth_bps",
    "table2",
]
