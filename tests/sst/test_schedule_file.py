"""Schedule files: what is written is read again, and a bad file is refused; in Python and in C++."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import motifs
from motifs import ArraySchedule, OpKind
from sst_models import schedule_file
from topologies import HxMesh
from topologies.errors import ConfigError

ELEMENTS = Path(schedule_file.__file__).parent / "elements"

READER = r"""
#include <cstdio>
#include <cstdlib>
#include <exception>
#include "schedule_file.hpp"
int main(int, char **argv) {
    try {
        const auto part = hxmesh::sst::read_rank(argv[1], static_cast<std::uint32_t>(std::atoi(argv[2])));
        std::printf("%u %u\n", part.ranks, part.endpoint);
        std::size_t at = 0;
        for (const auto &op : part.operations) {
            const auto peer = static_cast<int>(op.peer), endpoint = static_cast<int>(op.peer_endpoint);
            std::printf("%d %d %lld ", op.kind, peer, static_cast<long long>(op.value));
            std::printf("%d %d %d", op.tag, endpoint, static_cast<int>(op.match));
            for (std::uint32_t i = 0; i < op.dependencies; ++i)
                std::printf(" %u", part.dependencies[at++]);
            std::printf("\n");
        }
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 2;
    }
}
"""

Reader = Callable[[Path, int], "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def cxx_reader(tmp_path_factory: pytest.TempPathFactory) -> Reader:
    """The elements' own reader, as a program."""
    compiler = shutil.which(os.environ.get("CXX", "c++"))
    if compiler is None:
        pytest.skip("no C++ compiler")
    directory = tmp_path_factory.mktemp("reader")
    (directory / "main.cc").write_text(READER)
    program = directory / "reader"
    subprocess.run(
        [
            compiler,
            *(
                "-std=c++20",
                "-I",
                str(ELEMENTS),
                str(directory / "main.cc"),
                str(ELEMENTS / "schedule_file.cc"),
            ),
            *("-o", str(program)),
        ],
        check=True,
    )

    def read(path: Path, rank: int) -> subprocess.CompletedProcess[str]:
        return subprocess.run([program, path, str(rank)], capture_output=True, text=True, check=False)

    return read


@st.composite
def schedules(draw: st.DrawFn) -> ArraySchedule:
    """Operations made in an order in which they could run, each waiting for some earlier ones of its rank."""
    ranks = draw(st.integers(2, 5))
    ops: list[list[tuple[int, int, int, int, list[int]]]] = [[] for _ in range(ranks)]

    def add(rank: int, kind: int, peer: int, value: int, tag: int) -> None:
        number = len(ops[rank])
        waits = draw(st.lists(st.integers(0, number - 1), max_size=3, unique=True)) if number else []
        ops[rank].append((kind, peer, value, tag, waits))

    for _ in range(draw(st.integers(0, 12))):
        rank = draw(st.integers(0, ranks - 1))
        kind = draw(st.sampled_from(list(OpKind)))
        if kind <= OpKind.RECV:
            peer = draw(st.integers(0, ranks - 2))
            peer += peer >= rank
            size, tag = draw(st.integers(0, 2**40)), draw(st.integers(0, 3))
            add(rank, OpKind.SEND, peer, size, tag)
            add(peer, OpKind.RECV, rank, size, tag)
        else:
            add(rank, kind, -1, draw(st.integers(0, 10**12)) if kind == OpKind.COMPUTE else 0, 0)
    offset = np.cumsum([0, *(len(own) for own in ops)])
    flat = [op for own in ops for op in own]
    deps = [[int(offset[r]) + d for d in op[4]] for r, own in enumerate(ops) for op in own]
    column = [np.array([op[i] for op in flat], dtype=np.int64) for i in range(4)]
    return ArraySchedule(
        ranks,
        offset,
        column[0].astype(np.uint8),
        column[1].astype(np.int32),
        column[2],
        column[3].astype(np.int32),
        np.cumsum([0, *(len(d) for d in deps)]),
        np.array([d for own in deps for d in own], dtype=np.int64),
    )


def assert_same(one: ArraySchedule, other: ArraySchedule) -> None:
    for field in ("num_ranks", "op_offset", "kind", "peer", "value", "tag", "dep_offset", "dep"):
        assert np.array_equal(getattr(one, field), getattr(other, field)), field


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(schedules(), st.integers(0, 2**32))
def test_round_trip(tmp_path: Path, schedule: ArraySchedule, seed: int) -> None:
    path = tmp_path / "schedule.bin"
    places = random.Random(seed).sample(range(100), schedule.num_ranks)
    schedule_file.write(path, schedule, places)
    read, endpoints = schedule_file.read(path)
    assert_same(read, schedule)
    assert endpoints.tolist() == places


def test_same_schedule_same_bytes(tmp_path: Path) -> None:
    schedule = motifs.build("bucket", HxMesh(2, 2, 2, 2), total_bytes=10_000)
    for name in "ab":
        schedule_file.write(tmp_path / name, schedule)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=20)
