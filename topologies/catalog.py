"""The networks of the HammingMesh study's Table 2 by name, as they were simulated and as they were priced.

Shapes: "as-simulated" from the study's artifact (Zenodo 10.5281/zenodo.6462395); "as-costed" from the cost
calculation of the article (64-port switches). For HxMesh and torus both are one network; for the others
they differ (`differs`). The study prices no 1536-accelerator cluster ("moe", for GPT-3 MoE): its as-costed
networks follow the rules of the other clusters and are an extrapolation, with the large cluster's Dragonfly
routers.

A fat tree routes adaptively as simulated. The artifact's logs say "Routing being used is adaptive" for the
tapered trees' alltoalls (results/AllToAllSmall/output/fattree50 and fattree80, 16 B and 1 MiB read), for all
three trees' random permutations (results/RandomPermutationSmall) and for the nonblocking tree's allreduce of
2 GiB. The nonblocking tree's alltoalls (16 B, 4 KiB and 64 KiB read) print no routing; it makes no difference
to them, since their shifts do not collide. The permutations' times agree: 555, 782 and 1844 us for the three
trees without the closing barrier; pairs drawn in the same way (two random matchings, 32 MiB to each partner)
take 565, 760 and 1502 us here when routed adaptively, and 1175, 1678 and 2517 us by D-mod-k. The other
clusters' trees are taken to do so as well. As costed, fat trees are deterministic: no such machine was
simulated.

A Dragonfly routes by UGAL, as simulated and as costed: the artifact's logs of the small one (results/
AllToAllSmall/output/dragonfly, shape 8:16:18:8) say "Routing being used is ugal". The other clusters' are
taken to do so as well, and the priced machines: a price does not depend on it. `Dragonfly` itself can also
route minimally.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args

from topologies.base import Topology
from topologies.dragonfly import Dragonfly
from topologies.errors import unknown_name
from topologies.fattree import FatTree
from topologies.hxmesh import HxMesh
from topologies.hyperx import HyperX2D
from topologies.torus import Torus2D

Cluster = Literal["small", "large", "moe"]
Variant = Literal["as-simulated", "as-costed"]
CLUSTERS: tuple[Cluster, ...] = get_args(Cluster)
VARIANTS: tuple[Variant, ...] = get_args(Variant)

TABLE2_NAMES = ("fattree", "fattree50", "fattree75", "dragonfly", "hyperx", "hx2mesh", "hx4mesh", "torus")
"""The rows of Table 2, in its order."""

NAMES = (*TABLE2_NAMES, "hx1mesh")
"""Every name that `table2` knows."""

_LABELS = {
    "fattree": "nonblocking fat tree",
    "fattree50": "50% tapered fat tree",
    "fattree75": "75% tapered fat tree",
    "dragonfly": "Dragonfly",
    "hyperx": "2D HyperX",
    "hx1mesh": "Hx1Mesh",
    "hx2mesh": "Hx2Mesh",
    "hx4mesh": "Hx4Mesh",
    "torus": "2D torus",
}

_Builder = Callable[[], Topology]


def _fat_trees(
    leaves: int, endpoints: tuple[int, int, int], levels: int
) -> dict[str, dict[Variant, _Builder]]:
    """The three fat trees of a cluster: simulated leaves (and spines, untapered), accelerators as priced."""
    tapers = {"fattree": (1, 32, 32), "fattree50": (2, 42, 22), "fattree75": (4, 51, 13)}

    def builders(taper: int, down: int, up: int, count: int) -> dict[Variant, _Builder]:
        return {
            "as-simulated": lambda: FatTree.from_shape(f"32,{leaves // taper}:{leaves}", adaptive=True),
            "as-costed": lambda: FatTree.clos(count, leaf_down=down, leaf_up=up, levels=levels),
        }

    return {
        name: builders(*tapers[name], count)
        for name, count in zip(("fattree", "fattree50", "fattree75"), endpoints, strict=True)
    }


def _grids(columns: int, rows: int) -> dict[str, dict[Variant, _Builder]]:
    """The mesh networks of a cluster of `columns` by `rows` accelerators."""

    def hxmesh(side: int) -> _Builder:
        return lambda: HxMesh.from_grid(columns, rows, (side, side))

    def same(builder: _Builder) -> dict[Variant, _Builder]:
        return {"as-simulated": builder, "as-costed": builder}

    return {
        "hyperx": {"as-simulated": lambda: HyperX2D(columns, rows), "as-costed": hxmesh(1)},
        "hx1mesh": same(hxmesh(1)),
        "hx2mesh": same(hxmesh(2)),
        "hx4mesh": same(hxmesh(4)),
        "torus": same(lambda: Torus2D(columns, rows)),
    }


_NETWORKS: dict[Cluster, dict[str, dict[Variant, _Builder]]] = {
    "small": {
        **_fat_trees(32, (1024, 1050, 1071), levels=2),
        "dragonfly": {
            "as-simulated": lambda: Dragonfly(8, 16, 18, 8, algorithm="ugal"),
            "as-costed": lambda: Dragonfly.with_global_ports(8, 16, 8, 8, algorithm="ugal"),
        },
        **_grids(32, 32),
    },
    "large": {
        **_fat_trees(512, (16384, 16422, 16422), levels=3),
        "dragonfly": {
            "as-simulated": lambda: Dragonfly(17, 32, 17, 30, algorithm="ugal"),
            "as-costed": lambda: Dragonfly.with_global_ports(17, 32, 16, 30, algorithm="ugal"),
        },
        **_grids(128, 128),
    },
    "moe": {
        **_fat_trees(48, (1536, 1554, 1581), levels=2),
        "dragonfly": {
            "as-simulated": lambda: Dragonfly(17, 32, 512, 3, algorithm="ugal"),
            "as-costed": lambda: Dragonfly.with_global_ports(17, 32, 16, 3, algorithm="ugal"),
        },
        **_grids(48, 32),
    },
}


def table2(
    name: str,
    cluster: Cluster = "small",
    variant: Variant = "as-simulated",
    *,
    single_plane: bool = False,
) -> Topology:
    """A network of Table 2: `name` of `NAMES`, about 1024 (small), 16384 (large) or 1536 (moe) accelerators.

    Fat trees and Dragonfly stand for four merged planes (every link 1600 Gb/s), or for one of 16 planes of
    400 Gb/s with `single_plane`, as the study simulates ring loads. Mesh networks are always one of 4 planes.

    Raises ConfigError for an unknown name, cluster or variant, with the nearest known one.
    """
    topology = _builders(name, cluster)[_known_variant(variant)]()
    return topology.single_plane() if single_plane else topology


def differs(name: str, cluster: Cluster = "small") -> bool:
    """Whether `name` was simulated as another network than the one that was priced.

    Raises ConfigError for an unknown name or cluster.
    """
    builders = _builders(name, cluster)
    return builders["as-simulated"] is not builders["as-costed"]


def label(name: str) -> str:
    """How tables and figures call `name`; raises ConfigError for an unknown one."""
    if name not in _LABELS:
        raise unknown_name("the name of a Table 2 network", name, NAMES)
    return _LABELS[name]


def _builders(name: str, cluster: Cluster) -> dict[Variant, _Builder]:
    if cluster not in _NETWORKS:
        raise unknown_name("the cluster of a Table 2 network", cluster, CLUSTERS)
    if name not in NAMES:
        raise unknown_name("the name of a Table 2 network", name, NAMES)
    return _NETWORKS[cluster][name]


def _known_variant(variant: Variant) -> Variant:
    if variant not in VARIANTS:
        raise unknown_name("the variant of a Table 2 network", variant, VARIANTS)
    return variant
