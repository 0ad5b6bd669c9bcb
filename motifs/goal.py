"""Text files in GOAL, the language of LogGOPSim and ATLAHS.

A file holds the number of ranks and for each rank its operations and what they require::

    num_ranks 2
    rank 0 {
    l1: calc 100
    l2: send 8b to 1 tag 0
    l2 requires l1
    }
    rank 1 {
    l1: recv 8b from 0 tag 0
    }

GOAL knows no WAIT: one is written as "calc 0", which is read as a WAIT. The attributes "cpu" and "nic" are
read and ignored, since operations of a schedule run in parallel unless one requires the other. "irequires"
(wait for the start of another operation) has no equivalent and is refused.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from motifs.schedule import MAX_RANKS, ArraySchedule, OpKind, Schedule
from topologies.errors import ConfigError

__all__ = ["format_goal", "parse_goal", "read_goal", "write_goal"]

CALC_UNIT_PS = 1000
"""GOAL counts computation in nanoseconds."""

_COMMENT = re.compile(r"//[^\n]*|/\*.*?(\*/|\Z)", re.DOTALL)
_ATTRIBUTES = r"((?:\s+(?:tag|cpu|nic)\s+\d+)*)"
_NUM_RANKS = re.compile(r"num_ranks\s+(\d+)")
_RANK = re.compile(r"rank\s+(\d+)\s*\{")
_MESSAGE = re.compile(
    r"(?:(\w+)\s*:\s*)?(?:(send)\s+(\d+)b\s+to|(recv)\s+(\d+)b\s+from)\s+(\d+)" + _ATTRIBUTES
)
_CALC = re.compile(r"(?:(\w+)\s*:\s*)?calc\s+(\d+)" + _ATTRIBUTES)
_REQUIRES = re.compile(r"(\w+)\s+(i?requires)\s+(\w+)")
_TAG = re.compile(r"tag\s+(\d+)")


def format_goal(schedule: Schedule, calc_unit_ps: int = CALC_UNIT_PS) -> Iterator[str]:
    """Yield the lines of the GOAL text of `schedule`, without line ends.

    calc_unit_ps: picoseconds of one unit of "calc". Computations are rounded to whole units; 1 keeps them
        exact, in a file that must be read with the same unit.
    """
    array = schedule.expand()
    kinds, peers, tags = array.kind.tolist(), array.peer.tolist(), array.tag.tolist()
    values, deps = array.value.tolist(), array.dep.tolist()
    op_offset, dep_offset = array.op_offset.tolist(), array.dep_offset.tolist()
    yield f"num_ranks {array.num_ranks}"
    for rank in range(array.num_ranks):
        first = op_offset[rank]
        yield f"rank {rank} {{"
        for op in range(first, op_offset[rank + 1]):
            label = f"l{op - first + 1}"
            if kinds[op] == OpKind.SEND:
                yield f"{label}: send {values[op]}b to {peers[op]} tag {tags[op]}"
            elif kinds[op] == OpKind.RECV:
                yield f"{label}: recv {values[op]}b from {peers[op]} tag {tags[op]}"
            else:
                yield f"{label}: calc {(values[op] + calc_unit_ps // 2) // calc_unit_ps}"
            for dep in deps[dep_offset[op] : dep_offset[op + 1]]:
                yield f"{label} requires l{dep - first + 1}"
        yield "}"


def write_goal(schedule: Schedule, path: str | os.PathLike[str], calc_unit_ps: int = CALC_UNIT_PS) -> None:
    """Write `schedule` to `path` as GOAL text, complete or not at all; see :func:`format_goal`."""
    target = Path(path)
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        with partial.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(f"{line}\n" for line in format_goal(schedule, calc_unit_ps))
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def read_goal(path: str | os.PathLike[str], calc_unit_ps: int = CALC_UNIT_PS) -> ArraySchedule:
    """Read the GOAL text file `path` as :func:`parse_goal` does; ConfigError names the file and the line."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise ConfigError(f"GOAL file {os.fspath(path)} cannot be read: {error}.") from error
    return parse_goal(text, calc_unit_ps, name=os.fspath(path))


def parse_goal(text: str, calc_unit_ps: int = CALC_UNIT_PS, name: str = "GOAL text") -> ArraySchedule:
    """Return the schedule written in the GOAL text.

    calc_unit_ps: picoseconds of one unit of "calc".
    name: of the source, for messages.

    Raises ConfigError, naming the line, for text that is no GOAL, peers out of range, labels unknown or used
    twice. That sends and receives match is for :meth:`ArraySchedule.check` to say.
    """
    return _Parser(name, calc_unit_ps).parse(text)


def _short(text: str) -> str:
    """`text` for a message: quoted, and cut where it is long."""
    return repr(text if len(text) <= 60 else f"{text[:57]}...")


