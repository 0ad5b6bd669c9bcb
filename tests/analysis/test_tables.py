"""The tables of every kind of study: columns, values by hand, what is missing, the comparison."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest

import analysis
from analysis import networks, permutation, published, sweeps, table2
from topologies.catalog import TABLE2_NAMES

if TYPE_CHECKING:
    from tests.analysis.conftest import MakeResults, Results

TABLE2_COLUMNS = [
    "cluster",
    "topology",
    "variant",
    "accelerators",
    "cost_musd",
    "diameter_hops",
    "alltoall_percent_of_injection",
    "allreduce_percent_of_peak",
    "allreduce_algorithm",
    "alltoall_saving",
    "allreduce_saving",
    "alltoall_bound_percent",
    "published_cost_musd",
    "published_alltoall_percent",
    "published_allreduce_percent",
    "engine",
    "packets",
    "packet_hops",
    "simulated_time_s",
    "wall_s",
    "peak_memory_bytes",
]


def read_csv(path: Path) -> list[dict[str, str]]:
    """Rows as dictionaries of strings, columns in the order of the file."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def percent_time_ps(percent: float, accelerators: int = 1024, message_bytes: int = 1 << 20) -> int:
    """Picoseconds of an alltoall at a percentage of 1600 Gb/s."""
    return round((accelerators - 1) * message_bytes * 8 / (1600e9 * percent / 100) * 1e12)


def allreduce_time_ps(percent: float, size: int = 2 << 30) -> int:
    """Picoseconds of an allreduce at a percentage of 800 Gb/s."""
    return round(size * 8 / (800e9 * percent / 100) * 1e12)


@pytest.fixture
def full_table2(make_results: MakeResults) -> Results:
    """Table 2 with the published bandwidths, 1% off."""
    results = make_results("table2_small", "table2")
    for name in TABLE2_NAMES:
        row = published.table2("small", name)
        assert row is not None
        assert row.allreduce_percent is not None
        ring = name.startswith(("fattree", "dragonfly"))
        results.alltoall(name, time_ps=percent_time_ps(row.alltoall_percent * 0.99))
        results.allreduce(
            name,
            "ring" if ring else "two-rings",
            (2 << 30) // (4 if ring else 1),
            single_plane=ring,
            time_ps=allreduce_time_ps(row.allreduce_percent * 0.99),
        )
    return results


def test_table2_has_the_agreed_columns(full_table2: Results) -> None:
    analysis.report(full_table2.finish())
    rows = read_csv(full_table2.path / "table2.csv")
    header = list(rows[0])
    assert header[: len(TABLE2_COLUMNS)] == TABLE2_COLUMNS
    more = [
        "alltoall_relative_difference",
        "allreduce_relative_difference",
        "message_bytes",
        "status",
        "note",
    ]
    assert header[len(TABLE2_COLUMNS) : len(TABLE2_COLUMNS) + 5] == more
    assert "published_alltoall_saving" in header
    assert [row["topology"] for row in rows] == list(TABLE2_NAMES)
    assert {row["status"] for row in rows} == {"complete"}


def test_table2_by_hand(full_table2: Results) -> None:
    frame = table2.build(analysis.collect(full_table2.finish())).set_index("topology")
    hx2 = frame.loc["hx2mesh"]
    assert hx2["cost_musd"] == pytest.approx(5.412, abs=5e-4)
    assert hx2["alltoall_percent_of_injection"] == pytest.approx(25.39 * 0.99)
    assert hx2["allreduce_percent_of_peak"] == pytest.approx(98.21 * 0.99)
    assert hx2["alltoall_relative_difference"] == pytest.approx(-0.01)
    assert hx2["allreduce_algorithm"] == "two-rings"
    assert hx2["alltoall_saving"] == pytest.approx(25.303 / 99.9 / (5.412 / 25.39), rel=1e-3)
    assert hx2["allreduce_saving"] == pytest.approx(25.303 / 98.75 / (5.412 / 98.21), rel=1e-3)
    assert hx2["published_alltoall_saving"] == pytest.approx(1.19, abs=0.01)
    assert hx2["published_allreduce_saving"] == pytest.approx(4.66, abs=0.01)
    assert hx2["simulated_time_s"] == pytest.approx(1023 * 2**20 * 8 / (1600e9 * 0.2539 * 0.99))
    assert (hx2["packets"], hx2["packet_hops"], hx2["wall_s"]) == (1000, 5000, 1.25)
    assert hx2["alltoall_bound_percent"] == pytest.approx(26.64, abs=0.005)
    assert hx2["alltoall_percent_of_bound"] == pytest.approx(100 * 25.39 * 0.99 / 26.64, rel=1e-3)
    assert hx2["allreduce_bound_percent"] == pytest.approx(100 * 1024 / 1023)
    assert hx2["allreduce_percent_of_bound"] == pytest.approx(98.21 * 0.99 * 1023 / 1024)
    assert frame.loc["fattree", "alltoall_saving"] == pytest.approx(1.0)
    assert frame.loc["fattree", "allreduce_percent_of_peak"] == pytest.approx(98.75 * 0.99)
    assert frame.loc["fattree", "allreduce_bytes"] == 2 << 30


