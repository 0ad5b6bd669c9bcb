"""Motifs by name: parameters, grids, errors that name the nearest known name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jsonschema
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import motifs
from motifs import MOTIFS, ArraySchedule, OpKind, ShiftSchedule, StreamSchedule, build
from topologies.errors import ConfigError

NAMES = ["alltoall", "permutation", "ring", "bidirectional-ring", "two-rings", "bucket", "torus-2d"]


@dataclass(frozen=True, eq=False)
class Net:
    """The part of a topology that motifs look at."""

    num_endpoints: int
    grid: tuple[int, int] | None = None
    grid_endpoint: NDArray[np.int32] | None = None


def boards() -> Net:
    """2 x 2 boards of 2 x 2 accelerators, numbered board by board."""
    grid = np.array([[0, 1, 4, 5], [2, 3, 6, 7], [8, 9, 12, 13], [10, 11, 14, 15]], dtype=np.int32)
    return Net(16, (4, 4), grid)


def size_of(name: str) -> dict[str, int]:
    return {next(p.name for p in MOTIFS[name].parameters if p.required): 1600}


def test_names() -> None:
    assert list(MOTIFS) == NAMES
    assert all(motif.name == name and motif.description for name, motif in MOTIFS.items())


@pytest.mark.parametrize("name", NAMES)
def test_every_motif_builds_on_a_grid(name: str) -> None:
    schedule = build(name, boards(), **size_of(name))
    schedule.check()
    schedule.expand().check()
    assert schedule.num_ranks == 16


def test_grid_motifs_go_along_the_grid_of_the_network() -> None:
    schedule = build("bucket", boards(), total_bytes=1600)
    assert isinstance(schedule, StreamSchedule)
    assert schedule.send_peer[1, :, 0].tolist() == [4, 0, 3, 11]


def test_ring_follows_the_first_hamiltonian_cycle() -> None:
    net = boards()
    assert net.grid_endpoint is not None
    schedule = build("ring", net, total_bytes=1600)
    cycle = net.grid_endpoint.reshape(-1)[motifs.edge_disjoint_hamiltonian_cycles(4, 4)[0]]
    assert isinstance(schedule, StreamSchedule)
    assert np.array_equal(schedule.send_peer[cycle, 0, 0], np.roll(cycle, -1))
    by_rank = build("ring", net, total_bytes=1600, order="rank")
    assert isinstance(by_rank, StreamSchedule)
    assert by_rank.send_peer[:, 0, 0].tolist() == [*range(1, 16), 0]


@pytest.mark.parametrize("place", [12, Net(12)])
def test_networks_without_grid(place: Any) -> None:
    ring = build("bidirectional-ring", place, total_bytes=1200)
    assert isinstance(ring, StreamSchedule)
    assert ring.send_peer[:, 0, 0].tolist() == [*range(1, 12), 0]
    for name in ("two-rings", "bucket", "torus-2d"):
        with pytest.raises(ConfigError, match=r"grid is missing"):
            build(name, place, total_bytes=1200)
        build(name, place, total_bytes=1200, grid=(3, 4)).check()
    with pytest.raises(ConfigError, match=r"grid is missing"):
        build("ring", place, total_bytes=1200, order="hamiltonian")
    schedule = build("bucket", place, total_bytes=1200, grid=[3, 4])
    assert isinstance(schedule, StreamSchedule)
    assert schedule.send_peer[0, :, 0].tolist() == [1, 3, 4, 8]


@pytest.mark.parametrize(
    ("name", "place", "params", "message"),
    [
        ("alltoal", 4, {}, r"motif is 'alltoal' .*did you mean 'alltoall'"),
        ("bucket", 4, {"total_byte": 4}, r"parameter of motif bucket is 'total_byte' .*'total_bytes'"),
        ("bucket", 4, {"grid": (2, 2)}, "motif bucket needs the parameter total_bytes"),
        ("ring", 4, {"total_bytes": -1}, "total_bytes is -1 but must be 0 to"),
        ("ring", 4, {"total_bytes": True}, "total_bytes is True but must be an integer"),
        ("ring", 4, {"total_bytes": 1.5}, "total_bytes is 1.5 but must be an integer"),
        ("ring", 4, {"total_bytes": None}, "total_bytes is None but must be an integer"),
        ("ring", 4, {"total_bytes": 8, "lockstep": "yes"}, "lockstep is 'yes' but must be true or false"),
        ("ring", 4, {"total_bytes": 8, "order": "ranks"}, "order is 'ranks' .*'rank'"),
        ("ring", 4, {"total_bytes": 8, "reduce_fs_per_byte": 2**31}, "reduce_fs_per_byte is 2147483648"),
        ("alltoall", 4, {"message_bytes": 8, "shifts": 3}, "shifts is 3 but must be a list of integers"),
        ("alltoall", 4, {"message_bytes": 8, "shifts": "12"}, "shifts is '12' but must be a list"),
        ("alltoall", 4, {"message_bytes": 8, "shifts": [1, 0]}, r"shifts\[1\] is 0"),
        ("alltoall", 4, {"message_bytes": 8, "shifts": [1, 4]}, r"shifts\[1\] is 4"),
        ("alltoall", 4, {"message_bytes": 8, "shifts": [1], "sample": 1}, "sample and shifts are both given"),
        ("alltoall", 4, {"message_bytes": 8, "sample": 4}, "sample is 4 but must be 1 to 3"),
        (
            "alltoall",
            4,
            {"message_bytes": 8, "sample": 2, "sampling": "evenly"},
            "sampling is 'evenly' .*'even'",
        ),
        ("alltoall", 1, {"message_bytes": 8}, "num_ranks is 1"),
        ("alltoall", 0, {"message_bytes": 8}, "num_ranks is 0"),
        ("alltoall", 2.0, {"message_bytes": 8}, "num_ranks is 2.0 but must be an integer"),
        ("permutation", 1, {"message_bytes": 8}, "num_ranks is 1"),
        ("permutation", 4, {"message_bytes": 8, "messages": 0}, "messages is 0"),
        ("permutation", 4, {"message_bytes": 8, "seed": -1}, "seed is -1"),
        ("bucket", 4, {"total_bytes": 8, "grid": (2, 3)}, "grid is 2 x 3 but must have 4 places"),
        ("bucket", 4, {"total_bytes": 8, "grid": (2, 2, 1)}, "grid has 3 numbers but must have 2"),
        ("bucket", 4, {"total_bytes": 8, "grid": (4, 0)}, r"grid\[1\] is 0"),
        (
            "bucket",
            boards(),
            {"total_bytes": 8, "grid": (2, 8)},
            "grid is 2 x 8 but must be 4 x 4, the grid of",
        ),
        ("two-rings", 4, {"total_bytes": 8, "grid": (1, 4)}, "grid is 1 x 4 .*bidirectional-ring"),
        ("two-rings", 24, {"total_bytes": 8, "grid": (6, 4), "method": "closed-form"}, "closed form"),
    ],
)
def test_wrong_inputs_are_named(name: str, place: Any, params: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build(name, place, **params)


def test_numpy_numbers_are_numbers() -> None:
    schedule = build("alltoall", np.int64(4), message_bytes=np.int32(8), shifts=np.array([2, 1]))  # type: ignore[arg-type]
    assert isinstance(schedule, ShiftSchedule)
    assert type(schedule.message_bytes) is int
    assert schedule.shifts.tolist() == [2, 1]


@pytest.mark.parametrize("name", NAMES)
def test_json_schema_agrees_with_the_checks(name: str) -> None:
    schema = MOTIFS[name].schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    good = size_of(name)
    jsonschema.validate(good, schema)
    defaults = MOTIFS[name].resolve(good)
    jsonschema.validate({key: value for key, value in defaults.items() if value is not None}, schema)
    jsonschema.validate(defaults, schema)
    key = next(iter(good))
    for bad in ({}, {key: -1}, {key: "8"}, good | {"nonsense": 1}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(bad, schema)
        with pytest.raises(ConfigError):
            MOTIFS[name].resolve(bad)


# Alltoall samples and permutations


@settings(deadline=None)
@given(
    ranks=st.integers(2, 200),
    sampling=st.sampled_from(["stratified", "random", "even"]),
    seed=st.integers(0, 9),
    data=st.data(),
)
def test_samples_are_distinct_shifts(ranks: int, sampling: str, seed: int, data: st.DataObject) -> None:
    sample = data.draw(st.integers(1, ranks - 1))
    shifts = motifs.sample_shifts(ranks, sample, sampling, seed)
    assert len(np.unique(shifts)) == sample
    assert np.all(np.diff(shifts) > 0)
    assert shifts[0] >= 1
    assert shifts[-1] < ranks
    assert np.array_equal(shifts, motifs.sample_shifts(ranks, sample, sampling, seed))
    if sample == ranks - 1:
        assert np.array_equal(shifts, np.arange(1, ranks))


def test_samples_depend_on_the_seed() -> None:
    for sampling in ("stratified", "random"):
        one, other = (motifs.sample_shifts(1000, 20, sampling, seed) for seed in (0, 1))
        assert not np.array_equal(one, other)


def test_even_samples_are_spread_evenly() -> None:
    assert motifs.sample_shifts(1001, 10, "even").tolist() == [51 + 100 * i for i in range(10)]


@settings(deadline=None)
@given(ranks=st.integers(2, 50), messages=st.integers(1, 4), seed=st.integers(0, 100))
def test_permutations_have_no_fixed_points(ranks: int, messages: int, seed: int) -> None:
    partner = motifs.random_partners(ranks, seed)
    assert np.array_equal(np.sort(partner), np.arange(ranks))
    assert not np.any(partner == np.arange(ranks))
    schedule = motifs.permutation(ranks, 100, messages, seed)
    schedule.check()
    assert isinstance(schedule, ArraySchedule)
    assert np.all(schedule.sent_bytes() == 100 * messages)
    assert np.all(schedule.received_bytes() == 100 * messages)
    sends = np.flatnonzero(schedule.kind == OpKind.SEND).reshape(ranks, messages)
    assert np.array_equal(schedule.peer[sends], np.repeat(partner[:, np.newaxis], messages, axis=1))
    deps = np.diff(schedule.dep_offset)
    assert np.array_equal(deps, np.where(schedule.kind == OpKind.WAIT, 2 * messages, 0))


def test_permutations_are_uniform() -> None:
    """All 9 derangements of 4 ranks come about equally often."""
    drawn = [tuple(motifs.random_partners(4, seed).tolist()) for seed in range(1800)]
    counts = np.unique(drawn, axis=0, return_counts=True)[1]
    assert len(counts) == 9
    assert np.all(abs(counts - 200) < 70)