class _Parser:
    """State of reading one GOAL text."""

    def __init__(self, name: str, calc_unit_ps: int) -> None:
        self.name = name
        self.calc_unit_ps = calc_unit_ps
        self.line = 0
        self.num_ranks = 0
        self.rank: int | None = None
        self.labels: dict[str, int] = {}
        self.requires: list[tuple[int, str, str]] = []
        self.opened = 0
        # Per rank, since ranks may come in any order: (kind, peer, value, tag) and the dependencies of each
        # operation.
        self.ops: dict[int, list[tuple[int, int, int, int]]] = {}
        self.deps: dict[int, list[list[int]]] = {}

    def error(self, reason: str, line: int | None = None) -> ConfigError:
        return ConfigError(f"{self.name} line {self.line if line is None else line}: {reason}.")

    def parse(self, text: str) -> ArraySchedule:
        text = _COMMENT.sub(self.line_ends, text)
        for number, raw in enumerate(text.split("\n"), start=1):
            self.line = number
            line = raw.strip()
            if line:
                self.statement(line)
        if self.rank is not None:
            raise self.error(
                f"rank {self.rank}, opened in line {self.opened}, is not closed, expected is a brace"
            )
        if not self.num_ranks:
            raise self.error("num_ranks is missing")
        return self.schedule()

    def line_ends(self, comment: re.Match[str]) -> str:
        """What is left of a comment: the lines behind it keep their numbers."""
        if comment[1] == "":
            self.line = comment.string.count("\n", 0, comment.start()) + 1
            raise self.error("the comment that begins here has no end, expected is */")
        return "\n" * comment.group().count("\n")

    def statement(self, line: str) -> None:
        if self.rank is None:
            self.outside(line)
        elif line == "}":
            self.close()
        elif found := _MESSAGE.fullmatch(line):
            self.message(found)
        elif found := _CALC.fullmatch(line):
            units = self.number("calc", found[2], (2**63 - 1) // self.calc_unit_ps)
            kind = OpKind.COMPUTE if units else OpKind.WAIT
            self.add(found[1], (int(kind), -1, units * self.calc_unit_ps, 0))
        elif found := _REQUIRES.fullmatch(line):
            if found[2] == "irequires":
                raise self.error("irequires has no equivalent in a schedule, only requires has")
            self.requires.append((self.line, found[1], found[3]))
        else:
            raise self.error(
                f"{_short(line)} is not understood, "
                "expected is a send, recv, calc, requires or a closing brace"
            )

    def outside(self, line: str) -> None:
        if found := _NUM_RANKS.fullmatch(line):
            if self.num_ranks:
                raise self.error("num_ranks is given twice")
            self.num_ranks = self.number("num_ranks", found[1], MAX_RANKS)
            if not self.num_ranks:
                raise self.error("num_ranks is 0 but must be 1 or more")
            return
        found = _RANK.fullmatch(line)
        if not found:
            raise self.error(
                f"{_short(line)} is not understood, expected is num_ranks or the opening of a rank"
            )
        if not self.num_ranks:
            raise self.error("num_ranks must come before the first rank")
        rank = self.number("rank", found[1], self.num_ranks - 1)
        if rank in self.ops:
            raise self.error(f"rank {rank} is given twice")
        self.rank, self.opened = rank, self.line
        self.ops[rank], self.deps[rank] = [], []

    def message(self, found: re.Match[str]) -> None:
        label, send, send_bytes, _, recv_bytes, peer_text, attributes = found.groups()
        peer = self.number("peer", peer_text, self.num_ranks - 1)
        if peer == self.rank:
            raise self.error(f"peer is {peer} but must be another rank than its own")
        size = self.number("size", send_bytes or recv_bytes, 2**63 - 1)
        tag = _TAG.search(attributes)
        tag_number = self.number("tag", tag[1], 2**31 - 1) if tag else 0
        self.add(label, (int(OpKind.SEND if send else OpKind.RECV), peer, size, tag_number))

    def number(self, field: str, digits: str, maximum: int) -> int:
        # The length is compared first: int() refuses texts of thousands of digits.
        if len(digits.lstrip("0")) > 19 or int(digits) > maximum:
            raise self.error(f"{field} is {digits[:30]} but must be 0 to {maximum}")
        return int(digits)

    def add(self, label: str | None, op: tuple[int, int, int, int]) -> None:
        assert self.rank is not None
        if label is not None:
            if label in self.labels:
                raise self.error(f"label {label[:60]} is given twice in rank {self.rank}")
            self.labels[label] = len(self.ops[self.rank])
        self.ops[self.rank].append(op)
        self.deps[self.rank].append([])

    def close(self) -> None:
        assert self.rank is not None
        for line, label, required in self.requires:
            for name in (label, required):
                if name not in self.labels:
                    raise self.error(f"label {name[:60]} is unknown in rank {self.rank}", line)
            self.deps[self.rank][self.labels[label]].append(self.labels[required])
        self.rank = None
        self.labels, self.requires = {}, []

    def schedule(self) -> ArraySchedule:
        ranks = range(self.num_ranks)
        sizes = np.array([len(self.ops.get(rank, ())) for rank in ranks], dtype=np.int64)
        op_offset = np.concatenate([[0], np.cumsum(sizes)])
        ops = np.array([op for rank in ranks for op in self.ops.get(rank, ())], dtype=np.int64).reshape(-1, 4)
        dep_lists = [deps for rank in ranks for deps in self.deps.get(rank, ())]
        first = op_offset.tolist()
        dep = [first[rank] + op for rank in ranks for deps in self.deps.get(rank, ()) for op in deps]
        return ArraySchedule(
            num_ranks=self.num_ranks,
            op_offset=op_offset,
            kind=ops[:, 0].astype(np.uint8),
            peer=ops[:, 1].astype(np.int32),
            value=ops[:, 2],
            tag=ops[:, 3].astype(np.int32),
            dep_offset=np.cumsum([0] + [len(deps) for deps in dep_lists]),
            dep=np.array(dep, dtype=np.int64),
        )
