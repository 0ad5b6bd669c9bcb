"""Alltoall as a balanced shift pattern (paper section 5)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from motifs.schedule import ShiftSchedule
from topologies.errors import ConfigError, unknown_name

__all__ = ["SAMPLINGS", "alltoall", "sample_shifts"]

SAMPLINGS = ("stratified", "random", "even")


def sample_shifts(
    num_ranks: int, sample: int, sampling: str = "stratified", seed: int = 0
) -> NDArray[np.int32]:
    """Choose `sample` of the shifts 1 to num_ranks - 1, in rising order, int32[sample].

    sampling: "stratified" cuts the shifts into `sample` equal runs and draws one from each, "random" draws
        without replacement, "even" takes the middle of each run (beware of strides that fit the structure of
        a network).
    seed: of the draw; not used by "even".

    Raises ConfigError for an unknown sampling and a sample below 1 or above num_ranks - 1.
    """
    if sampling not in SAMPLINGS:
        raise unknown_name("sampling", sampling, SAMPLINGS)
    if not 1 <= sample <= num_ranks - 1:
        raise ConfigError(f"sample is {sample} but must be 1 to {num_ranks - 1}, the number of shifts.")
    edges = np.arange(sample + 1, dtype=np.int64) * (num_ranks - 1) // sample
    generator = np.random.default_rng(seed)
    if sampling == "stratified":
        chosen = generator.integers(edges[:-1], edges[1:])
    elif sampling == "random":
        chosen = np.sort(generator.choice(num_ranks - 1, size=sample, replace=False))
    else:
        chosen = (edges[:-1] + edges[1:]) // 2
    return (chosen + 1).astype(np.int32)


def alltoall(
    num_ranks: int,
    message_bytes: int,
    shifts: ArrayLike | None = None,
    window: int = 0,
    *,
    sample: int | None = None,
    sampling: str = "stratified",
    seed: int = 0,
) -> ShiftSchedule:
    """Every rank sends `message_bytes` to every other one: for each shift i to rank + i, receiving from rank
    - i.

    shifts: only these shifts, in this order, each 1 to num_ranks - 1; by default all in rising order.
    window: largest number of sends in flight of a rank, 0 = no limit.
    sample: only that many shifts, see :func:`sample_shifts`; not together with `shifts`.

    Raises ConfigError for values out of range.
    """
    if sample is not None:
        if shifts is not None:
            raise ConfigError("sample and shifts are both given but only one of them may be.")
        shifts = sample_shifts(num_ranks, sample, sampling, seed)
    chosen = None if shifts is None else np.asarray(shifts)
    return ShiftSchedule(num_ranks, message_bytes, chosen, window)  # type: ignore[arg-type]  # None = all shifts
