"""Logical coordinates on networks."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from motifs.dnn import Step, Workload, place
from topologies import FatTree, HxMesh, Topology, Torus2D
from topologies.errors import ConfigError


def job(d: int, p: int, o: int) -> Workload:
    return Workload("job", d, p, o, forward=(Step("compute", time_ps=1),), backward=())


def board_of(network: HxMesh, endpoint: NDArray[np.int64]) -> NDArray[np.int64]:
    """Column and row of the board of each endpoint."""
    assert network.grid_endpoint is not None
    a, b = network.board
    row, column = np.nonzero(np.isin(network.grid_endpoint, endpoint))
    where = {int(network.grid_endpoint[r, c]): (c // a, r // b) for r, c in zip(row, column, strict=True)}
    return np.array([where[int(e)] for e in endpoint.reshape(-1)])


@pytest.mark.parametrize("layout", ["row-major", "snake", "boards", "fold"])
@pytest.mark.parametrize("order", ["DPO", "POD", "OPD"])
def test_every_accelerator_has_one_place(layout: str, order: str) -> None:
    network = HxMesh.from_grid(16, 8, (2, 2))
    found = place(job(4, 4, 4), network, order=order, layout=layout, grid=(8, 8))  # type: ignore[arg-type]
    assert found.endpoint.shape == (4, 4, 4)
    assert len(np.unique(found.endpoint)) == 64
    assert found.row is not None
    assert found.column is not None
    assert found.row.max() == found.column.max() == 7


def test_row_major_goes_along_rows() -> None:
    """GPT-3 as the artifact places it: neighbour stages in a row, shards of a stage six rows apart."""
    network = HxMesh.from_grid(32, 32, (2, 2))
    found = place(job(1, 96, 4), network, order="POD", grid=(24, 16))
    assert found.row is not None
    assert found.column is not None
    assert found.row[0, 0].tolist() == [0, 6, 12, 18]
    assert found.column[0, :16, 0].tolist() == list(range(16))
    assert found.endpoint[0, :6, 0].tolist() == [0, 1, 4, 5, 8, 9]


def test_snake_keeps_consecutive_ranks_together() -> None:
    network = Torus2D(8, 8)
    found = place(job(64, 1, 1), network, layout="snake")
    assert found.row is not None
    assert found.column is not None
    order = np.argsort(found.rank.reshape(-1))
    row, column = found.row.reshape(-1)[order], found.column.reshape(-1)[order]
    assert np.all(np.abs(np.diff(row)) + np.abs(np.diff(column)) == 1)


def test_boards_keep_four_consecutive_ranks_on_a_board() -> None:
    network = HxMesh.from_grid(8, 8, (2, 2))
    found = place(job(16, 1, 4), network, order="ODP", layout="boards")
    for group in found.endpoint[:, 0]:
        assert len(np.unique(board_of(network, group), axis=0)) == 1


def test_folded_planes_are_on_adjacent_boards() -> None:
    """3D: planes of 4 x 2 accelerators, and each plane beside the one before."""
    network = HxMesh.from_grid(16, 8, (4, 2))
    found = place(job(16, 2, 4), network, order="OPD", layout="fold")
    boards = np.array([board_of(network, found.endpoint[d])[0] for d in range(16)])
    for d in range(16):
        assert len(np.unique(board_of(network, found.endpoint[d]), axis=0)) == 1
    assert np.all(np.abs(np.diff(boards, axis=0)).sum(axis=1) == 1)


def test_networks_without_a_grid_are_filled_by_number() -> None:
    found = place(job(2, 2, 4), FatTree.from_shape("4,4:4"), order="OPD")
    assert found.row is None
    assert found.endpoint.reshape(-1).tolist() == list(range(16))


def test_without_a_grid_given_the_squarest_one_is_taken() -> None:
    found = place(job(32, 1, 1), Torus2D(8, 8))
    assert found.row is not None
    assert found.column is not None
    assert (int(found.row.max()) + 1, int(found.column.max()) + 1) == (4, 8)


@pytest.mark.parametrize(
    ("network", "layout", "grid", "sentence"),
    [
        (Torus2D(4, 4), "row-major", None, "at most 16"),
        (Torus2D(8, 8), "row-major", (16, 2), "within 8 x 8"),
        (HxMesh.from_grid(8, 8, (2, 2)), "boards", (1, 32), "within 8 x 8"),
        (HxMesh.from_grid(32, 32, (2, 2)), "boards", (1, 32), "multiple of boards of 2 x 2"),
        (Torus2D(32, 32), "fold", (2, 16), "multiple of planes of 4 x 4"),
    ],
)
def test_what_does_not_fit(
    network: Topology, layout: str, grid: tuple[int, int] | None, sentence: str
) -> None:
    with pytest.raises(ConfigError, match=sentence):
        place(job(2, 4, 4), network, order="OPD", layout=layout, grid=grid)  # type: ignore[arg-type]
