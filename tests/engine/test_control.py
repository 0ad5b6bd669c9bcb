"""Watching, stopping and limiting a run."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from itertools import pairwise

import pytest

import engine
from engine import NetworkParams, Progress
from engine.run import count_packets
from motifs import ShiftSchedule
from topologies import Torus2D

SMALL_PACKETS = NetworkParams(packet_bytes=64, flit_bytes=64)
# Some four million events: the engine looks up once in a million.
LONG = ShiftSchedule(16, 192 * 1024)


def test_progress_rises_to_what_the_run_delivers() -> None:
    seen: list[Progress] = []
    result = engine.run(Torus2D(4, 4), LONG, SMALL_PACKETS, progress=seen.append)
    assert result.status == "complete"
    assert len(seen) >= 2
    for before, after in pairwise(seen):
        assert before.packets_delivered < after.packets_delivered
        assert before.packet_hops < after.packet_hops
        assert before.simulated_time_ps <= after.simulated_time_ps
        assert before.wall_s < after.wall_s
    assert {p.packets_total for p in seen} == {result.packets} == {count_packets(LONG, SMALL_PACKETS)}
    assert seen[0].packets_delivered > 0
    assert seen[-1].packets_delivered < result.packets
    assert seen[-1].packet_hops < result.packet_hops
    assert seen[-1].simulated_time_ps < result.simulated_time_ps
    assert seen[-1].wall_s <= result.wall_s


def test_watching_a_run_does_not_change_it() -> None:
    watched = engine.run(Torus2D(4, 4), LONG, SMALL_PACKETS, progress=lambda _: None)
    alone = engine.run(Torus2D(4, 4), LONG, SMALL_PACKETS)
    assert watched.ranks.equals(alone.ranks)
    assert watched.packet_hops == alone.packet_hops


def test_an_exception_from_the_progress_callback_ends_the_run_and_the_next_one_works() -> None:
    class EnoughError(Exception):
        pass

    seen = []

    def stop(progress: Progress) -> None:
        seen.append(progress)
        raise EnoughError("seen enough")

    undisturbed = engine.run(Torus2D(4, 4), LONG, SMALL_PACKETS)
    with pytest.raises(EnoughError, match="seen enough"):
        engine.run(Torus2D(4, 4), LONG, SMALL_PACKETS, progress=stop)
    assert len(seen) == 1
    again = engine.run(Torus2D(4, 4), LONG, SMALL_PACKETS)
    assert again.ranks.equals(undisturbed.ranks)
    assert again.packets == undisturbed.packets


def test_a_run_may_start_another_one_from_its_progress_callback() -> None:
    inner = []

    def nested(_: Progress) -> None:
        inner.append(engine.run(Torus2D(2, 2), ShiftSchedule(4, 100)).simulated_time_ps)

    outer = engine.run(Torus2D(4, 4), LONG, SMALL_PACKETS, progress=nested)
    assert set(inner) == {engine.run(Torus2D(2, 2), ShiftSchedule(4, 100)).simulated_time_ps}
    assert outer.ranks.equals(engine.run(Torus2D(4, 4), LONG, SMALL_PACKETS).ranks)


@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
def test_an_interrupt_ends_a_long_run_within_two_seconds() -> None:
    script = (
        "import engine\n"
        "from motifs import ShiftSchedule\n"
        "from topologies import Torus2D\n"
        "def report(_): print('on the way', flush=True)\n"
        "engine.run(Torus2D(8, 8), ShiftSchedule(64, 10**9), progress=report)\n"
        "print('finished', flush=True)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A test suite in the background of a shell is deaf to it, and so would be its children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "on the way\n"
            started = time.monotonic()
            child.send_signal(signal.SIGINT)
            output, errors = child.communicate(timeout=60)
            elapsed_s = time.monotonic() - started
        finally:
            child.kill()
    assert child.returncode in (-signal.SIGINT, 128 + signal.SIGINT)
    assert errors.rstrip().endswith("KeyboardInterrupt")
    assert "finished" not in output
    assert elapsed_s < 2


def test_a_run_beyond_its_memory_limit_stops_and_says_so() -> None:
    result = engine.run(Torus2D(4, 4), LONG, SMALL_PACKETS, memory_limit_bytes=1_000)
    assert result.status == "memory-limit"
    assert not result.complete
    found = re.fullmatch(r"the engine's data grew to (\d+) bytes, beyond the limit of 1000", result.message)
    assert found is not None
    assert 1_000 < int(found[1]) < 10**9
    assert 0 < result.packets < count_packets(LONG, SMALL_PACKETS)


def test_a_run_within_its_memory_limit_is_not_touched() -> None:
    result = engine.run(Torus2D(4, 4), LONG, SMALL_PACKETS, memory_limit_bytes=2 * 10**9)
    assert result.status == "complete"


@pytest.mark.parametrize("expanded", [False, True])
def test_a_run_stopped_by_its_memory_limit_says_how_far_it_came(expanded: bool) -> None:
    seen: list[Progress] = []
    schedule = LONG.expand() if expanded else LONG
    result = engine.run(
        Torus2D(4, 4), schedule, SMALL_PACKETS, memory_limit_bytes=1_000, progress=seen.append
    )
    assert result.status == "memory-limit"
    assert len(seen) == 1
    assert result.packets == seen[0].packets_delivered
    assert result.packet_hops == seen[0].packet_hops
    assert result.simulated_time_ps == seen[0].simulated_time_ps
    assert result.ranks.end_ps.tolist() == [-1] * 16
