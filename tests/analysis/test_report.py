"""Files of a report: the same bytes every time, self-contained, and whole."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest

import analysis
from analysis import figures, render, sweeps
from topologies.errors import ConfigError

if TYPE_CHECKING:
    from tests.analysis.conftest import MakeResults, Results


def some_study(results: Results, kind: str) -> Path:
    """A small study of a kind with something missing."""
    for index, name in enumerate(("fattree", "hx2mesh", "torus", "mine")):
        time_ps = None if name == "torus" else 10**9 + index
        if kind in ("table2", "alltoall", "validate", "generic"):
            results.alltoall(name, 1 << 20, time_ps=time_ps)
            results.alltoall(name, 1 << 16, time_ps=10**8)
        if kind in ("table2", "allreduce"):
            ring = name == "fattree"
            results.allreduce(
                name, "ring" if ring else "two-rings", 1 << 25, single_plane=ring, time_ps=time_ps
            )
        if kind == "permutation":
            ranks = pd.DataFrame({"rank": np.arange(16), "bytes_sent": 1 << 26, "bytes_received": 1 << 26})
            ranks = ranks.assign(start_ps=0, end_ps=10**9 + np.arange(16) * 10**7 * index)
            motif = {"name": "permutation", "message_bytes": 32 << 20}
            results.run(name, role="permutation", motif=motif, ranks=ranks, time_ps=time_ps)
    return results.finish()


KINDS = ("table2", "alltoall", "allreduce", "permutation", "validate", "generic")


@pytest.mark.parametrize("kind", KINDS)
def test_a_report_of_every_kind_is_whole_and_deterministic(make_results: MakeResults, kind: str) -> None:
    path = some_study(make_results("study", kind), kind)
    written = analysis.report(path)
    stem = "table2" if kind == "table2" else "study"
    expected = {path / f"{stem}.csv", path / f"{stem}.md", path / "report.html", path / "runs.csv"}
    if kind not in ("validate", "generic"):
        expected |= {path / "figures" / f"{stem}.png", path / "figures" / f"{stem}.pdf"}
    if kind == "permutation":
        expected.add(path / "per_accelerator.parquet")
    assert set(written) == expected
    assert written == sorted(written)
    assert not list(path.rglob("*.part"))
    first = {p: hashlib.sha256(p.read_bytes()).hexdigest() for p in written}
    assert analysis.report(path) == written
    assert {p: hashlib.sha256(p.read_bytes()).hexdigest() for p in written} == first


def test_row_order_of_the_study_does_not_matter(make_results: MakeResults) -> None:
    results = make_results("study", "alltoall")
    path = some_study(results, "alltoall")
    before = render.csv_text(sweeps.build_alltoall(analysis.collect(path)))
    results.rows.reverse()
    results.finish()
    assert render.csv_text(sweeps.build_alltoall(analysis.collect(path))) == before


def test_html_needs_no_other_file_and_shows_the_config(make_results: MakeResults, tmp_path: Path) -> None:
    path = some_study(make_results("study", "table2"), "table2")
    config = tmp_path / "study.yaml"
    config.write_text("name: study  # <b>&\n")
    analysis.report(path, config)
    html = (path / "report.html").read_text()
    assert html.count('src="data:image/png;base64,') == 1
    assert not re.search(r'(src|href)="(?!data:)', html)
    assert "name: study  # &lt;b&gt;&amp;" in html
    assert "hxmesh 0.1.0" in html
    assert "Engine: packet." in html
    assert "99.90†" in html
    assert "† unverified" in html
    assert "missing (no result.json)" in html


def test_an_unreadable_config_is_one_sentence(make_results: MakeResults, tmp_path: Path) -> None:
    path = some_study(make_results("study", "generic"), "generic")
    with pytest.raises(ConfigError, match="cannot be read"):
        analysis.report(path, tmp_path / "no.yaml")


@pytest.mark.parametrize("kind", KINDS)
def test_a_study_of_which_nothing_ran_still_reports(make_results: MakeResults, kind: str) -> None:
    results = make_results("study", kind)
    role = {"table2": "alltoall", "generic": ""}.get(kind, kind)
    row = {"run_id": "none", "topology": "torus", "variant": "as-simulated", "cluster": "small", "role": role}
    results.rows.append(row)
    written = analysis.report(results.finish())
    csv_path = next(p for p in written if p.suffix == ".csv" and p.name != "runs.csv")
    assert "missing" in csv_path.read_text()


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_study_still_reports(make_results: MakeResults, kind: str) -> None:
    assert analysis.report(make_results("study", kind).finish())


def test_several_clusters_have_a_figure_each(make_results: MakeResults) -> None:
    results = make_results("study", "permutation")
    for cluster in ("small", "large"):
        results.run("torus", role="permutation", motif={"name": "permutation"}, cluster=cluster, time_ps=None)
    names = {p.name for p in analysis.report(results.finish())}
    assert {"study-small.png", "study-large.png"} <= names


def test_csv_cells() -> None:
    frame = pd.DataFrame(
        {
            "count": pd.array([1, None], dtype="Int64"),
            "share": [0.1 + 0.2, float("nan")],
            "time_s": [0.123456789012, None],
            "ok": [True, False],
            "text": ["a,b", ""],
        }
    )
    assert render.csv_text(frame) == (
        'count,share,time_s,ok,text\n1,0.3,0.123456789012,true,"a,b"\n,,,false,\n'
    )


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (16, "16 B"),
        (1024, "1 KiB"),
        (1536, "1536 B"),
        (65536, "64 KiB"),
        (1 << 20, "1 MiB"),
        (3 << 30, "3 GiB"),
        (0, "0 B"),
    ],
)
def test_size_labels(size: int, text: str) -> None:
    assert render.size_label(size) == text


def test_markdown_cells_cannot_break_the_table(tmp_path: Path) -> None:
    frame = pd.DataFrame({"note": ["a | b\nc"]})
    table = render.table("T", {"note": render.Column("note", left=True)}, frame)
    text = render.markdown_text(render.Report("R", "", [table]), base=tmp_path)
    assert "| a \\| b c |" in text


def test_write_replaces_a_file_whole(tmp_path: Path) -> None:
    path = render.write(tmp_path / "deep" / "a.txt", "one\n")
    render.write(path, b"two\n")
    assert path.read_text() == "two\n"
    assert [p.name for p in path.parent.iterdir()] == ["a.txt"]


def test_colours_are_fixed_and_different() -> None:
    colours = [
        figures.colour(name) for name in ("fattree", "fattree50", "dragonfly", "hyperx", "hx2mesh", "torus")
    ]
    assert len(set(colours)) == len(colours)
    assert figures.colour("mine", ["hx2mesh", "mine", "yours"]) != figures.colour(
        "yours", ["hx2mesh", "mine", "yours"]
    )


def test_study_json_may_carry_more_labels(make_results: MakeResults) -> None:
    results = make_results("study", "generic")
    results.alltoall("torus", labels={"colour": "red"})
    path = results.finish()
    study = json.loads((path / "study.json").read_text())
    study["schema_version"] = 3
    (path / "study.json").write_text(json.dumps(study))
    assert analysis.report(path)
