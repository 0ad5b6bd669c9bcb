"""The published data is whole, in range and agrees with itself and with the cost model."""

from __future__ import annotations

from importlib.resources import files

import pandas as pd
import pandera.errors
import pytest

from analysis import measures, published
from topologies.catalog import TABLE2_NAMES
from topologies.errors import ConfigError


def test_every_file_has_a_schema_and_loads() -> None:
    names = sorted(
        p.name.removesuffix(".csv")
        for p in (files("analysis") / "published").iterdir()
        if p.name.endswith(".csv")
    )
    assert names == sorted(published.SCHEMAS)
    for name in names:
        assert len(published.load(name)) > 0


def test_load_gives_a_copy() -> None:
    first = published.load("table2")
    first.loc[:, "cost_musd"] = 0.0
    assert (published.load("table2")["cost_musd"] > 0).all()


def test_unknown_table_is_refused() -> None:
    with pytest.raises(ConfigError, match="table3"):
        published.load("table3")


def test_table2_has_every_network_in_both_clusters() -> None:
    frame = published.load("table2")
    assert sorted(frame["topology"].unique()) == sorted(TABLE2_NAMES)
    assert set(frame.groupby("cluster").size()) == {len(TABLE2_NAMES)}


def test_printed_costs_are_the_layout_costs_rounded() -> None:
    layout, printed = (
        dict(published.load(name).set_index(["cluster", "topology"])["cost_musd"].items())
        for name in ("cost_layout", "table2")
    )
    assert layout.keys() == printed.keys()
    for key, cost in printed.items():
        digits = len(f"{cost:g}".partition(".")[2])
        assert round(layout[key], digits) == pytest.approx(cost), key


def test_layout_costs_follow_from_their_counts() -> None:
    for row in published.load("cost_layout").to_dict("records"):
        plane = row["switches_per_plane"] * 14280 + row["dac_per_plane"] * 272 + row["aoc_per_plane"] * 603
        assert row["planes"] * plane / 1e6 == pytest.approx(row["cost_musd"], abs=0.0005)


def test_alltoall_percent_is_bandwidth_over_injection() -> None:
    for row in published.load("alltoall_small").to_dict("records"):
        accelerators = 1088 if isinstance(row["note"], str) else 1024
        bandwidth = (accelerators - 1) * row["message_bytes"] * 8 / row["time_s"] / 1e9
        assert row["bandwidth_gbps"] == pytest.approx(bandwidth, rel=1e-3, abs=1e-4)
        assert row["percent_of_injection"] == pytest.approx(row["bandwidth_gbps"] / 16, rel=1e-3, abs=1e-4)


@pytest.mark.parametrize("name", ["allreduce_small", "allreduce_large"])
def test_allreduce_percent_is_bandwidth_over_peak(name: str) -> None:
    for row in published.load(name).to_dict("records"):
        assert row["bandwidth_gbps"] == pytest.approx(row["bytes"] * 8 / row["time_s"] / 1e9, rel=1e-3)
        assert row["percent_of_peak"] == pytest.approx(row["bandwidth_gbps"] / 8, rel=1e-3, abs=1e-4)


def test_sweep_agrees_with_table2_where_both_come_from_the_artifact() -> None:
    for name in TABLE2_NAMES:
        row = published.table2("small", name)
        point = published.alltoall("small", name, published.TABLE2_MESSAGE_BYTES)
        assert row is not None
        if point is not None and published.is_bar(row.alltoall_provenance):
            assert row.alltoall_percent == pytest.approx(point.percent, abs=0.006)


def test_a_ring_of_one_plane_counts_four_times_its_bytes() -> None:
    assert published.allreduce("small", "fattree", "ring", 131072) is None
    assert published.allreduce("small", "fattree", "ring", 131072, single_plane=True) is None
    point = published.allreduce("small", "fattree", "ring", 4 * 131072, single_plane=True)
    assert point is not None
    assert point.time_s == 0.000298393
    assert point.percent == pytest.approx(4 * 0.4393)
    assert point.bandwidth_gbps == pytest.approx(4 * 131072 * 8 / 0.000298393 / 1e9, rel=1e-4)
    assert published.allreduce("small", "fattree", "ring", 4 * 131072) is None


def test_published_points_obey_the_theory_lines() -> None:
    """No published allreduce is faster than the line without congestion, up to how that line counts."""
    for name in ("fattree", "dragonfly", "hyperx", "hx2mesh", "hx4mesh", "torus"):
        for algorithm in ("ring", "two-rings", "torus-2d"):
            for size, point in published.allreduce_points("small", name, algorithm):
                theory = measures.allreduce_theory_s(name, algorithm, 1024, size)
                assert theory is not None
                assert point.time_s is not None
                assert point.time_s > 0.97 * theory, (name, algorithm, size)


def test_other_lookups_find_nothing_where_nothing_was_published() -> None:
    assert published.table2("moe", "fattree") is None
    assert published.alltoall("large", "fattree", 1 << 20) is None
    assert published.allreduce("moe", "hx2mesh", "two-rings", 1 << 30) is None
    assert published.permutation("small", "torus") is None
    assert published.permutation("small", "hx2mesh", 1) is None
    assert published.permutation("large", "hx2mesh") is None
    assert published.permutation_provenance("torus") == ""


def test_marks_and_bars() -> None:
    assert published.mark("artifact") == published.mark("article") == published.mark(None) == ""
    assert published.mark("unverified") == "†"
    assert published.mark("derived-from-2.8x-saving") == "‡"
    assert published.is_bar("artifact (a third of the ranks)")
    assert not published.is_bar("derived-from-cost-savings")


def test_tolerances_depend_on_the_size() -> None:
    metric = "alltoall_percent_of_injection"
    assert published.tolerance(metric, 65535).relative == 0.10
    assert published.tolerance(metric, 65536).relative == 0.03
    with pytest.raises(KeyError):
        published.tolerance("weight", 1)


def test_a_damaged_table_is_caught() -> None:
    broken = pd.concat([published.load("table2")] * 2, ignore_index=True)
    with pytest.raises(pandera.errors.SchemaError):
        published.SCHEMAS["table2"].validate(broken)
