"""HxMesh with failed boards in the packet engine: every packet arrives, also with the smallest buffers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import engine
import motifs
from allocation import Boards, allocate
from engine import NetworkParams
from topologies import HxMesh

NETWORKS = {
    "detours": lambda: HxMesh(2, 2, 4, 4, failed_boards=[(0, 0), (1, 1), (3, 2)]),
    "a third failed": lambda: HxMesh(
        2, 2, 5, 4, failed_boards=[(0, 0), (1, 1), (2, 2), (3, 3), (4, 0), (1, 3)]
    ),
    "line trees": lambda: HxMesh(3, 2, 4, 4, radix=4, failed_boards=[(0, 0), (1, 1), (2, 3)]),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_alltoall_arrives_whole(name: str, bare: Callable[..., NetworkParams]) -> None:
    network = NETWORKS[name]()
    schedule = motifs.build("alltoall", network, message_bytes=3000)
    small = bare(input_buffer_bytes=2048, output_buffer_bytes=2048)
    result = engine.run(network, schedule, small, links=True)
    assert result.complete, result.message
    assert result.bytes_delivered == schedule.total_bytes
    assert np.array_equal(result.ranks["bytes_received"].to_numpy(), schedule.received_bytes())
    assert result.links is not None
    # The switches' ports to failed boards have no cable, so they are in no table of links.
    failed = len(network.failed_boards)
    (a, b), (x, y) = network.board, network.boards
    ends = result.links["kind"].isin([2, 3]) & (result.links["router"] >= network.num_endpoints)
    assert int(ends.sum()) == 2 * (a + b) * (x * y - failed)


def test_a_job_on_a_sub_hxmesh_does_not_see_what_failed_elsewhere(bare: Callable[..., NetworkParams]) -> None:
    failed = ((0, 0), (1, 0), (1, 2))
    place = allocate(Boards(4, 4, failed), [(3, 3)]).places[0]
    assert place is not None
    times = []
    for network in (HxMesh(2, 2, 4, 4), HxMesh(2, 2, 4, 4, failed_boards=failed), HxMesh(2, 2, 3, 3)):
        own = HxMesh(2, 2, 3, 3)
        grid = own.endpoint_at if network.boards == (3, 3) else place.accelerators(network)
        endpoint = np.empty(own.num_endpoints, dtype=np.int64)
        endpoint[own.endpoint_at.ravel()] = grid.ravel()
        schedule = motifs.build("alltoall", own, message_bytes=5000)
        result = engine.run(network, schedule, bare(), placement=endpoint)
        times.append(result.ranks["end_ps"].tolist())
    assert times[0] == times[1] == times[2]
