"""Results as files, and inputs that are refused."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import engine
from engine import NetworkParams, RunResult
from motifs import ShiftSchedule, parse_goal
from topologies import ConfigError, HxMesh, HyperX2D, Torus2D

Bare = Callable[..., NetworkParams]


@pytest.fixture(scope="module")
def result() -> RunResult:
    return engine.run(HxMesh(2, 2, 2, 2), ShiftSchedule(16, 3_000), links=True, seed=7)


# ---- files ------------------------------------------------------------------------------------------------


def test_a_result_comes_back_as_it_was_saved(result: RunResult, tmp_path: Path) -> None:
    result.save(tmp_path / "new" / "run")
    loaded = RunResult.load(tmp_path / "new" / "run")
    assert loaded.summary() == result.summary()
    pd.testing.assert_frame_equal(loaded.ranks, result.ranks)
    assert loaded.links is not None
    assert result.links is not None
    pd.testing.assert_frame_equal(loaded.links, result.links)
    names = {path.name for path in (tmp_path / "new" / "run").iterdir()}
    assert names == {"result.json", "ranks.parquet", "links.parquet"}


def test_a_result_without_link_table_comes_back_without(result: RunResult, tmp_path: Path) -> None:
    plain = dataclasses.replace(result, links=None)
    plain.save(tmp_path)
    assert RunResult.load(tmp_path).links is None
    assert {path.name for path in tmp_path.iterdir()} == {"result.json", "ranks.parquet"}


def test_a_result_saved_over_another_takes_nothing_of_it(result: RunResult, tmp_path: Path) -> None:
    result.save(tmp_path)
    dataclasses.replace(result, links=None).save(tmp_path)
    assert RunResult.load(tmp_path).links is None


def test_the_summary_appears_last(result: RunResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order = []
    replace = Path.replace

    def watched(self: Path, target: Path) -> Path:
        order.append(Path(target).name)
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", watched)
    result.save(tmp_path)
    assert order == ["ranks.parquet", "links.parquet", "result.json"]


@pytest.mark.parametrize("table", ["ranks", "links"])
def test_a_failure_while_writing_leaves_no_half_result(
    result: RunResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    frame = getattr(result, table)
    write = pd.DataFrame.to_parquet

    def full_disk(self: pd.DataFrame, path: Any, **options: Any) -> None:
        if self is not frame:
            write(self, path, **options)
            return
        Path(path).write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pd.DataFrame, "to_parquet", full_disk)
    with pytest.raises(OSError, match="No space left"):
        result.save(tmp_path)
    left = {path.name for path in tmp_path.iterdir()}
    assert left == ({"ranks.parquet"} if table == "links" else set())
    with pytest.raises(ConfigError, match="holds no result that can be read"):
        RunResult.load(tmp_path)


def test_a_damaged_or_foreign_directory_is_refused(result: RunResult, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere holds no result"):
        RunResult.load(tmp_path / "nowhere")
    result.save(tmp_path)
    summary = json.loads((tmp_path / "result.json").read_text())
    for text in ("{", "[]", json.dumps({"status": "complete"}), json.dumps({**summary, "surplus": 1})):
        (tmp_path / "result.json").write_text(text)
        with pytest.raises(ConfigError, match="holds no result that can be read"):
            RunResult.load(tmp_path)
    result.save(tmp_path)
    (tmp_path / "ranks.parquet").write_bytes(b"PAR1 no more")
    with pytest.raises(ConfigError, match="holds no result that can be read"):
        RunResult.load(tmp_path)


def test_a_result_says_what_it_came_from(result: RunResult) -> None:
    assert result.engine == "packet"
    assert result.seed == 7
    assert result.params == NetworkParams().model_dump()
    assert set(result.versions) == {"hxmesh", "numpy", "python"}
    assert result.peak_memory_bytes > 10**7
    assert 0 < result.wall_s < 60
    assert NetworkParams(**result.params) == NetworkParams()


def test_the_link_table_has_a_row_for_each_direction_of_each_link(result: RunResult) -> None:
    topology = HxMesh(2, 2, 2, 2)
    links = result.links
    assert links is not None
    assert len(links) == 2 * (topology.num_links + topology.num_endpoints)
    assert not links.duplicated(["router", "port"]).any()
    host = links[links.router < 0]
    assert (host.router.to_numpy() == -1 - np.arange(16)).all()
    assert (host.peer_router.to_numpy() == topology.endpoint_router).all()
    between = links[(links.router >= 0) & (links.peer_router >= 0)]
    there = between.groupby(["router", "peer_router"]).size()
    back = between.groupby(["peer_router", "router"]).size()
    assert there.to_dict() == back.to_dict()


def test_no_link_table_is_made_unless_asked_for() -> None:
    assert engine.run(HyperX2D(2, 1), ShiftSchedule(2, 1)).links is None


def test_the_seed_is_recorded_and_changes_nothing() -> None:
    one, other = (engine.run(Torus2D(3, 3), ShiftSchedule(9, 5_000), seed=seed) for seed in (1, 2))
    assert (one.seed, other.seed) == (1, 2)
    assert one.ranks.equals(other.ranks)


# ---- parameters -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"packet_bytes": 0}, r"packet_bytes\s+Input should be greater than 0"),
        ({"flit_bytes": -1}, r"flit_bytes\s+Input should be greater than 0"),
        ({"flit_bytes": 2**31}, r"flit_bytes\s+Input should be less than or equal to 1073741824"),
        ({"packet_bytes": 2**31}, r"packet_bytes\s+Input should be less than or equal to 1073741824"),
        ({"link_latency_ps": -1}, r"link_latency_ps\s+Input should be greater than or equal to 0"),
        ({"match_overhead_ps": -1}, r"match_overhead_ps\s+Input should be greater than or equal to 0"),
        ({"crossbar_bps": -1}, r"crossbar_bps\s+Input should be greater than or equal to 0"),
        ({"send_machines": 0}, r"send_machines\s+Input should be greater than or equal to 1"),
        ({"send_machines": 257}, r"send_machines\s+Input should be less than or equal to 256"),
        ({"link_latency_ps": 0.5}, r"link_latency_ps\s+Input should be a valid integer"),
        ({"packets": 1}, r"packets\s+Extra inputs are not permitted"),
        (
            {"packet_bytes": 1_000, "flit_bytes": 64, "input_buffer_bytes": 1_023},
            r"input_buffer_bytes is 1023 but must hold a packet of 1024 bytes \(in whole flits\)",
        ),
        (
            {"packet_bytes": 1_000, "flit_bytes": 64, "output_buffer_bytes": 1_000},
            r"output_buffer_bytes is 1000 but must hold a packet of 1024 bytes \(in whole flits\)",
        ),
        (
            {"packet_bytes": 4_096, "flit_bytes": 1},
            r"packet_bytes is 4096 but must be at most 4095 flits of 1 bytes",
        ),
        (
            {"packet_bytes": 8, "flit_bytes": 1, "input_buffer_bytes": 2**29},
            r"input_buffer_bytes is 536870912 but must be below 536870912 flits of 1 bytes",
        ),
        (
            {"bandwidth_bps": {"optical": 1}},
            r"kind of link 'optical'; allowed are host, board, row, column, uplink, local, global",
        ),
        ({"bandwidth_bps": {"row": 0}}, r"bandwidth_bps of row is 0 but must be 1000000 to 10{18}"),
        ({"bandwidth_bps": {"row": 2**64}}, r"bandwidth_bps of row is 18446744073709551616 but must be"),
        ({"link_latency_ps": 10**12 + 1}, r"link_latency_ps\s+Input should be less than or equal to 10{12}"),
        ({"nic_command_ps": 2**63}, r"nic_command_ps\s+Input should be less than or equal to 10{12}"),
        ({"crossbar_bps": 2**63}, r"crossbar_bps\s+Input should be less than or equal to 10{18}"),
        ({"latency_ps": {"cable": 1}}, r"latency_ps has the kind of link 'cable'; allowed are host, board"),
        ({"latency_ps": {"row": -1}}, r"latency_ps of row is -1 but must be 0 to 10{12}"),
        ({"latency_ps": {"row": 2**62}}, r"latency_ps of row is 4611686018427387904 but must be"),
    ],
)
def test_parameters_that_cannot_work_are_refused_by_name(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        NetworkParams(**changes)


def test_the_largest_packets_and_the_smallest_buffers_that_are_allowed_run(bare: Bare) -> None:
    params = bare(packet_bytes=4_095, flit_bytes=1, input_buffer_bytes=4_095, output_buffer_bytes=4_095)
    result = engine.run(HyperX2D(2, 2), ShiftSchedule(4, 10_000), params)
    assert result.status == "complete"
    assert result.packets == 12 * 3


def test_parameters_do_not_change() -> None:
    with pytest.raises(ValueError, match="frozen"):
        NetworkParams().packet_bytes = 1  # type: ignore[misc]


# ---- placement and schedules ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("placement", "message"),
    [
        ([0, 1], r"placement has shape \(2,\) but must be 3 integers"),
        ([[0, 1, 2]], r"placement has shape \(1, 3\) but must be 3 integers"),
        ([0.0, 1.0, 2.0], r"placement has shape \(3,\) but must be 3 integers"),
        ([0, 1, 4], r"placement must hold endpoints 0 to 3"),
        ([0, -1, 2], r"placement must hold endpoints 0 to 3"),
        ([3, 1, 3], r"placement puts two ranks on one endpoint"),
    ],
)
def test_placements_that_cannot_be_are_refused(placement: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        engine.run(Torus2D(2, 2), ShiftSchedule(3, 1), placement=placement)


def test_more_ranks_than_endpoints_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"ranks are 5 but must be at most the 4 endpoints of torus of 2x2"):
        engine.run(Torus2D(2, 2), ShiftSchedule(5, 1))


def test_ranks_sit_where_they_are_placed(bare: Bare) -> None:
    result = engine.run(Torus2D(4, 4), ShiftSchedule(3, 100), bare(), placement=[9, 2, 14], links=True)
    assert result.links is not None
    used = result.links[(result.links.router < 0) & (result.links.packets > 0)]
    assert sorted(-1 - used.router) == [2, 9, 14]


def test_a_schedule_that_cannot_finish_is_refused_before_the_run() -> None:
    text = "num_ranks 2\nrank 0 {\nsend 8b to 1\n}\nrank 1 {\n}"
    with pytest.raises(ConfigError, match=r"rank 0 operation 0 \(SEND\).* has no matching receive"):
        engine.run(HyperX2D(2, 1), parse_goal(text))


def test_ranks_with_nothing_to_do_are_done_at_once(bare: Bare) -> None:
    idle = parse_goal("num_ranks 3\nrank 1 {\n}")
    result = engine.run(HyperX2D(3, 1), idle, bare())
    assert result.status == "complete"
    assert result.ranks.end_ps.tolist() == [0, 0, 0]
    assert result.simulated_time_ps == 0
    no_shifts = ShiftSchedule(3, 8, np.array([], dtype=np.int32))
    assert engine.run(HyperX2D(3, 1), no_shifts, bare()).ranks.end_ps.tolist() == [0, 0, 0]
