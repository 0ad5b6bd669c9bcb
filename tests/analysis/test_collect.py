"""Run directories to the tidy frame: complete, failed, missing and damaged ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import pytest

import analysis
from analysis.collect import RUN_SCHEMA
from topologies.errors import ConfigError

if TYPE_CHECKING:
    from tests.analysis.conftest import MakeResults


def test_one_row_a_run_in_the_order_of_table2(make_results: MakeResults) -> None:
    results = make_results("s", "alltoall")
    for name in ("torus", "hx2mesh", "fattree"):
        results.alltoall(name, 4096)
        results.alltoall(name, 64)
    frame = analysis.collect(results.finish())
    assert list(frame.columns) == list(RUN_SCHEMA.columns)
    assert list(frame["topology"]) == ["fattree", "fattree", "hx2mesh", "hx2mesh", "torus", "torus"]
    assert list(frame["message_bytes"]) == [64, 4096] * 3
    assert set(frame["engine"]) == {"packet"}
    assert set(frame["simulated_time_ps"]) == {10**9}


def test_a_run_named_twice_appears_twice(make_results: MakeResults) -> None:
    results = make_results("s", "alltoall")
    run = results.alltoall("hx2mesh")
    results.rows.append(results.rows[0] | {"variant": "as-costed"})
    frame = analysis.collect(results.finish())
    assert list(frame["run_id"]) == [run, run]
    assert list(frame["variant"]) == ["as-simulated", "as-costed"]


def test_failed_and_missing_runs_have_a_status_and_no_number(make_results: MakeResults) -> None:
    results = make_results("s", "alltoall")
    results.alltoall("hx2mesh", status="deadlock", message="rank 3 waits", time_ps=77)
    results.alltoall("hx4mesh", time_ps=None)
    frame = analysis.collect(results.finish())
    assert list(frame["status"]) == ["deadlock", "missing"]
    assert list(frame["message"]) == ["rank 3 waits", "no result.json"]
    assert frame[["simulated_time_ps", "packets", "wall_s"]].isna().all(axis=None)
    assert list(frame["message_bytes"]) == [1 << 20] * 2


def test_damaged_files_are_named(make_results: MakeResults) -> None:
    results = make_results("s", "alltoall")
    for _ in range(4):
        results.alltoall("torus")
    runs = results.finish() / "runs"
    (runs / "run000" / "result.json").write_text('{"status": "comp')
    (runs / "run001" / "experiment.json").unlink()
    (runs / "run002" / "result.json").write_text("[]")
    (runs / "run003" / "result.json").write_text('{"status": "complete", "simulated_time_ps": 0}')
    frame = analysis.collect(results.path)
    assert list(frame["status"]) == ["unreadable"] * 4
    assert "result.json cannot be read" in frame["message"][0]
    assert frame["message"][1] == "experiment.json is missing"
    assert frame["message"][2] == "result.json is not an object"
    assert frame["message"][3] == "result.json has no simulated time"


def test_an_allreduce_of_one_plane_counts_four_times_its_bytes(make_results: MakeResults) -> None:
    results = make_results("s", "allreduce")
    results.allreduce("fattree", "ring", 1 << 20, single_plane=True)
    results.allreduce("hx2mesh", "two-rings", 1 << 20)
    frame = analysis.collect(results.finish())
    assert list(frame["bytes"]) == [4 << 20, 1 << 20]
    assert frame["message_bytes"].isna().all()


def test_without_a_study_every_run_is_a_row(make_results: MakeResults) -> None:
    results = make_results("mine", "generic")
    results.alltoall("torus")
    results.allreduce("torus", "bucket", 4096)
    frame = analysis.collect(results.path)
    assert analysis.load_study(results.path).name == "mine"
    assert list(frame["topology"]) == ["torus", "torus"]
    assert set(frame["cluster"]) == {"small"}
    assert sorted(frame["motif"]) == ["alltoall", "bucket"]
    assert list(frame["bytes"].dropna()) == [4096]


def test_wrong_directories_and_studies_are_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not exist"):
        analysis.load_study(tmp_path / "nowhere")
    with pytest.raises(ConfigError, match=r"neither study\.json nor runs"):
        analysis.load_study(tmp_path)
    (tmp_path / "study.json").write_text(json.dumps({"name": "x", "kind": "poem", "rows": []}))
    with pytest.raises(ConfigError, match=r"kind is wrong.*table2") as caught:
        analysis.load_study(tmp_path)
    assert "\n" not in str(caught.value)
    (tmp_path / "study.json").write_text("{")
    with pytest.raises(ConfigError, match="the file is wrong"):
        analysis.load_study(tmp_path)


def test_an_empty_study_is_an_empty_frame(tmp_path: Path) -> None:
    (tmp_path / "study.json").write_text('{"name": "x", "kind": "generic", "rows": []}')
    frame = analysis.collect(tmp_path)
    assert isinstance(frame, pd.DataFrame)
    assert len(frame) == 0
