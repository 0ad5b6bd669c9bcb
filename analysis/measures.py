"""From the simulated time of one run to bandwidth: what the article calls global bandwidth, and allreduce
bandwidth.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from analysis.collect import COMPLETE

PS_PER_S = 10**12
HOP_LATENCY_S = 80e-9
"""One hop of the article's theory lines: 40 ns link, 20 ns input and 20 ns output of a router."""
LINK_BPS = 400e9
PLANE_BPS = 1600e9
"""Injection of one accelerator into one plane of four links."""

CONFIDENCE = 0.95
"""Of the intervals of sampled alltoalls."""

_SWITCHED = ("fattree", "dragonfly")


@dataclass(frozen=True)
class Measure:
    """Time in seconds, bandwidth per accelerator and plane in Gb/s, percent of injection or of peak, and a
    remark.
    """

    time_s: float
    bandwidth_gbps: float
    percent: float
    note: str = ""


def alltoall(run: Mapping[str, Any]) -> Measure | None:
    """Global bandwidth of a row of the collected frame; None where the run is not complete or lacks a
    field.

    An accelerator receives (P-1) * message_bytes in the simulated time; 100% is its injection bandwidth
    into one plane. A run on a sample of the shifts counts the bytes it moved, and says so in the note.
    """
    wanted = ("accelerators", "message_bytes", "injection_bps", "simulated_time_ps")
    if run["status"] != COMPLETE or any(pd.isna(run[name]) for name in wanted):
        return None
    accelerators, message_bytes = int(run["accelerators"]), int(run["message_bytes"])
    time_s = int(run["simulated_time_ps"]) / PS_PER_S
    received = float((accelerators - 1) * message_bytes)
    note = ""
    delivered = run["bytes_delivered"]
    if not pd.isna(delivered) and 0 < int(delivered) < accelerators * received:
        received = int(delivered) / accelerators
        note = f"alltoall on a sample of {received / message_bytes:.6g} of {accelerators - 1} shifts"
    bandwidth_bps = received * 8 / time_s
    return Measure(time_s, bandwidth_bps / 1e9, 100 * bandwidth_bps / int(run["injection_bps"]), note)


@dataclass(frozen=True)
class SampledMeasure:
    """Percent of injection from samples of the shifts, its interval of ``CONFIDENCE`` and a remark.

    The interval is missing with one sample, its upper end also where the time could be 0.
    """

    percent: float
    low_percent: float | None
    high_percent: float | None
    samples: int
    note: str


def sampled_alltoall(runs: Sequence[Mapping[str, Any]]) -> SampledMeasure | None:
    """Global bandwidth by independent samples of the shifts of one alltoall; None where a run is not complete
    or lacks a field.

    Runs of the same seed are one sample. One that ran with two numbers of shifts gives the time of a further
    shift, (longer - shorter time) / (shifts of the longer - of the shorter): what does not grow with the
    shifts, the way to the first packets and the drain of the busiest cable at the end, cancels. One that ran
    with a single number gives time over shifts, in which both count. The mean over the samples is the
    time of a shift; its interval is Student's t with samples - 1 degrees of freedom. The bandwidth is that of
    one message a shift and accelerator.

    Other than in the whole alltoall, shifts that follow each other have nothing in common, and buffers hold
    no more than the sample; docs/large.md says what that makes of the result.
    """
    wanted = ("accelerators", "message_bytes", "injection_bps", "simulated_time_ps", "shifts", "seed")
    if not runs or any(run["status"] != COMPLETE or any(pd.isna(run[n]) for n in wanted) for run in runs):
        return None
    by_seed: dict[int, dict[int, int]] = {}
    for run in runs:
        by_seed.setdefault(int(run["seed"]), {})[int(run["shifts"])] = int(run["simulated_time_ps"])
    shift_s = np.array([_shift_s(times_ps) for times_ps in by_seed.values()])
    mean_s, half_s = float(shift_s.mean()), None
    if mean_s <= 0:
        return None
    if len(shift_s) > 1:
        quantile = float(stats.t.ppf((1 + CONFIDENCE) / 2, len(shift_s) - 1))
        half_s = quantile * float(shift_s.std(ddof=1)) / sqrt(len(shift_s))

    def percent(time_s: float) -> float:
        return 100 * int(runs[0]["message_bytes"]) * 8 / (time_s * int(runs[0]["injection_bps"]))

    numbers = sorted({shifts for times_ps in by_seed.values() for shifts in times_ps})
    count = f"{len(by_seed)} random sample" + ("s" if len(by_seed) > 1 else "")
    sizes, shifts = " and ".join(map(str, numbers)), int(runs[0]["accelerators"]) - 1
    return SampledMeasure(
        percent=percent(mean_s),
        low_percent=None if half_s is None else percent(mean_s + half_s),
        high_percent=None if half_s is None or half_s >= mean_s else percent(mean_s - half_s),
        samples=len(by_seed),
        note=f"alltoall on {count} of {sizes} of {shifts} shifts",
    )


