"""The utilisation study: reproducible, paired, and near the published values."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from allocation.study import GRIDS, Machine, anywhere, baseline_samples, bound_samples, machines
from allocation.study import utilization_samples as sample
from analysis import allocation as results
from analysis import published
from topologies import ConfigError


def test_machines_are_those_of_the_published_logs() -> None:
    """8192 and 2048 boards: twice those of Table 2's large cluster."""
    sizes = {key: columns * rows for key, (columns, rows) in GRIDS["artifact"].items()}
    assert sizes == {
        ("hx2mesh", "small"): 256,
        ("hx4mesh", "small"): 64,
        ("hx2mesh", "large"): 8192,
        ("hx4mesh", "large"): 2048,
    }
    assert len(machines("artifact")) == 12
    assert len(machines("table2")) == 6


def test_a_sample_is_the_same_for_a_seed_whatever_else_is_drawn() -> None:
    machine = Machine("artifact", "hx2mesh", "small", 20)
    assert machine.draw(1, 7) == machine.draw(1, 7)
    assert machine.draw(1, 7) != machine.draw(1, 8) != machine.draw(2, 8)
    boards, jobs = machine.draw(1, 7)
    assert len(boards.failed) == 20
    assert sum(u * v for u, v in jobs) == boards.usable


@pytest.fixture(scope="module")
def samples() -> pd.DataFrame:
    return sample("artifact", 12, seed=3, processes=2)


def test_every_scenario_has_every_sample(samples: pd.DataFrame) -> None:
    assert len(samples) == 12 * 8 * 12
    assert set(samples.groupby(results.SCENARIO).size()) == {12}
    trees = samples["cluster"] == "large"
    assert samples.loc[trees, "alltoall_upper_percent"].between(0, 90).all()
    assert samples.loc[~trees, "alltoall_upper_percent"].isna().all()


def test_improvements_improve(samples: pd.DataFrame) -> None:
    means = results.utilization(samples, seed=3)

    def mean(**cells: object) -> float:
        rows = means[np.logical_and.reduce([means[key] == value for key, value in cells.items()])]
        assert len(rows) == 1
        return float(rows["mean_percent"].iloc[0])

    machine = {"mesh": "hx4mesh", "cluster": "large", "failed_boards": 0}
    plain = mean(**machine, transpose="no", aspect_ratio="no", sort_jobs="no", locality="no")
    chain = mean(**machine, transpose="yes", aspect_ratio="yes", sort_jobs="no", locality="no")
    best = mean(**machine, transpose="yes", aspect_ratio="yes", sort_jobs="yes", locality="no")
    assert plain < chain < best
    local = means[means["locality"] == "alltoall"]["alltoall_upper_percent"].mean()
    other = means[(means["locality"] == "no") & (means["aspect_ratio"] == "yes")][
        "alltoall_upper_percent"
    ].mean()
    assert local < other


def test_same_samples_give_the_same_table_in_any_number_of_processes(samples: pd.DataFrame) -> None:
    again = sample("artifact", 12, seed=3, processes=1)
    pd.testing.assert_frame_equal(samples, again)


def test_summary_has_the_published_values_beside_ours(samples: pd.DataFrame) -> None:
    frame = results.utilization(samples, seed=3)
    known = published.load("allocation_utilization")
    assert frame["published_mean_percent"].notna().sum() == len(known)
    assert set(frame["seed"]) == {3}
    far = frame.assign(published_mean_percent=frame["mean_percent"] + 1.5, published_p99_percent=np.nan)
    assert len(results.differences(far)) == len(frame)
    near = frame.assign(published_mean_percent=frame["mean_percent"] - 0.5, published_p99_percent=np.nan)
    assert results.differences(near) == []


def test_p99_is_what_99_percent_exceed_or_reach() -> None:
    values = pd.Series(np.arange(1000.0))
    assert results.p99_percent(values) == 9
    assert results.p99_percent(pd.Series([4.0])) == 4


def test_baselines_and_bounds() -> None:
    frame = baseline_samples("table2", 1, processes=2)
    assert set(frame["topology"]) == {"torus", "fattree"}
    assert (frame.loc[frame["topology"] == "fattree", "utilization_percent"] == 100).all()
    assert frame["utilization_percent"].between(20, 100).all()
    assert anywhere([(2, 2), (3, 3), (1, 1)], 6) == 5
    bound = bound_samples(1, limit_s=0.1, processes=2)
    assert (bound["best_percent"] >= bound[["greedy_percent", "sorted_percent"]].max(axis=1) - 1e-9).all()
    assert (bound["bound_percent"] >= bound["best_percent"] - 1e-9).all()
    with pytest.raises(ConfigError, match="samples is 0"):
        sample("table2", 0)


@pytest.mark.slow
def test_published_means_are_reproduced() -> None:
    """Within one percentage point, beyond what 400 samples leave open (three standard errors)."""
    frame = results.utilization(sample("artifact", 400, seed=0), seed=0).dropna(
        subset="published_mean_percent"
    )
    off = (frame["mean_percent"] - frame["published_mean_percent"]).abs()
    assert (off <= 1 + 3 * frame["mean_standard_error"]).all()
    assert off.mean() < 0.5
