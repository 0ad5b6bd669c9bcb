"""Expansion of a study: run ids, shared runs, labels, files."""

import copy
import json
import random
from pathlib import Path
from typing import Any

import pytest

from topologies import ConfigError, catalog
from workflow.experiment import (
    CONFIG_DIR,
    Experiment,
    Plan,
    expand,
    find_config,
    load_plan,
    load_study,
    run_id,
    write_if_changed,
)
from workflow.schema import parse_study

ENTRY = {
    "topology": {"type": "hxmesh", "a": 2, "b": 2, "x": 2, "y": 2},
    "motif": {"type": "alltoall", "message": 64},
}


def plan_of(*entries: dict[str, Any], **study: Any) -> Plan:
    return expand(parse_study({"name": "study", "experiments": list(entries)} | study))


def only(plan: Plan) -> Experiment:
    (experiment,) = plan.experiments.values()
    return experiment


def shuffled(value: Any) -> Any:
    if isinstance(value, dict):
        items = list(value.items())
        random.Random(1).shuffle(items)
        return {key: shuffled(element) for key, element in reversed(items)}
    return value


def test_run_id_does_not_depend_on_the_order_of_keys() -> None:
    experiment = only(plan_of(ENTRY)).model_dump()
    assert run_id(shuffled(experiment)) == run_id(experiment)
    assert only(plan_of(shuffled(ENTRY))).run_id == only(plan_of(ENTRY)).run_id


def test_run_id_is_known() -> None:
    # Results of earlier versions are found again by this; it changes only together with SCHEMA_VERSION.
    assert run_id({"b": [1, 2], "a": {"y": None, "x": "z"}}) == "405b82670a7f"


def test_run_id_depends_on_every_parameter_and_on_no_label() -> None:
    base = only(plan_of(ENTRY)).run_id

    def other(**changes: Any) -> str:
        return only(plan_of(copy.deepcopy(ENTRY) | changes)).run_id

    assert other(topology=ENTRY["topology"] | {"name": "mine"}) == base
    assert other(role="something") == base
    assert other(network={"packet": "8 KiB"}) == base  # the default
    different = {
        other(topology=ENTRY["topology"] | {"x": 3}),
        other(topology=ENTRY["topology"] | {"bandwidth": {"board": "200 Gb/s"}}),
        other(motif={"type": "alltoall", "message": 65}),
        other(motif={"type": "alltoall", "message": 64, "window": 1}),
        other(network={"packet": "4 KiB"}),
        other(network={"latency": {"board": "1 ns"}}),
        other(seeds=[1]),
    }
    assert len(different) == 7
    assert base not in different
    # A rate means the same whether it is said of the topology or of the network.
    assert other(network={"bandwidth": {"board": "200 Gb/s"}}) in different
    # A kind of link that the network does not have makes no difference.
    assert other(network={"bandwidth": {"global": "200 Gb/s"}}) == base
    assert other(network={"latency": {}}) == base


def test_same_network_under_two_names_is_one_run_with_two_rows() -> None:
    plan = plan_of(
        {"topologies": ["hx2mesh"], "variants": ["as-simulated", "as-costed"], "motif": ENTRY["motif"]},
        ENTRY | {"topology": {"type": "hxmesh", "columns": 32, "rows": 32}},
    )
    assert len(plan.experiments) == 1
    assert [(row["topology"], row["variant"]) for row in plan.rows] == [
        ("hx2mesh", "as-simulated"),
        ("hx2mesh", "as-costed"),
        ("HxMesh of 16x16 boards of 2x2", "own"),
    ]


def test_single_plane_carries_its_share_and_keeps_the_label() -> None:
    plan = plan_of(
        {
            "topologies": ["fattree"],
            "single_plane": True,
            "motif": {"type": "ring", "total": "2 GiB"},
            "network": {"crossbar": "800 Gb/s"},
        }
    )
    experiment = only(plan)
    assert experiment.topology["injection_bps"] == 400 * 10**9
    assert experiment.topology["planes"] == 16
    assert experiment.motif["total_bytes"] == 2**29
    assert plan.rows[0]["bytes"] == 2**31
    assert plan.rows[0]["algorithm"] == "ring"
    assert plan.rows[0]["role"] == "allreduce"


def test_seed_of_a_study_draws_the_permutation() -> None:
    plan = plan_of(
        {"topology": ENTRY["topology"], "motif": {"type": "permutation", "message": 64}}, seeds=[3, 4]
    )
    assert [experiment.motif["seed"] for experiment in plan.experiments.values()] == [3, 4]
    assert [row["seed"] for row in plan.rows] == [3, 4]
    assert len(plan.experiments) == 2


