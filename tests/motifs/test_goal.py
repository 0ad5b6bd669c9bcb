"""GOAL text: round trips, and errors that name the line."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

import motifs
from motifs import ArraySchedule, OpKind, format_goal, parse_goal, read_goal, write_goal
from topologies.errors import ConfigError

TEXT = """\
// two ranks
num_ranks 3

rank 1 { /* out of order,
             two lines */
second: recv 8b from 0 tag 7 cpu 0 nic 1
first: calc 100
second requires first
}
rank 0 {
l1: calc 3 cpu 2
send 8b to 1 tag 7
l3: send 9b to 2   // no tag
l3 requires l1
}
rank 2 {
r: recv 9b from 0
w: calc 0
w requires r
}
"""


def assert_equal(one: ArraySchedule, other: ArraySchedule) -> None:
    for field in ("num_ranks", "op_offset", "kind", "peer", "value", "tag", "dep_offset", "dep"):
        assert np.array_equal(getattr(one, field), getattr(other, field)), field


def test_parse() -> None:
    schedule = parse_goal(TEXT)
    schedule.check()
    assert schedule.op_offset.tolist() == [0, 3, 5, 7]
    compute, send, recv, wait = OpKind.COMPUTE, OpKind.SEND, OpKind.RECV, OpKind.WAIT
    assert schedule.kind.tolist() == [compute, send, send, recv, compute, recv, wait]
    assert schedule.peer.tolist() == [-1, 1, 2, 0, -1, 0, -1]
    assert schedule.value.tolist() == [3000, 8, 9, 8, 100_000, 9, 0]
    assert schedule.tag.tolist() == [0, 7, 0, 7, 0, 0, 0]
    assert schedule.dep_offset.tolist() == [0, 0, 0, 1, 2, 2, 2, 3]
    assert schedule.dep.tolist() == [0, 4, 5]


def test_format() -> None:
    assert list(format_goal(parse_goal(TEXT))) == [
        "num_ranks 3",
        "rank 0 {",
        "l1: calc 3",
        "l2: send 8b to 1 tag 7",
        "l3: send 9b to 2 tag 0",
        "l3 requires l1",
        "}",
        "rank 1 {",
        "l1: recv 8b from 0 tag 7",
        "l1 requires l2",
        "l2: calc 100",
        "}",
        "rank 2 {",
        "l1: recv 9b from 0 tag 0",
        "l2: calc 0",
        "l2 requires l1",
        "}",
    ]


@pytest.mark.parametrize(
    "schedule",
    [
        motifs.alltoall(5, 100, window=2),
        motifs.permutation(6, 64, messages=3),
        motifs.bucket(np.arange(6).reshape(2, 3), 600, lockstep=True),
        motifs.two_rings(np.arange(12).reshape(3, 4), 600),
    ],
)
def test_round_trip(tmp_path: Path, schedule: motifs.Schedule) -> None:
    path = tmp_path / "schedule.goal"
    write_goal(schedule, path, calc_unit_ps=1)
    assert_equal(read_goal(path, calc_unit_ps=1), schedule.expand())
    assert [file.name for file in tmp_path.iterdir()] == ["schedule.goal"]


def test_computation_is_rounded_to_the_unit() -> None:
    schedule = motifs.ring(np.arange(2), 4 * 1000).expand()
    assert schedule.value[schedule.kind == OpKind.COMPUTE].tolist() == [5000, 5000]
    assert "l3: calc 5" in list(format_goal(schedule))
    assert "l3: calc 2" in list(format_goal(schedule, calc_unit_ps=3000))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: num_ranks is missing"),
        ("rank 0 {\n}", "line 1: num_ranks must come before the first rank"),
        ("num_ranks 0", "line 1: num_ranks is 0"),
        ("num_ranks 2147483647", "line 1: num_ranks is 2147483647 but must be 0 to 16777216"),
        ("num_ranks 2\nnum_ranks 2", "line 2: num_ranks is given twice"),
        ("num_ranks 2\nsend 8b to 1", "line 2: 'send 8b to 1' is not understood"),
        ("num_ranks 2\nrank 2 {\n}", "line 2: rank is 2 but must be 0 to 1"),
        ("num_ranks 2\nrank 0 {\n}\nrank 0 {\n}", "line 4: rank 0 is given twice"),
        ("num_ranks 2\nrank 0 {\nl1: calc 1\n", "line 4: rank 0, opened in line 2, is not closed"),
        ("num_ranks 2\nrank 0 {\nrank 1 {\n", "line 3: 'rank 1 {' is not understood"),
        ("num_ranks 2\nrank 0 {\nl1: send 8 to 1\n}", "line 3: 'l1: send 8 to 1' is not understood"),
        ("num_ranks 2\nrank 0 {\n/* a\nb */ l1: put 8b\n}", "line 4: 'l1: put 8b' is not understood"),
        ("num_ranks 2\n/* a */ // b\n/* c\n", "line 3: the comment that begins here has no end"),
        (
            f"num_ranks 2\n{'a' * 10**6}",
            f"line 2: '{'a' * 57}...' is not understood, expected is num_ranks or the opening of a rank.$",
        ),
        ("num_ranks 2\nrank 0 {\nl1: send 8b to 2\n}", "line 3: peer is 2 but must be 0 to 1"),
        ("num_ranks 2\nrank 0 {\nl1: send 8b to 0\n}", "line 3: peer is 0 but must be another rank"),
        ("num_ranks 2\nrank 0 {\nl1: send 8b to 1 tag 2147483648\n}", "line 3: tag is 2147483648"),
        (f"num_ranks 2\nrank 0 {{\nl1: send {10**19}b to 1\n}}", "line 3: size is 10000000000000000000 "),
        (f"num_ranks 2\nrank 0 {{\nl1: calc {'9' * 9000}\n}}", "line 3: calc is 99999"),
        ("num_ranks 2\nrank 0 {\nl1: calc 1\nl1: calc 2\n}", "line 4: label l1 is given twice in rank 0"),
        ("num_ranks 2\nrank 0 {\nl1: calc 1\nl1 requires l2\n}", "line 4: label l2 is unknown in rank 0"),
        (
            "num_ranks 2\nrank 0 {\nl1: calc 1\nl2: calc 1\nl2 irequires l1\n}",
            "line 5: irequires has no equivalent",
        ),
    ],
)
def test_errors_name_the_line(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match="^GOAL text " + message.replace("{", r"\{")):
        parse_goal(text)


def test_errors_name_the_file(tmp_path: Path) -> None:
    path = tmp_path / "bad.goal"
    with pytest.raises(ConfigError, match=r"bad\.goal cannot be read"):
        read_goal(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match=r"bad\.goal cannot be read"):
        read_goal(path)
    with pytest.raises(ConfigError, match=r"cannot be read: embedded null byte"):
        read_goal(tmp_path / "a\0b")
    path.write_text("num_ranks x")
    with pytest.raises(ConfigError, match=r"bad\.goal line 1: "):
        read_goal(path)


@pytest.mark.parametrize("kind", ["send {}b to 1", "calc {}"])
def test_bytes_and_times_that_no_integer_holds_are_refused(kind: str) -> None:
    half = 2**61
    sender = f"rank 0 {{\n{kind.format(half)}\n{kind.format(half)}\n}}"
    receiver = f"rank 1 {{\nrecv {half}b from 0\nrecv {half}b from 0\n}}" if "send" in kind else ""
    fits = f"num_ranks 2\n{sender}\n{receiver}"
    parse_goal(fits, calc_unit_ps=1).check()
    twice = fits.replace(str(half), str(2 * half))
    schedule = parse_goal(twice, calc_unit_ps=1)
    with pytest.raises(
        ConfigError, match=r"add up to 9.22337e\+18 .* but must be at most 4611686018427387904"
    ):
        schedule.check()


def test_reading_takes_a_time_that_grows_with_the_text() -> None:
    started = time.process_time()
    with pytest.raises(ConfigError, match="has no end"):
        parse_goal("/* " * 10**6)
    assert time.process_time() - started < 5


def test_ranks_without_operations() -> None:
    schedule = parse_goal("num_ranks 4\nrank 2 {\n}\n")
    schedule.check()
    assert schedule.op_offset.tolist() == [0] * 5
