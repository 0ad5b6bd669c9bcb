"""Workload files: shipped ones, a user's own, and what is wrong with others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from motifs.dnn import TABLES_DIR, build_iteration, compute_ps
from topologies import ConfigError, HxMesh
from workflow.experiment import find_config, load_plan
from workflow.workload import find_workload, json_schema, load_workload, read_workload

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
SHIPPED = sorted(path.stem for path in TABLES_DIR.glob("*.yaml"))
OWN = ["llama3_70b.yaml", "mixtral_8x7b.yaml"]


def written(path: Path, **content: Any) -> Path:
    file = path / "own.yaml"
    file.write_text(yaml.safe_dump({"name": "own"} | content))
    return file


def test_the_articles_workloads_are_shipped() -> None:
    assert SHIPPED == ["cosmoflow", "dlrm", "gpt3", "gpt3_moe", "resnet152"]


@pytest.mark.parametrize("path", [*sorted(TABLES_DIR.glob("*.yaml")), *(EXAMPLES / name for name in OWN)])
def test_files_keep_to_the_schema(path: Path) -> None:
    validator = jsonschema.Draft202012Validator(json.loads(json_schema()))
    validator.validate(yaml.safe_load(path.read_text()))
    read_workload(path).resolve()


def test_llama_has_the_size_that_its_authors_say() -> None:
    read = read_workload(EXAMPLES / "llama3_70b.yaml")
    assert read.transformer is not None
    model = read.transformer.resolve(read.element)
    assert model.parameters == pytest.approx(70.6e9, rel=0.002)
    workload = read.resolve()
    # 8 examples, 2 replicas, one example a pass: 4 microbatches of 20 layers a stage.
    assert (workload.d, workload.p, workload.o, workload.microbatches) == (2, 4, 8, 4)
    activations = 2 * 4096 * 8192
    allreduces = [step for step in workload.forward if step.op == "allreduce"]
    assert len(allreduces) == 2 * 20
    assert {step.size_bytes for step in allreduces} == {activations}
    assert workload.stage_bytes == activations // 8
    assert workload.update[0].size_bytes == 2 * -(-model.parameters // 32)
    # Six operations for each parameter and token, and attention: within the embeddings' share of them.
    flops = compute_ps(workload) / 1e12 * 400e12 * 0.5
    passes = 4 + 4 - 1
    each = 3 * 20 * model.layer_flops() / 8
    assert flops == pytest.approx(passes * each, rel=1e-6)
    assert 4 * 3 * 80 * model.layer_flops() == pytest.approx(6 * model.parameters * 4 * 4096, rel=0.1)


def test_experts_are_reached_by_alltoalls() -> None:
    read = read_workload(EXAMPLES / "mixtral_8x7b.yaml")
    assert read.transformer is not None
    model = read.transformer.resolve(read.element)
    assert model.parameters == pytest.approx(46.7e9, rel=0.002)
    workload = read.resolve()
    routed = [step for step in workload.forward if step.op == "alltoall"]
    assert len(routed) == 2 * 16
    assert {(step.over, step.size_bytes) for step in routed} == {("D", 2 * 2 * 4096 * 4096)}
    # Experts have one copy, so that only the gradients of the other parameters are combined over D.
    experts = 32 * 8 * model.ffn_parameters
    assert workload.update[0].size_bytes == 2 * -(-(model.parameters - experts) // (4 * 2))


@pytest.mark.parametrize("name", OWN)
def test_own_models_can_run(name: str) -> None:
    workload = load_workload(name, EXAMPLES, {"D": 8, "P": 4, "O": 2})
    schedule = build_iteration(workload, HxMesh.from_grid(8, 8, (2, 2)), algorithm="best", planes=4).schedule
    schedule.check()


def test_the_documented_study_expands() -> None:
    plan = load_plan(EXAMPLES / "own_models.yaml")
    assert len(plan.run_ids) == 6
    assert {row["workload"] for row in plan.rows} == {"llama3_70b", "mixtral_8x7b"}


def test_the_shipped_study_has_five_workloads_on_eight_networks() -> None:
    plan = load_plan(find_config("dnn"))
    shown = [row for row in plan.rows if row["role"] != "timeline"]
    assert len(shown) == 5 * 8
    assert len({(row["workload"], row["topology"]) for row in shown}) == 5 * 8
    traced = [row for row in plan.rows if row["role"] == "timeline"]
    assert traced
    assert all(step["end"] is not None for row in traced for step in row["trace"])


def test_parallelism_can_be_replaced() -> None:
    assert load_workload("resnet152", parallelism={"D": 256}).d == 256
    with pytest.raises(ConfigError, match="D is 128 but must be 256, 512, 1024"):
        load_workload("resnet152", parallelism={"D": 128})


def test_steps_are_repeated(tmp_path: Path) -> None:
    steps = [{"repeat": 3, "steps": [{"compute": "1 us"}, {"allreduce": {"over": "O", "elements": 10}}]}]
    workload = read_workload(written(tmp_path, parallelism={"O": 2}, element="2 B", forward=steps)).resolve()
    assert [step.op for step in workload.forward] == ["compute", "allreduce"] * 3
    assert workload.forward[1].size_bytes == 20


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ({}, "steps of own is none"),
        ({"fordward": []}, "unknown key 'fordward'; did you mean 'forward'?"),
        ({"forward": [{"compute": "5"}]}, "has no unit"),
        ({"forward": [{"compute": "1 us", "wait": True}]}, "compute and wait"),
        ({"forward": [{}]}, "has none but must have one of"),
        ({"forward": [{"compute": "1 us", "overlapped": True}]}, "overlapped"),
        ({"forward": [{"allreduce": {"over": "O"}}]}, "no size"),
        ({"forward": [{"allreduce": {"over": "X", "size": "1 MiB"}}]}, r"forward\[0\].allreduce.over\[0\]"),
        ({"forward": [{"allreduce": {"over": "O", "volume": "V_O"}}]}, "no model to compute it from"),
        ({"forward": [{"compute": "1 us"}], "parallelism": {"D": 0}}, "parallelism.D is 0"),
        ({"forward": [{"compute": "1 us"}], "pipeline": "2f2b"}, "pipeline is '2f2b'"),
        (
            {"forward": [{"compute": "1 us"}], "pipeline": "single-step", "parallelism": {"P": 3}},
            "parallelism P of own is 3 but must be even",
        ),
    ],
)
def test_wrong_files_get_one_sentence(tmp_path: Path, content: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence) as caught:
        load_workload(str(written(tmp_path, **content)))
    assert "\n" not in str(caught.value)
    assert "own.yaml" in str(caught.value)


def test_wrong_transformers(tmp_path: Path) -> None:
    sizes = {"layers": 6, "hidden": 64, "ffn": 256, "heads": 4, "vocabulary": 100}
    sizes |= {"sequence": 16, "batch": 4, "teraflops": 1}
    for change, split, sentence in (
        ({}, {"P": 4}, "layers is 6 but must be a multiple of P = 4"),
        ({}, {"D": 3}, "batch is 4 but must be a multiple of"),
        ({"heads": 5}, {}, "multiple of heads"),
        ({"experts": 3, "expert_axis": "O"}, {"O": 2}, "experts is 3 but must be a multiple of O = 2"),
        ({"layers": "many"}, {}, "transformer.layers is 'many'"),
    ):
        file = written(tmp_path, parallelism=split, transformer=sizes | change)
        with pytest.raises(ConfigError, match=sentence):
            load_workload(str(file))
    file = written(tmp_path, transformer=sizes, forward=[{"compute": "1 us"}])
    with pytest.raises(ConfigError, match="both transformer and forward"):
        load_workload(str(file))


def test_unknown_workloads(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean 'gpt3'"):
        find_workload("gpt-3", tmp_path)
    with pytest.raises(ConfigError, match="does not exist"):
        find_workload("mine.yaml", tmp_path)
