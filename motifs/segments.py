"""Building blocks of stream schedules: reduce-scatter and allgather around rings."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from motifs.schedule import StreamSchedule, block_bytes
from topologies.errors import ConfigError

__all__ = ["REDUCE_FS_PER_BYTE", "StreamBuilder", "as_ranks", "owned_block_bytes", "split_bytes"]

REDUCE_FS_PER_BYTE = 2500
"""Cost of a reduction in the published study: 0.01 ns per float of 4 bytes."""

Ranks = NDArray[np.int64]


def as_ranks(field: str, values: ArrayLike, num_ranks: int | None, ndim: int) -> tuple[Ranks, int]:
    """Return the array of distinct ranks `values` and the number of ranks, by default as many as the array
    holds.

    Raises ConfigError, naming `field`, for another number of dimensions, an empty array, ranks out of range
    or twice.
    """
    ranks = np.asarray(values)
    if ranks.ndim != ndim or ranks.size == 0 or ranks.dtype.kind not in "iu":
        raise ConfigError(
            f"{field} must be a non-empty array of ranks with {ndim} dimension{'s' * (ndim > 1)}."
        )
    total = ranks.size if num_ranks is None else num_ranks
    outside = ranks[(ranks < 0) | (ranks >= total)]
    if outside.size:
        raise ConfigError(f"{field} holds rank {outside[0]} but must be 0 to {total - 1}.")
    found, count = np.unique(ranks, return_counts=True)
    if np.any(count > 1):
        raise ConfigError(f"{field} holds rank {found[np.argmax(count > 1)]} twice but must be once.")
    return ranks.astype(np.int64), total


def split_bytes(total_bytes: int, parts: int) -> list[int]:
    """Cut `total_bytes` into `parts` sizes that differ by one byte at most and add up exactly."""
    if total_bytes < 0:
        raise ConfigError(f"total_bytes is {total_bytes} but must be 0 or more.")
    return [int(size) for size in block_bytes(total_bytes, parts, np.arange(parts))]


def owned_block_bytes(total_bytes: int, length: int) -> NDArray[np.int64]:
    """Bytes that each position of a ring of `length` owns after a reduce-scatter of `total_bytes`,
    int64[length].

    Position i owns block (i + 1) mod length.
    """
    return block_bytes(total_bytes, length, (np.arange(length) + 1) % length)


class StreamBuilder:
    """Collects the segments of a :class:`StreamSchedule`; segments never set stay empty."""

    def __init__(self, num_ranks: int, streams: int, segments: int, reduce_fs_per_byte: int) -> None:
        """Start with empty segments; `reduce_fs_per_byte` is the cost of every reduce-scatter step."""
        shape = (num_ranks, streams, segments)
        self._num_ranks = num_ranks
        self._reduce_fs_per_byte = reduce_fs_per_byte
        self._send_peer = np.full(shape, -1, dtype=np.int32)
        self._recv_peer = np.full(shape, -1, dtype=np.int32)
        self._steps = np.zeros(shape, dtype=np.int32)
        self._segment_bytes = np.zeros(shape, dtype=np.int64)
        self._parts = np.ones(shape, dtype=np.int32)
        self._first_block = np.zeros(shape, dtype=np.int32)
        self._reduce = np.zeros(shape, dtype=np.int32)

    def reduce_scatter(
        self, stream: int, segment: int, rings: Ranks, ring_bytes: int | NDArray[np.int64]
    ) -> None:
        """Reduce-scatter around each of `rings`, after which position i of a ring owns block (i + 1) mod
        length.

        rings: int64[rings, length] of ranks; position i sends to position i + 1.
        ring_bytes: size of the vector of each ring, int64[rings] or the same for all.
        """
        self._around(stream, segment, rings, ring_bytes, first_block=0)
        self._reduce[rings, stream, segment] = self._reduce_fs_per_byte

    def allgather(self, stream: int, segment: int, rings: Ranks, ring_bytes: int | NDArray[np.int64]) -> None:
        """Allgather around each of `rings`, starting where :meth:`reduce_scatter` ends."""
        self._around(stream, segment, rings, ring_bytes, first_block=1)

    def _around(
        self, stream: int, segment: int, rings: Ranks, ring_bytes: int | NDArray[np.int64], first_block: int
    ) -> None:
        length = rings.shape[1]
        where = (rings, stream, segment)
        self._segment_bytes[where] = np.asarray(ring_bytes, dtype=np.int64).reshape(-1, 1)
        self._parts[where] = length
        self._first_block[where] = (np.arange(length) + first_block) % length
        self._steps[where] = length - 1
        if length > 1:
            self._send_peer[where] = np.roll(rings, -1, axis=1)
            self._recv_peer[where] = np.roll(rings, 1, axis=1)

    def build(self, lockstep: bool) -> StreamSchedule:
        """Return the schedule of the segments set so far."""
        return StreamSchedule(
            num_ranks=self._num_ranks,
            send_peer=self._send_peer,
            recv_peer=self._recv_peer,
            steps=self._steps,
            segment_bytes=self._segment_bytes,
            parts=self._parts,
            first_block=self._first_block,
            reduce_fs_per_byte=self._reduce,
            lockstep=lockstep,
        )
