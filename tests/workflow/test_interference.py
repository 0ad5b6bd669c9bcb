"""Jobs on one machine, simulated together and alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import motifs
from sst_models.render import ReplayWorkload, render
from topologies import HxMesh
from workflow.interference import (
    NETWORKS,
    Scenario,
    Traffic,
    draw,
    interference,
    place,
    run_scenario,
    scenarios,
    schedule_of,
)

SMALL = Scenario("hx2mesh", (2, 2), (6, 6), 4, "mixed", 1)
MESSAGE_BYTES, VECTOR_BYTES = 2048, 64 << 10


def test_there_are_at_least_20_placements() -> None:
    every = scenarios()
    assert len(set(every)) == len(every) >= 20
    assert {one.name for one in every} == {name for name, *_ in NETWORKS}


def test_jobs_are_drawn_until_none_fits() -> None:
    rng = np.random.default_rng(0)
    jobs = draw(100, 16, rng)
    sizes = [u * v for u, v in jobs]
    assert max(sizes) <= 16
    assert 100 - sum(sizes) < 4


@pytest.mark.parametrize("name", ["hx2mesh", "torus", "fattree", "fattree50"])
def test_every_rank_has_a_working_accelerator_of_its_own(name: str) -> None:
    network, jobs = place(replace(SMALL, name=name))
    endpoints = np.concatenate([job.endpoint for job in jobs])
    assert len(set(endpoints.tolist())) == len(endpoints)
    assert 0 <= endpoints.min() <= endpoints.max() < network.num_endpoints
    if isinstance(network, HxMesh):
        assert len(network.failed_boards) == 4
    assert {job.motif for job in jobs} == {"alltoall", "allreduce"}
    for job in jobs:
        assert len(job.endpoint) == 4 * job.shape[0] * job.shape[1]


@pytest.mark.parametrize("failed", [0, 4])
@pytest.mark.parametrize("traffic", ["alltoall", "allreduce"])
def test_a_virtual_sub_hxmesh_behaves_like_a_physical_one_where_lines_are_switches(
    failed: int, traffic: Traffic
) -> None:
    """To the picosecond: no job disturbs another one, and none sees that its boards are apart."""
    scenario = replace(SMALL, failed_boards=failed, traffic=traffic)
    rows = run_scenario(scenario, MESSAGE_BYTES, VECTOR_BYTES)
    assert len(rows) >= 2
    for row in rows:
        assert row["together_ps"] == row["alone_ps"] == row["own_machine_ps"] > 0


def test_jobs_disturb_each_other_on_a_tapered_fat_tree() -> None:
    scenario = replace(SMALL, name="fattree50", boards=(8, 8), traffic="alltoall")
    rows = run_scenario(scenario, MESSAGE_BYTES, VECTOR_BYTES)
    assert max(row["together_ps"] / row["alone_ps"] for row in rows) > 1.05


def test_a_table_of_several_scenarios_is_in_order_and_repeats() -> None:
    every = [replace(SMALL, boards=(4, 4), failed_boards=0, seed=seed) for seed in range(3)]
    first, again = (
        interference(every, message_bytes=MESSAGE_BYTES, vector_bytes=VECTOR_BYTES, processes=processes)
        for processes in (2, 1)
    )
    assert first["placement"].is_monotonic_increasing
    assert set(first["seed"]) == {0, 1, 2}
    assert first.equals(again)


@pytest.mark.parametrize(
    "scenario", [one for one in scenarios(engine="sst") if one.traffic == "mixed"], ids=str
)
def test_sst_can_run_the_small_machines(scenario: Scenario, tmp_path: Path) -> None:
    """Rendering checks network, parameters and placement against what SST knows; nothing is run."""
    network, jobs = place(scenario)
    whole, _ = motifs.together([schedule_of(job, scenario, 1024, 4096) for job in jobs])
    endpoints = np.concatenate([job.endpoint for job in jobs])
    assert render(tmp_path / "run", network, ReplayWorkload(whole), placement=endpoints).exists()
    assert network.num_endpoints == 64
    failed = scenario.failed_boards
    assert failed == 0 or len(endpoints) <= 4 * (16 - failed)
