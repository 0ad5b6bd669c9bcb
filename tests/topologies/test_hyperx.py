"""HyperX2D: complete rows and columns."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topologies import ConfigError, HyperX2D, LinkKind

SIDE = st.integers(1, 6)


@given(SIDE, st.integers(2, 6))
@settings(max_examples=40, deadline=None)
def test_ports_go_to_the_other_columns_then_the_other_rows_then_the_host(columns: int, rows: int) -> None:
    network = HyperX2D(columns, rows)
    ports = columns + rows - 1
    for router in range(columns * rows):
        column, row = router % columns, router // columns
        expected = [
            (row * columns + c, c - (c > column), LinkKind.ROW) for c in range(columns) if c != column
        ]
        expected += [
            (r * columns + column, columns - 1 + r - (r > row), LinkKind.COLUMN)
            for r in range(rows)
            if r != row
        ]
        for there, port, kind in expected:
            own = router * ports + port
            assert network.port_router[network.port_peer[own]] == there
            assert network.port_kind[own] == kind
        assert network.port_kind[router * ports + ports - 1] == LinkKind.HOST
        assert network.port_peer[router * ports + ports - 1] == -1


def test_the_published_router_has_62_links_and_a_host() -> None:
    network = HyperX2D(32, 32)
    assert set(network.connected_ports) == {63}
    assert network.bandwidth_bps[LinkKind.HOST] == 4 * network.bandwidth_bps[LinkKind.ROW]


@pytest.mark.parametrize(("columns", "rows"), [(0, 2), (1, 1)])
def test_a_grid_without_links_is_refused(columns: int, rows: int) -> None:
    with pytest.raises(ConfigError, match="of a HyperX is"):
        HyperX2D(columns, rows)
