"""A network without software costs, so that a test adds only what it is about."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from engine import NetworkParams


@pytest.fixture(scope="session")
def bare() -> Callable[..., NetworkParams]:
    """Parameters with latencies that all differ, large buffers, no overheads, no crossbar limit."""

    def make(**changes: Any) -> NetworkParams:
        values: dict[str, Any] = {
            "packet_bytes": 1024,
            "flit_bytes": 64,
            "link_latency_ps": 41_000,
            "host_latency_ps": 31_000,
            "router_input_latency_ps": 7_000,
            "router_output_latency_ps": 3_000,
            "crossbar_bps": 0,
            "send_overhead_ps": 0,
            "recv_overhead_ps": 0,
            "match_overhead_ps": 0,
            "nic_command_ps": 0,
            "nic_send_latency_ps": 0,
            "nic_recv_latency_ps": 0,
            "message_header_bytes": 0,
            "eager_limit_bytes": 0,
        }
        return NetworkParams(**{**values, **changes})

    return make
