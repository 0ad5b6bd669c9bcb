"""Changes files at random and reads them: each is a schedule, or is refused with one sentence.

    python tests/fuzz/readers.py [--target NAME ...] [--seconds 60] [--runs N] [--seed 0] [--keep DIR]

Targets: GOAL text (`motifs.read_goal`), saved schedules (`motifs.load_schedule`), schedule files of the SST
elements (`sst_models.schedule_file.read`, whose twin in C++ has `schedule_file_fuzz.cc`). A schedule that is
accepted must have sums that add up and, where it is small, run to its end in the engine. An input that does
anything else is written to the folder `--keep`, and the exit code is 1. The same seed gives the same inputs.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import random
import signal
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import numpy as np

import engine
import motifs
from engine.run import count_packets
from motifs import ArraySchedule, Schedule, load_schedule, read_goal
from sst_models import schedule_file
from topologies import ConfigError, HyperX2D

LONGEST_S = 10
"""What reading a file of a few kilobytes may take."""
LONGEST_MESSAGE = 600

INTERESTING = (0, 1, 2, 3, 7, 127, 128, 255, 2**15 - 1, 2**16 - 1, 2**24, 2**31 - 1, 2**31, 2**32 - 1,
               2**59, 2**62, 2**63 - 1, 2**63, 2**64 - 1)  # fmt: skip
"""Numbers next to a limit, or small when they are multiplied."""

GOAL_WORDS = (
    "num_ranks", "rank", "{", "}", "send", "recv", "calc", "requires", "irequires", "tag", "cpu", "nic",
    "to", "from", "b", ":", "l1", "l2", "//", "/*", "*/", "\n", "\r", " ", "\t", "\0", "\x85", "\u0663",
    "\u00b2", "é", "rank 0 {\n", "}\n", "l1: send 8b to 1\n", "l2: recv 8b from 0\n", "calc 5\n",
    "l2 requires l1\n",
)  # fmt: skip


def small_schedules() -> list[Schedule]:
    """What the inputs are made of."""
    return [
        motifs.alltoall(3, 8, window=1),
        motifs.alltoall(2, 8).expand(),
        motifs.ring(np.arange(3), 64),
        motifs.two_rings(np.arange(8).reshape(2, 4), 96, lockstep=True).expand(),
        motifs.bucket(np.arange(4).reshape(2, 2), 64),
    ]


def change(data: bytes, others: list[bytes], rng: random.Random, words: tuple[bytes, ...]) -> bytes:
    """`data` with one to five changes: bits, bytes, numbers, words, parts cut, doubled or of others."""
    out = bytearray(data)
    for _ in range(rng.randint(1, 5)):
        at = rng.randrange(len(out) + 1)
        end = min(len(out), at + rng.choice((1, 2, 4, 8, 30, 200)))
        match rng.randrange(9):
            case 0 if at < len(out):
                out[at] ^= 1 << rng.randrange(8)
            case 1 if at < len(out):
                out[at] = rng.randrange(256)
            case 2:
                out[at:at] = rng.choice(words)
            case 3:
                out[at:end] = rng.choice(words)
            case 4:
                out[at:end] = b""
            case 5:
                out[at:at] = out[at:end] * rng.choice((1, 1, 3, 50))
            case 6:
                other = rng.choice(others)
                start = rng.randrange(len(other) + 1)
                out[at:end] = other[start : start + rng.choice((4, 30, 200))]
            case 7:
                width = rng.choice((4, 8))
                number = rng.choice(INTERESTING) % 2 ** (8 * width)
                out[at : at + width] = number.to_bytes(width, "little")
            case _:
                out[at:] = b"" if rng.random() < 0.2 else out[at:]
    return bytes(out)


@dataclass(frozen=True)
class Target:
    """A reader, inputs that it accepts, and how they are changed."""

    name: str
    read: Callable[[Path], Schedule]
    inputs: list[bytes]
    change: Callable[[list[bytes], random.Random], bytes]


def goal_target() -> Target:
    """GOAL text."""
    inputs = ["\n".join(motifs.format_goal(schedule, 1)).encode() for schedule in small_schedules()]
    inputs.append(b"num_ranks 2 // two\nrank 1 { /* a\nb */\nrecv 8b from 0 tag 7 cpu 0 nic 1\n}\nrank 0 {\n"
                  b"l1: calc 3\nl2: send 8b to 1 tag 7\nl2 requires l1\n}\n")  # fmt: skip
    words = tuple(word.encode() for word in GOAL_WORDS) + tuple(str(n).encode() for n in INTERESTING)

    def changed(inputs: list[bytes], rng: random.Random) -> bytes:
        return change(rng.choice(inputs), inputs, rng, words)

    return Target("goal", lambda path: read_goal(path, 1), inputs, changed)


def saved_target() -> Target:
    """The .npz archives of `Schedule.save`: changed as bytes, or as arrays in a sound archive."""

    def saved(schedule: Schedule) -> bytes:
        with tempfile.TemporaryDirectory() as name:
            schedule.save(Path(name) / "schedule.npz")
            return (Path(name) / "schedule.npz").read_bytes()

    inputs = [saved(schedule) for schedule in small_schedules()]
    words = (
        b"PK\x03\x04",
        b"PK\x01\x02",
        b"PK\x05\x06",
        b"\x93NUMPY\x01\x00",
        b"'<i8'",
        b"'|O'",
        b"(2,)",
        b"True",
    )

    def changed(inputs: list[bytes], rng: random.Random) -> bytes:
        data = rng.choice(inputs)
        if rng.random() < 0.3:
            return change(data, inputs, rng, words)
        out = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w") as new:
            names = old.namelist()
            chosen = rng.choice(names)
            for name in names:
                content = old.read(name)
                if name == chosen and rng.random() < 0.5:
                    content = change(content, [old.read(other) for other in names], rng, words)
                elif name == chosen:
                    content = _other_array(content, rng)
                if name != chosen or rng.random() < 0.9:
                    new.writestr(name, content)
        return out.getvalue()

    return Target("saved", load_schedule, inputs, changed)


def _other_array(content: bytes, rng: random.Random) -> bytes:
    """The array of a .npy file with other numbers, another shape or another type."""
    array = np.load(io.BytesIO(content))
    match rng.randrange(5):
        case 0 if array.size and array.dtype.kind in "iu":
            array = array.copy()
            limits = np.iinfo(array.dtype)
            number = rng.choice((-1, -(2**31), -(2**63), *INTERESTING))
            array.flat[rng.randrange(array.size)] = min(max(number, limits.min), limits.max)
        case 1:
            array = array.reshape(-1)[: rng.randint(0, array.size)]
        case 2 if array.dtype.kind in "iu":
            array = array.astype(rng.choice(["<f8", ">i8", "<u8", "S3", "U4", "<i2", "?", "M8[s]", "c16"]))
        case 3:
            array = np.array(rng.choice(INTERESTING[:-2]))
        case _:
            array = np.concatenate([array.reshape(-1)] * 2)
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def elements_target() -> Target:
    """Schedule files of the SST elements, most of them with check sums made right again."""

    def written(schedule: Schedule) -> bytes:
        with tempfile.TemporaryDirectory() as name:
            schedule_file.write(Path(name) / "schedule.bin", schedule)
            return (Path(name) / "schedule.bin").read_bytes()

    inputs = [written(schedule) for schedule in small_schedules()]

    def changed(inputs: list[bytes], rng: random.Random) -> bytes:
        data = bytearray(change(rng.choice(inputs), inputs, rng, (b"HXMSCHED", b"\xff" * 4, b"\0" * 8)))
        if rng.random() < 0.8 and len(data) >= 64:
            data[40:48] = len(data).to_bytes(8, "little")
            for rank in range(min(int.from_bytes(data[16:24], "little"), 16)):
                entry = 64 + 32 * rank
                offset, operations, deps = (
                    int.from_bytes(data[entry + 8 * i :][:8], "little") for i in range(3)
                )
                if entry + 32 <= len(data) and offset + 32 * operations + 4 * deps <= len(data):
                    crc = zlib.crc32(data[offset : offset + 32 * operations + 4 * deps])
                    data[entry + 28 : entry + 32] = crc.to_bytes(4, "little")
        return bytes(data)

    return Target("elements", lambda path: schedule_file.read(path)[0], inputs, changed)


TARGETS = {target.name: target for target in (goal_target(), saved_target(), elements_target())}


class FailedError(Exception):
    """An input did what it must not."""


def judge(target: Target, path: Path) -> bool:
    """Read the file and use what is in it: whether it was accepted; raises for a bad refusal."""
    try:
        schedule = target.read(path)
        schedule.check()
    except ConfigError as error:
        message = str(error)
        if not message.endswith(".") or len(message) > LONGEST_MESSAGE or len(message.splitlines()) != 1:
            raise FailedError(f"not one sentence: {message!r}") from error
        return False
    sent, received = schedule.sent_bytes(), schedule.received_bytes()
    if sent.min(initial=0) < 0 or received.min(initial=0) < 0 or sent.sum() != received.sum():
        raise FailedError(f"bytes sent are {sent.tolist()}, received {received.tolist()}")
    if schedule.num_operations <= 1000 and schedule.num_ranks <= 16:
        run(schedule)
    return True


def run(schedule: Schedule) -> None:
    """Run a schedule that is small enough."""
    packets = count_packets(schedule, engine.NetworkParams())
    if packets < schedule.num_messages:
        raise FailedError(f"{packets} packets of {schedule.num_messages} messages")
    if packets > 5000:
        return
    result = engine.run(HyperX2D(schedule.num_ranks, 1), schedule)
    if not result.complete or result.bytes_delivered != schedule.total_bytes:
        raise FailedError(f"{result.status}, {result.bytes_delivered} bytes delivered: {result.message}")
    end = result.ranks.end_ps
    if end.min() < 0 or result.simulated_time_ps != end.max():
        raise FailedError(f"ranks end at {end.tolist()}, the run at {result.simulated_time_ps}")
    expanded = schedule.expand()
    last = isinstance(schedule, ArraySchedule) and int(expanded.value[expanded.kind == 2].max(initial=0))
    if result.simulated_time_ps < last:
        raise FailedError(f"the run ends at {result.simulated_time_ps} ps, before a computation of {last} ps")


def too_long(_number: int, _frame: FrameType | None) -> None:
    """Alarm."""
    raise FailedError(f"took more than {LONGEST_S} s")


def fuzz(target: Target, seconds: float, runs: int, seed: int, keep: Path) -> tuple[int, int] | None:
    """Inputs, and how many of them were accepted; None after one that was treated as none may be."""
    signal.signal(signal.SIGALRM, too_long)
    # zipfile and NumPy warn of much that is refused afterwards.
    warnings.simplefilter("ignore")
    rng = random.Random(f"{target.name} {seed}")
    started = time.monotonic()
    inputs, accepted, done = list(target.inputs), 0, 0
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "input"
        while done < runs and time.monotonic() - started < seconds:
            # The inputs as they are first.
            data = inputs[done] if done < len(target.inputs) else target.change(inputs, rng)
            path.write_bytes(data)
            signal.alarm(LONGEST_S)
            try:
                good = judge(target, path)
                if not good and done < len(target.inputs):
                    raise FailedError("a sound input was refused")
            except Exception:
                signal.alarm(0)
                keep.mkdir(parents=True, exist_ok=True)
                kept = keep / f"{target.name}-{hashlib.sha256(data).hexdigest()[:12]}"
                kept.write_bytes(data)
                traceback.print_exc()
                print(f"{target.name}: input {done} failed, kept in {kept}", file=sys.stderr)
                return None
            signal.alarm(0)
            done += 1
            accepted += good
            # Some of those that are accepted are changed further.
            if good and len(inputs) < 200 and len(data) < 20_000:
                inputs.append(data)
    print(f"{target.name}: {done} inputs, {accepted} accepted, seed {seed}")
    return done, accepted


def main() -> int:
    """Fuzz the targets one after the other."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--target", nargs="+", default=list(TARGETS), choices=list(TARGETS))
    parser.add_argument("--seconds", type=float, default=60, help="of each target")
    parser.add_argument("--runs", type=int, default=10**9, help="inputs of each target at most")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, default=Path("build/fuzz"), help="folder for inputs that fail")
    args = parser.parse_args()
    good = [fuzz(TARGETS[name], args.seconds, args.runs, args.seed, args.keep) for name in args.target]
    return 1 if None in good else 0


if __name__ == "__main__":
    sys.exit(main())