def test_printed_savings_of_the_article(full_table2: Results) -> None:
    """The article prints 1.2x and 4.7x for the small Hx2Mesh."""
    frame = table2.build(analysis.collect(full_table2.finish())).set_index("topology")
    assert frame.loc["hx2mesh", "alltoall_saving"] == pytest.approx(1.2, abs=0.06)
    assert frame.loc["hx2mesh", "allreduce_saving"] == pytest.approx(4.7, abs=0.06)


@pytest.mark.parametrize("topology", TABLE2_NAMES)
def test_price_is_that_of_the_as_costed_network_in_both_variants(
    make_results: MakeResults, topology: str
) -> None:
    results = make_results("t", "table2")
    for variant in ("as-simulated", "as-costed"):
        results.alltoall(topology, variant=variant)
    frame = table2.build(analysis.collect(results.finish()))
    assert list(frame["cost_musd"]) == pytest.approx(
        [published.cost_layout_musd("small", topology)] * 2, abs=5e-4
    )


def test_costed_rows_say_what_the_published_values_belong_to(make_results: MakeResults) -> None:
    results = make_results("t", "table2")
    for name in ("hyperx", "hx2mesh"):
        results.alltoall(name, variant="as-costed")
    frame = table2.build(analysis.collect(results.finish())).set_index("topology")
    assert "as-simulated network" in frame["note"]["hyperx"]
    assert "as-simulated network" not in frame["note"]["hx2mesh"]
    assert frame.loc["hyperx", "published_alltoall_percent"] == 91.53
    assert frame.loc["hyperx", "alltoall_bound_percent"] == pytest.approx(51.6, abs=0.1)


def test_savings_need_the_fat_tree_of_the_same_variant(make_results: MakeResults) -> None:
    results = make_results("t", "table2")
    results.alltoall("fattree", variant="as-simulated", time_ps=percent_time_ps(100))
    results.alltoall("fattree", variant="as-costed", time_ps=percent_time_ps(50))
    for variant in ("as-simulated", "as-costed", "of-my-own"):
        results.alltoall("torus", variant=variant, time_ps=percent_time_ps(10))
    frame = table2.build(analysis.collect(results.finish()))
    torus = frame[frame["topology"] == "torus"].set_index("variant")
    fattree, own = (networks.network(name, "small", "as-costed") for name in ("fattree", "torus"))
    assert fattree is not None
    assert own is not None
    ratio = fattree.cost_musd / own.cost_musd
    assert torus.loc["as-simulated", "alltoall_saving"] == pytest.approx(ratio / 10)
    assert torus.loc["as-costed", "alltoall_saving"] == pytest.approx(ratio / 5)
    assert pd.isna(torus["alltoall_saving"]["of-my-own"])
    assert "no alltoall saving" in torus["note"]["of-my-own"]


