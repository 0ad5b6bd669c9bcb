"""Both image definitions make the same image, of everything that the package is built from.

Nothing is built here: that takes an image with SST.
"""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "containers" / "Dockerfile").read_text()
APPTAINER = (ROOT / "containers" / "hxmesh.def").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())

NEEDED = {
    "CMakeLists.txt",
    "containers",
    "pyproject.toml",
    "requirements.lock",
    PROJECT["project"]["readme"],
    *PROJECT["project"]["license-files"],
    *PROJECT["tool"]["scikit-build"]["wheel"]["packages"],
}
"""What building the package reads, and the script that both definitions run."""


def test_context_of_docker() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    assert "*" in lines
    assert {line[1:] for line in lines if line.startswith("!")} == NEEDED


def test_files_of_apptainer() -> None:
    copied = re.findall(r"^    (\S+) (/src/\S+)$", APPTAINER, re.MULTILINE)
    assert {source for source, _ in copied} == NEEDED
    assert all(target == f"/src/{source}" for source, target in copied)


@pytest.mark.parametrize("name", ["SST_IMAGE", "PYTHON", "CXX"])
def test_same_arguments(name: str) -> None:
    docker = set(re.findall(rf"^ARG {name}=(\S+)$", DOCKERFILE, re.MULTILINE))
    apptainer = set(re.findall(rf"^    {name}=(\S+)$", APPTAINER, re.MULTILINE))
    assert len(docker) == 1
    assert docker == apptainer


def test_python_is_new_enough() -> None:
    (major, minor), *_ = re.findall(r"^ARG PYTHON=python(\d+)\.(\d+)$", DOCKERFILE, re.MULTILINE)
    least = PROJECT["project"]["requires-python"].removeprefix(">=").split(".")
    assert [int(major), int(minor)] >= [int(part) for part in least]


def test_same_steps() -> None:
    for definition in (DOCKERFILE, APPTAINER):
        assert re.findall(r"install\.sh (compile /src|run)\b", definition) == ["compile /src", "run"]
        assert "HXMESH_SST_LIBRARY=/opt/hxmesh/sst" in definition


def test_script() -> None:
    script = ROOT / "containers" / "install.sh"
    subprocess.run(["sh", "-n", script], check=True)
    refused = subprocess.run([script, "build"], capture_output=True, text=True, check=False)
    assert (refused.returncode, refused.stderr) == (
        2,
        "install.sh takes compile SOURCE or run, not 'build'.\n",
    )


def test_runs_as_an_ordinary_user() -> None:
    assert re.findall(r"^USER (\S+)$", DOCKERFILE, re.MULTILINE)[-1] == "hxmesh"
