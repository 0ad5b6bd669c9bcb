"""Random permutation traffic (paper section 5)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from motifs.schedule import ArraySchedule, OpKind
from topologies.errors import ConfigError

__all__ = ["permutation", "random_partners"]


def random_partners(num_ranks: int, seed: int = 0) -> NDArray[np.int64]:
    """Draw the rank each rank sends to, int64[ranks]: a uniformly random permutation without fixed points.

    Raises ConfigError for fewer than 2 ranks.
    """
    if num_ranks < 2:
        raise ConfigError(f"num_ranks is {num_ranks} but must be 2 or more.")
    generator = np.random.default_rng(seed)
    own = np.arange(num_ranks)
    # About one permutation in e has no fixed point; drawing until one comes keeps the choice uniform.
    while True:
        partner = generator.permutation(num_ranks)
        if not np.any(partner == own):
            return partner.astype(np.int64)


def permutation(num_ranks: int, message_bytes: int, messages: int = 2, seed: int = 0) -> ArraySchedule:
    """Every rank sends `messages` messages of `message_bytes` to one partner and receives as many from
    another one.

    Partners are drawn by :func:`random_partners`. All receives and sends are posted at the start, followed by
    a WAIT. Raises ConfigError for fewer than 2 ranks, negative sizes and fewer than 1 message.
    """
    if message_bytes < 0:
        raise ConfigError(f"message_bytes is {message_bytes} but must be 0 or more.")
    if messages < 1:
        raise ConfigError(f"messages is {messages} but must be 1 or more.")
    target = random_partners(num_ranks, seed)
    source = np.argsort(target)
    ops = 2 * messages + 1
    peer = np.full((num_ranks, ops), -1, dtype=np.int32)
    peer[:, :messages] = source[:, np.newaxis]
    peer[:, messages:-1] = target[:, np.newaxis]
    kind = np.array([OpKind.RECV] * messages + [OpKind.SEND] * messages + [OpKind.WAIT], dtype=np.uint8)
    value = np.where(kind == OpKind.WAIT, 0, message_bytes)
    number = np.arange(num_ranks * ops, dtype=np.int64).reshape(num_ranks, ops)
    waits_before = np.repeat(np.arange(num_ranks + 1, dtype=np.int64), ops)[: num_ranks * ops + 1]
    return ArraySchedule(
        num_ranks=num_ranks,
        op_offset=np.arange(num_ranks + 1, dtype=np.int64) * ops,
        kind=np.tile(kind, num_ranks),
        peer=peer.reshape(-1),
        value=np.tile(value, num_ranks),
        tag=np.zeros(num_ranks * ops, dtype=np.int32),
        dep_offset=waits_before * (ops - 1),
        dep=number[:, :-1].reshape(-1),
    )