def test_failed_runs_are_shown_and_never_zero(make_results: MakeResults) -> None:
    results = make_results("t", "table2")
    results.alltoall("fattree", status="deadlock", message="ranks 1, 2 wait", time_ps=5)
    results.allreduce("fattree", "ring", 2 << 28, single_plane=True, time_ps=allreduce_time_ps(98))
    results.alltoall("hx2mesh", time_ps=percent_time_ps(25))
    results.allreduce("hx2mesh", time_ps=None)
    written = analysis.report(results.finish())
    rows = read_csv(results.path / "table2.csv")
    assert rows[0]["status"] == "alltoall deadlock; allreduce complete"
    assert "alltoall: ranks 1, 2 wait" in rows[0]["note"]
    assert rows[0]["alltoall_percent_of_injection"] == rows[0]["packets"] == rows[0]["simulated_time_s"] == ""
    assert rows[0]["message_bytes"] == str(1 << 20)
    assert rows[1]["status"] == "alltoall complete; allreduce missing"
    assert rows[1]["allreduce_percent_of_peak"] == rows[1]["alltoall_saving"] == ""
    assert rows[1]["accelerators"] == "1024"
    markdown = (results.path / "table2.md").read_text()
    assert "deadlock" in markdown
    assert "missing (no result.json)" in markdown
    assert results.path / "report.html" in written


def test_quick_tables_say_their_size(make_results: MakeResults) -> None:
    results = make_results("table2_quick", "table2")
    results.alltoall("torus", 1 << 16)
    results.allreduce("torus", size=1 << 26)
    frame = table2.build(analysis.collect(results.finish()))
    assert "alltoall at 64 KiB, published at 1 MiB" in frame["note"][0]
    assert "allreduce at 64 MiB, published at 2 GiB" in frame["note"][0]
    titles = [table.title for table in table2.tables(analysis.load_study(results.path), frame)]
    assert titles[0] == "Cost and bandwidth, small cluster (alltoall with 64 KiB messages)"
    assert set(analysis.check(results.path)["metric"]) == {"cost_musd"}


def test_the_best_of_several_allreduces_stands_in_the_table(make_results: MakeResults) -> None:
    results = make_results("t", "table2")
    results.allreduce("torus", "bucket", time_ps=allreduce_time_ps(97))
    results.allreduce("torus", "two-rings", time_ps=allreduce_time_ps(98))
    results.allreduce("torus", "torus-2d", time_ps=None)
    frame = table2.build(analysis.collect(results.finish()))
    assert frame["allreduce_algorithm"][0] == "two-rings"


def sampled(results: Results, seed: int, shifts: int, time_ps: int | None) -> None:
    """A run of the large Hx2Mesh on a sample of the shifts."""
    motif = {"name": "alltoall", "message_bytes": 1 << 20, "sample": shifts, "sampling": "stratified"}
    labels = {"seed": seed}
    results.run(
        "hx2mesh",
        role="alltoall",
        motif=motif,
        cluster="large",
        accelerators=16384,
        time_ps=time_ps,
        labels=labels,
    )


def test_samples_of_an_alltoall_make_one_row_with_an_interval(make_results: MakeResults) -> None:
    results = make_results("t", "table2")
    for seed, us in enumerate((20, 21, 22)):  # of a shift of 1 MiB; 5.243 us are injection
        for shifts in (8, 16):
            sampled(results, seed, shifts, 10**7 + shifts * us * 10**6)
    path = results.finish()
    frame = table2.build(analysis.collect(path))
    row = frame.iloc[0]
    assert len(frame) == 1
    assert row["alltoall_percent_of_injection"] == pytest.approx(100 * 2**23 / (21e-6 * 1600e9))
    half = 4.3027 / 3**0.5
    assert row["alltoall_low_percent"] == pytest.approx(100 * 2**23 / ((21 + half) * 1.6e6), rel=1e-4)
    assert row["alltoall_high_percent"] == pytest.approx(100 * 2**23 / ((21 - half) * 1.6e6), rel=1e-4)
    assert row["alltoall_samples"] == 3
    assert (row["packets"], row["wall_s"], row["peak_memory_bytes"]) == (6000, 6 * 1.25, 1 << 20)
    assert "3 random samples of 8 and 16 of 16383 shifts" in row["note"]
    assert row["published_alltoall_percent"] == 25.0
    analysis.report(path)
    text = (path / "table2.md").read_text()
    assert "| 24.97 | 22.33 to 28.32 | 25.00† |" in text
    assert "docs/large.md" in text


