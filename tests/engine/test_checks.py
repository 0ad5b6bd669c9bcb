"""What a validated run looks at: each check fires on what it is for, and not on what is right."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import engine
import motifs
from engine._core import Checks
from topologies import Dragonfly, FatTree, HxMesh, Topology, Torus2D


def _bytes(*values: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, dtype=np.int64)


def _begun(packets: int = 2, flits: int = 5) -> Checks:
    """Of two ranks at endpoints 0 and 1; 100 bytes go from the first to the second."""
    checks = Checks(2)
    checks.begins(slot=0, src_rank=0, dst_endpoint=1, bytes=100, packets=packets, flits=flits)
    return checks


def test_a_message_that_is_delivered_once_passes() -> None:
    checks = _begun()
    checks.delivers(slot=0, endpoint=1, flits=4)
    checks.delivers(slot=0, endpoint=1, flits=1)
    checks.ends(slot=0, dst_rank=1)
    checks.begins(slot=0, src_rank=1, dst_endpoint=0, bytes=7, packets=1, flits=1)
    checks.delivers(slot=0, endpoint=0, flits=1)
    checks.ends(slot=0, dst_rank=0)
    checks.finished(sent_bytes=_bytes(100, 7), received_bytes=_bytes(7, 100))
    Checks.time(5, 5)
    Checks.spent(0)
    Checks.returned(8, 8)


WRONG: dict[str, tuple[Callable[[], object], str]] = {
    "time": (lambda: Checks.time(5, 4), "4 ps came after one of 5 ps"),
    "spent": (lambda: Checks.spent(-1), "room for -1 flits"),
    "returned": (lambda: Checks.returned(9, 8), "a buffer of 8 flits has room for 9"),
    "elsewhere": (
        lambda: _begun().delivers(slot=0, endpoint=0, flits=1),
        "for endpoint 1 was delivered to 0",
    ),
    "unknown": (lambda: _begun().delivers(slot=1, endpoint=1, flits=1), "no message"),
    "flits": (lambda: _begun().delivers(slot=0, endpoint=1, flits=6), "more flits"),
    "slot": (
        lambda: _begun().begins(slot=0, src_rank=0, dst_endpoint=1, bytes=1, packets=1, flits=1),
        "two messages are in slot 0",
    ),
    "early": (lambda: _begun().ends(slot=0, dst_rank=1), "2 packets and 5 flits to come"),
    "never begun": (lambda: Checks(1).ends(slot=0, dst_rank=0), "had not begun"),
    "left": (
        lambda: _begun().finished(sent_bytes=_bytes(100, 0), received_bytes=_bytes(0, 100)),
        "1 messages never ended",
    ),
    "bytes": (
        lambda: Checks(1).finished(sent_bytes=_bytes(3), received_bytes=_bytes(0)),
        "rank 0 sent 0 and received 0 bytes, but its record says 3 and 0",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_said(name: str) -> None:
    do, says = WRONG[name]
    with pytest.raises(RuntimeError, match=f"the engine is wrong: .*{says}"):
        do()


def test_a_packet_that_comes_twice_is_found() -> None:
    checks = _begun(packets=1, flits=5)
    checks.delivers(slot=0, endpoint=1, flits=2)
    with pytest.raises(RuntimeError, match="more packets"):
        checks.delivers(slot=0, endpoint=1, flits=2)


@pytest.mark.parametrize(
    ("topology", "motif"),
    [
        (HxMesh(2, 2, 3, 3), "alltoall"),
        (Torus2D(5, 4), "two-rings"),
        (Dragonfly(2, 4, 2, 5, algorithm="ugal"), "alltoall"),
        (FatTree.merlin([(4, 2)], top=4, adaptive=True), "alltoall"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.name,
)
def test_a_validated_run_has_the_same_result(topology: Topology, motif: str) -> None:
    """Small buffers: credits run out."""
    size = {"message_bytes": 100_000} if motif == "alltoall" else {"total_bytes": 1 << 22}
    schedule = motifs.build(motif, topology, **size)
    params = engine.NetworkParams(input_buffer_bytes=40_000, output_buffer_bytes=20_000)
    plain = engine.run(topology, schedule, params, repetitions="simulate")
    validated = engine.run(topology, schedule, params, validate=True)
    assert plain.complete
    assert plain.summary() | {"wall_s": 0, "peak_memory_bytes": 0} == validated.summary() | {
        "wall_s": 0,
        "peak_memory_bytes": 0,
    }
    assert plain.ranks.equals(validated.ranks)


def test_a_schedule_whose_bytes_do_not_come_out_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    schedule = motifs.alltoall(4, 1000)
    monkeypatch.setattr(type(schedule), "received_bytes", lambda self: _bytes(3000, 3000, 3000, 2999))
    with pytest.raises(RuntimeError, match="rank 3 received 3000 bytes, but its schedule has 2999"):
        engine.run(Torus2D(2, 2), schedule, validate=True)
