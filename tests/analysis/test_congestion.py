"""The congestion study: from runs made by hand to its table, and the study itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis import congestion
from topologies.errors import ConfigError
from workflow.experiment import find_config, load_plan

from .conftest import MakeResults, Results

PERIOD_PS = 1_000_000
MESSAGE_BYTES = 65_536


def _torus_run(results: Results, role: str, **changes: Any) -> str:
    """A run on a torus of 4x4, with what the hand-made experiment lacks."""
    network = {
        "input_buffer_bytes": 500_000,
        "output_buffer_bytes": 4_000_000,
        "crossbar_bps": 3_200_000_000_000,
        "nic_command_ps": PERIOD_PS,
    }
    motif = {"name": "alltoall", "message_bytes": MESSAGE_BYTES} | changes.pop("motif", {})
    run_id = results.run("torus", role=role, motif=motif, accelerators=16, **changes)
    path = results.path / "runs" / run_id / "experiment.json"
    experiment = json.loads(path.read_text())
    experiment["network"] = network
    experiment["topology"] |= {"family": "torus", "params": {"size0": 4, "size1": 4, "balanced": 0}}
    path.write_text(json.dumps(experiment))
    return run_id


def test_a_paced_run_counts_from_its_first_message(make_results: MakeResults) -> None:
    results = make_results("congestion", "generic")
    # 15 receives and 5 commands of the start go before the first send.
    _torus_run(results, "pace", time_ps=(20 + 40) * PERIOD_PS)
    _torus_run(results, "buffers", time_ps=40 * PERIOD_PS)
    frame = congestion.build(results.finish()).set_index("role")
    assert frame.loc["pace", "time_us"] == pytest.approx(40.0)
    assert frame.loc["pace", "load_percent"] == pytest.approx(100 * MESSAGE_BYTES * 8 / 1e-6 / 1600e9)
    assert frame["load_percent"].isna().to_dict() == {"pace": False, "buffers": True}
    percent = 100 * 15 * MESSAGE_BYTES * 8 / 40e-6 / 1600e9
    for role in ("pace", "buffers"):
        assert frame.loc[role, "percent_of_injection"] == pytest.approx(percent)
        # Half and half, 8 links each way carry 64 messages: 8 one after the other on each.
        bound = 100 * 15 / 8 * 400 / 1600
        assert frame.loc[role, "percent_of_bound"] == pytest.approx(100 * percent / bound)
    assert frame.loc["buffers", "buffer_share"] == pytest.approx(500_000 / (15 * MESSAGE_BYTES))


def test_one_shift_is_told_by_the_sender(make_results: MakeResults) -> None:
    results = make_results("congestion", "generic")
    # What the sender in column c sent is there after c + 1 us: its receiver is the next rank.
    ends_ps = [((rank - 1) % 16 % 4 + 1) * 10**6 for rank in range(16)]
    ranks = pd.DataFrame(
        {"rank": range(16), "bytes_sent": 0, "bytes_received": 0, "start_ps": 0, "end_ps": ends_ps}
    )
    run = _torus_run(results, "one-shift", motif={"shifts": [1]}, ranks=ranks)
    _torus_run(results, "one-shift", motif={"shifts": [1]}, time_ps=None)
    directory = results.finish()
    frame = congestion.build(directory)
    ends = congestion.one_shift_ends(directory, frame)
    assert frame["status"].tolist().count("missing") == 1
    assert frame.loc[frame["run_id"] == run, "percent_of_bound"].isna().all()
    assert ends["column"].tolist() == [0, 1, 2, 3]
    assert ends["end_s"].tolist() == pytest.approx([1e-6, 2e-6, 3e-6, 4e-6])


def test_the_report_of_unfinished_results(
    make_results: MakeResults, capsys: pytest.CaptureFixture[str]
) -> None:
    results = make_results("congestion", "generic")
    _torus_run(results, "buffers", time_ps=None)
    assert congestion.main([str(results.finish())]) == 0
    made = [Path(line) for line in capsys.readouterr().out.split()]
    assert sorted(path.suffix for path in made) == [".csv", ".md", ".pdf", ".png"]
    assert "missing" in next(path for path in made if path.suffix == ".md").read_text()


def test_an_unknown_role_is_refused(make_results: MakeResults, capsys: pytest.CaptureFixture[str]) -> None:
    results = make_results("congestion", "generic")
    _torus_run(results, "queues")
    directory = results.finish()
    with pytest.raises(ConfigError, match="role of run run000 is 'queues' but must be one of buffers, order"):
        congestion.build(directory)
    assert congestion.main([str(directory)]) == 2
    assert "queues" in capsys.readouterr().err
    assert not (directory / "congestion_runs.csv").exists()


def test_the_study_asks_for_every_role_and_whole_alltoalls() -> None:
    plan = load_plan(find_config("congestion"))
    assert {row["role"] for row in plan.rows} == set(congestion.ROLES)
    for row in plan.rows:
        shifts: list[int] | None = plan.experiments[row["run_id"]].motif.get("shifts")
        if row["role"] in ("order", "pace"):
            assert shifts is not None
            assert sorted(shifts) == list(range(1, plan.topology(row["run_id"]).num_endpoints))
        elif row["role"] != "one-shift":
            assert shifts is None
