"""Long messages by rendezvous: what is sent, in which order, and when."""

from __future__ import annotations

import numpy as np
import pytest

import engine
import motifs
from motifs.rendezvous import rendezvous
from motifs.schedule import OpKind
from topologies import HxMesh
from topologies.errors import ConfigError

ONE_LINK = HxMesh(2, 1, 1, 1)


def goal(*ranks: str) -> motifs.Schedule:
    bodies = "".join(f"rank {number} {{\n{body}\n}}\n" for number, body in enumerate(ranks))
    return motifs.parse_goal(f"num_ranks {len(ranks)}\n{bodies}")


def ends(schedule: motifs.Schedule) -> list[int]:
    result = engine.run(ONE_LINK, schedule)
    assert result.complete, result.message
    return [int(end) for end in result.ranks["end_ps"]]


def test_a_message_is_announced_asked_for_sent_and_confirmed() -> None:
    """The same four messages, written by hand, take the same time at both ends."""
    plain = goal("a: send 200000b to 1", "a: recv 200000b from 0").expand()
    by_hand = goal(
        "a: send 0b to 1\nb: recv 0b from 1 tag 1\nb requires a\nc: send 200000b to 1 tag 2\nc requires b\n"
        "d: recv 0b from 1 tag 3\nd requires c",
        "a: recv 0b from 0\nb: send 0b to 0 tag 1\nb requires a\nc: recv 200000b from 0 tag 2\nc requires b\n"
        "d: send 0b to 0 tag 3\nd requires c",
    )
    assert ends(rendezvous(plain, 100_000)) == ends(by_hand)
    assert ends(by_hand)[0] > ends(plain)[0]


def test_messages_up_to_the_limit_stay_as_they_are() -> None:
    schedule = goal("a: send 200000b to 1", "a: recv 200000b from 0").expand()
    assert rendezvous(schedule, 200_000) is schedule
    with pytest.raises(ConfigError, match="eager_bytes is -1 but must be 0 or more"):
        rendezvous(schedule, -1)


def test_data_wait_until_the_receiver_has_computed() -> None:
    late = 50_000_000
    sender, receiver = "a: send 200000b to 1", f"a: calc {late // 1000}\nb: recv 200000b from 0\nb requires a"
    plain = goal(sender, receiver).expand()
    done = ends(rendezvous(plain, 0))
    # Eagerly the data are there when the receiver looks; by rendezvous they start then.
    data = ends(goal(sender, "a: recv 200000b from 0"))[1]
    assert ends(plain)[1] < late + data // 2
    assert late + data <= done[1] <= late + data + 1_000_000
    assert done[0] > done[1]


@pytest.mark.parametrize(
    ("name", "size"), [("alltoall", {"message_bytes": 65536}), ("ring", {"total_bytes": 1 << 20})]
)
def test_every_byte_arrives_and_every_long_message_brings_three_more(name: str, size: dict[str, int]) -> None:
    network = HxMesh(2, 2, 2, 2)
    plain = motifs.build(name, network, **size).expand()
    asked = rendezvous(plain, 0)
    asked.check()
    assert asked.num_messages == 4 * plain.num_messages
    before, after = engine.run(network, plain), engine.run(network, asked)
    assert after.complete, after.message
    assert np.array_equal(before.ranks["bytes_received"], after.ranks["bytes_received"])
    assert after.simulated_time_ps > before.simulated_time_ps


def test_only_messages_beyond_the_limit_of_a_mixture_change() -> None:
    plain = goal(
        "a: send 1000b to 1\nb: send 9000b to 1\nb requires a", "a: recv 1000b from 0\nb: recv 9000b from 0"
    ).expand()
    asked = rendezvous(plain, 1000)
    sends = asked.kind == OpKind.SEND
    assert sorted(asked.value[sends].tolist()) == [0, 0, 0, 1000, 9000]
    assert len(ends(asked)) == 2