def test_a_sample_that_failed_leaves_the_row_without_a_value(make_results: MakeResults) -> None:
    results = make_results("t", "table2")
    sampled(results, 0, 8, 10**9)
    sampled(results, 1, 8, None)
    row = table2.build(analysis.collect(results.finish())).iloc[0]
    assert row["status"] == "alltoall missing; allreduce missing"
    assert pd.isna(row["alltoall_percent_of_injection"])
    assert pd.isna(row["packets"])


def test_several_allreduces_of_a_network_are_shown_beside_published_ones(make_results: MakeResults) -> None:
    results = make_results("t", "table2")
    for size in (1 << 20, 16 << 20):
        results.allreduce("hyperx", "torus-2d", size, cluster="large", accelerators=16384, time_ps=421949000)
    path = results.finish()
    analysis.report(path)
    rows = read_csv(path / "allreduce.csv")
    assert [row["bytes"] for row in rows] == [str(1 << 20), str(16 << 20)]
    assert float(rows[1]["relative_difference"]) == pytest.approx(0, abs=1e-5)
    compared = analysis.check(path).set_index(["metric", "bytes"])["within"]
    assert list(compared["allreduce_percent_of_peak"]) == [False, True]
    single = make_results("single", "table2")
    single.allreduce("hyperx", "torus-2d", 1 << 20, cluster="large")
    analysis.report(single.finish())
    assert not (single.path / "allreduce.csv").exists()


def test_networks_of_ones_own_have_no_price(make_results: MakeResults) -> None:
    results = make_results("t", "table2")
    results.alltoall("hx8mesh", cluster="", accelerators=64)
    frame = table2.build(analysis.collect(results.finish()))
    assert pd.isna(frame["cost_musd"][0])
    assert pd.isna(frame["published_cost_musd"][0])
    assert pd.isna(frame["alltoall_percent_of_bound"][0])
    assert "no price" in frame["note"][0]


def test_check_of_table2(full_table2: Results) -> None:
    frame = analysis.check(full_table2.finish())
    assert frame["within"].all()
    # Unverified values are no bar: neither the fat tree alltoall nor the tapered allreduces are compared.
    bars = set(zip(frame["topology"], frame["metric"], strict=True))
    assert ("fattree", "alltoall_percent_of_injection") not in bars
    assert ("fattree50", "allreduce_percent_of_peak") not in bars
    assert ("hx2mesh", "allreduce_saving") in bars
    assert sum(metric == "cost_musd" for _, metric in bars) == 8
    assert set(frame.loc[frame["metric"] == "alltoall_percent_of_injection", "tolerance"]) == {0.03}


def test_check_fails_what_is_off_or_missing(make_results: MakeResults) -> None:
    results = make_results("t", "table2")
    results.alltoall("torus", time_ps=percent_time_ps(1.94 * 1.04))
    results.allreduce("torus", time_ps=None)
    results.alltoall("hyperx", variant="as-costed", time_ps=percent_time_ps(50))
    frame = analysis.check(results.finish())
    bandwidth = frame[frame["metric"].str.startswith("all")]
    assert list(bandwidth["topology"]) == ["torus"] * 3
    assert list(bandwidth["within"]) == [False, False, False]
    assert bandwidth["relative_difference"].iloc[0] == pytest.approx(0.04)
    assert bandwidth["ours"].isna().tolist() == [False, True, True]


