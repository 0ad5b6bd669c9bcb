"""The networks of Table 2 by name."""

from __future__ import annotations

import csv
import time
import tracemalloc
from pathlib import Path

import pytest

from topologies import ConfigError, Dragonfly, FatTree, HxMesh, HyperX2D, Torus2D, catalog, check_wiring

PUBLISHED = Path(__file__).parents[2] / "analysis" / "published"
GIGABIT = 10**9


def test_the_rows_of_table_2_have_the_published_numbers_of_accelerators() -> None:
    with (PUBLISHED / "table2.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["topology"] for row in rows} == set(catalog.TABLE2_NAMES)
    for row in rows:
        network = catalog.table2(row["topology"], row["cluster"], "as-costed")  # type: ignore[arg-type]
        assert network.num_endpoints == int(row["accelerators"])


@pytest.mark.parametrize("cluster", catalog.CLUSTERS)
@pytest.mark.parametrize("name", catalog.NAMES)
def test_differs_says_whether_the_priced_network_is_another_one(name: str, cluster: catalog.Cluster) -> None:
    simulated = catalog.table2(name, cluster, "as-simulated")
    costed = catalog.table2(name, cluster, "as-costed")
    assert catalog.differs(name, cluster) != simulated.same_network(costed)


@pytest.mark.parametrize("cluster", catalog.CLUSTERS)
@pytest.mark.parametrize("name", ["hx1mesh", "hx2mesh", "hx4mesh", "torus"])
def test_mesh_networks_were_priced_as_simulated(name: str, cluster: catalog.Cluster) -> None:
    assert not catalog.differs(name, cluster)


def test_the_simulated_networks_of_the_artifact() -> None:
    expected = {
        ("fattree", "small"): FatTree.from_shape("32,32:32", adaptive=True),
        ("fattree50", "large"): FatTree.from_shape("32,256:512", adaptive=True),
        ("fattree75", "moe"): FatTree.from_shape("32,12:48", adaptive=True),
        ("dragonfly", "small"): Dragonfly(8, 16, 18, 8, algorithm="ugal"),
        ("dragonfly", "large"): Dragonfly(17, 32, 17, 30, algorithm="ugal"),
        ("dragonfly", "moe"): Dragonfly(17, 32, 512, 3, algorithm="ugal"),
        ("hyperx", "small"): HyperX2D(32, 32),
        ("hx2mesh", "moe"): HxMesh(2, 2, 24, 16),
        ("hx4mesh", "small"): HxMesh(4, 4, 8, 8),
        ("torus", "moe"): Torus2D(48, 32),
    }
    for (name, cluster), network in expected.items():
        assert catalog.table2(name, cluster).same_network(network)  # type: ignore[arg-type]


@pytest.mark.parametrize("cluster", catalog.CLUSTERS)
@pytest.mark.parametrize("variant", catalog.VARIANTS)
def test_a_dragonfly_routes_by_ugal(cluster: catalog.Cluster, variant: catalog.Variant) -> None:
    assert catalog.table2("dragonfly", cluster, variant).routing.params["ugal"] == 1


@pytest.mark.parametrize("cluster", catalog.CLUSTERS)
@pytest.mark.parametrize("name", ["fattree", "fattree50", "fattree75"])
def test_fat_trees_route_adaptively_as_simulated_only(name: str, cluster: catalog.Cluster) -> None:
    assert catalog.table2(name, cluster, "as-simulated").routing.params["adaptive"] == 1
    assert catalog.table2(name, cluster, "as-simulated", single_plane=True).routing.params["adaptive"] == 1
    assert catalog.table2(name, cluster, "as-costed").routing.params["adaptive"] == 0


def test_the_priced_hyperx_is_a_mesh_of_single_accelerators() -> None:
    assert catalog.table2("hyperx", "small", "as-costed").same_network(HxMesh(1, 1, 32, 32))


def test_switched_networks_stand_for_four_planes_or_one() -> None:
    for name in ("fattree", "fattree50", "fattree75", "dragonfly"):
        merged = catalog.table2(name)
        assert set(merged.bandwidth_bps.values()) == {1600 * GIGABIT}
        assert (merged.planes, merged.merged_planes) == (4, 4)
        single = catalog.table2(name, single_plane=True)
        assert set(single.bandwidth_bps.values()) == {400 * GIGABIT}
        assert (single.planes, single.merged_planes) == (16, 1)
    mesh = catalog.table2("hx2mesh", single_plane=True)
    assert (mesh.planes, mesh.injection_bps) == (4, 1600 * GIGABIT)


@pytest.mark.parametrize("variant", catalog.VARIANTS)
@pytest.mark.parametrize("name", catalog.TABLE2_NAMES)
def test_large_networks_build_within_5_seconds_and_1_gib(name: str, variant: catalog.Variant) -> None:
    tracemalloc.start()
    start = time.perf_counter()
    network = catalog.table2(name, "large", variant)
    seconds = time.perf_counter() - start
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert network.num_endpoints >= 16320
    assert seconds < 5
    assert peak_bytes < 2**30
    check_wiring(network)


def test_unknown_names_are_told_the_nearest_one() -> None:
    with pytest.raises(ConfigError, match="'hx2mesh'"):
        catalog.table2("hx2-mesh")
    with pytest.raises(ConfigError, match=r"cluster of a Table 2 network is 'lagre'.*'large'"):
        catalog.table2("torus", "lagre")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"variant of a Table 2 network is 'as-cost'.*'as-costed'"):
        catalog.table2("torus", "small", "as-cost")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="did you mean 'torus'"):
        catalog.differs("torrus")
    with pytest.raises(ConfigError, match="did you mean 'fattree'"):
        catalog.label("fat-tree")


def test_every_name_has_a_label() -> None:
    assert len({catalog.label(name) for name in catalog.NAMES}) == len(catalog.NAMES)
