"""Pairing sends with receives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["pair_messages"]

Keys = Sequence[NDArray[np.integer[Any]]]


def pair_messages(send: Keys, recv: Keys) -> tuple[NDArray[np.int64], tuple[int, int] | None]:
    """Pair the k-th send with the k-th receive of the same key.

    send, recv: the key columns (source, destination, tag) of all sends and of all receives.

    Returns (pairs, lonely). pairs[i] is the number of the receive of send i. If some message has no partner,
    pairs is empty and lonely is (0, send number) or (1, receive number) of one such message; else lonely is
    None.
    """
    # lexsort is stable, so messages of one key keep their order; its last column is the first key.
    send_order = np.lexsort(tuple(reversed(send)))
    recv_order = np.lexsort(tuple(reversed(recv)))
    common = min(len(send_order), len(recv_order))
    differs = np.zeros(common, dtype=np.bool_)
    for send_column, recv_column in zip(send, recv, strict=True):
        differs |= send_column[send_order[:common]] != recv_column[recv_order[:common]]
    if not differs.any() and len(send_order) == len(recv_order):
        pairs = np.empty(common, dtype=np.int64)
        pairs[send_order] = recv_order
        return pairs, None
    first = int(np.argmax(differs)) if differs.any() else common
    none = np.empty(0, dtype=np.int64)
    if first == len(send_order):
        return none, (1, int(recv_order[first]))
    if first == len(recv_order):
        return none, (0, int(send_order[first]))
    # Up to here all keys agree, so the smaller of the two keys is missing on the other side.
    send_key = tuple(int(column[send_order[first]]) for column in send)
    recv_key = tuple(int(column[recv_order[first]]) for column in recv)
    return none, ((0, int(send_order[first])) if send_key < recv_key else (1, int(recv_order[first])))
