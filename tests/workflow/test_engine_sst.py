"""Experiments for SST: what is part of their identity, what is refused, how they run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from analysis.validate import compare_ports
from topologies import ConfigError
from workflow.experiment import Experiment, expand, load_plan
from workflow.runner import run_experiment
from workflow.schema import parse_study

STUDY: dict[str, Any] = {
    "name": "one",
    "experiments": [
        {
            "topologies": [{"type": "torus", "columns": 4, "rows": 4}],
            "motif": {"type": "alltoall", "message": "8 KiB"},
        }
    ],
}


def experiment(**changes: Any) -> Experiment:
    return next(iter(expand(parse_study(STUDY | changes)).experiments.values()))


def test_identity() -> None:
    packet = experiment()
    assert packet.sst is None
    assert "sst" not in json.loads(packet.to_json())
    serial = experiment(engine="sst")
    assert serial.run_id != packet.run_id
    assert experiment(engine="sst", sst={"threads": 2, "ranks": 3}).run_id == serial.run_id
    assert experiment(engine="sst", sst={"reorder": True}).run_id != serial.run_id
    assert experiment(sst={"reorder": True}).run_id == packet.run_id
    further = {"merlin.hr_router": {"oql_track_port": "true"}}
    assert experiment(engine="sst", sst={"parameters": further}).run_id != serial.run_id


def test_file_of_an_experiment(tmp_path: Path) -> None:
    made = experiment(engine="sst", sst={"threads": 2})
    (tmp_path / "experiment.json").write_text(made.to_json())
    assert Experiment.load(tmp_path / "experiment.json") == made


def test_another_engine_than_the_configurations(tmp_path: Path) -> None:
    config = tmp_path / "study.yaml"
    config.write_text(json.dumps(STUDY))
    assert load_plan(config).study.engine == "packet"
    plan = load_plan(config, "sst")
    assert (plan.study.engine, plan.study.name) == ("sst", "one-sst")
    assert load_plan(config, "packet").study.name == "one"
    with pytest.raises(ConfigError, match="did you mean 'packet'"):
        load_plan(config, "pakket")


def test_both_engines() -> None:
    plan = expand(parse_study(STUDY | {"engine": ["packet", "sst"]}))
    assert [made.engine for made in plan.experiments.values()] == ["packet", "sst"]
    assert set(plan.run_ids) == {experiment().run_id, experiment(engine="sst").run_id}
    assert len(plan.rows) == 2


def test_tables_of_links_are_kept_where_asked_for(tmp_path: Path) -> None:
    plain, kept = experiment(), experiment(links=True)
    assert kept.run_id == plain.run_id
    assert "links" not in json.loads(plain.to_json())
    assert run_experiment(plain, tmp_path / "plain").links is None
    assert run_experiment(kept, tmp_path / "kept").links is not None
    assert (tmp_path / "kept" / "links.parquet").is_file()
    assert Experiment.load(tmp_path / "kept" / "experiment.json") == kept


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"engine": "sts"}, "engine"),
        ({"engine": ["sst", "sst"]}, "a list of different ones"),
        ({"engine": []}, "a list of different ones"),
        ({"sst": {"thread": 2}}, "did you mean 'threads'"),
        ({"sst": {"threads": 0}}, "threads"),
    ],
)
def test_wrong_keys(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        parse_study(STUDY | changes)


@pytest.mark.parametrize(
    ("topology", "sst", "words"),
    [
        ({"type": "torus", "columns": 4, "rows": 4, "balanced": True}, {}, "always goes the positive way"),
        (
            {"type": "torus", "columns": 4, "rows": 4},
            {"parameters": {"merlin.hr_router": {"oql_trak_port": 1}}},
            "did you mean 'oql_track_port'",
        ),
    ],
)
def test_checked_before_anything_is_written(topology: Any, sst: Any, words: str) -> None:
    from workflow import on_sst

    changes = {
        "engine": "sst",
        "sst": sst,
        "experiments": [STUDY["experiments"][0] | {"topologies": [topology]}],
    }
    plan = expand(parse_study(STUDY | changes))
    with pytest.raises(ConfigError, match=words):
        on_sst.check(plan, installed=False)


def test_no_sst(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="SST is not there"):
        run_experiment(experiment(engine="sst"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.sst
def test_run(tmp_path: Path) -> None:
    import shutil

    from sst_models import build, locate

    if shutil.which("sst") is None:
        pytest.skip("no program sst on the PATH")
    installation = locate.find()
    if not build.is_current(installation, build.library_dir(installation)):
        pytest.skip("the element library is not built; hxmesh sst build")
    theirs = run_experiment(experiment(engine="sst", links=True), tmp_path / "sst")
    ours = run_experiment(experiment(links=True), tmp_path / "packet")
    assert theirs.complete
    assert theirs.engine == "sst"
    assert theirs.packet_hops == ours.packet_hops
    assert theirs.simulated_time_ps == pytest.approx(ours.simulated_time_ps, rel=0.02)
    assert compare_ports(tmp_path / "sst", tmp_path / "packet")["ports_differing"] == 0
