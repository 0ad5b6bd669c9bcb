"""What a run will take, before it starts: packets, packet-hops, memory and time on one core.

The model is simple on purpose. Packets are counted exactly. Packet-hops are packets times the mean shortest
path of the pairs that talk (sampled), so routes that are not minimal come on top. Time is packet-hops over a
measured rate for the kind of network and of schedule, without the steps that the engine skips as repetitions;
memory is a measured amount per packet that can be in the network or waiting in a list of messages. It is
there to plan a sweep and to ask a scheduler for resources.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine import NetworkParams
from engine.run import count_packets
from motifs import ArraySchedule, OpKind, Schedule, ShiftSchedule, StreamSchedule
from topologies import Topology
from topologies.base import LinkKind
from topologies.metrics import average_distance_hops, host_hops, router_hops
from workflow.experiment import Experiment, Plan

# Of 1,024 accelerators on a core of a 2.8 GHz Ice Lake Xeon whose other core ran another: runs of
# table2_small, table2_quick and permutation_small. Of minimal hops: UGAL takes 1.4 times as many.
_SHIFT_RATES = {"fattree": 24e6, "dragonfly": 2.0e6, "hyperx": 7.6e6, "torus": 8.4e6, "hxmesh": 6.6e6}
_TAPERED_SHIFT_RATE = 7.2e6
_STREAM_RATES = {"fattree": 24e6, "dragonfly": 17e6, "hyperx": 11e6, "torus": 11e6, "hxmesh": 8.2e6}
_LIST_RATES = {"fattree": 4.3e6, "dragonfly": 2.0e6, "hyperx": 6.8e6, "torus": 5.1e6, "hxmesh": 4.3e6}
_SLOWEST_RATE = 2.0e6

_STEPS_BEFORE_REPETITION = {"hyperx": 6, "torus": 6, "fattree": 100}
"""Steps of a segment that are simulated before the engine has found their period."""

SST_HOPS_PER_S = 1.2e5
"""The same of SST, serial, with hxmesh.replay on 64 accelerators and messages of 64 KiB."""

SST_START_S = 1.0
SST_BASE_MEMORY_BYTES = 64 * 2**20
SST_BYTES_PER_PORT = 8192
SST_BYTES_PER_PACKET = 512
SST_BYTES_PER_OPERATION = 128
"""Process, graph and traffic of SST, rounded up."""

BASIS = "Basis: packet-hops a second of a core of a 2.8 GHz Ice Lake Xeon, by network and kind of traffic."
"""What the times rest on."""

START_S = 2.0
"""Python, imports, building network and schedule."""

BASE_MEMORY_BYTES = 160 * 2**20
"""The process without network and packets."""

BYTES_PER_RANK = 4096
BYTES_PER_PORT = 512
BYTES_PER_PACKET = 16
BYTES_PER_OPERATION = 64
"""State of the engine beside the process, measured on the same runs and rounded up."""

SAMPLED_SOURCES = 32
"""Ranks whose distances stand for all."""

MEMORY_MARGIN = 1.5
TIME_MARGIN = 4.0
"""Resources asked from a scheduler over the estimate: it ends jobs that exceed them."""

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Estimate:
    """What one run is expected to take."""

    packets: int
    packet_hops: int
    memory_bytes: int
    wall_s: float

    @property
    def memory_mb(self) -> int:
        """Megabytes to ask a scheduler for."""
        return math.ceil(self.memory_bytes * MEMORY_MARGIN / 1e6)

    @property
    def runtime_minutes(self) -> int:
        """Minutes to ask a scheduler for."""
        return math.ceil(self.wall_s * TIME_MARGIN / 60) + 1


def estimate(experiment: Experiment, topology: Topology, schedule: Schedule) -> Estimate:
    """Return what `experiment` will take; `topology` and `schedule` are its own."""
    params = experiment.network_params()
    packets = count_packets(schedule, params)
    packet_hops = round(packets * mean_links(topology, schedule))
    waiting = min(_packets_in_flight(schedule, params, packets), _buffered_packets(topology, params))
    if experiment.engine == "sst":
        memory = (
            SST_BASE_MEMORY_BYTES
            + topology.num_ports * SST_BYTES_PER_PORT
            + waiting * SST_BYTES_PER_PACKET
            + schedule.num_operations * SST_BYTES_PER_OPERATION
        )
        return Estimate(packets, packet_hops, memory, SST_START_S + packet_hops / SST_HOPS_PER_S)
    state = (
        schedule.num_ranks * BYTES_PER_RANK + topology.num_ports * BYTES_PER_PORT + waiting * BYTES_PER_PACKET
    )
    if isinstance(schedule, ArraySchedule):
        state += schedule.num_operations * BYTES_PER_OPERATION
    simulated = packet_hops * _simulated_part(topology, schedule)
    wall_s = START_S + simulated / _hops_per_s(topology, schedule)
    return Estimate(packets, packet_hops, BASE_MEMORY_BYTES + state, wall_s)


def _hops_per_s(topology: Topology, schedule: Schedule) -> float:
    """Packet-hops of shortest paths a second and core."""
    family = topology.routing.family
    if isinstance(schedule, StreamSchedule):
        return _STREAM_RATES.get(family, _SLOWEST_RATE)
    if not isinstance(schedule, ShiftSchedule):
        return _LIST_RATES.get(family, _SLOWEST_RATE)
    if family == "fattree" and _leaves_are_tapered(topology):
        return _TAPERED_SHIFT_RATE
    return _SHIFT_RATES.get(family, _SLOWEST_RATE)


def _leaves_are_tapered(topology: Topology) -> bool:
    leaves = np.isin(topology.port_router, topology.endpoint_router)
    uplinks = np.count_nonzero(leaves & (topology.port_peer >= 0) & (topology.port_kind != LinkKind.HOST))
    return int(uplinks) < topology.num_endpoints


def _simulated_part(topology: Topology, schedule: Schedule) -> float:
    """Share of the steps that the engine does not skip as repetitions."""
    before = _STEPS_BEFORE_REPETITION.get(topology.routing.family)
    if before is None or not isinstance(schedule, StreamSchedule):
        return 1.0
    active = schedule.steps > 0
    if not active.any() or (schedule.segment_bytes[active] % schedule.parts[active]).any():
        return 1.0
    steps = schedule.steps[active]
    return float(np.minimum(steps, before).sum() / steps.sum())


def makespan_s(estimates: Mapping[str, Estimate], jobs: int) -> float:
    """Return the time all runs take, `jobs` at a time and the longest first."""
    ends = [0.0] * max(1, jobs)
    for found in sorted(estimates.values(), key=lambda found: -found.wall_s):
        earliest = ends.index(min(ends))
        ends[earliest] += found.wall_s
    return max(ends)


def estimate_plan(plan: Plan) -> dict[str, Estimate]:
    """Return the estimate of every run by its id; raises ConfigError for a schedule that cannot run."""
    return {run: estimate_run(plan, run) for run in plan.run_ids}


def estimate_run(plan: Plan, run: str) -> Estimate:
    """Return the estimate of one run of a plan; raises ConfigError for a schedule that cannot run."""
    topology = plan.topology(run)
    experiment = plan.experiments[run]
    return estimate(experiment, topology, experiment.build_schedule(topology))


def mean_links(topology: Topology, schedule: Schedule) -> float:
    """Links on a shortest path, host links included, averaged over the bytes of the schedule."""
    if isinstance(schedule, ShiftSchedule):
        hops = average_distance_hops(topology, max_sources=SAMPLED_SOURCES) - host_hops(topology)
        return 2 + hops
    source, target, weight = _traffic(schedule)
    if not len(source):
        return 2.0
    ranks = np.unique(source)
    if len(ranks) > SAMPLED_SOURCES:
        ranks = ranks[np.linspace(0, len(ranks) - 1, SAMPLED_SOURCES).astype(np.int64)]
    router = topology.endpoint_router
    distance = router_hops(topology, router[ranks])
    row = np.searchsorted(ranks, source)
    sampled = np.isin(source, ranks)
    links = distance[row[sampled], router[target[sampled]]]
    return 2 + float(np.average(links, weights=weight[sampled]))


def _traffic(schedule: Schedule) -> tuple[Integers, Integers, npt.NDArray[np.float64]]:
    """Sender, receiver and weight of the messages, or of groups of them."""
    if isinstance(schedule, StreamSchedule):
        active = schedule.steps > 0
        ranks = np.arange(schedule.num_ranks)[:, np.newaxis, np.newaxis]
        source = np.broadcast_to(ranks, schedule.steps.shape)[active]
        each = schedule.segment_bytes / np.maximum(schedule.parts, 1)
        weight = np.asarray(schedule.steps * np.maximum(each, 1), dtype=np.float64)[active]
        return source.astype(np.int64), schedule.send_peer[active].astype(np.int64), weight
    listed = schedule.expand()
    sends = listed.kind == OpKind.SEND
    source = np.repeat(np.arange(listed.num_ranks, dtype=np.int64), np.diff(listed.op_offset))[sends]
    return source, listed.peer[sends].astype(np.int64), np.maximum(listed.value[sends], 1).astype(np.float64)


def _packets_in_flight(schedule: Schedule, params: NetworkParams, packets: int) -> int:
    """Packets that the schedule lets wait in the network at a time: all, or a message of each stream."""
    if isinstance(schedule, StreamSchedule):
        blocks = schedule.segment_bytes / np.maximum(schedule.parts, 1)
        largest = np.ceil(blocks / params.packet_bytes).max(axis=2, initial=1)
        return min(packets, int(largest.sum()))
    return packets


def _buffered_packets(topology: Topology, params: NetworkParams) -> int:
    """Packets that all buffers of one virtual channel hold: about what congestion keeps in the network."""
    size = params.input_buffer_bytes + params.output_buffer_bytes
    return topology.num_ports * max(1, size // params.packet_bytes)
