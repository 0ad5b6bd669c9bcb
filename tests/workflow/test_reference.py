"""The generated reference files are in step with the models, and say the truth."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from engine import NetworkParams
from workflow import reference, workload
from workflow.experiment import CONFIG_DIR
from workflow.schema import network_params, network_values, parse_study

VALIDATOR = jsonschema.Draft202012Validator(json.loads(reference.json_schema()))


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (CONFIG_DIR / reference.SCHEMA_FILE, reference.json_schema()),
        (CONFIG_DIR / reference.DEFAULT_FILE, reference.default_yaml()),
        (reference.WORKLOAD_SCHEMA, workload.json_schema()),
    ],
)
def test_files_are_in_step(path: Path, text: str) -> None:
    assert path.read_text() == text, "run `hxmesh config write`"


def test_write_tells_what_was_out_of_date(tmp_path: Path) -> None:
    of_workloads = tmp_path / "workload.json"
    assert [path.name for path in reference.write(tmp_path, of_workloads)] == [
        reference.SCHEMA_FILE,
        reference.DEFAULT_FILE,
        of_workloads.name,
    ]
    assert reference.write(tmp_path, of_workloads) == []


def test_default_study_holds_the_engines_defaults() -> None:
    study = parse_study(yaml.safe_load(reference.default_yaml()))
    values = network_values(study.defaults.network)
    assert set(values) == set(NetworkParams.model_fields)
    assert network_params(values) == NetworkParams()


@pytest.mark.parametrize("path", sorted(CONFIG_DIR.glob("*.yaml")), ids=lambda path: path.stem)
def test_shipped_studies_satisfy_the_json_schema(path: Path) -> None:
    assert path.read_text().startswith(f"# yaml-language-server: $schema={reference.SCHEMA_FILE}\n")
    VALIDATOR.validate(yaml.safe_load(path.read_text()))


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "table3"},
        {"surprise": 1},
        {"experiments": []},
        {"experiments": [{"topologies": ["hx3mesh"], "motif": {"type": "alltoall", "message": 1}}]},
        {"experiments": [{"topologies": ["torus"], "motif": {"type": "alltoall", "mssage": 1}}]},
        {"experiments": [{"topologies": [{"type": "torus"}], "motif": {"type": "alltoall", "message": 1}}]},
    ],
)
def test_json_schema_refuses_what_the_models_refuse(change: dict[str, Any]) -> None:
    content = yaml.safe_load(reference.default_yaml()) | change
    assert not VALIDATOR.is_valid(content)
    with pytest.raises(ValueError, match=r".+"):
        parse_study(content)
