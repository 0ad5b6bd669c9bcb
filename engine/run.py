"""Runs a schedule in the packet engine."""

from __future__ import annotations

import platform
import resource
import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import pandas as pd

from engine import _core
from engine.params import NetworkParams
from engine.result import Progress, RunResult, Status, rank_table
from motifs import ArraySchedule, OpKind, Schedule, ShiftSchedule, StreamSchedule
from topologies.base import LinkKind, Topology
from topologies.errors import ConfigError

Repetitions = Literal["skip", "simulate", "ignore"]

# An endpoint's number shares 32 bits with a packet's length (engine/src/packets.hpp).
MAX_ENDPOINTS = 2**20 - 1


def run(
    topology: Topology,
    schedule: Schedule,
    params: NetworkParams | None = None,
    *,
    seed: int = 0,
    placement: npt.ArrayLike | None = None,
    progress: Callable[[Progress], None] | None = None,
    links: bool = False,
    memory_limit_bytes: int | None = None,
    repetitions: Repetitions = "skip",
    validate: bool = False,
) -> RunResult:
    """Simulate `schedule` on one plane of `topology`.

    `placement[rank]` is the endpoint of each rank (default: rank r at endpoint r). `progress` is called every
    million events (2^20, or 32 for each port if that is more); an exception that it raises, and
    KeyboardInterrupt, end the run and are passed on. `links` asks for the table of link use. `seed` is that
    of a routing which draws (UGAL); others make no use of it.

    A run that cannot go on returns with status "deadlock" and says who waits for whom; one whose own data
    grows beyond `memory_limit_bytes` returns with status "memory-limit".

    The steps of a ring become periodic where routing is deterministic: once the whole state of the simulation
    is what it was some steps before, whole periods are taken at once (engine/src/repetition.hpp). With
    `repetitions="simulate"` each of them is simulated, with the same result to the picosecond. Both let
    events of the same time come in the order of ports; "ignore" lets them come as they were scheduled, as
    for all other schedules and routings.

    With `validate`, the run looks at itself as it goes (engine/src/checks.hpp): each packet is delivered once
    and at its destination, no credit is spent that is not there and all come back, the bytes of every message
    and rank are those of the schedule, time does not run backwards. Every step is simulated then.

    Raises ConfigError for a schedule that fails its own check, does not fit the network, or parameters that
    the network cannot run with; RuntimeError where the engine is found to be wrong.
    """
    if validate and repetitions == "skip":
        repetitions = "simulate"
    if repetitions not in get_args(Repetitions):
        raise ConfigError(f"repetitions is {repetitions!r} but must be one of {get_args(Repetitions)}.")
    params = params or NetworkParams()
    params.check_against(topology)
    schedule.check()
    places = _placement(topology, schedule, placement)
    engine = _engine(topology, params, seed)
    _set_workload(engine, schedule)
    try:
        engine.prepare(placement=places, repetitions=repetitions, validate=validate)
    except ValueError as error:
        raise ConfigError(f"{topology.name} cannot be simulated: {error}.") from None
    total = count_packets(schedule, params)
    limit = memory_limit_bytes or 2**63
    started = time.perf_counter()
    exceeded = False

    def tick(packets: int, hops: int, time_ps: int, own_bytes: int) -> bool:
        nonlocal exceeded
        if progress is not None:
            progress(Progress(packets, total, hops, time_ps, time.perf_counter() - started))
        exceeded = own_bytes > limit
        return not exceeded

    out = engine.run(tick)
    # Computation before the first steps of streams moves everything by as much; the engine leaves it out.
    started_ps = schedule.start_ps if isinstance(schedule, StreamSchedule) else 0
    ends = out["rank_end_ps"]
    if validate and out["status"] == "complete":
        _check_bytes(schedule, out)
    wall_s = time.perf_counter() - started
    status: Status = "memory-limit" if exceeded else out["status"]
    message = (
        f"the engine's data grew to {out['engine_bytes']} bytes, beyond the limit of {memory_limit_bytes}"
        if exceeded
        else out["message"]
    )
    return RunResult(
        engine="packet",
        status=status,
        message=message,
        simulated_time_ps=out["simulated_time_ps"] + started_ps,
        packets=out["packets"],
        packet_hops=out["packet_hops"],
        repeated_packet_hops=out["repeated_packet_hops"],
        messages=out["messages"],
        bytes_delivered=out["bytes_delivered"],
        wall_s=wall_s,
        peak_memory_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        seed=seed,
        versions={"hxmesh": version("hxmesh"), "python": platform.python_version(), "numpy": np.__version__},
        params=params.model_dump(),
        ranks=rank_table(
            out["rank_bytes_sent"],
            out["rank_bytes_received"],
            out["rank_start_ps"],
            np.where(ends < 0, ends, ends + started_ps),
        ),
        links=_link_table(topology, params, out) if links else None,
    )


