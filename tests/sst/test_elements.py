"""The elements in a real SST, beside the packet engine."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import engine
import motifs
from engine import NetworkParams
from motifs import ArraySchedule, Schedule
from sst_models.locate import Installation
from sst_models.render import SstOptions
from topologies import FatTree, HxMesh, Topology

pytestmark = pytest.mark.sst

SERIAL = ("sst",)
THREADS = ("sst", "-n", "2")
PROCESSES = ("mpirun", "--oversubscribe", "-np", "2", "sst")

TOLERANCE = 0.02

Run = Callable[..., Any]
"""The fixture `sst`."""


def one_message(network: Topology, source: int, destination: int, size: int) -> ArraySchedule:
    ranks = network.num_endpoints
    kind, peer = np.zeros(2, dtype=np.uint8), np.zeros(2, dtype=np.int32)
    for at, (rank, other) in enumerate(sorted([(source, destination), (destination, source)])):
        kind[at], peer[at] = rank == destination, other
    ends = np.array([source, destination])
    return ArraySchedule(
        ranks,
        np.array([np.count_nonzero(ends < rank) for rank in range(ranks + 1)]),
        kind,
        peer,
        np.full(2, size),
        np.zeros(2, dtype=np.int32),
        np.zeros(3, dtype=np.int64),
        np.zeros(0, dtype=np.int64),
    )


def alltoall(network: HxMesh, size: int) -> Schedule:
    return motifs.build("alltoall", network, message_bytes=size)


def test_sst_info_lists_everything(installation: Installation, library: Path) -> None:
    done = subprocess.run(
        [installation.sst_info, "hxmesh"],
        env={**os.environ, "SST_LIB_PATH": str(library)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "WARNING" not in done.stdout + done.stderr
    for text in (
        ": replay\n",
        ": topology\n",
        "send_machines: ",
        "radix: ",
        "networkIF: ",
        "bytes_received: ",
    ):
        assert text in done.stdout
    assert ("ReplayMotif" in done.stdout) == (
        "ember" in installation.libraries and installation.ember_source is not None
    )


@pytest.mark.parametrize(
    ("destination", "links"),
    [(1, ("board",)), (2, ("row", "row")), (5, ("board", "column", "column")), (7, 2 * ("row", "column"))],
)
def test_one_packet_takes_the_packet_engines_time_and_merlins_start_ups(
    sst: Run, destination: int, links: tuple[str, ...]
) -> None:
    """Merlin's idle ports start a flit late, and its crossbar moves packets when its clock ticks."""
    network = HxMesh(2, 1, 2, 2)
    params = NetworkParams(
        match_overhead_ps=0, eager_limit_bytes=0, bandwidth_bps={"row": 200 * 10**9, "column": 100 * 10**9}
    )
    schedule = one_message(network, 0, destination, 8192 - params.message_header_bytes)
    ours = engine.run(network, schedule, params)
    theirs = sst(network, schedule, params)
    flit_ps = {"host": 1280, "board": 5120, "row": 10240, "column": 20480}
    start_ups = 2 * flit_ps["host"] + sum(flit_ps[kind] for kind in links)
    clock_ps = 640
    routers = len(links) + 1
    late = theirs.end_ps - ours.simulated_time_ps - start_ups
    assert 0 <= late <= routers * clock_ps
    # A send is over when its last byte has left, here after one flit of starting.
    assert int(theirs.records[0]["end_ps"]) - ours.ranks.end_ps[0] == flit_ps["host"]


ONE_ROUTER = FatTree.from_shape("16,1:1")
FLIT_PS, CLOCK_PS = 1280, 640
"""Of the links and of the crossbars of that network."""

SMALL = {
    "alltoall of 16 B": ("alltoall", {"message_bytes": 16}, 1),
    "alltoall of 4 KiB": ("alltoall", {"message_bytes": 4096}, 1),
    "alltoall of one packet": ("alltoall", {"message_bytes": 8192 - 45}, 1),
    "alltoall of 16 KiB": ("alltoall", {"message_bytes": 16384}, 1),
    "ring of 64 B": ("ring", {"total_bytes": 16 * 64}, 30),
    "ring of 64 KiB": ("ring", {"total_bytes": 16 * 65536}, 30),
}
"""Motif, its parameters, and how many messages wait for each other."""