def test_experiment_says_what_it_is_and_builds_it_again(tmp_path: Path) -> None:
    plan = plan_of(ENTRY | {"network": {"packet": "4 KiB", "bandwidth": {"row": "100 Gb/s"}}})
    plan.prepare(tmp_path)
    experiment = Experiment.load(tmp_path / "runs" / only(plan).run_id / "experiment.json")
    assert experiment == only(plan)
    topology = experiment.build_topology()
    assert topology.same_network(plan.topology(experiment.run_id))
    assert topology.num_endpoints == experiment.topology["num_endpoints"] == 16
    assert experiment.topology["bandwidth_bps"]["row"] == 10**11
    assert experiment.network_params().packet_bytes == 4096
    assert experiment.build_schedule(topology).num_messages == 16 * 15


def test_study_json_lists_the_rows(tmp_path: Path) -> None:
    plan = plan_of(ENTRY, kind="alltoall", description="words")
    plan.prepare(tmp_path)
    content = json.loads((tmp_path / "study.json").read_text())
    assert content == {"name": "study", "kind": "alltoall", "description": "words", "rows": plan.rows}
    assert plan.rows[0]["message_bytes"] == 64


def test_preparing_again_leaves_right_files_alone(tmp_path: Path) -> None:
    plan = plan_of(ENTRY)
    files = plan.prepare(tmp_path)
    before = {path: path.stat().st_mtime_ns for path in files}
    plan.prepare(tmp_path)
    assert {path: path.stat().st_mtime_ns for path in files} == before
    files[0].write_text("{}")
    plan.prepare(tmp_path)
    assert Experiment.load(files[0]) == only(plan)
    assert sorted(path.name for path in files[0].parent.iterdir()) == ["experiment.json"]


def test_write_if_changed_replaces_what_is_not_text(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"\xff\xfe")
    assert write_if_changed(path, "text")
    assert not write_if_changed(path, "text")


def test_changed_experiment_file_is_refused(tmp_path: Path) -> None:
    plan = plan_of(ENTRY)
    path = plan.prepare(tmp_path)[0]
    content = json.loads(path.read_text())
    content["motif"]["message_bytes"] = 128
    path.write_text(json.dumps(content))
    with pytest.raises(ConfigError, match="change the configuration and not this file"):
        Experiment.load(path)
    content["schema_version"] = 0
    path.write_text(json.dumps(content))
    with pytest.raises(ConfigError, match="schema_version is 0 but must be"):
        Experiment.load(path)
    path.write_text("{}")
    with pytest.raises(ConfigError, match="run_id is missing"):
        Experiment.load(path)


@pytest.mark.parametrize(
    ("entry", "fault"),
    [
        (ENTRY | {"single_plane": True}, "single_plane is true but must be false"),
        (
            ENTRY | {"topology": {"type": "hxmesh", "columns": 5, "rows": 4}},
            "columns of the grid is 5 but must be a",
        ),
        (ENTRY | {"network": {"packet": "64 MiB"}}, "packet_bytes is"),
        (ENTRY | {"network": {"input_buffer": "4 KiB"}}, "input_buffer_bytes is 4096 but must hold a packet"),
        (ENTRY | {"network": {"crossbar": "100 Gb/s"}}, "crossbar_bps is 100000000000 but must be"),
        (ENTRY | {"motif": {"type": "goal", "file": "no.goal"}}, "no.goal' cannot be read: No such file"),
        (
            {
                "topologies": ["fattree"],
                "single_plane": True,
                "motif": {"type": "ring", "total": 6},
                "network": {"crossbar": "800 Gb/s"},
            },
            "total is 6 B but must be a multiple of 4 bytes",
        ),
    ],
)
def test_what_cannot_be_built_names_the_entry(entry: dict[str, Any], fault: str) -> None:
    with pytest.raises(ConfigError) as caught:
        plan_of(entry)
    assert str(caught.value).startswith("experiments[0]: ")
    assert fault in str(caught.value)


def test_grid_motif_without_grid_is_refused_by_check() -> None:
    plan = plan_of({"topologies": ["fattree"], "motif": {"type": "bucket", "total": 1024}})
    with pytest.raises(ConfigError, match="bucket on fattree: grid is missing"):
        plan.check()


GOAL = "num_ranks 2\nrank 0 {\nl1: send 8b to 1 tag 0\n}\nrank 1 {\nl1: recv 8b from 0 tag 0\n}\n"


def goal_plan(tmp_path: Path, text: str, **goal: Any) -> Plan:
    config = tmp_path / "study.yaml"
    (tmp_path / "traffic.goal").write_text(text)
    study = {"name": "g", "experiments": [ENTRY | {"motif": {"type": "goal", "file": "traffic.goal"} | goal}]}
    config.write_text(json.dumps(study))
    return load_plan(config)


