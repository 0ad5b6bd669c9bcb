"""Schedules of training iterations: they can run, move what the formulas say, and take what their computation
takes where the network takes nothing.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import engine
import motifs
from engine import NetworkParams
from motifs import ArraySchedule, OpKind, StreamSchedule
from motifs.dnn import Model, Step, Workload, build_iteration, computation_ps, compute_ps, volumes
from motifs.dnn.collectives import Rules, Shape, best_algorithm, modelled_time_ps
from motifs.dnn.iteration import LOOK_PS
from topologies import FatTree, HxMesh, Topology
from topologies.errors import ConfigError
from workflow.workload import find_workload, load_workload, read_workload

US = 10**6

SMALL = {
    "resnet152": {"D": 256},
    "cosmoflow": {"D": 4},
    "dlrm": {"D": 16},
    "gpt3": {"P": 4},
    "gpt3_moe": {"P": 4, "O": 4},
}
"""The shipped workloads, divided less."""


def small(name: str) -> Workload:
    return dataclasses.replace(load_workload(name, parallelism=SMALL[name]), grid=None)


def boards(accelerators: int) -> HxMesh:
    side = {16: 4, 64: 8, 256: 16}[accelerators]
    return HxMesh.from_grid(side, side, (2, 2))


def listed(workload: Workload, network: Topology, **choices: object) -> ArraySchedule:
    return build_iteration(workload, network, **choices).schedule.expand()  # type: ignore[arg-type]


def endless(**changes: int) -> NetworkParams:
    """A network that takes no time: packets of up to 32 KiB leave in less than half a picosecond."""
    bandwidth = dict.fromkeys(("host", "board", "row", "column", "uplink", "local", "global"), 10**18)
    return NetworkParams(
        link_latency_ps=0,
        host_latency_ps=0,
        router_input_latency_ps=0,
        router_output_latency_ps=0,
        crossbar_bps=0,
        send_overhead_ps=0,
        recv_overhead_ps=0,
        match_overhead_ps=0,
        nic_command_ps=0,
        nic_send_latency_ps=0,
        nic_recv_latency_ps=0,
        bandwidth_bps=bandwidth,
        **changes,
    )


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("network", [boards(256), FatTree.from_shape("16,16:16")], ids=["boards", "fat tree"])
def test_shipped_workloads_can_run(name: str, network: Topology) -> None:
    hidden = {"resnet152": 9, "cosmoflow": 5}.get(name, 0)
    schedule = build_iteration(small(name), network, hidden=hidden).schedule
    schedule.check()
    assert np.array_equal(schedule.sent_bytes().sum(), schedule.received_bytes().sum())


@pytest.mark.parametrize("name", ["gpt3", "gpt3_moe", "dlrm"])
def test_whole_workloads_can_run(name: str) -> None:
    workload = load_workload(name)
    network = HxMesh.from_grid(48, 32, (2, 2))
    build_iteration(workload, network).schedule.check()


def test_gpt3_moves_what_the_article_says() -> None:
    read = read_workload(find_workload("gpt3", Path()))
    workload = read.resolve()
    volume = read.volumes
    assert volume is not None
    # W = 4 bytes, hidden width 12288, sequences of 2048: article, and the artifact's motif.
    assert volume.operator_bytes == volume.pipeline_bytes == 4 * 25_165_824
    assert volume.data_bytes == 4 * 452_984_832
    # Each stage and shard sends to its neighbour once; each stage has two allreduces over O, which move
    # 2 (O - 1) V_O whatever the algorithm.
    p, o = workload.p, workload.o
    expected = p * o * volume.pipeline_bytes + p * 2 * 2 * (o - 1) * volume.operator_bytes
    network = HxMesh.from_grid(32, 32, (2, 2))
    for algorithm in ("ring", "bidirectional-ring", "best"):
        assert build_iteration(workload, network, algorithm=algorithm).schedule.total_bytes == expected
    sent = build_iteration(workload, network).schedule.sent_bytes()
    assert np.unique(sent[sent > 0]).tolist() == [expected // (p * o)]


@pytest.mark.parametrize("pipeline", ["gpipe", "1f1b"])
@pytest.mark.parametrize("microbatches", [1, 2, 5])
def test_a_pipeline_moves_its_volume_and_fills_and_drains(pipeline: str, microbatches: int) -> None:
    p, o, stage, vector = 4, 2, 1000, 600
    workload = Workload(
        "pipe",
        2,
        p,
        o,
        forward=(Step("compute", time_ps=3 * US), Step("allreduce", over="O", size_bytes=vector)),
        backward=(Step("compute", time_ps=5 * US),),
        update=(Step("allreduce", over="D", size_bytes=400),),
        pipeline=pipeline,  # type: ignore[arg-type]
        microbatches=microbatches,
        stage_bytes=stage,
    )
    schedule = listed(workload, boards(16))
    schedule.check()
    sends = 2 * o * (p - 1) * 2 * microbatches * stage
    inside = 2 * p * microbatches * 2 * (o - 1) * vector
    assert schedule.total_bytes == sends + inside + p * o * 2 * (2 - 1) * 400
    # Both orders leave P - 1 passes of each direction idle.
    assert compute_ps(workload) == (microbatches + p - 1) * (3 + 5) * US


def test_1f1b_keeps_fewer_microbatches_open_than_gpipe() -> None:
    def most_open(pipeline: str) -> int:
        workload = Workload(
            "pipe",
            1,
            4,
            1,
            forward=(Step("compute", time_ps=US),),
            backward=(Step("compute", time_ps=2 * US),),
            pipeline=pipeline,  # type: ignore[arg-type]
            microbatches=8,
            stage_bytes=8,
        )
        schedule = listed(workload, boards(16))
        place = build_iteration(workload, boards(16)).placement.endpoint[0, 0, 0]
        ops = slice(schedule.op_offset[place], schedule.op_offset[place + 1])
        values = schedule.value[ops][schedule.kind[ops] == OpKind.COMPUTE]
        return int(np.cumsum(np.where(values == US, 1, -1)).max())

    assert most_open("1f1b") == 4
    assert most_open("gpipe") == 8


@pytest.mark.parametrize("name", SMALL)
def test_infinitely_fast_networks_leave_the_computation(name: str) -> None:
    workload = small(name)
    accelerators = 256 if name == "resnet152" else 16
    hidden = {"resnet152": 9, "cosmoflow": 5}.get(name, 0)
    schedule = build_iteration(workload, boards(accelerators), reduce_fs_per_byte=0, hidden=hidden).schedule
    assert compute_ps(workload) == computation_ps(schedule.expand())
    result = engine.run(boards(accelerators), schedule, endless(packet_bytes=2**15))
    assert result.complete
    assert result.simulated_time_ps == compute_ps(workload)


def test_published_computation() -> None:
    published_ms = {"resnet152": 108, "cosmoflow": 93.61, "dlrm": 2.901, "gpt3": 31.83, "gpt3_moe": 49.895625}
    for name, expected in published_ms.items():
        assert compute_ps(load_workload(name)) == round(expected * 1e9)


def test_overlapped_steps_take_the_longer_of_both() -> None:
    def runtime(compute: int, overlapped: bool) -> int:
        steps = (
            Step("allreduce", over="D", size_bytes=400_000, overlapped=overlapped),
            Step("compute", time_ps=compute),
        )
        workload = Workload("one", 16, 1, 1, forward=steps, backward=())
        schedule = build_iteration(workload, boards(16), reduce_fs_per_byte=0).schedule
        return engine.run(boards(16), schedule).simulated_time_ps

    alone = runtime(0, overlapped=False)
    assert runtime(3 * alone, overlapped=True) == 3 * alone
    assert runtime(alone // 3, overlapped=True) == alone
    assert runtime(alone // 3, overlapped=False) == alone + alone // 3


def test_one_allreduce_at_the_end_is_the_same_as_streams() -> None:
    workload = small("resnet152")
    workload = dataclasses.replace(
        workload,
        d=16,
        forward=workload.forward,
        backward=tuple(
            dataclasses.replace(step, size_bytes=step.size_bytes // 1000) if step.op == "allreduce" else step
            for step in workload.backward
        ),
    )
    choices = {"hidden": 9, "algorithm": "two-rings", "reduce_fs_per_byte": 0}
    streams = build_iteration(workload, boards(16), **choices).schedule  # type: ignore[arg-type]
    assert isinstance(streams, StreamSchedule)
    # A trace needs single operations, and an idle endpoint for each of its points.
    network = HxMesh.from_grid(12, 8, (2, 2))
    apart = dict(choices, grid=(4, 4))
    graph = build_iteration(workload, network, **apart, trace=(3, 0, 0)).schedule  # type: ignore[arg-type]
    assert isinstance(graph, ArraySchedule)
    compact = build_iteration(workload, network, **apart).schedule  # type: ignore[arg-type]
    fast, slow = (engine.run(network, schedule).simulated_time_ps for schedule in (compact, graph))
    assert slow == pytest.approx(fast, abs=1 * US)


def test_a_processor_that_advances_allreduces_computes_less() -> None:
    steps = (
        Step("allreduce", over="D", size_bytes=1_600, overlapped=True),
        Step("compute", time_ps=1000 * US),
    )
    workload = Workload("one", 16, 1, 1, forward=steps, backward=())
    times = {
        progress: engine.run(
            boards(16), build_iteration(workload, boards(16), progress=progress).schedule
        ).simulated_time_ps
        for progress in ("offloaded", "processor")
    }
    # 15 blocks of 100 bytes are reduced at 2.5 ps a byte, and 30 messages looked for.
    assert times["processor"] - times["offloaded"] == 15 * 250 + 30 * LOOK_PS


def test_planes_share_every_message() -> None:
    workload = small("gpt3")
    whole = build_iteration(workload, boards(16)).schedule
    share = build_iteration(workload, boards(16), planes=4).schedule
    assert share.total_bytes * 4 == whole.total_bytes
    assert share.num_messages == whole.num_messages


def test_a_trace_tells_when_steps_end() -> None:
    workload = small("dlrm")
    network = boards(64)
    traced = build_iteration(workload, network, trace=(0, 0, 0), grid=(4, 4))
    result = engine.run(network, traced.schedule)
    end = result.ranks["end_ps"].to_numpy()
    times = [
        (step.op, 0 if step.begin is None else int(end[step.begin]), int(end[step.end]))
        for step in traced.intervals
    ]
    steps = [step for step in (*workload.forward, *workload.backward) if step.op != "wait"]
    assert [op for op, _, _ in times] == [step.op for step in steps]
    assert times[0][1] == 0
    for (op, begin, finish), step in zip(times, steps, strict=True):
        assert begin < finish
        if op == "compute":
            assert finish - begin == pytest.approx(step.time_ps, abs=US)
    # The first alltoall is waited for, the first allreduce is not.
    assert times[2][1] == times[1][2]
    assert times[6][0] == "allreduce"
    assert times[7][1] == times[6][1]
    plain = engine.run(network, build_iteration(workload, network, grid=(4, 4)).schedule)
    assert result.simulated_time_ps == pytest.approx(plain.simulated_time_ps, abs=2 * US)


RULES = Rules("best", "rank", False, 0, ports=4, injection_bps=1_600_000_000_000)


@pytest.mark.parametrize(
    ("sides", "size_bytes", "expected"),
    [
        ((1, 4), 2**26, "bidirectional-ring"),
        ((16, 16), 2**31, "bucket"),
        ((16, 16), 2**10, "bucket"),
        ((2, 3), 2**31, "bucket"),
    ],
)
def test_best_algorithm(sides: tuple[int, int], size_bytes: int, expected: str) -> None:
    rows, columns = sides
    places = tuple(tuple(range(row * columns, (row + 1) * columns)) for row in range(rows))
    shape = Shape(rows * columns, places)
    chosen = best_algorithm(shape, size_bytes, RULES)
    known = ("ring", "bidirectional-ring", "two-rings", "bucket", "torus-2d")
    times = [modelled_time_ps(name, shape, size_bytes, RULES) for name in known]
    assert modelled_time_ps(chosen, shape, size_bytes, RULES) == min(times)
    assert chosen == expected


def test_volumes_of_the_article() -> None:
    model = Model(element_bytes=4, parameters=1000, activations=50, examples=64, operator_elements=7)
    found = volumes(model, d=2, p=4, o=2)
    assert (found.data_bytes, found.pipeline_bytes, found.operator_bytes) == (4 * 125, 4 * 200, 28)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"algorithm": "rings"}, "algorithm is 'rings'"),
        ({"progress": "gpu"}, "progress is 'gpu'"),
        ({"layout": "spiral"}, "layout is 'spiral'"),
        ({"trace": [0, 9, 0]}, "trace is"),
        ({"grid": (3, 5)}, "grid of gpt3 is 3 x 5"),
        ({"order": "DDP"}, "order is 'DDP'"),
    ],
)
def test_wrong_choices(change: dict[str, object], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        build_iteration(small("gpt3"), boards(64), **change)  # type: ignore[arg-type]


def test_a_workload_larger_than_its_network() -> None:
    with pytest.raises(ConfigError, match="at most 16"):
        build_iteration(load_workload("dlrm"), boards(16))


def test_grid_algorithms_need_a_grid() -> None:
    with pytest.raises(ConfigError, match="fill no grid"):
        build_iteration(small("dlrm"), FatTree.from_shape("4,4:4"), algorithm="bucket")


@pytest.mark.parametrize("pipeline", ["single-step", "1f1b"])
def test_by_rendezvous_data_wait_for_their_receiver(pipeline: str) -> None:
    """The second stage computes longer than the first; what it gets meanwhile comes later."""
    workload = Workload(
        "two",
        1,
        2,
        1,
        forward=(Step("compute", time_ps=10 * US),),
        backward=(Step("compute", time_ps=50 * US),),
        pipeline=pipeline,  # type: ignore[arg-type]
        microbatches=1 if pipeline == "single-step" else 2,
        stage_bytes=200_000,
    )
    network = boards(16)
    schedules = {
        protocol: build_iteration(
            workload, network, protocol=protocol, eager_bytes=100_000, grid=(1, 2)
        ).schedule
        for protocol in ("eager", "rendezvous")
    }
    for schedule in schedules.values():
        schedule.check()
    eager, late = (engine.run(network, schedule).simulated_time_ps for schedule in schedules.values())
    one_message = engine.run(
        network,
        motifs.parse_goal("num_ranks 2\nrank 0 {\nsend 200000b to 1\n}\nrank 1 {\nrecv 200000b from 0\n}"),
    ).simulated_time_ps
    if pipeline == "single-step":
        # Both directions at the end, each with a link of its own. By rendezvous one after the other even so:
        # the first stage's request waits behind the data that it sends.
        assert eager == pytest.approx(50 * US + one_message, abs=US)
        assert late == pytest.approx(50 * US + 2 * one_message, abs=US)
    else:
        # Of two microbatches the second one's activations come while the second stage runs backward.
        assert late == pytest.approx(eager + one_message, abs=2 * US)


@pytest.mark.parametrize("algorithm", ["ring", "two-rings"])
def test_what_computation_hides_makes_no_difference(algorithm: str) -> None:
    def shorter(steps: tuple[Step, ...]) -> tuple[Step, ...]:
        return tuple(
            dataclasses.replace(step, size_bytes=step.size_bytes // 1000, time_ps=step.time_ps // 100)
            for step in steps
        )

    workload = small("resnet152")
    workload = dataclasses.replace(
        workload, d=16, forward=shorter(workload.forward), backward=shorter(workload.backward)
    )
    times = [
        engine.run(
            boards(16),
            build_iteration(
                workload, boards(16), algorithm=algorithm, hidden=hidden, progress="processor"
            ).schedule,
        ).simulated_time_ps
        for hidden in (0, 9)
    ]
    assert times[0] > compute_ps(workload)
    assert times[0] == pytest.approx(times[1], abs=100_000)


def test_jitter_lengthens_every_computation_by_its_own_chance() -> None:
    workload, network = small("gpt3"), boards(16)

    def computations(**how: Any) -> NDArray[np.int64]:
        schedule = build_iteration(workload, network, **how).schedule.expand()
        values: NDArray[np.int64] = schedule.value[schedule.kind == OpKind.COMPUTE]
        return values

    plain, shaken = computations(), computations(jitter_ns=100, seed=1)
    more = shaken - plain
    assert more.min() >= 0
    assert more.max() <= 100_000
    # Once for each accelerator; what a reduction takes is no computation of the workload.
    assert np.count_nonzero(more) == len(np.unique(more)) - 1 == workload.accelerators
    assert np.array_equal(shaken, computations(jitter_ns=100, seed=1))
    assert not np.array_equal(shaken, computations(jitter_ns=100, seed=2))
    with pytest.raises(ConfigError, match="jitter_ns is -1 but must be from 0"):
        computations(jitter_ns=-1)