def _shift_s(times_ps: Mapping[int, int]) -> float:
    """Seconds of a shift from the picoseconds of one or more numbers of shifts."""
    fewest, most = min(times_ps), max(times_ps)
    if fewest == most:
        return times_ps[most] / most / PS_PER_S
    return (times_ps[most] - times_ps[fewest]) / (most - fewest) / PS_PER_S


def allreduce(run: Mapping[str, Any]) -> Measure | None:
    """Allreduce bandwidth (vector size over time) of a row of the collected frame; None as for
    ``alltoall``.

    Peak is half of the injection bandwidth of a plane, for the best algorithm sends and receives the vector
    twice. A run in one of four 400 Gb/s planes carried a quarter of ``bytes``, and its peak is that of the
    four together.
    """
    wanted = ("bytes", "injection_bps", "simulated_time_ps")
    if run["status"] != COMPLETE or any(pd.isna(run[name]) for name in wanted):
        return None
    time_s = int(run["simulated_time_ps"]) / PS_PER_S
    bandwidth_bps = int(run["bytes"]) * 8 / time_s
    peak_bps = int(run["injection_bps"]) * int(run["merged_planes"]) / 2
    return Measure(time_s, bandwidth_bps / 1e9, 100 * bandwidth_bps / peak_bps)


def relative_difference(ours: float | None, published: float | None) -> float | None:
    """(ours - published) / published, or None where one of them is missing."""
    if ours is None or published is None or pd.isna(ours) or pd.isna(published):
        return None
    return (ours - published) / published


def percent_of(value: float | None, bound: float | None) -> float | None:
    """`value` in percent of `bound`, or None where one of them is missing."""
    if value is None or bound is None or pd.isna(value) or pd.isna(bound):
        return None
    return 100 * value / bound


def saving(
    reference_cost: float | None, reference_percent: float | None, cost: float | None, percent: float | None
) -> float | None:
    """Cost per bandwidth of the nonblocking fat tree over one's own; None where a value is missing."""
    if any(pd.isna(value) for value in (reference_cost, reference_percent, cost, percent)):
        return None
    if not (reference_cost and reference_percent and cost and percent):
        return None
    return (reference_cost / reference_percent) / (cost / percent)


def allreduce_theory_s(topology: str, algorithm: str, accelerators: int, size_bytes: int) -> float | None:
    """Seconds of an allreduce of ``size_bytes`` on the machine without congestion, or None for an unknown
    algorithm.

    The article's theory lines for square grids of P accelerators with 80 ns a hop and 400 Gb/s a link: ring
    on a fat tree or Dragonfly, two rings, and the first variant of the bucket algorithm (``torus-2d``). The
    lines of the other algorithms are made here in the same manner: on a mesh network a single ring uses one
    link, a bidirectional ring two; the bucket algorithm takes its latency from 4(sqrt(P)-1) steps and moves
    the same bytes as the two rings.
    """
    p, bits, side = accelerators, size_bytes * 8, sqrt(accelerators)
    switched = topology.startswith(_SWITCHED)
    if algorithm in ("ring", "bidirectional-ring"):
        links = 2 if algorithm == "bidirectional-ring" else 1
        rate_bps = PLANE_BPS if switched else links * LINK_BPS
        return 2 * (p - 1) * (HOP_LATENCY_S + bits / p / rate_bps)
    if algorithm == "two-rings":
        return 2 * (p - 1) * HOP_LATENCY_S + (p - 1) / p * bits / 2 / LINK_BPS
    if algorithm == "torus-2d":
        return 4 * (side - 1) * HOP_LATENCY_S + (side - 1) / side * bits / LINK_BPS
    if algorithm == "bucket":
        return 4 * (side - 1) * HOP_LATENCY_S + (p - 1) / p * bits / 2 / LINK_BPS
    return None
