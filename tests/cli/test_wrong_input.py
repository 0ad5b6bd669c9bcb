"""Wrong input ends with exit code 2, exactly one sentence, and nothing written."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Hxmesh

HX = {"type": "hxmesh", "a": 2, "b": 2, "x": 2, "y": 2}

GOAL_UNMATCHED = """num_ranks 2
rank 0 {
l1: send 8b to 1 tag 0
}
rank 1 {
l1: recv 8b from 0 tag 0
l2: recv 8b from 0 tag 1
}
"""


def study(
    topology: str | dict[str, Any] = HX, motif: dict[str, Any] | None = None, **entry: Any
) -> dict[str, Any]:
    motif = motif or {"type": "alltoall", "message": "1 KiB"}
    return {"name": "study", "experiments": [{"topology": topology, "motif": motif} | entry]}


CONFIGS = {
    "unknown topology": (study("hx3mesh"), "topology is 'hx3mesh' but must be one of"),
    "unknown type of topology": (study({"type": "hxmsh"}), "did you mean 'hxmesh'?"),
    "board sides that do not divide": (
        study({"type": "hxmesh", "a": 2, "b": 2, "columns": 7, "rows": 8}),
        "columns of the grid is 7 but must be a multiple of 2",
    ),
    "negative size": (study(motif={"type": "alltoall", "message": "-1 MiB"}), "'-1 MiB' is negative"),
    "packet larger than a buffer": (
        study(network={"packet": "64 KiB", "input_buffer": "32 KiB"}),
        "input_buffer_bytes is 32768 but must hold a packet of 65536 bytes",
    ),
    "unmatched receive": (study(motif={"type": "goal", "file": "traffic.goal"}), "rank 1"),
    "unknown key": (study(topolgy="torus"), "has the unknown key 'topolgy'; did you mean 'topology'?"),
    "unknown unit": (study(network={"link_latency": "20 nsec"}), "unknown unit 'nsec'"),
    "motif that needs a grid": (
        study({"type": "fattree", "shape": "4,4:4"}, {"type": "bucket", "total": 64}),
        "grid is missing",
    ),
    "no experiments": ({"name": "study", "experiments": []}, "experiments is empty"),
    "empty file": (None, "must be a mapping of keys to values"),
}


def refused(done: subprocess.CompletedProcess[str], fault: str) -> None:
    """Check the answer of a command that refused its input."""
    assert done.returncode == 2, done
    assert done.stdout == ""
    assert done.stderr.startswith("hxmesh: ")
    assert done.stderr.count("\n") == 1
    assert done.stderr.rstrip("\n")[-1] in ".?"
    assert fault in done.stderr


@pytest.mark.parametrize("case", CONFIGS)
def test_config(case: str, hxmesh: Hxmesh, tmp_path: Path) -> None:
    content, fault = CONFIGS[case]
    (tmp_path / "study.yaml").write_text(json.dumps(content))
    (tmp_path / "traffic.goal").write_text(GOAL_UNMATCHED)
    before = sorted(tmp_path.rglob("*"))
    refused(hxmesh("run", "study.yaml"), fault)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("command", [("run", "study.yaml", "--prepare"), ("estimate", "study.yaml")])
def test_every_command_checks_schedules(command: tuple[str, ...], hxmesh: Hxmesh, tmp_path: Path) -> None:
    content, fault = CONFIGS["unmatched receive"]
    (tmp_path / "study.yaml").write_text(json.dumps(content))
    (tmp_path / "traffic.goal").write_text(GOAL_UNMATCHED)
    refused(hxmesh(*command), fault)
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (b"name: study\nexperiments: [a, b\n", "study.yaml is no YAML: line 3, column 1: "),
        (b"name: study\n\tkind: table2\n", "study.yaml is no YAML: line 2, column 1: "),
        (b"name: \x07\n", "study.yaml is no YAML: "),
        (b"name: \xff\xfe\n", "study.yaml cannot be read: it is not UTF-8 text."),
    ],
)
def test_unreadable_yaml(text: bytes, fault: str, hxmesh: Hxmesh, tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_bytes(text)
    refused(hxmesh("run", "study.yaml"), fault)
    assert [path.name for path in tmp_path.iterdir()] == ["study.yaml"]


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (("run", "missing.yaml"), "config 'missing.yaml' does not exist."),
        (("run", "table2_smal"), "did you mean 'table2_small'?"),
        (("run",), "run takes either a CONFIG or --experiment FILE."),
        (
            ("run", "default", "--memory-limit", "1GiB"),
            "--memory-limit is '1GiB' but only goes with --experiment.",
        ),
        (("run", "--experiment", "missing.json"), "experiment missing.json cannot be read"),
        (("run", "default", "--jobs", "0"), "--jobs"),
        (("report", "table2_small"), "has no results in results/table2_small; run it first."),
        (("topology", "show", "hx2msh"), "did you mean 'hx2mesh'?"),
        (("topology", "show", "hxmesh", "--columns", "33", "--rows", "32"), "must be a multiple of 2"),
        (("topology", "show", "hxmesh", "--a", "-1", "--x", "2", "--y", "2"), "a is -1 but must be"),
        (("topology", "show", "hx2mesh", "--a", "2"), "--a goes with one of the families"),
        (
            ("topology", "show", "hx2mesh", "--variant", "as-built"),
            "but must be one of as-costed, as-simulated",
        ),
        (("topology", "list", "--cluster", "tiny"), "is 'tiny' but must be one of large, moe, small."),
        (("motif", "show", "alltoal"), "did you mean 'alltoall'?"),
        (("frobnicate",), "No such command 'frobnicate'"),
    ],
)
def test_arguments(arguments: tuple[str, ...], fault: str, hxmesh: Hxmesh, tmp_path: Path) -> None:
    refused(hxmesh(*arguments), fault)
    assert list(tmp_path.iterdir()) == []