@given(schedules())
def test_the_elements_read_the_same(tmp_path: Path, cxx_reader: Reader, schedule: ArraySchedule) -> None:
    path = tmp_path / "schedule.bin"
    schedule_file.write(path, schedule)
    match = schedule.match()
    for rank in range(schedule.num_ranks):
        first = int(schedule.op_offset[rank])
        expected = [f"{schedule.num_ranks} {rank}"]
        for op in range(first, int(schedule.op_offset[rank + 1])):
            peer = int(schedule.peer[op])
            at = -1 if peer < 0 else int(match[op] - schedule.op_offset[peer])
            deps = schedule.dep[schedule.dep_offset[op] : schedule.dep_offset[op + 1]] - first
            row = [schedule.kind[op], peer, schedule.value[op], schedule.tag[op], peer, at, *deps]
            expected.append(" ".join(str(int(value)) for value in row))
        done = cxx_reader(path, rank)
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines() == expected


_U64_MAX = b"\xff" * 8


def _file(tmp_path: Path) -> Path:
    path = tmp_path / "schedule.bin"
    schedule_file.write(path, motifs.build("alltoall", HxMesh(2, 1, 2, 1), message_bytes=8))
    return path


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda data: data[:50], "is not a schedule file."),
        (lambda data: b"GOAL" + data[4:], "is not a schedule file."),
        (lambda data: data[:8] + b"\2" + data[9:], "has version 2 but must have 1."),
        (lambda data: data[:-1], "is cut short or damaged."),
        (lambda data: data + b"\0", "is cut short or damaged."),
        (lambda data: data[:17] + b"\1" + data[18:], "is cut short or damaged."),
        (lambda data: data[:64] + b"\xff" * 4 + data[68:], "is cut short or damaged."),
        (lambda data: data[:-100] + b"\x7f" + data[-99:], "is damaged in the part of rank 3."),
        # 2^59 operations of 32 bytes each, which are 0 bytes in 64 bits, of as many in all ranks.
        (
            lambda data: data[:24] + _U64_MAX + data[32:72] + (2**59).to_bytes(8, "little") + data[80:],
            "is cut short or damaged.",
        ),
    ],
)
def test_bad_files(tmp_path: Path, cxx_reader: Reader, change: Callable[[bytes], bytes], words: str) -> None:
    path = _file(tmp_path)
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(ConfigError) as caught:
        schedule_file.read(path)
    assert str(caught.value) == f"schedule file {path} {words}"
    answers = [cxx_reader(path, rank) for rank in range(4)]
    refused = [answer.stderr.strip() for answer in answers if answer.returncode]
    assert refused
    assert set(refused) == {str(caught.value)}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
@given(st.data())
def test_damage_never_crashes_the_reader(tmp_path: Path, cxx_reader: Reader, data: st.DataObject) -> None:
    path = _file(tmp_path)
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        # Mostly where the sizes and offsets are.
        at = data.draw(st.integers(0, 64 + 4 * 32 - 1) | st.integers(0, len(content) - 1))
        content[at] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    done = cxx_reader(path, data.draw(st.integers(0, 5)))
    assert done.returncode in (0, 2), done.stderr
    if done.returncode == 2:
        assert done.stderr.startswith("schedule file ")
        assert done.stderr.count("\n") == 1


def test_parts_that_are_one_another_are_refused(tmp_path: Path) -> None:
    # A file could name its longest part for every rank, and fill the memory.
    path = _file(tmp_path)
    content = bytearray(path.read_bytes())
    content[64 + 32 : 64 + 64] = content[64 : 64 + 32]
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"is cut short or damaged\.$"):
        schedule_file.read(path)


def test_files_that_are_not_there(tmp_path: Path, cxx_reader: Reader) -> None:
    path = tmp_path / "none.bin"
    with pytest.raises(ConfigError, match="cannot be opened: No such file or directory"):
        schedule_file.read(path)
    assert "cannot be opened: No such file or directory." in cxx_reader(path, 0).stderr
    with pytest.raises(ConfigError, match="cannot be written: No such file or directory"):
        schedule_file.write(
            tmp_path / "no" / "dir", motifs.build("alltoall", HxMesh(2, 1, 2, 1), message_bytes=8)
        )


def test_rank_that_is_not_there(tmp_path: Path, cxx_reader: Reader) -> None:
    assert "has the ranks 0 to 3 but not rank 4." in cxx_reader(_file(tmp_path), 4).stderr


@pytest.mark.parametrize(
    ("placement", "words"),
    [([0, 1], "shape"), ([0, 1, 2, 2], "two ranks on one endpoint"), ([0, 1, 2, -1], "must hold endpoints")],
)
def test_wrong_placements(tmp_path: Path, placement: list[int], words: str) -> None:
    schedule = motifs.build("alltoall", HxMesh(2, 1, 2, 1), message_bytes=8)
    with pytest.raises(ConfigError, match=words):
        schedule_file.write(tmp_path / "schedule.bin", schedule, placement)
    assert not list(tmp_path.iterdir())