@pytest.mark.parametrize("name", SMALL)
def test_small_messages_take_the_packet_engines_time(sst: Run, name: str) -> None:
    """Two ports that start a flit late and a clock, for each message that another one waits for."""
    motif, values, steps = SMALL[name]
    schedule = motifs.build(motif, ONE_ROUTER, **values)
    ours = engine.run(ONE_ROUTER, schedule)
    theirs = sst(ONE_ROUTER, schedule)
    late = theirs.end_ps - ours.simulated_time_ps
    assert steps * 2 * FLIT_PS <= late <= steps * (2 * FLIT_PS + CLOCK_PS)


@pytest.mark.parametrize("name", SMALL)
def test_small_messages_take_fireflys_time(sst: Run, installation: Installation, name: str) -> None:
    """Firefly counts part of the way to the processor from the first packet, not the last: 1 ns less."""
    needs_motif(installation)
    motif, values, steps = SMALL[name]
    schedule = motifs.build(motif, ONE_ROUTER, **values)
    eager = SstOptions(further={"firefly.ctrlMsg": {"shortMsgLength": 2**17}})
    firefly = sst(ONE_ROUTER, schedule, ember=True, options=eager, name="firefly")
    theirs = sst(ONE_ROUTER, schedule)
    assert abs(theirs.end_ps - firefly.end_ps) <= 1000 * steps


def fan_out(sizes: list[int]) -> ArraySchedule:
    """Rank 0 sends a message of each size at once, to ranks 1, 2, ..."""
    n, ranks = len(sizes), ONE_ROUTER.num_endpoints
    return ArraySchedule(
        ranks,
        np.concatenate([[0], n + np.minimum(np.arange(ranks), n)]),
        np.repeat(np.array([0, 1], dtype=np.uint8), n),
        np.concatenate([np.arange(1, n + 1), np.zeros(n)]).astype(np.int32),
        np.array(2 * sizes),
        np.zeros(2 * n, dtype=np.int32),
        np.zeros(2 * n + 1, dtype=np.int64),
        np.zeros(0, dtype=np.int64),
    )


SEND_ORDER = {
    "all fit the buffer": ([65536] * 4, 2**20),
    "two of four fit the buffer": ([2**20] * 4, 2**21),
    "none of six fits the buffer": ([2**20] * 6, 2**16),
}


@pytest.mark.parametrize("name", SEND_ORDER)
def test_messages_leave_in_fireflys_order(sst: Run, installation: Installation, name: str) -> None:
    needs_motif(installation)
    sizes, buffer_bytes = SEND_ORDER[name]
    schedule = fan_out(sizes)
    params = NetworkParams(output_buffer_bytes=buffer_bytes)
    eager = SstOptions(further={"firefly.ctrlMsg": {"shortMsgLength": 2**20}})
    firefly = sst(ONE_ROUTER, schedule, params, ember=True, options=eager, name="firefly")
    theirs = sst(ONE_ROUTER, schedule, params)
    for rank, record in theirs.records.items():
        assert abs(int(record["end_ps"]) - int(firefly.records[rank]["end_ps"])) <= 1000 + 2 * FLIT_PS
    # An eager send is over when the processor has done it, with the message still at the adapter.
    assert int(theirs.records[0]["end_ps"]) == len(sizes) * params.send_overhead_ps
    assert int(theirs.records[0]["bytes_sent"]) == sum(sizes)