def _check_bytes(schedule: Schedule, out: dict[str, Any]) -> None:
    """Raise RuntimeError unless every rank sent and received the bytes that the schedule says."""
    for what, expected in (("sent", schedule.sent_bytes()), ("received", schedule.received_bytes())):
        wrong = np.flatnonzero(out[f"rank_bytes_{what}"] != expected)
        if wrong.size:
            rank = int(wrong[0])
            raise RuntimeError(
                f"the engine is wrong: rank {rank} {what} {out[f'rank_bytes_{what}'][rank]} bytes, "
                f"but its schedule has {expected[rank]}."
            )


def count_packets(schedule: Schedule, params: NetworkParams) -> int:
    """Packets that `schedule` sends; a message of no bytes is one packet."""

    def packets(size_bytes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        return np.maximum(1, -(-(size_bytes + params.message_header_bytes) // params.packet_bytes))

    if isinstance(schedule, ShiftSchedule):
        each = int(packets(np.array([schedule.message_bytes], dtype=np.int64))[0])
        return schedule.num_ranks * len(schedule.shifts) * each
    if isinstance(schedule, StreamSchedule):
        # Blocks of a segment differ by a byte at most; in `parts` steps, total % parts send the larger one.
        steps = schedule.steps.astype(np.int64)
        parts = np.maximum(schedule.parts.astype(np.int64), 1)
        small, extra = schedule.segment_bytes // parts, schedule.segment_bytes % parts
        first = schedule.first_block.astype(np.int64)
        # Blocks sent are first, first-1, ..., first-steps+1 modulo parts: count those below `extra`.
        rounds, rest = steps // parts, steps % parts
        last = (first - rest + 1) % parts
        high = first % parts
        straight = np.clip(np.minimum(high + 1, extra) - last, 0, None)
        wrapped = np.clip(np.minimum(high + 1, extra), 0, None) + np.clip(extra - last, 0, None)
        partial = np.where(rest == 0, 0, np.where(last <= high, straight, wrapped))
        large = rounds * extra + partial
        return int((large * packets(small + 1) + (steps - large) * packets(small)).sum())
    expanded = schedule.expand()
    return int(packets(expanded.value[expanded.kind == OpKind.SEND]).sum())


def _placement(
    topology: Topology, schedule: Schedule, placement: npt.ArrayLike | None
) -> npt.NDArray[np.uint32]:
    if topology.num_endpoints > MAX_ENDPOINTS:
        raise ConfigError(f"endpoints are {topology.num_endpoints} but must be at most {MAX_ENDPOINTS}.")
    if schedule.num_ranks > topology.num_endpoints:
        raise ConfigError(
            f"ranks are {schedule.num_ranks} but must be at most the {topology.num_endpoints} endpoints "
            f"of {topology.name}."
        )
    if placement is None:
        return np.arange(schedule.num_ranks, dtype=np.uint32)
    places = np.asarray(placement)
    if places.shape != (schedule.num_ranks,) or places.dtype.kind not in "iu":
        raise ConfigError(f"placement has shape {places.shape} but must be {schedule.num_ranks} integers.")
    if places.size and (places.min() < 0 or places.max() >= topology.num_endpoints):
        raise ConfigError(f"placement must hold endpoints 0 to {topology.num_endpoints - 1}.")
    if len(np.unique(places)) != len(places):
        raise ConfigError("placement puts two ranks on one endpoint; every rank needs its own.")
    return places.astype(np.uint32)


def _engine(topology: Topology, params: NetworkParams, seed: int) -> _core.Engine:
    bandwidths = params.link_bandwidths_bps(topology)
    kinds = range(max(LinkKind) + 1)
    routing = topology.routing
    return _core.Engine(
        family=routing.family,
        routing_params=dict(routing.params),
        routing_tables={name: table.tolist() for name, table in routing.tables.items()},
        port_offset=np.ascontiguousarray(topology.port_offset, dtype=np.int64),
        port_peer=np.ascontiguousarray(topology.port_peer, dtype=np.int32),
        port_kind=np.ascontiguousarray(topology.port_kind, dtype=np.uint8),
        endpoint_router=np.ascontiguousarray(topology.endpoint_router, dtype=np.int32),
        endpoint_port=np.ascontiguousarray(topology.endpoint_port, dtype=np.int32),
        packet_bytes=params.packet_bytes,
        flit_bytes=params.flit_bytes,
        bandwidth_bps=[bandwidths[LinkKind(kind)] for kind in kinds],
        latency_ps=[params.latency_of_ps(LinkKind(kind)) for kind in kinds],
        router_input_latency_ps=params.router_input_latency_ps,
        router_output_latency_ps=params.router_output_latency_ps,
        crossbar_bps=params.crossbar_bps,
        input_buffer_bytes=params.input_buffer_bytes,
        output_buffer_bytes=params.output_buffer_bytes,
        send_machines=params.send_machines,
        send_overhead_ps=params.send_overhead_ps,
        recv_overhead_ps=params.recv_overhead_ps,
        match_overhead_ps=params.match_overhead_ps,
        nic_command_ps=params.nic_command_ps,
        nic_send_latency_ps=params.nic_send_latency_ps,
        nic_recv_latency_ps=params.nic_recv_latency_ps,
        message_header_bytes=params.message_header_bytes,
        eager_limit_bytes=params.eager_limit_bytes,
        seed=seed % 2**64,
    )


def _set_workload(engine: _core.Engine, schedule: Schedule) -> None:
    if isinstance(schedule, ShiftSchedule):
        engine.set_shift(
            ranks=schedule.num_ranks,
            message_bytes=schedule.message_bytes,
            shifts=np.ascontiguousarray(schedule.shifts, dtype=np.int32),
            window=schedule.window,
        )
    elif isinstance(schedule, StreamSchedule):
        ranks, streams, segments = schedule.send_peer.shape

        def flat(array: npt.NDArray[Any], dtype: type[np.integer[Any]]) -> npt.NDArray[Any]:
            return np.ascontiguousarray(array, dtype=dtype).reshape(-1)

        engine.set_streams(
            ranks=ranks,
            streams=streams,
            segments=segments,
            send_peer=flat(schedule.send_peer, np.int32),
            recv_peer=flat(schedule.recv_peer, np.int32),
            steps=flat(schedule.steps, np.int32),
            total_bytes=flat(schedule.segment_bytes, np.int64),
            parts=flat(np.maximum(schedule.parts, 1), np.int32),
            first_block=flat(schedule.first_block, np.int32),
            reduce_fs_per_byte=flat(schedule.reduce_fs_per_byte, np.int32),
            lockstep=schedule.lockstep,
        )
    else:
        graph: ArraySchedule = schedule.expand()
        engine.set_graph(
            ranks=graph.num_ranks,
            op_offset=graph.op_offset,
            kind=graph.kind,
            peer=graph.peer,
            value=graph.value,
            dep_offset=graph.dep_offset,
            dep=graph.dep,
            match=graph.match(),
        )


def _link_table(topology: Topology, params: NetworkParams, out: dict[str, Any]) -> pd.DataFrame:
    """One row per direction of every link; the sender is a router, or endpoint e as router -1 - e."""
    bandwidths = params.link_bandwidths_bps(topology)
    by_kind = np.zeros(256, dtype=np.float64)
    for kind, bps in bandwidths.items():
        by_kind[kind] = bps
    ports = topology.num_ports
    endpoints = np.arange(topology.num_endpoints)
    host_ports = topology.port_offset[topology.endpoint_router] + topology.endpoint_port
    local = np.arange(ports) - topology.port_offset[topology.port_router]
    peer_router = np.where(topology.port_peer >= 0, topology.port_router[topology.port_peer], 0)
    peer_router[host_ports] = -1 - endpoints
    kinds = np.concatenate([topology.port_kind, topology.port_kind[host_ports]])
    flits = out["port_flits"].astype(np.int64)
    seconds = np.divide(
        flits * params.flit_bytes * 8.0, by_kind[kinds], out=np.zeros(len(flits)), where=by_kind[kinds] > 0
    )
    table = pd.DataFrame(
        {
            "router": np.concatenate([topology.port_router, -1 - endpoints]).astype(np.int64),
            "port": np.concatenate([local, np.zeros(len(endpoints), dtype=np.int64)]),
            "kind": kinds,
            "peer_router": np.concatenate([peer_router, topology.endpoint_router]).astype(np.int64),
            "packets": out["port_packets"].astype(np.int64),
            "flits": flits,
            "busy_ps": np.rint(seconds * 1e12).astype(np.int64),
        }
    )
    used: pd.DataFrame = table[by_kind[kinds] > 0].reset_index(drop=True)
    return used
