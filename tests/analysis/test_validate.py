"""SST and the packet engine side by side, from results directories made by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

import analysis
from analysis import validate

if TYPE_CHECKING:
    from tests.analysis.conftest import MakeResults, Results

RING: dict[str, Any] = {"name": "ring", "total_bytes": 16 << 20}
BUCKET: dict[str, Any] = {"name": "bucket", "total_bytes": 16 << 20}
ALLTOALL: dict[str, Any] = {"name": "alltoall", "message_bytes": 64 << 10}


def links(*flits: int) -> pd.DataFrame:
    """A table of links with one port for each number."""
    return pd.DataFrame({"router": 0, "port": range(len(flits)), "flits": flits})


def add(
    results: Results,
    engine: str,
    *,
    motif: dict[str, Any] | None = None,
    family: str = "torus",
    wall_s: float = 1.0,
    table: pd.DataFrame | None = None,
    **changes: Any,
) -> str:
    """A run of an engine on 64 accelerators."""
    motif = motif or RING
    role = "allreduce" if "total_bytes" in motif else motif["name"]
    given: dict[str, Any] = {"accelerators": 64, "topology": "torus"} | changes
    run = results.run(role=role, motif=motif, result={"engine": engine, "wall_s": wall_s}, **given)
    path = results.path / "runs" / run / "experiment.json"
    experiment = json.loads(path.read_text())
    experiment["engine"] = engine
    experiment["topology"]["family"] = family
    path.write_text(json.dumps(experiment))
    if table is not None:
        table.to_parquet(path.with_name("links.parquet"), index=False)
    return run


def built(results: Results) -> pd.DataFrame:
    path = results.finish()
    return validate.build(path, analysis.collect(path))


def test_a_pair_is_a_row(make_results: MakeResults) -> None:
    results = make_results("validate", "validate")
    add(results, "sst", time_ps=1_010_000_000, wall_s=30.0, table=links(10, 20, 30))
    add(results, "packet", time_ps=1_000_000_000, wall_s=0.25, table=links(10, 22, 28))
    frame = built(results)
    assert list(frame.columns)[:9] == [
        "topology",
        "accelerators",
        "motif",
        "simulated_time_sst_s",
        "simulated_time_packet_s",
        "relative_difference",
        "wall_sst_s",
        "wall_packet_s",
        "speed_ratio",
    ]
    (row,) = frame.to_dict("records")
    assert (row["topology"], row["accelerators"], row["motif"]) == ("torus", 64, "ring")
    assert (row["simulated_time_sst_s"], row["simulated_time_packet_s"]) == (1.01e-3, 1e-3)
    assert row["relative_difference"] == pytest.approx(0.01)
    assert (row["wall_sst_s"], row["wall_packet_s"], row["speed_ratio"]) == (30.0, 0.25, 120.0)
    assert (row["ports"], row["ports_differing"]) == (3, 2)
    assert row["port_bytes_relative_difference"] == pytest.approx(4 / 60)
    assert (row["size_bytes"], row["status"], row["note"]) == (16 << 20, "complete", "")


def test_ports_that_one_engine_does_not_name_carried_nothing(tmp_path: Path) -> None:
    for name, table in (("sst", links(10, 20)), ("packet", links(10, 20, 5))):
        (tmp_path / name).mkdir()
        table.to_parquet(tmp_path / name / "links.parquet")
    found = validate.compare_ports(tmp_path / "sst", tmp_path / "packet")
    assert (found["ports"], found["ports_differing"]) == (3, 1)
    assert validate.compare_ports(tmp_path / "sst", tmp_path / "none") == {}


def test_a_row_beyond_two_percent_says_why(make_results: MakeResults) -> None:
    results = make_results("validate", "validate")
    cases = (
        ("fattree", BUCKET, 1.03),
        ("hxmesh", ALLTOALL, 0.9),
        ("fattree", ALLTOALL, 1.1),
        ("torus", RING, 1.0),
    )
    for seed, (family, motif, factor) in enumerate(cases):
        labels = {"seed": seed}
        add(results, "packet", family=family, motif=motif, labels=labels)
        add(results, "sst", family=family, motif=motif, labels=labels, time_ps=round(1e9 * factor))
    notes = built(results).set_index("seed")["note"]
    assert "cause 3" in notes[0]
    assert "cause 2" in notes[1]
    assert notes[2] == validate.UNKNOWN
    assert notes[3] == ""


def test_what_did_not_run_is_there_and_says_so(make_results: MakeResults) -> None:
    results = make_results("validate", "validate")
    add(results, "packet")
    add(results, "sst", status="deadlock", message="rank 3 waits for rank 4")
    add(results, "packet", motif=ALLTOALL)
    add(results, "sst", motif=ALLTOALL, time_ps=None)
    add(results, "packet", motif=ALLTOALL, topology="fattree")
    frame = built(results).set_index(["topology", "motif"])
    assert frame.loc[("torus", "ring"), "note"] == "sst: deadlock (rank 3 waits for rank 4)"
    assert frame.loc[("torus", "alltoall"), "status"] == "missing"
    assert frame.loc[("fattree", "alltoall"), "note"] == "sst: missing"
    assert frame["relative_difference"].isna().all()
    assert frame["simulated_time_packet_s"].notna().all()


def test_combinations_that_are_left_out_are_named(make_results: MakeResults) -> None:
    results = make_results("validate", "validate")
    for engine in validate.ENGINES:
        add(results, engine)
        add(results, engine, motif=ALLTOALL)
        add(results, engine, motif=ALLTOALL, topology="fattree")
    path = results.finish()
    analysis.report(path)
    text = (path / "validate.md").read_text()
    assert "Left out: ring on nonblocking fat tree with 64 accelerators." in text
    assert "3 of 3 complete rows are within 2%" in text


def test_small_networks_come_first(make_results: MakeResults) -> None:
    results = make_results("validate", "validate")
    for accelerators in (256, 64):
        for topology in ("torus", "fattree"):
            for engine in validate.ENGINES:
                add(results, engine, topology=topology, accelerators=accelerators)
    rows = built(results)[["accelerators", "topology"]].to_numpy().tolist()
    assert rows == [[64, "fattree"], [64, "torus"], [256, "fattree"], [256, "torus"]]