def test_a_send_that_is_not_eager_ends_when_its_last_packet_has_left(sst: Run) -> None:
    schedule = fan_out([65536, 65536])
    ends = [
        sst(ONE_ROUTER, schedule, NetworkParams(eager_limit_bytes=limit), name=str(limit)).records[0][
            "end_ps"
        ]
        for limit in (65536, 65537)
    ]
    on_link_ps = 2 * (65536 // 256 + 1) * FLIT_PS
    assert on_link_ps < int(ends[0]) < on_link_ps + 20_000
    assert int(ends[1]) == 2000


NETWORKS = {
    "2x2 boards of 4x4": (HxMesh(4, 4, 2, 2), 16384),
    "3x2 boards of 4x2": (HxMesh(4, 2, 3, 2), 65536),
    "two-level lines": (HxMesh(2, 1, 8, 1, radix=8), 65536),
    "uneven two-level lines": (HxMesh(1, 2, 1, 17, radix=16), 65536),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_alltoall_is_the_same_in_all_modes_and_near_the_packet_engine(sst: Run, name: str) -> None:
    network, size = NETWORKS[name]
    schedule = alltoall(network, size)
    runs = [sst(network, schedule, command=command) for command in (SERIAL, THREADS, PROCESSES)]
    ranks = network.num_endpoints
    for run in runs:
        assert run.code == 0, run.output
        assert run.records == runs[0].records
        assert sorted(run.records) == list(range(ranks))
    assert runs[0].files == runs[1].files == ["ranks-0-of-1.csv"]
    assert runs[2].files == ["ranks-0-of-2.csv", "ranks-1-of-2.csv"]
    for record in runs[0].records.values():
        assert int(record["bytes_sent"]) == int(record["bytes_received"]) == (ranks - 1) * size
    ours = engine.run(network, schedule).simulated_time_ps
    assert runs[0].end_ps == pytest.approx(ours, rel=TOLERANCE)


@pytest.mark.parametrize("motif", ["ring", "two-rings", "bucket"])
def test_collectives_near_the_packet_engine(sst: Run, motif: str) -> None:
    network = HxMesh(2, 2, 2, 2)
    schedule = motifs.build(motif, network, total_bytes=4 * 2**20)
    ours = engine.run(network, schedule).simulated_time_ps
    assert sst(network, schedule).end_ps == pytest.approx(ours, rel=TOLERANCE)


def test_reordering_interface(sst: Run) -> None:
    """Messages may overtake each other with either interface; the times are close."""
    network = HxMesh(2, 2, 2, 2)
    plain = sst(network, alltoall(network, 65536))
    ordered = sst(
        network,
        alltoall(network, 65536),
        name="ordered",
        changes={
            '    interface = component.setSubComponent(slot, "merlin.linkcontrol")': "    component, slot = "
            'component.setSubComponent(slot, "merlin.reorderlinkcontrol"), "networkIF"\n'
            '    interface = component.setSubComponent(slot, "merlin.linkcontrol")'
        },
    )
    assert ordered.end_ps == pytest.approx(plain.end_ps, rel=TOLERANCE)


def test_messages_of_no_bytes_and_computation(sst: Run) -> None:
    network = HxMesh(2, 1, 2, 1)
    # Rank 0 computes 1 us, then sends nothing to rank 1, which waits for it.
    schedule = ArraySchedule(
        4,
        np.array([0, 2, 4, 4, 4]),
        np.array([2, 0, 1, 3], dtype=np.uint8),
        np.array([-1, 1, 0, -1], dtype=np.int32),
        np.array([1_000_000, 0, 0, 0]),
        np.zeros(4, dtype=np.int32),
        np.array([0, 0, 1, 1, 2]),
        np.array([0, 2]),
    )
    ours = engine.run(network, schedule)
    run = sst(network, schedule)
    assert run.end_ps == pytest.approx(ours.simulated_time_ps, rel=TOLERANCE)
    assert [int(run.records[rank]["end_ps"]) for rank in (2, 3)] == [0, 0]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"radix": 64', '"radix": 7', "hxmesh.topology: radix is 7 but must be even, 4 to 65534."),
        ('"a": 2', '"a": "two"', "hxmesh.topology: a is two but must be 1 to 65535."),
        ('    "b": 1,\n', "", "hxmesh.topology: b is missing but must be given."),
        ('"x": 2', '"x": 1', "id of the router is 2 but must be below 2, the number of routers."),
        ('"num_ports": int(row["ports"])', '"num_ports": 6', "num_ports of router 0 is 6 but must be 5."),
        ('"send_machines": 4', '"send_machines": 0', "send_machines is 0 but must be 1 to 65536."),
        ('"packet_size": "8192B"', '"packet_size": "3b"', "packet_size is 3b but must be whole bytes"),
        ('"send_overhead": "1ns"', '"send_overhead": "1B"', "send_overhead is 1B but must be a time such as"),
        ('"nic_command": "2ns"', '"nic_command": "2B"', "nic_command is 2B but must be a time such as 2ns."),
        ('"nic_send_latency": "2ns"', '"nic_send_latency": "-1ns"', "nic_send_latency is -1ns but must be a"),
        (
            '"nic_recv_latency": "2ns"',
            '"nic_recv_latency": "2Hz"',
            "nic_recv_latency is 2Hz but must be a time",
        ),
        ('"message_header": "45B"', '"message_header": "45"', "message_header is 45 but must be whole bytes"),
        (
            '"eager_limit": "2147483648B"',
            '"eager_limit": "-8b"',
            "eager_limit is -8b but must be whole bytes",
        ),
        (
            '"send_buffer": "32000000B"',
            '"send_buffer": "0B"',
            "send_buffer is 0B but must be whole bytes such",
        ),
        ('os.path.join(HERE, "schedule.bin")', '"none.bin"', "schedule file none.bin cannot be opened"),
        ('"schedule": SCHEDULE, ', "", "schedule is missing but must be the path of a"),
        ('"records": RECORDS', '"records": "/no"', "records is /no but must be a directory that"),
        ('"rank": int(row["rank"])', '"rank": 9', "has the ranks 0 to 3 but not rank 9."),
        ('"rank": int(row["rank"])', '"rank": -2', "rank is -2 but must be -1 or a rank of the schedule."),
        (
            '"rank": int(row["rank"])',
            '"rank": 3 - number',
            "at endpoint 3 but the schedule file has it at 0.",
        ),
    ],
)
def test_wrong_parameters(sst: Run, old: str, new: str, words: str) -> None:
    network = HxMesh(2, 1, 2, 1)
    run = sst(network, alltoall(network, 8192), changes={old: new})
    assert run.code != 0
    assert run.records == {}
    assert words in run.output


