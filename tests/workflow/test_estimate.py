"""Estimates against what runs turn out to take."""

from typing import Any

import pytest

import engine
from workflow.estimate import START_S, Estimate, estimate_plan, makespan_s
from workflow.experiment import expand
from workflow.schema import parse_study

HX = {"type": "hxmesh", "a": 2, "b": 2, "x": 4, "y": 4}


@pytest.mark.parametrize(
    ("topology", "motif"),
    [
        (HX, {"type": "alltoall", "message": 20000}),
        ({"type": "torus", "columns": 6, "rows": 6}, {"type": "alltoall", "message": 64}),
        ({"type": "fattree", "shape": "8,4:8"}, {"type": "alltoall", "message": 9000}),
        (
            {"type": "dragonfly", "hosts": 2, "routers": 4, "links": 2, "groups": 4},
            {"type": "alltoall", "message": 1},
        ),
        (HX, {"type": "two-rings", "total": "2 MiB"}),
        (HX, {"type": "ring", "total": 1000}),
        (HX, {"type": "permutation", "message": 100000}),
    ],
)
def test_packets_are_exact_and_hops_close(topology: dict[str, Any], motif: dict[str, Any]) -> None:
    plan = expand(parse_study({"name": "e", "experiments": [{"topology": topology, "motif": motif}]}))
    (run, experiment), *_ = plan.experiments.items()
    found = estimate_plan(plan)[run]
    network = plan.topology(run)
    result = engine.run(network, experiment.build_schedule(network), experiment.network_params())
    assert found.packets == result.packets
    assert found.packet_hops == pytest.approx(result.packet_hops, rel=0.15)
    assert found.memory_mb > 0
    assert found.runtime_minutes >= 1


def test_makespan_is_the_longest_first() -> None:
    estimates = {str(run): Estimate(1, 1, 1, wall) for run, wall in enumerate((4.0, 3.0, 3.0, 2.0))}
    assert makespan_s(estimates, 1) == 12
    assert makespan_s(estimates, 2) == 6
    assert makespan_s(estimates, 9) == 4


def test_steps_that_repeat_take_no_time() -> None:
    # Blocks of 256 MiB / 256 are even; a byte more makes them uneven, and every step is simulated.
    motifs = [{"type": "ring", "total": 2**28 + extra} for extra in (0, 1)]
    torus = {"type": "torus", "columns": 16, "rows": 16}
    even, uneven = (
        next(iter(estimate_plan(expand(parse_study(study))).values()))
        for study in ({"name": "e", "experiments": [{"topology": torus, "motif": motif}]} for motif in motifs)
    )
    assert even.packet_hops == pytest.approx(uneven.packet_hops, rel=0.05)
    assert even.wall_s - START_S < (uneven.wall_s - START_S) / 20


def test_tapered_trees_take_longer() -> None:
    full, tapered = (
        next(iter(estimate_plan(expand(parse_study(study))).values()))
        for study in (
            {
                "name": "e",
                "experiments": [
                    {
                        "topology": {"type": "fattree", "shape": shape},
                        "motif": {"type": "alltoall", "message": "1 MiB"},
                    }
                ],
            }
            for shape in ("8,8:8", "8,4:8")
        )
    )
    assert tapered.wall_s - START_S > 2 * (full.wall_s - START_S)
