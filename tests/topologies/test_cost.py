"""Bills of materials, against the published ones and against counts done by hand."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topologies import ConfigError, Dragonfly, FatTree, HxMesh, HyperX2D, Torus2D, catalog
from topologies.cost import BillOfMaterials, PriceList, bill_of_materials

with (Path(__file__).parents[2] / "analysis" / "published" / "cost_layout.csv").open() as file:
    ROWS = list(csv.DictReader(file))


def counts(bill: BillOfMaterials) -> tuple[int, int, int]:
    return bill.switches_per_plane, bill.dac_per_plane, bill.aoc_per_plane


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['cluster']}-{row['topology']}")
def test_published_costs_come_out_to_the_last_digit(row: dict[str, str]) -> None:
    network = catalog.table2(row["topology"], row["cluster"], "as-costed")  # type: ignore[arg-type]
    bill = bill_of_materials(network)
    assert counts(bill) == (
        int(row["switches_per_plane"]),
        int(row["dac_per_plane"]),
        int(row["aoc_per_plane"]),
    )
    assert bill.planes == int(row["planes"])
    assert f"{bill.cost_musd:.3f}" == row["cost_musd"]


def test_every_row_of_table_2_is_covered() -> None:
    assert {(row["cluster"], row["topology"]) for row in ROWS} == {
        (cluster, name) for cluster in ("small", "large") for name in catalog.TABLE2_NAMES
    }


def test_one_merged_plane_costs_what_its_single_planes_cost() -> None:
    merged = bill_of_materials(catalog.table2("fattree"))
    assert merged == bill_of_materials(catalog.table2("fattree", single_plane=True))
    assert merged.planes == 16


@given(st.integers(1, 4), st.integers(1, 4), st.integers(2, 12), st.integers(2, 12))
@settings(max_examples=40, deadline=None)
def test_an_hxmesh_pays_for_its_lines_only(a: int, b: int, x: int, y: int) -> None:
    bill = bill_of_materials(HxMesh(a, b, x, y))
    rows = -(-b * y // (64 // (2 * x)))
    columns = -(-a * x // (64 // (2 * y)))
    assert counts(bill) == (rows + columns, 2 * x * b * y, 2 * y * a * x)


@given(st.integers(2, 9), st.integers(2, 9))
@settings(max_examples=30, deadline=None)
def test_a_torus_pays_for_cables_between_boards_only(columns: int, rows: int) -> None:
    bill = bill_of_materials(Torus2D(columns, rows, board=(columns, rows)))
    assert counts(bill) == (0, 0, 0)
    assert bill.cost_usd == 0
    bill = bill_of_materials(Torus2D(columns, rows, board=(1, 1)))
    assert counts(bill) == (0, 0, 2 * columns * rows)


def test_two_dragonfly_routers_share_a_switch_and_save_the_cable_between_them() -> None:
    bill = bill_of_materials(Dragonfly.with_global_ports(8, 16, 8, 8))
    local = 8 * (16 * 15 // 2) - 8 * 16 // 2
    assert counts(bill) == (64, 8 * 16 * 8 + local, 512)
    # Groups do not share switches: 3 routers of 11 ports fit into one, of 23 ports two.
    odd = bill_of_materials(Dragonfly(8, 3, 1, 3))
    assert counts(odd) == (3, 3 * 3 * 8, 3)
    odd = bill_of_materials(Dragonfly(20, 3, 1, 3))
    assert counts(odd) == (6, 3 * 3 * 20 + 3 * (3 - 1), 3)


def test_a_router_that_fits_is_one_switch() -> None:
    bill = bill_of_materials(HyperX2D(32, 32))
    assert counts(bill) == (1024, 1024 + 32 * 496, 32 * 496)


def test_a_router_that_does_not_fit_is_several_switches() -> None:
    """255 ports: 8 leaves and 4 spines with 256 cables between them."""
    bill = bill_of_materials(HyperX2D(128, 128))
    assert bill.switches_per_plane == 16384 * 12
    assert bill.aoc_per_plane == 128 * (128 * 127 // 2) + 16384 * 256
    # With 4-port switches, 5 ports take 3 leaves and 2 spines, 9 take 5 leaves and 2 such switches.
    five, nine = FatTree.merlin([(4, 1)], top=1), FatTree.merlin([(8, 1)], top=1)
    assert counts(bill_of_materials(five, switch_radix=4)) == (5 + 1, 4, 1 + 6)
    assert counts(bill_of_materials(nine, switch_radix=4)) == (5 + 2 * 5 + 1, 8, 1 + 10 + 2 * 6)


def test_prices_can_be_replaced() -> None:
    network = HxMesh(2, 2, 2, 2)
    switches, dac, aoc = counts(bill_of_materials(network))
    bill = bill_of_materials(network, PriceList(switch_usd=100, aoc_usd=10, dac_usd=1))
    assert bill.cost_usd == 4 * (100 * switches + 10 * aoc + dac)
    assert bill.cost_musd == bill.cost_usd / 1e6


@pytest.mark.parametrize("radix", [0, 3, 65])
def test_impossible_switches_are_refused(radix: int) -> None:
    with pytest.raises(ConfigError, match="switch_radix is"):
        bill_of_materials(Torus2D(2, 2), switch_radix=radix)