def test_line_too_long_for_its_radix(sst: Run) -> None:
    network = HxMesh(1, 1, 9, 1, radix=6)
    run = sst(network, alltoall(network, 8), changes={'"radix": 6': '"radix": 4'})
    assert "x is 9 but must be at most 4, the longest two-level line of radix 4." in run.output


def test_buffer_of_the_interface_too_small(sst: Run) -> None:
    network = HxMesh(2, 1, 2, 1)
    usual = "interface.addParams(NETWORK_INTERFACE)"
    small = f'{usual}\n    interface.addParam("output_buf_size", "4096B")'
    run = sst(network, alltoall(network, 8192), changes={usual: small})
    assert (
        "output_buf_size of the network interface must hold a packet of 8192 bytes but does not."
        in run.output
    )


def test_rank_that_does_not_take_part_is_waited_for(sst: Run) -> None:
    network = HxMesh(2, 1, 2, 1)
    run = sst(
        network,
        alltoall(network, 8192),
        changes={'"rank": int(row["rank"])': '"rank": int(row["rank"]) if number else -1'},
    )
    assert sorted(run.records) == [1, 2, 3]
    assert run.end_ps == -1
    assert all("receive from rank 0 (operation" in record["waiting_for"] for record in run.records.values())


def needs_motif(installation: Installation) -> None:
    if "ember" not in installation.libraries or installation.ember_source is None:
        pytest.skip("no sources of Ember of this version")


def test_ember_motif(sst: Run, installation: Installation) -> None:
    needs_motif(installation)
    network = HxMesh(2, 2, 2, 2)
    schedule = alltoall(network, 65536)
    runs = [sst(network, schedule, command=command, ember=True) for command in (SERIAL, THREADS, PROCESSES)]
    assert all(run.records == runs[0].records for run in runs)
    assert len(runs[0].files) == 16
    assert all(int(record["bytes_received"]) == 15 * 65536 for record in runs[0].records.values())
    # Firefly has costs that the endpoint of its own does not have.
    ours = engine.run(network, schedule).simulated_time_ps
    assert ours < runs[0].end_ps < 1.5 * ours


def test_ember_motif_computes_and_follows_dependencies(sst: Run, installation: Installation) -> None:
    needs_motif(installation)
    network = HxMesh(2, 2, 2, 2)
    schedule = motifs.build("bucket", network, total_bytes=2**20)
    run = sst(network, schedule, ember=True)
    assert run.end_ps > 0
    sent = schedule.sent_bytes()
    assert [int(run.records[rank]["bytes_sent"]) for rank in range(16)] == sent.tolist()
