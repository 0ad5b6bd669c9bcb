"""Bandwidths, savings and theory lines against values worked out by hand."""

from __future__ import annotations

import dataclasses
from typing import Any

import pandas as pd
import pytest

from analysis import measures


def a_run(**changes: Any) -> dict[str, Any]:
    run = {
        "status": "complete",
        "accelerators": 5,
        "message_bytes": 1000,
        "bytes": pd.NA,
        "merged_planes": 1,
    }
    run |= {"injection_bps": 1600 * 10**9, "simulated_time_ps": 10**6, "bytes_delivered": pd.NA}
    return run | changes


def test_alltoall_by_hand() -> None:
    # 4 messages of 1000 B in 1 us are 32 Gb/s, 2% of 1600.
    got = measures.alltoall(a_run())
    assert got is not None
    assert dataclasses.astuple(got) == pytest.approx((1e-6, 32.0, 2.0, ""))


def test_alltoall_sample_counts_what_it_moved() -> None:
    # 2 of 4 shifts: 5 ranks x 2 x 1000 B.
    got = measures.alltoall(a_run(bytes_delivered=10_000))
    assert got is not None
    assert got.percent == pytest.approx(1.0)
    assert got.note == "alltoall on a sample of 2 of 4 shifts"


def a_sample(seed: int, shifts: int, time_us: float) -> dict[str, Any]:
    return a_run(seed=seed, shifts=shifts, simulated_time_ps=round(time_us * 1e6))


def test_sampled_alltoall_by_hand() -> None:
    # Shifts of 90, 100 and 110 ns behind 1 us that does not grow: 1000 B in 100 ns are 80 Gb/s, 5% of 1600.
    runs = [a_sample(seed, n, 1 + n * ns / 1000) for seed, ns in enumerate((90, 100, 110)) for n in (1, 3)]
    got = measures.sampled_alltoall(runs)
    assert got is not None
    assert got.percent == pytest.approx(5.0)
    # Student's t of 2 degrees of freedom is 4.3027; the standard error is 10 / sqrt(3) ns.
    half = 4.3027 * 10 / 3**0.5
    assert got.low_percent == pytest.approx(500 / (100 + half), rel=1e-4)
    assert got.high_percent == pytest.approx(500 / (100 - half), rel=1e-4)
    assert got.samples == 3
    assert got.note == "alltoall on 3 random samples of 1 and 3 of 4 shifts"


def test_a_sample_of_one_length_is_time_over_shifts() -> None:
    got = measures.sampled_alltoall([a_sample(0, 2, 0.2), a_sample(1, 2, 0.2)])
    assert got is not None
    assert (got.percent, got.low_percent, got.high_percent) == pytest.approx((5.0, 5.0, 5.0))


def test_one_sample_has_no_interval_and_few_uneven_ones_no_upper_end() -> None:
    one = measures.sampled_alltoall([a_sample(0, 2, 0.2)])
    assert one is not None
    assert (one.low_percent, one.high_percent) == (None, None)
    assert one.note == "alltoall on 1 random sample of 2 of 4 shifts"
    two = measures.sampled_alltoall([a_sample(0, 2, 0.1), a_sample(1, 2, 0.3)])
    assert two is not None
    assert two.low_percent is not None
    assert two.high_percent is None


def test_samples_count_only_together() -> None:
    whole = a_sample(0, 2, 0.2)
    assert measures.sampled_alltoall([]) is None
    assert measures.sampled_alltoall([whole, a_sample(1, 2, 0.2) | {"status": "deadlock"}]) is None
    # A longer sample that took less time says nothing of a further shift.
    assert measures.sampled_alltoall([whole, a_sample(0, 3, 0.1)]) is None


def test_full_alltoall_has_no_note() -> None:
    got = measures.alltoall(a_run(bytes_delivered=20_000))
    assert got is not None
    assert got.note == ""


@pytest.mark.parametrize(
    "change", [{"status": "deadlock"}, {"message_bytes": pd.NA}, {"accelerators": pd.NA}]
)
def test_alltoall_without_a_value_is_none(change: dict[str, Any]) -> None:
    assert measures.alltoall(a_run(**change)) is None


def test_allreduce_by_hand() -> None:
    # 100 kB in 2 us are 400 Gb/s, half of the peak of 800.
    got = measures.allreduce(a_run(bytes=100_000, simulated_time_ps=2 * 10**6))
    assert got is not None
    assert dataclasses.astuple(got) == pytest.approx((2e-6, 400.0, 50.0, ""))


def test_allreduce_in_one_plane_has_the_peak_of_four() -> None:
    run = a_run(bytes=100_000, simulated_time_ps=2 * 10**6, injection_bps=400 * 10**9, merged_planes=4)
    got = measures.allreduce(run)
    assert got is not None
    assert got.percent == pytest.approx(50.0)


def test_allreduce_without_a_value_is_none() -> None:
    assert measures.allreduce(a_run()) is None
    assert measures.allreduce(a_run(bytes=1, status="missing")) is None


def test_saving_by_hand() -> None:
    # 100 M$ at 50% against 10 M$ at 25%: 2 against 0.4 M$ a percent.
    assert measures.saving(100.0, 50.0, 10.0, 25.0) == pytest.approx(5.0)
    assert measures.saving(None, 50.0, 10.0, 25.0) is None
    assert measures.saving(100.0, float("nan"), 10.0, 25.0) is None
    assert measures.saving(100.0, 50.0, 10.0, 0.0) is None


def test_relative_difference() -> None:
    assert measures.relative_difference(103.0, 100.0) == pytest.approx(0.03)
    assert measures.relative_difference(None, 100.0) is None
    assert measures.relative_difference(100.0, None) is None


@pytest.mark.parametrize(
    ("topology", "algorithm", "seconds"),
    [
        # 2 * 1023 steps of 80 ns and of 2^18 B (a quarter of 2^30 over 1024 ranks) at 400 Gb/s.
        ("fattree", "ring", 2 * 1023 * (80e-9 + 2**18 * 8 / 400e9)),
        ("dragonfly", "ring", 2 * 1023 * (80e-9 + 2**18 * 8 / 400e9)),
        ("torus", "ring", 2 * 1023 * (80e-9 + 2**20 * 8 / 400e9)),
        ("torus", "bidirectional-ring", 2 * 1023 * (80e-9 + 2**19 * 8 / 400e9)),
        ("hx2mesh", "two-rings", 2 * 1023 * 80e-9 + 1023 / 1024 * 2**29 * 8 / 400e9),
        ("hx2mesh", "torus-2d", 4 * 31 * 80e-9 + 31 / 32 * 2**30 * 8 / 400e9),
        ("hx2mesh", "bucket", 4 * 31 * 80e-9 + 1023 / 1024 * 2**29 * 8 / 400e9),
    ],
)
def test_theory_lines_by_hand(topology: str, algorithm: str, seconds: float) -> None:
    assert measures.allreduce_theory_s(topology, algorithm, 1024, 1 << 30) == pytest.approx(seconds)


def test_unknown_algorithm_has_no_theory_line() -> None:
    assert measures.allreduce_theory_s("torus", "telepathy", 1024, 1) is None
