"""Long messages as an MPI library sends them: announced, asked for, sent, confirmed.

Three messages of a header each come on top of every one. They wait in the same queues as the data of others,
which is where most of the time goes that this protocol costs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from motifs.schedule import ArraySchedule, OpKind
from topologies.errors import require

__all__ = ["rendezvous"]

Int64 = NDArray[np.int64]

_STEPS = 4
"""Operations at either end of a message, each a message of its own or its receive: the announcement, the
request, the data, the confirmation."""
_DATA, _CONFIRMED = 2, 3


def rendezvous(schedule: ArraySchedule, eager_bytes: int) -> ArraySchedule:
    """Return `schedule` with messages of more than `eager_bytes` sent by rendezvous, the others as before.

    A sender announces a message when it could send it; the receiver asks for it once it knows of it and its
    receive has been posted (all that the receive depends on is complete); then come the data. What depends on
    the receive goes on with the data, what depends on the send when the receiver has confirmed them. No
    processor is needed in between, as with a network adapter that answers requests by itself: what may answer
    only between computations must depend on them. As in Firefly: a get by the receiver, and an
    acknowledgement (sst-elements, firefly/ctrlMsgProcessQueuesState.cc).

    Raises ConfigError for a negative `eager_bytes`.
    """
    require(eager_bytes >= 0, "eager_bytes", eager_bytes, "0 or more")
    send = (schedule.kind == OpKind.SEND) & (schedule.value > eager_bytes)
    receive = (schedule.kind == OpKind.RECV) & (schedule.value > eager_bytes)
    long = send | receive
    if not long.any():
        return schedule
    count = np.where(long, _STEPS, 1)
    first = np.concatenate([[0], np.cumsum(count)])
    total = int(first[-1])
    origin = np.repeat(np.arange(schedule.num_operations), count)
    step = np.arange(total) - first[origin]

    # The sender's own: SEND, RECV, SEND, RECV; the receiver's the other way round.
    kind = schedule.kind[origin].copy()
    flipped = long[origin] & (step % 2 == 1)
    kind[flipped] = np.where(send[origin[flipped]], OpKind.RECV, OpKind.SEND)
    value = np.where(long[origin] & (step != _DATA), 0, schedule.value[origin])
    # Each kind of message has tags of its own, so that the k-th of them still meets the k-th.
    part = np.where(long[origin], step, _DATA)
    tag = np.where(schedule.peer[origin] >= 0, schedule.tag[origin] * _STEPS + part, 0)

    at = first[:-1]
    start = at.copy()  # what has to wait for an operation's dependencies
    start[receive] += 1  # the request
    end = at.copy()  # what others wait for
    end[send] += _CONFIRMED
    end[receive] += _DATA
    owner = np.repeat(np.arange(schedule.num_operations), np.diff(schedule.dep_offset))
    ahead = np.flatnonzero(long[origin] & (step > 0))
    owners = np.concatenate([start[owner], ahead])
    deps = np.concatenate([end[schedule.dep], ahead - 1])
    order = np.argsort(owners, kind="stable")
    return ArraySchedule(
        num_ranks=schedule.num_ranks,
        op_offset=first[schedule.op_offset],
        kind=kind,
        peer=schedule.peer[origin],
        value=value,
        tag=tag,
        dep_offset=np.concatenate([[0], np.cumsum(np.bincount(owners, minlength=total))]),
        dep=deps[order],
    )