def test_alltoall_sweep_by_hand(make_results: MakeResults) -> None:
    results = make_results("alltoall_small", "alltoall")
    results.alltoall("hx2mesh", 4096, time_ps=100_000_000)
    results.alltoall("hx2mesh", 1024, time_ps=50_000_000)
    results.alltoall("dragonfly", 16, time_ps=200_000_000)
    results.alltoall("dragonfly", 16, variant="as-costed", time_ps=None)
    frame = sweeps.build_alltoall(analysis.collect(results.finish()))
    assert list(frame.columns[:11]) == [
        "topology",
        "variant",
        "message_bytes",
        "time_s",
        "bandwidth_gbps",
        "percent_of_injection",
        "accelerators",
        "published_time_s",
        "published_barrier_s",
        "published_percent_of_injection",
        "relative_difference",
    ]
    row = frame[(frame["message_bytes"] == 4096)].iloc[0]
    bandwidth = 1023 * 4096 * 8 / 1e-4 / 1e9
    assert row["bandwidth_gbps"] == pytest.approx(bandwidth)
    assert row["percent_of_injection"] == pytest.approx(bandwidth / 16)
    assert row["bound_percent"] == pytest.approx(26.64, abs=0.005)
    assert row["percent_of_bound"] == pytest.approx(100 * bandwidth / 16 / 26.64, rel=1e-3)
    assert row["published_time_s"] == 0.000102021
    # The published time is that of the alltoall and a barrier of 5.35 us.
    assert row["published_barrier_s"] == pytest.approx(5.35e-6)
    assert row["relative_difference"] == pytest.approx((102.021 - 5.35) / 100 - 1, rel=1e-3)
    assert frame[frame["message_bytes"] == 1024]["published_time_s"].isna().all()
    dragonfly = frame[frame["topology"] == "dragonfly"]
    assert list(dragonfly["status"]) == ["complete", "missing"]
    assert dragonfly["time_s"].isna().tolist() == [False, True]
    assert "1088 accelerators" in dragonfly["note"].iloc[0]
    # The published Dragonfly point at 16 B had other accelerators; at 1 KiB nothing is published.
    compared = analysis.check(results.path)
    assert list(compared["topology"]) == ["hx2mesh"]
    assert compared["tolerance"].iloc[0] == 0.10
    assert compared["relative_difference"].iloc[0] == pytest.approx((102.021 - 5.35) / 100 - 1, rel=1e-3)


def test_allreduce_sweep_by_hand(make_results: MakeResults) -> None:
    results = make_results("allreduce_small", "allreduce")
    results.allreduce("fattree", "ring", 33554432, single_plane=True, time_ps=1_600_000_000)
    results.allreduce("torus", "torus-2d", 33554432, time_ps=700_000_000)
    results.allreduce("torus", "bucket", 33554432, time_ps=400_000_000)
    frame = sweeps.build_allreduce(analysis.collect(results.finish()))
    assert list(frame.columns[:12]) == [
        "topology",
        "variant",
        "algorithm",
        "bytes",
        "time_s",
        "bandwidth_gbps",
        "percent_of_peak",
        "theory_time_s",
        "published_time_s",
        "published_barrier_s",
        "published_percent_of_peak",
        "relative_difference",
    ]
    ring = frame[frame["algorithm"] == "ring"].iloc[0]
    assert ring["bytes"] == 134217728
    assert ring["bandwidth_gbps"] == pytest.approx(134217728 * 8 / 1.6e-3 / 1e9)
    assert ring["percent_of_peak"] == pytest.approx(134217728 * 8 / 1.6e-3 / 800e9 * 100)
    assert ring["published_time_s"] == 0.00163402
    assert ring["published_percent_of_peak"] == pytest.approx(4 * 20.5349)
    assert ring["relative_difference"] == pytest.approx((0.00163402 - 4.22e-6) / 0.0016 - 1, rel=1e-3)
    assert ring["theory_time_s"] == pytest.approx(2 * 1023 * (80e-9 + 32768 * 8 / 400e9))
    torus = frame.set_index("algorithm").loc["torus-2d"]
    assert torus["published_percent_of_peak"] == 47.5634
    assert torus["percent_of_bound"] == pytest.approx(torus["percent_of_peak"] * 1023 / 1024)
    assert torus["theory_time_s"] == pytest.approx(4 * 31 * 80e-9 + 31 / 32 * 33554432 * 8 / 400e9)
    assert pd.isna(frame.set_index("algorithm")["published_time_s"]["bucket"])
    compared = analysis.check(results.path)
    assert list(compared["algorithm"]) == ["ring", "torus-2d"]
    assert compared["within"].all()


