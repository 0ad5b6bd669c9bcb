"""The guard on instruction counts judges what it should; counting itself needs Valgrind and its own build."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def instructions() -> ModuleType:
    spec = importlib.util.spec_from_file_location("instructions", BENCHMARKS / "instructions.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def counts(**per_hop: float) -> dict[str, dict[str, float]]:
    return {
        name: {"packet_hops": 10, "instructions": 10 * value, "per_hop": value}
        for name, value in per_hop.items()
    }


def test_growth_beyond_three_percent_and_cases_without_a_count_fail(instructions: ModuleType) -> None:
    stored = {
        "compiler": "GCC: 12",
        "cases": counts(same=500.0, bit=500.0, more=500.0, less=500.0, gone=500.0),
    }
    now = counts(same=500.0, bit=514.9, more=515.1, less=300.0, other=100.0)
    lines, grown = instructions.compare(stored, now, "GCC: 12")
    assert grown == ["more", "other"]
    assert lines[3].split() == ["more", "500.0", "515.1", "+3.0%"]
    assert lines[-1] == "new or more than 3% above the stored count: more; other"


def test_counts_of_another_compiler_judge_nothing_and_say_so(instructions: ModuleType) -> None:
    stored = {"compiler": "GCC: 12", "cases": counts(more=500.0)}
    lines, grown = instructions.compare(stored, counts(more=900.0), "GCC: 14")
    assert grown == []
    assert lines[-1] == "NOT COMPARED: stored counts are of GCC: 12, these of GCC: 14"


def test_without_valgrind_the_guard_says_that_it_did_not_count(
    instructions: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("sys.argv", ["instructions.py"])
    assert instructions.main() == 0
    assert capsys.readouterr().out == "NOT COUNTED: valgrind is not installed\n"


def test_the_stored_counts_are_of_the_cases(instructions: ModuleType) -> None:
    stored: dict[str, Any] = json.loads((BENCHMARKS / "instructions.json").read_text())
    assert list(stored["cases"]) == list(instructions.CASES)
    assert stored["compiler"].startswith(("GCC", "clang"))
    for case in stored["cases"].values():
        assert case["per_hop"] == pytest.approx(case["instructions"] / case["packet_hops"], abs=0.05)
