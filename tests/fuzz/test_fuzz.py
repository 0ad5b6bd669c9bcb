"""Each fuzz target: a short run, the same every time, or as long as FUZZ_SECONDS says (`make fuzz`)."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import motifs
from motifs import Schedule
from sst_models import schedule_file
from topologies.errors import ConfigError

HERE = Path(__file__).parent
ELEMENTS = Path(schedule_file.__file__).parent / "elements"
SECONDS, SEED = int(os.environ.get("FUZZ_SECONDS", 0)), int(os.environ.get("FUZZ_SEED", 0))
KEEP = Path("build/fuzz").resolve() if SECONDS else None
"""Where inputs that fail are kept."""
ANY = 10**9
FLAGS = [
    "-std=c++20",
    "-g",
    "-O1",
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
    "-D_GLIBCXX_ASSERTIONS",
]


@pytest.fixture(scope="module")
def readers() -> ModuleType:
    """The driver of the Python targets."""
    spec = importlib.util.spec_from_file_location("fuzz_readers", HERE / "readers.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["goal", "saved", "elements"])
def test_whatever_is_in_a_file_it_is_read_or_refused_in_a_sentence(
    readers: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    with warnings.catch_warnings():
        counts = readers.fuzz(
            readers.TARGETS[name], SECONDS or 60, ANY if SECONDS else 500, SEED, KEEP or tmp_path
        )
    assert counts is not None, capsys.readouterr().err
    inputs, accepted = counts
    assert inputs == 500 or SECONDS
    assert inputs / 50 < accepted < inputs


def _quotes_badly(path: Path) -> Schedule:
    raise ConfigError(f"{path} is\nnot good.")


def _lets_through(path: Path) -> Schedule:
    raise KeyError(path)


def _loses_bytes(path: Path) -> Schedule:
    class Losing(motifs.ShiftSchedule):
        def received_bytes(self) -> Any:
            return super().received_bytes() - 1

    return Losing(4, 8)


@pytest.mark.parametrize(
    ("read", "words"),
    [
        (_quotes_badly, "not one sentence"),
        (_lets_through, "KeyError"),
        (_loses_bytes, "bytes sent are [24, 24, 24, 24], received [23, 23, 23, 23]"),
    ],
)
def test_what_a_reader_must_not_do_is_caught_and_the_input_kept(
    readers: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str], read: Any, words: str
) -> None:
    target = readers.Target("broken", read, [b"input"], readers.TARGETS["goal"].change)
    with warnings.catch_warnings():
        assert readers.fuzz(target, 60, 10, 0, tmp_path) is None
    assert words in capsys.readouterr().err
    assert [path.read_bytes() for path in tmp_path.glob("broken-*")] == [b"input"]


def test_the_elements_reader_takes_any_file(tmp_path: Path) -> None:
    compiler = shutil.which(os.environ.get("CXX", "c++"))
    if compiler is None:
        pytest.skip("no C++ compiler")
    program = tmp_path / "fuzz"
    sources = [HERE / "schedule_file_fuzz.cc", ELEMENTS / "schedule_file.cc"]
    subprocess.run([compiler, *FLAGS, "-I", ELEMENTS, *sources, "-o", program], check=True)
    schedule_file.write(tmp_path / "seed", motifs.alltoall(4, 8, window=1))
    limits = [str(number) for number in (ANY if SECONDS else 20_000, SECONDS or 60, SEED)]
    done = subprocess.run(
        [program, "seed", *limits], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    if done.returncode and KEEP:
        KEEP.mkdir(parents=True, exist_ok=True)
        shutil.copy(tmp_path / "fuzz-input", KEEP / "elements-cxx")
    assert done.returncode == 0, done.stderr
    assert SECONDS or done.stdout == "20000 inputs\n"
