from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

class Checks:
    """What a validated run looks at (engine/src/checks.hpp); each raises RuntimeError with what it found."""

    def __init__(self, ranks: int) -> None: ...
    @staticmethod
    def time(before: int, now: int) -> None: ...
    @staticmethod
    def spent(credits: int) -> None: ...
    @staticmethod
    def returned(credits: int, capacity: int) -> None: ...
    def begins(
        self, *, slot: int, src_rank: int, dst_endpoint: int, bytes: int, packets: int, flits: int
    ) -> None: ...
    def delivers(self, *, slot: int, endpoint: int, flits: int) -> None: ...
    def ends(self, *, slot: int, dst_rank: int) -> None: ...
    def finished(self, *, sent_bytes: NDArray[np.int64], received_bytes: NDArray[np.int64]) -> None: ...

class Engine:
    """One run, prepared (engine/src/module.cpp); `engine.run` fills it."""

    def __init__(
        self,
        *,
        family: str,
        routing_params: Mapping[str, int],
        routing_tables: Mapping[str, Sequence[int]],
        port_offset: NDArray[np.int64],
        port_peer: NDArray[np.int32],
        port_kind: NDArray[np.uint8],
        endpoint_router: NDArray[np.int32],
        endpoint_port: NDArray[np.int32],
        packet_bytes: int,
        flit_bytes: int,
        bandwidth_bps: Sequence[int],
        latency_ps: Sequence[int],
        router_input_latency_ps: int,
        router_output_latency_ps: int,
        crossbar_bps: int,
        input_buffer_bytes: int,
        output_buffer_bytes: int,
        send_machines: int,
        send_overhead_ps: int,
        recv_overhead_ps: int,
        match_overhead_ps: int,
        nic_command_ps: int,
        nic_send_latency_ps: int,
        nic_recv_latency_ps: int,
        message_header_bytes: int,
        eager_limit_bytes: int,
        seed: int,
    ) -> None: ...
    def set_shift(
        self, *, ranks: int, message_bytes: int, shifts: NDArray[np.int32], window: int
    ) -> None: ...
    def set_streams(
        self,
        *,
        ranks: int,
        streams: int,
        segments: int,
        send_peer: NDArray[np.int32],
        recv_peer: NDArray[np.int32],
        steps: NDArray[np.int32],
        total_bytes: NDArray[np.int64],
        parts: NDArray[np.int32],
        first_block: NDArray[np.int32],
        reduce_fs_per_byte: NDArray[np.int32],
        lockstep: bool,
    ) -> None: ...
    def set_graph(
        self,
        *,
        ranks: int,
        op_offset: NDArray[np.int64],
        kind: NDArray[np.uint8],
        peer: NDArray[np.int32],
        value: NDArray[np.int64],
        dep_offset: NDArray[np.int64],
        dep: NDArray[np.int64],
        match: NDArray[np.int64],
    ) -> None: ...
    def prepare(self, *, placement: NDArray[np.uint32], repetitions: str, validate: bool) -> None:
        """Raises ValueError for parameters that the network cannot run with."""
    def run(self, tick: Callable[[int, int, int, int], bool]) -> dict[str, Any]:
        """Runs what was prepared, once."""