def some_ranks(gbps: npt.NDArray[np.float64]) -> pd.DataFrame:
    moved = np.full(len(gbps), 67108864)
    time_ps = moved * 8 / np.asarray(gbps) * 1e3
    return pd.DataFrame(
        {
            "rank": np.arange(len(gbps)),
            "bytes_sent": moved,
            "bytes_received": moved,
            "start_ps": 1000,
            "end_ps": 1000 + np.round(time_ps).astype(np.int64),
        }
    )


def test_permutation_by_hand(make_results: MakeResults) -> None:
    results = make_results("permutation_small", "permutation")
    motif = {"name": "permutation", "message_bytes": 32 << 20}
    gbps = np.linspace(100, 300, 101)
    results.run("hx2mesh", role="permutation", motif=motif, ranks=some_ranks(gbps), labels={"seed": 1})
    results.run("torus", role="permutation", motif=motif, ranks=some_ranks(gbps[::-1]), labels={"seed": 2})
    results.run("torus", role="permutation", motif=motif, labels={"seed": 3})
    results.run("torus", role="permutation", motif=motif, labels={"seed": 4}, time_ps=None)
    analysis.report(results.finish())
    frame = pd.read_csv(results.path / "permutation_small.csv")
    assert list(frame.columns[:9]) == (
        [
            "topology",
            "variant",
            "seed",
            "mean_gbps",
            "median_gbps",
            "p1_gbps",
            "p99_gbps",
            "min_gbps",
            "max_gbps",
        ]
    )
    hx2 = frame.iloc[0]
    assert hx2["mean_gbps"] == pytest.approx(200, rel=1e-4)
    assert hx2["median_gbps"] == pytest.approx(200, rel=1e-4)
    assert hx2["p1_gbps"] == pytest.approx(102, rel=1e-4)
    assert hx2["p99_gbps"] == pytest.approx(298, rel=1e-4)
    assert (hx2["min_gbps"], hx2["max_gbps"]) == (pytest.approx(100, rel=1e-4), pytest.approx(300, rel=1e-4))
    assert hx2["published_median_gbps"] == 248.86
    assert hx2["mean_relative_difference"] == pytest.approx(200 / 257.52 - 1, rel=1e-3)
    assert list(frame["status"]) == ["complete", "complete", "unreadable", "missing"]
    assert frame["mean_gbps"].isna().tolist() == [False, False, True, True]
    each = pd.read_parquet(results.path / "per_accelerator.parquet")
    assert list(each.columns) == list(permutation.ACCELERATOR_SCHEMA.columns)
    assert len(each) == 202
    assert each["receive_gbps"].iloc[0] == pytest.approx(100, rel=1e-4)
    assert each["seed"].iloc[0] == 1


def test_check_of_permutations_averages_seeds(make_results: MakeResults) -> None:
    results = make_results("p", "permutation")
    motif = {"name": "permutation", "message_bytes": 32 << 20}
    for seed, level in enumerate((250.0, 260.0)):
        ranks = some_ranks(np.full(8, level))
        results.run("hx2mesh", role="permutation", motif=motif, ranks=ranks, labels={"seed": seed})
    frame = analysis.check(results.finish()).set_index("metric")
    assert frame.loc["mean_gbps", "ours"] == pytest.approx(255, rel=1e-4)
    assert bool(frame.loc["mean_gbps", "within"])
    assert frame.loc["median_gbps", "published"] == 248.86


def test_check_of_missing_permutations_fails(make_results: MakeResults) -> None:
    results = make_results("p", "permutation")
    results.run("hx2mesh", role="permutation", motif={"name": "permutation"}, time_ps=None)
    frame = analysis.check(results.finish())
    assert list(frame["within"]) == [False, False]


def test_large_cluster_networks_are_found(make_results: MakeResults) -> None:
    results = make_results("table2_large", "table2")
    results.allreduce(
        "hx4mesh", size=4 << 30, cluster="large", accelerators=16384, time_ps=allreduce_time_ps(92, 4 << 30)
    )
    frame = table2.build(analysis.collect(results.finish()))
    assert frame["cost_musd"][0] == pytest.approx(43.295, abs=5e-4)
    assert frame["published_allreduce_percent_provenance"][0] == "derived-from-14.5x-saving"
    assert set(analysis.check(results.path)["metric"]) == {"cost_musd"}
