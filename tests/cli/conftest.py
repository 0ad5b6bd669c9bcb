"""The command line as its users meet it: a process of its own in an empty directory."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Hxmesh = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def hxmesh(tmp_path: Path) -> Hxmesh:
    """Run `hxmesh` with arguments in `tmp_path`."""

    def call(*arguments: str, timeout_s: float = 120) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-m", "workflow.cli", *arguments],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    return call