def test_goal_file_is_found_beside_the_configuration_and_hashed(tmp_path: Path) -> None:
    first = only(goal_plan(tmp_path, GOAL))
    assert first.build_schedule(first.build_topology()).num_messages == 1
    assert only(goal_plan(tmp_path, GOAL, calc_unit="2 ns")).run_id != first.run_id
    assert only(goal_plan(tmp_path, GOAL.replace("8b", "9b"))).run_id != first.run_id
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert only(goal_plan(elsewhere, GOAL)).run_id == first.run_id


def test_goal_file_that_changes_after_preparation_is_refused(tmp_path: Path) -> None:
    experiment = only(goal_plan(tmp_path, GOAL))
    (tmp_path / "traffic.goal").write_text(GOAL.replace("8b", "9b"))
    with pytest.raises(ConfigError, match="has changed since the run was prepared"):
        experiment.build_schedule(experiment.build_topology())


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (GOAL.replace("l1: recv 8b from 0 tag 0\n", ""), "rank 0"),
        (GOAL.replace("num_ranks 2", "num_ranks 17"), "num_ranks is 17 but must be at most 16"),
    ],
)
def test_goal_file_that_cannot_run_is_refused(tmp_path: Path, text: str, fault: str) -> None:
    plan = goal_plan(tmp_path, text)
    with pytest.raises(ConfigError, match=fault):
        plan.check()


def test_configs_are_found_by_path_and_by_name(tmp_path: Path) -> None:
    assert find_config("table2_small") == CONFIG_DIR / "table2_small.yaml"
    own = tmp_path / "own.yaml"
    own.write_text("{}")
    assert find_config(own) == own
    with pytest.raises(ConfigError, match="did you mean 'table2_small'"):
        find_config("table2_smal")
    with pytest.raises(ConfigError, match="does not exist"):
        find_config("missing.yaml")


@pytest.mark.parametrize("path", sorted(CONFIG_DIR.glob("*.yaml")), ids=lambda path: path.stem)
def test_shipped_studies_expand(path: Path) -> None:
    plan = load_plan(path)
    assert plan.study.name == path.stem
    assert {row["run_id"] for row in plan.rows} == set(plan.experiments)


@pytest.mark.parametrize("name", ["table2_small", "table2_quick"])
def test_table2_has_both_roles_for_every_network_and_variant(name: str) -> None:
    plan = load_plan(find_config(name))
    cells = {(row["topology"], row["variant"], row["role"]) for row in plan.rows}
    assert cells == {
        (topology, variant, role)
        for topology in catalog.TABLE2_NAMES
        for variant in catalog.VARIANTS
        for role in ("alltoall", "allreduce")
    }
    for row in plan.rows:
        if row["role"] == "allreduce":
            switched = row["topology"].startswith(("fattree", "dragonfly"))
            assert row["algorithm"] == ("ring" if switched else "two-rings")
            assert row["single_plane"] == switched


def test_table2_small_is_the_full_one() -> None:
    rows = load_plan(find_config("table2_small")).rows
    assert {row["message_bytes"] for row in rows if row["role"] == "alltoall"} == {2**20}
    assert {row["bytes"] for row in rows if row["role"] == "allreduce"} == {2**31}


def test_table2_large_samples_every_network_at_two_lengths_and_several_seeds() -> None:
    plan = load_plan(find_config("table2_large"))
    for topology in catalog.TABLE2_NAMES:
        for variant in catalog.VARIANTS:
            rows = [row for row in plan.rows if (row["topology"], row["variant"]) == (topology, variant)]
            samples = set()
            for row in rows:
                assert row["cluster"] == "large"
                if row["role"] == "alltoall":
                    motif = plan.experiments[row["run_id"]].motif
                    assert motif["message_bytes"] == 2**20
                    assert motif["seed"] == row["seed"]
                    samples.add((motif["seed"], motif["sample"]))
            seeds, lengths = ({pair[i] for pair in samples} for i in (0, 1))
            assert len(seeds) >= 4
            assert len(lengths) == 2
            assert len(samples) == len(seeds) * len(lengths)
            assert any(row["role"] == "allreduce" for row in rows)


def test_sweeps_hold_every_published_size() -> None:
    alltoall = load_study(find_config("alltoall_small")).experiments[0].motif.choices()
    assert [v["message_bytes"] for _, v in alltoall] == [16, 64, 256, 1024, 4096, 65536, 2**20]
    for entry in load_study(find_config("allreduce_small")).experiments:
        sizes = {values["total_bytes"] for _, values in entry.motif.choices()}
        assert {2**17, 2**19, 2**21, 2**25, 2**27, 2**31} <= sizes
