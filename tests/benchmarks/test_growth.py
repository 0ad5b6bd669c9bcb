"""Exponents of growth by hand, and a small run of the whole script."""

from __future__ import annotations

import csv
import importlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def growth(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT)
    return importlib.import_module("benchmarks.growth")


def test_exponents_are_slopes_of_logarithms(growth: ModuleType) -> None:
    blank: dict[str, float | None] = {"simulation_s": None, "simulation_mib": 8.0}
    rows = [
        blank | {"accelerators": n, "build_s": 1e-5 * n, "analysis_s": 2e-8 * n**2, "build_mib": 1e-3 * n}
        for n in (256, 1024, 4096, 16384)
    ]
    rows[1]["simulation_s"] = 3.0
    found = growth.exponents(rows)
    assert found["build_s"] == 1
    assert found["analysis_s"] == 2
    # 0.256 MiB is below what can be told; a single size has no slope.
    assert found["build_mib"] == 1
    assert found["simulation_s"] is None
    assert found["simulation_mib"] == 0


def test_values_too_small_to_tell_do_not_count(growth: ModuleType) -> None:
    blank = dict.fromkeys(growth.QUANTITIES)
    rows = [
        blank | {"accelerators": n, "build_mib": value}
        for n, value in ((1, 0.1), (2, 0.9), (4, 1.0), (16, 4.0))
    ]
    assert growth.exponents(rows)["build_mib"] == 1
    assert growth.exponents(rows[:3])["build_mib"] is None


def test_the_script_measures_draws_and_tabulates(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "benchmarks.growth",
        "--accelerators",
        "16",
        "64",
        "--simulate",
        "16",
    ]
    command += ["--topologies", "torus", "--message", "4096", "--directory", str(tmp_path)]
    subprocess.run(command, check=True, capture_output=True, cwd=ROOT)
    small, large = csv.DictReader((tmp_path / "growth.csv").read_text().splitlines())
    # 4 shifts of one packet and a header's one for 16 accelerators, over at least the 2 host links each.
    assert int(small["packet_hops"]) >= 16 * 4 * 2
    assert small["accelerators"] == "16"
    assert large["simulation_s"] == ""
    assert "| 2D torus | exponent |" in (tmp_path / "growth.md").read_text()
    assert (tmp_path / "growth.png").stat().st_size > 10_000
