"""Cases small enough to work out by hand: the engine must give their times to the picosecond."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

import engine
import motifs
from engine import NetworkParams, RunResult
from motifs import ArraySchedule, ShiftSchedule, StreamSchedule, parse_goal
from topologies import ConfigError, FatTree, HyperX2D, Topology, Torus2D

Bare = Callable[..., NetworkParams]

# The values of the fixture `bare`, and what they add up to.
LINK, HOST, INPUT, OUTPUT = 41_000, 31_000, 7_000, 3_000
ENTER, HOP, LEAVE = HOST + INPUT, OUTPUT + LINK + INPUT, OUTPUT + HOST
ACROSS_SWITCH = ENTER + LEAVE

# A packet of 1024 bytes and a flit of 64 bytes at the 1600 Gb/s of a host link, and a packet at 400 Gb/s.
PACKET, FLIT = 1024, 64
FAST, FAST_FLIT, SLOW = 5_120, 320, 20_480


def switch(hosts: int) -> FatTree:
    """One switch that all hosts share, with host links of 1600 Gb/s."""
    return FatTree.merlin([(hosts, 1)], top=1)


def goal(*ranks: Sequence[str]) -> ArraySchedule:
    """Schedule from the GOAL statements of each rank; "calc" counts picoseconds."""
    blocks = [[f"rank {number} {{", *statements, "}"] for number, statements in enumerate(ranks)]
    lines = [f"num_ranks {len(ranks)}", *(line for block in blocks for line in block)]
    return parse_goal("\n".join(lines), calc_unit_ps=1)


def flows(num_ranks: int, *messages: tuple[int, int, int]) -> ArraySchedule:
    """Messages (source, destination, bytes), all started at time 0 in this order."""
    statements: list[list[str]] = [[] for _ in range(num_ranks)]
    for tag, (source, destination, size) in enumerate(messages):
        statements[source].append(f"send {size}b to {destination} tag {tag}")
        statements[destination].append(f"recv {size}b from {source} tag {tag}")
    return goal(*statements)


def ends(result: RunResult) -> list[int]:
    """When each rank was done."""
    assert result.status == "complete", result.message
    assert result.simulated_time_ps == result.ranks.end_ps.max()
    return [int(end) for end in result.ranks.end_ps]


# ---- one flow ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("to", "hops"), [(1, 1), (2, 2), (4, 4), (7, 1), (5, 3), (8, 1), (11, 4), (30, 3)])
@pytest.mark.parametrize("size", [1, PACKET])
def test_one_packet_takes_the_latencies_of_its_hops_whatever_its_length(
    bare: Bare, to: int, hops: int, size: int
) -> None:
    result = engine.run(Torus2D(8, 4), flows(2, (0, 1, size)), bare(), placement=[0, to])
    assert ends(result) == [FAST if size == PACKET else FAST_FLIT, ENTER + hops * HOP + LEAVE]
    assert result.packets == 1
    assert result.packet_hops == hops + 2


@pytest.mark.parametrize("packets", [2, 3, 17])
@pytest.mark.parametrize("hops", [1, 2, 4])
def test_a_message_flows_at_the_rate_of_its_slowest_link(bare: Bare, packets: int, hops: int) -> None:
    result = engine.run(Torus2D(8, 2), flows(2, (0, 1, packets * PACKET)), bare(), placement=[0, hops])
    assert ends(result) == [packets * FAST, ENTER + hops * HOP + LEAVE + (packets - 1) * SLOW]


def test_a_slower_last_link_sets_the_rate(bare: Bare) -> None:
    params = bare(bandwidth_bps={"host": 50 * 10**9, "row": 400 * 10**9, "board": 400 * 10**9})
    slow_host = 8 * SLOW
    result = engine.run(Torus2D(8, 2), flows(2, (0, 1, 5 * PACKET)), params, placement=[0, 2])
    assert ends(result) == [5 * slow_host, ENTER + 2 * HOP + LEAVE + 4 * slow_host]


def test_every_kind_of_link_has_its_own_bandwidth(bare: Bare) -> None:
    # On boards of 2x2 the link from 0 to 1 is a trace, those from 1 to 2 and from 8 to 16 are cables.
    params = bare(bandwidth_bps={"board": 100 * 10**9, "row": 200 * 10**9, "column": 800 * 10**9})
    for source, target, packet_ps in ((0, 1, 4 * SLOW), (1, 2, 2 * SLOW), (8, 16, SLOW // 2)):
        result = engine.run(Torus2D(8, 4), flows(2, (0, 1, 9 * PACKET)), params, placement=[source, target])
        assert ends(result)[1] == ENTER + HOP + LEAVE + 8 * packet_ps


def test_every_kind_of_link_can_have_its_own_latency(bare: Bare) -> None:
    usual = bare()
    params = bare(latency_ps={"board": 1_000, "ROW": 100_000, "host": 5_000})
    hosts = 2 * (5_000 - usual.host_latency_ps)
    for source, target, link_ps in ((0, 1, 1_000), (1, 2, 100_000), (8, 16, usual.link_latency_ps)):
        result = engine.run(Torus2D(8, 4), flows(2, (0, 1, PACKET)), params, placement=[source, target])
        assert ends(result)[1] == ENTER + HOP + LEAVE + hosts + link_ps - usual.link_latency_ps


@pytest.mark.parametrize(("gbps", "packet_ps"), [(300, 27_307), (900, 9_102), (128, 64_000)])
def test_the_time_of_a_packet_is_rounded_to_the_nearest_picosecond(
    bare: Bare, gbps: int, packet_ps: int
) -> None:
    params = bare(bandwidth_bps={"host": gbps * 10**9})
    result = engine.run(switch(2), flows(2, (0, 1, 10 * PACKET)), params)
    assert ends(result) == [10 * packet_ps, ACROSS_SWITCH + 9 * packet_ps]


@pytest.mark.parametrize(("tail", "flits"), [(1, 1), (63, 1), (64, 1), (65, 2), (1023, 16), (1024, 16)])
def test_the_last_packet_of_a_message_occupies_whole_flits(bare: Bare, tail: int, flits: int) -> None:
    both = flows(3, (0, 1, 2 * PACKET + tail), (0, 2, 1))
    injected = 2 * FAST + flits * FAST_FLIT
    result = engine.run(switch(3), both, bare(send_machines=1))
    assert ends(result) == [injected + FAST_FLIT, ACROSS_SWITCH + 2 * FAST, ACROSS_SWITCH + injected]


def test_packets_of_no_whole_number_of_flits_round_up_each(bare: Bare) -> None:
    # 250 bytes in packets of 100: 2 + 2 + 1 flits.
    result = engine.run(switch(2), flows(2, (0, 1, 250)), bare(packet_bytes=100), links=True)
    assert ends(result) == [5 * FAST_FLIT, ACROSS_SWITCH + 4 * FAST_FLIT]
    assert result.links is not None
    assert result.links.query("router == -1").flits.item() == 5
    assert result.packets == 3


def test_a_message_of_no_bytes_is_one_packet_of_one_flit(bare: Bare) -> None:
    result = engine.run(Torus2D(8, 2), flows(2, (0, 1, 0)), bare(), placement=[0, 3], links=True)
    assert ends(result) == [FAST_FLIT, ENTER + 3 * HOP + LEAVE]
    assert (result.packets, result.messages, result.bytes_delivered, result.packet_hops) == (1, 1, 0, 5)
    assert result.links is not None
    assert result.links.flits.sum() == 5


# ---- flows that share a link ------------------------------------------------------------------------------


def test_two_flows_share_a_link_in_order_of_arrival(bare: Bare) -> None:
    # On one channel of the link from 1 to 2. The packets of rank 1 are there before the first of rank 0.
    n = 8
    both = flows(4, (0, 2, n * PACKET), (1, 3, n * PACKET))
    assert (n - 1) * FAST < HOP < n * SLOW
    result = engine.run(Torus2D(8, 2), both, bare())
    assert ends(result)[2:] == [
        ENTER + (2 * n - 1) * SLOW + HOP + LEAVE,
        ENTER + (n - 1) * SLOW + 2 * HOP + LEAVE,
    ]


def test_channels_of_one_link_take_turns(bare: Bare) -> None:
    # The flow from 7 to 1 has passed the dateline, so it has another channel on the link from 0 to 1 than the
    # flow from 0 to 2. Its packets come from the third slot of the link on, one in every slot.
    assert 2 * SLOW < HOP < 3 * SLOW
    both = flows(8, (0, 2, 4 * PACKET), (7, 1, 4 * PACKET))
    result = engine.run(Torus2D(8, 2), both, bare())
    slots_of_0, slots_of_7 = (0, 1, 2, 4), (3, 5, 6, 7)
    assert ends(result)[1:3] == [
        ENTER + slots_of_7[-1] * SLOW + HOP + LEAVE,
        ENTER + slots_of_0[-1] * SLOW + 2 * HOP + LEAVE,
    ]


@pytest.mark.parametrize(("senders", "packets"), [(1, 4), (2, 1), (3, 5), (12, 2)])
def test_incast_is_served_at_the_rate_of_the_last_link(bare: Bare, senders: int, packets: int) -> None:
    incast = flows(senders + 1, *((rank, 0, packets * PACKET) for rank in range(1, senders + 1)))
    result = engine.run(switch(senders + 1), incast, bare())
    assert ends(result)[0] == ACROSS_SWITCH + (senders * packets - 1) * FAST
    assert ends(result)[1:] == [packets * FAST] * senders


@pytest.mark.parametrize(("senders", "packets"), [(1, 4), (2, 1), (3, 4), (6, 2)])
def test_incast_over_a_tree_is_served_at_the_rate_of_the_last_link(
    bare: Bare, senders: int, packets: int
) -> None:
    # Leaves of two hosts; links between switches are as fast as those of hosts.
    tree = FatTree.merlin([(2, 2)], top=4)
    incast = flows(senders + 1, *((rank, 0, packets * PACKET) for rank in range(1, senders + 1)))
    result = engine.run(tree, incast, bare(), placement=[0, *range(2, senders + 2)])
    assert ends(result)[0] == ENTER + 2 * HOP + LEAVE + (senders * packets - 1) * FAST


def test_flows_between_different_ranks_of_a_switch_do_not_disturb_each_other(bare: Bare) -> None:
    pairs = flows(8, *((rank, rank ^ 1, 6 * PACKET) for rank in range(8)))
    result = engine.run(switch(8), pairs, bare())
    assert ends(result) == [ACROSS_SWITCH + 5 * FAST] * 8


# ---- credits ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("buffer_packets", [1, 2, 3, 4])
@pytest.mark.parametrize("packets", [1, 4, 13])
def test_a_link_carries_one_input_buffer_per_round_trip(
    bare: Bare, buffer_packets: int, packets: int
) -> None:
    way = OUTPUT + LINK
    assert buffer_packets * SLOW < 2 * way
    params = bare(
        host_latency_ps=0, router_input_latency_ps=0, input_buffer_bytes=buffer_packets * PACKET + FLIT
    )
    result = engine.run(HyperX2D(2, 1), flows(2, (0, 1, packets * PACKET)), params)
    rounds, rest = divmod(packets - 1, buffer_packets)
    assert ends(result)[1] == rounds * 2 * way + rest * SLOW + way + OUTPUT


@pytest.mark.parametrize("buffer_packets", [1, 2, 3, 4])
@pytest.mark.parametrize("hops", [1, 2, 3])
def test_links_in_a_row_that_wait_for_credits_do_so_at_the_same_time(
    bare: Bare, buffer_packets: int, hops: int
) -> None:
    packets, way = 13, OUTPUT + LINK
    assert buffer_packets * SLOW < 2 * way
    params = bare(
        host_latency_ps=0, router_input_latency_ps=0, input_buffer_bytes=buffer_packets * PACKET + FLIT
    )
    result = engine.run(Torus2D(8, 2), flows(2, (0, 1, packets * PACKET)), params, placement=[0, hops])
    rounds, rest = divmod(packets - 1, buffer_packets)
    assert ends(result)[1] == rounds * 2 * way + rest * SLOW + hops * way + OUTPUT


@pytest.mark.parametrize("buffer_packets", [1, 2, 5])
def test_a_host_link_carries_one_input_buffer_per_round_trip(bare: Bare, buffer_packets: int) -> None:
    packets = 12
    assert buffer_packets * FAST < 2 * ENTER
    params = bare(input_buffer_bytes=buffer_packets * PACKET)
    result = engine.run(switch(2), flows(2, (0, 1, packets * PACKET)), params)
    rounds, rest = divmod(packets - 1, buffer_packets)
    last_start = rounds * 2 * ENTER + rest * FAST
    assert ends(result) == [last_start + FAST, last_start + ACROSS_SWITCH]


@pytest.mark.parametrize("buffer_packets", [5, 6, 400])
def test_an_input_buffer_of_a_round_trip_does_not_slow_a_link(bare: Bare, buffer_packets: int) -> None:
    assert buffer_packets * SLOW > 2 * HOP
    params = bare(input_buffer_bytes=buffer_packets * PACKET, host_latency_ps=0)
    result = engine.run(HyperX2D(2, 1), flows(2, (0, 1, 100 * PACKET)), params)
    assert ends(result)[1] == INPUT + HOP + OUTPUT + 99 * SLOW


def test_a_buffer_just_below_the_round_trip_stalls_links_of_less_than_whole_picoseconds_a_flit() -> None:
    # Flits of one byte at 3200 Gb/s take 2.5 ps. The buffer holds 60000 of the 64000 that a round trip takes.
    params = NetworkParams(
        packet_bytes=8,
        flit_bytes=1,
        link_latency_ps=80_000,
        host_latency_ps=0,
        router_input_latency_ps=0,
        router_output_latency_ps=0,
        crossbar_bps=0,
        input_buffer_bytes=60_000,
        send_overhead_ps=0,
        recv_overhead_ps=0,
        match_overhead_ps=0,
        nic_command_ps=0,
        nic_send_latency_ps=0,
        nic_recv_latency_ps=0,
        message_header_bytes=0,
        bandwidth_bps={"host": 3200 * 10**9, "row": 3200 * 10**9},
    )
    packets, in_buffer, packet_ps = 8000, 7500, 20
    result = engine.run(HyperX2D(2, 1), flows(2, (0, 1, packets * 8)), params)
    assert ends(result)[1] == 160_000 + (packets - 1 - in_buffer) * packet_ps + 80_000


def test_a_full_output_queue_holds_packets_back_until_the_nic_has_to_wait(bare: Bare) -> None:
    # With a packet of input buffer at the far router one starts every round trip. The next one is then in the
    # output queue and the one after that in the input buffer: the NIC sends packet i when i - 2 starts.
    packets, round_trip = 9, 2 * (OUTPUT + LINK)
    free = bare(host_latency_ps=0, router_input_latency_ps=0)
    tight = free.model_copy(update={"input_buffer_bytes": PACKET, "output_buffer_bytes": PACKET})
    many = flows(2, (0, 1, packets * PACKET))
    assert ends(engine.run(HyperX2D(2, 1), many, free))[0] == packets * FAST
    assert ends(engine.run(HyperX2D(2, 1), many, tight)) == [
        (packets - 3) * round_trip + FAST,
        (packets - 1) * round_trip + OUTPUT + LINK + OUTPUT,
    ]


def test_a_small_packet_does_not_overtake_a_large_one_that_waits_for_room(bare: Bare) -> None:
    # Four packets meet: the first leaves, the second fills the output queue but for a flit, the third waits
    # for room, and the last one, of a flit, behind it.
    meeting = flows(5, (0, 4, PACKET), (1, 4, PACKET), (2, 4, PACKET), (3, 4, 1))
    result = engine.run(switch(5), meeting, bare(output_buffer_bytes=PACKET + FLIT))
    assert ends(result)[4] == ACROSS_SWITCH + 3 * FAST


# ---- crossbar ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("crossbar_gbps", "blocked_ps"), [(0, FAST), (1600, 2 * FAST), (2400, 2 * 3413), (3200, FAST)]
)
def test_a_crossbar_holds_back_what_stands_behind_a_packet_in_it(
    bare: Bare, crossbar_gbps: int, blocked_ps: int
) -> None:
    # The packets of 0 and 1 for rank 2 meet. That of 1 crosses second, and only then its next one, for the
    # idle rank 3. At twice the speed of the ports that next one comes when both are through.
    meeting = flows(4, (0, 2, PACKET), (1, 2, PACKET), (1, 3, PACKET))
    result = engine.run(switch(4), meeting, bare(crossbar_bps=crossbar_gbps * 10**9, send_machines=1))
    assert ends(result)[2:] == [ENTER + FAST + LEAVE, ENTER + blocked_ps + LEAVE]


def test_a_crossbar_as_fast_as_the_ports_does_not_slow_a_lone_flow(bare: Bare) -> None:
    message = flows(2, (0, 1, 50 * PACKET))
    limited = engine.run(switch(2), message, bare(crossbar_bps=1600 * 10**9))
    assert ends(limited)[1] == ACROSS_SWITCH + 49 * FAST


def test_a_crossbar_slower_than_a_port_is_refused(bare: Bare) -> None:
    with pytest.raises(ConfigError, match=r"crossbar_bps is 1599999999999 .* at least 1600000000000"):
        engine.run(switch(2), flows(2, (0, 1, 1)), bare(crossbar_bps=1600 * 10**9 - 1))


def test_the_crossbar_is_compared_with_the_kinds_of_link_that_are_there(bare: Bare) -> None:
    # A fat tree has no row links, whatever their bandwidth would be.
    params = bare(crossbar_bps=1600 * 10**9, bandwidth_bps={"row": 9000 * 10**9})
    assert ends(engine.run(switch(2), flows(2, (0, 1, 1)), params))[1] == ACROSS_SWITCH
    with pytest.raises(ConfigError, match="crossbar_bps"):
        engine.run(HyperX2D(2, 1), flows(2, (0, 1, 1)), params)


# ---- endpoints --------------------------------------------------------------------------------------------


THREE_MESSAGES = ((0, 1, 3), (0, 2, 2), (0, 3, 3))
"""Of rank 0: receiver and packets."""


def of_packets(header_bytes: int) -> ArraySchedule:
    """`THREE_MESSAGES` that fill their packets with the header."""
    return flows(4, *((src, dst, n * PACKET - header_bytes) for src, dst, n in THREE_MESSAGES))


@pytest.mark.parametrize("header", [0, 40])
@pytest.mark.parametrize("machines", [1, 2, 4])
def test_messages_that_fit_the_buffer_leave_whole_in_the_order_they_were_posted(
    bare: Bare, machines: int, header: int
) -> None:
    # AAABBCCC
    params = bare(send_machines=machines, output_buffer_bytes=8 * PACKET, message_header_bytes=header)
    result = engine.run(switch(4), of_packets(header), params)
    assert ends(result) == [8 * FAST, *(ACROSS_SWITCH + place * FAST for place in (2, 4, 7))]


@pytest.mark.parametrize("header", [0, 40])
@pytest.mark.parametrize("buffer_bytes", [PACKET, 4 * PACKET])
def test_messages_of_up_to_a_turn_leave_whole_however_small_the_buffer(
    bare: Bare, buffer_bytes: int, header: int
) -> None:
    params = bare(send_machines=4, output_buffer_bytes=buffer_bytes, message_header_bytes=header)
    result = engine.run(switch(4), of_packets(header), params)
    assert ends(result) == [8 * FAST, *(ACROSS_SWITCH + place * FAST for place in (2, 4, 7))]


@pytest.mark.parametrize(
    ("machines", "turns"),
    [
        (1, "A250 B120 C130"),
        # C takes the place and the turn of B when that has left.
        (2, "A105 B100 A100 B20 C100 A45 C30"),
        # A is in the buffer of 4 packets before the others are posted, and its first one on the link.
        (3, "A105 B100 C100 A100 B20 C30 A45"),
        (256, "A105 B100 C100 A100 B20 C30 A45"),
    ],
)
def test_longer_messages_that_do_not_fit_the_buffer_take_turns_of_100_packets(
    bare: Bare, machines: int, turns: str
) -> None:
    sent, last = 0, {}
    for turn in turns.split():
        sent += int(turn[1:])
        last[turn[0]] = sent - 1
    posted = flows(4, *((0, dst, n * PACKET) for dst, n in ((1, 250), (2, 120), (3, 130))))
    result = engine.run(switch(4), posted, bare(send_machines=machines, output_buffer_bytes=4 * PACKET))
    assert ends(result) == [500 * FAST, *(ACROSS_SWITCH + last[name] * FAST for name in "ABC")]


# ---- what a message costs ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "flits"),
    [(0, 1), (19, 1), (20, 2), (PACKET - 45, 16), (PACKET - 44, 17), (PACKET, 17), (PACKET + 20, 18)],
)
def test_a_header_is_in_front_of_every_message_and_takes_a_packet_where_it_does_not_fit(
    bare: Bare, size: int, flits: int
) -> None:
    result = engine.run(switch(2), flows(2, (0, 1, size)), bare(message_header_bytes=45), links=True)
    packets = 1 + (flits > 16)
    assert ends(result) == [flits * FAST_FLIT, ACROSS_SWITCH + (packets - 1) * FAST]
    assert result.packets == packets
    assert result.bytes_delivered == size
    assert result.ranks.bytes_received.tolist() == [0, size]
    assert result.links is not None
    assert result.links.query("router == -1").flits.item() == flits


def test_commands_of_a_burst_reach_the_nic_at_its_rate(bare: Bare) -> None:
    # Numbers 0 to 4 are buffers that are posted at the start.
    burst = flows(4, *((0, rank, 8) for rank in (1, 2, 3)))
    result = engine.run(switch(4), burst, bare(nic_command_ps=2_000))
    assert ends(result) == [
        14_000 + FAST_FLIT,
        *(start + ACROSS_SWITCH for start in (10_000, 12_000, 14_000)),
    ]


def test_posted_receives_are_commands_too(bare: Bare) -> None:
    # The send of rank 0 is number 7, behind two receives; those of ranks 1 and 2 are number 5.
    swap = flows(4, (1, 0, 8), (2, 0, 8), (0, 3, 8))
    result = engine.run(switch(4), swap, bare(nic_command_ps=2_000))
    assert ends(result) == [
        10_000 + FAST_FLIT + ACROSS_SWITCH,
        *[10_000 + FAST_FLIT] * 2,
        14_000 + ACROSS_SWITCH,
    ]


def sends_at(time_ps: int, *receivers: int) -> ArraySchedule:
    """Rank 0 sends 8 bytes to each rank when it has computed for so long."""
    late = [f"a: calc {time_ps}"]
    for rank in receivers:
        late += [f"s{rank}: send 8b to {rank}", f"s{rank} requires a"]
    return goal(late, *(["recv 8b from 0"] for _ in receivers))


@pytest.mark.parametrize(
    ("time_ps", "starts"),
    [
        # Numbers 5 to 8: the NIC could have had the first at 10 ns, and has the third at 14 ns.
        (13_000, (13_000, 13_000 + FAST_FLIT, 14_000, 16_000)),
        # All could have come by now: they follow each other as flits.
        (16_000, tuple(16_000 + i * FAST_FLIT for i in range(4))),
        (900_000, tuple(900_000 + i * FAST_FLIT for i in range(4))),
    ],
)
def test_commands_are_counted_from_the_start_of_the_run(
    bare: Bare, time_ps: int, starts: tuple[int, ...]
) -> None:
    result = engine.run(switch(5), sends_at(time_ps, 1, 2, 3, 4), bare(nic_command_ps=2_000))
    assert ends(result) == [starts[-1] + FAST_FLIT, *(start + ACROSS_SWITCH for start in starts)]


@pytest.mark.parametrize("window", [0, 2])
def test_an_alltoall_sends_at_the_rate_of_commands_when_its_receives_are_posted(
    bare: Bare, window: int
) -> None:
    # Five receives are commands 5 to 9, five sends 10 to 14. A window of two has room a flit after a send.
    result = engine.run(switch(6), ShiftSchedule(6, 8, window=window), bare(nic_command_ps=2_000))
    assert ends(result) == [28_000 + ACROSS_SWITCH] * 6


def test_the_steps_of_a_ring_are_slower_than_commands(bare: Bare) -> None:
    # Only the first one is held up: receive 5, send 6.
    allreduce = motifs.ring(np.arange(5), 5 * 64, reduce_fs_per_byte=0)
    result = engine.run(switch(5), allreduce, bare(nic_command_ps=2_000))
    assert ACROSS_SWITCH > 2 * 2_000
    assert ends(result) == [12_000 + 8 * ACROSS_SWITCH] * 5


def test_the_way_to_and_from_the_nic_takes_time_and_holds_up_nothing(bare: Bare) -> None:
    params = bare(nic_send_latency_ps=1_300, nic_recv_latency_ps=1_700, match_overhead_ps=17)
    result = engine.run(switch(3), flows(3, (0, 1, PACKET), (0, 1, PACKET), (0, 2, 8)), params)
    first = 1_300 + ACROSS_SWITCH + 1_700
    assert ends(result) == [1_300 + 2 * FAST + FAST_FLIT, first + FAST + 17, first + 2 * FAST + 17]


def test_the_way_to_the_nic_comes_after_the_wait_for_its_command(bare: Bare) -> None:
    params = bare(nic_send_latency_ps=1_300, nic_command_ps=2_000, send_overhead_ps=300)
    result = engine.run(switch(2), flows(2, (0, 1, 8)), params)
    assert ends(result) == [5 * 2_000 + 1_300 + FAST_FLIT, 5 * 2_000 + 1_300 + ACROSS_SWITCH]


@pytest.mark.parametrize(("limit", "sent"), [(0, FAST), (PACKET, FAST), (PACKET + 1, 0), (2**31, 0)])
def test_an_eager_send_is_complete_when_the_processor_is_done_with_it(
    bare: Bare, limit: int, sent: int
) -> None:
    # 8 x 2 ns of commands, buffers or way to the NIC do not concern the sender of an eager message.
    then = goal(
        ["s: send 1024b to 1", "c: calc 70", "c requires s"],
        ["recv 1024b from 0"],
    )
    costs = {"nic_command_ps": 2_000, "nic_send_latency_ps": 400} if sent == 0 else {}
    params = bare(eager_limit_bytes=limit, send_overhead_ps=900, **costs)
    result = engine.run(switch(2), then, params)
    left = 10_400 if sent == 0 else 900
    assert ends(result) == [900 + sent + 70, left + ACROSS_SWITCH]


@pytest.mark.parametrize("eager", [False, True])
def test_a_step_with_an_eager_send_lasts_until_its_message_has_come(bare: Bare, eager: bool) -> None:
    # Injection takes longer than the way: only who waits for it notices.
    ranks, packets = 6, 3
    allreduce = motifs.ring(np.arange(ranks), ranks * packets * PACKET, reduce_fs_per_byte=0)
    params = bare(
        host_latency_ps=0,
        router_input_latency_ps=0,
        router_output_latency_ps=0,
        eager_limit_bytes=2**31 if eager else 0,
    )
    result = engine.run(switch(ranks), allreduce, params)
    # The head of the last packet is there before its end has left, which the next message waits for.
    steps = 2 * (ranks - 1)
    assert ends(result) == [steps * packets * FAST - (FAST if eager else 0)] * ranks


@pytest.mark.parametrize(
    ("eager", "second_starts"), [(False, 2_000 + 5 * FAST + 2_000), (True, 2_000 + 5 * FAST)]
)
def test_a_window_does_not_keep_eager_sends_back(bare: Bare, eager: bool, second_starts: int) -> None:
    # The processor is done with the second message while the NIC still sends the first.
    n = 5
    params = bare(eager_limit_bytes=2**31 if eager else 0, send_overhead_ps=2_000)
    assert n * FAST > 2_000
    result = engine.run(HyperX2D(3, 1), ShiftSchedule(3, n * PACKET, window=1), params)
    assert ends(result) == [second_starts + ENTER + (n - 1) * SLOW + HOP + LEAVE] * 3


def test_a_message_costs_its_sender_a_send_and_its_receiver_a_match(bare: Bare) -> None:
    params = bare(send_overhead_ps=1_100, recv_overhead_ps=130, match_overhead_ps=17)
    result = engine.run(switch(2), flows(2, (0, 1, PACKET)), params)
    assert ends(result) == [1_100 + FAST, 1_100 + ACROSS_SWITCH + 17]


def test_a_message_that_came_before_its_receive_is_matched_when_that_is_posted(bare: Bare) -> None:
    late = goal(["send 8b to 1"], ["a: calc 900000", "b: recv 8b from 0", "b requires a"])
    result = engine.run(switch(2), late, bare(recv_overhead_ps=130, match_overhead_ps=17))
    assert ends(result)[1] == 900_000 + 130 + 17


def test_sends_are_started_one_after_the_other(bare: Bare) -> None:
    sends = flows(4, *((0, rank, 8) for rank in (1, 2, 3)))
    result = engine.run(switch(4), sends, bare(send_overhead_ps=2_000))
    assert ends(result) == [6_000 + FAST_FLIT, *(number * 2_000 + ACROSS_SWITCH for number in (1, 2, 3))]


def test_a_rank_that_posts_receives_first_sends_after_them(bare: Bare) -> None:
    swap = flows(3, (1, 0, 8), (2, 0, 8), (0, 1, 8))
    result = engine.run(switch(3), swap, bare(recv_overhead_ps=500, send_overhead_ps=70))
    assert ends(result)[1] == 2 * 500 + 70 + ACROSS_SWITCH


def test_a_free_send_waits_for_receives_that_are_being_posted(bare: Bare) -> None:
    swap = flows(3, (1, 0, 8), (2, 0, 8), (0, 1, 8))
    result = engine.run(switch(3), swap, bare(recv_overhead_ps=500))
    assert ends(result)[1] == 2 * 500 + ACROSS_SWITCH


def test_receives_slower_than_the_network_are_matched_in_turn(bare: Bare) -> None:
    both = flows(3, (1, 0, 8), (2, 0, 8))
    result = engine.run(switch(3), both, bare(recv_overhead_ps=10**6, match_overhead_ps=40))
    assert ends(result)[0] == 2 * 10**6 + 2 * 40


@pytest.mark.parametrize(
    ("order", "looked_at"),
    [((1, 2, 3, 4), 1 + 1 + 1 + 1), ((4, 3, 2, 1), 4 + 3 + 2 + 1), ((2, 1, 4, 3), 2 + 1 + 2 + 1)],
)
def test_matching_costs_each_posted_receive_that_is_looked_at(
    bare: Bare, order: tuple[int, ...], looked_at: int
) -> None:
    # Rank 0 posts receives from 1, 2, 3, 4; messages come 1 ns apart in `order`, faster than they match.
    delay = {rank: 1_000 * place for place, rank in enumerate(order)}
    senders = [[f"a: calc {delay[rank]}", "b: send 8b to 0", "b requires a"] for rank in (1, 2, 3, 4)]
    fan_in = goal([f"recv 8b from {rank}" for rank in (1, 2, 3, 4)], *senders)
    result = engine.run(switch(5), fan_in, bare(match_overhead_ps=100_000))
    assert ends(result)[0] == ACROSS_SWITCH + looked_at * 100_000


def test_matching_of_messages_far_apart_does_not_add_up(bare: Bare) -> None:
    # The first message, for the last receive, is matched long before the second comes.
    slow = ["a: calc 500000", "b: send 8b to 0", "b requires a"]
    result = engine.run(
        switch(3),
        goal(["recv 8b from 1", "recv 8b from 2"], slow, ["send 8b to 0"]),
        bare(match_overhead_ps=100),
    )
    assert ends(result)[0] == 500_000 + ACROSS_SWITCH + 100


# ---- computation and dependencies -------------------------------------------------------------------------


def test_operations_wait_for_what_they_require(bare: Bare) -> None:
    result = engine.run(
        switch(2),
        goal(
            ["a: calc 5000", "b: send 1024b to 1", "b requires a", "c: calc 700", "c requires b"],
            ["r: recv 1024b from 0", "x: calc 900", "w: calc 50", "w requires r", "w requires x"],
        ),
        bare(),
    )
    assert ends(result) == [5_000 + FAST + 700, 5_000 + ACROSS_SWITCH + 50]


def test_computations_that_do_not_require_each_other_overlap(bare: Bare) -> None:
    roots = ["a: calc 4000", "b: calc 3000"]
    followers = ["c: calc 2000", "c requires b", "d: calc 1000", "d requires a"]
    result = engine.run(switch(2), goal(roots + followers, []), bare())
    assert ends(result) == [5_000, 0]
    assert result.packets == 0


def test_a_chain_of_joins_takes_no_time(bare: Bare) -> None:
    chain = [line for i in range(1, 400) for line in (f"l{i}: calc 0", f"l{i} requires l{i - 1}")]
    result = engine.run(switch(2), goal(["l0: calc 77", *chain], []), bare())
    assert ends(result) == [77, 0]


def test_ping_pong_takes_a_crossing_each_way(bare: Bare) -> None:
    rounds = 6
    first, second = [], []
    for i in range(rounds):
        first += [f"s{i}: send 8b to 1", f"r{i}: recv 8b from 1"]
        second += [f"r{i}: recv 8b from 0", f"s{i}: send 8b to 0", f"s{i} requires r{i}"]
        if i:
            first.append(f"s{i} requires r{i - 1}")
    result = engine.run(switch(2), goal(first, second), bare())
    assert ends(result) == [2 * rounds * ACROSS_SWITCH, (2 * rounds - 1) * ACROSS_SWITCH + FAST_FLIT]


@pytest.mark.parametrize("buffered_packets", [5, 10])
@pytest.mark.parametrize("window", [0, 1, 2])
def test_the_next_message_of_a_shift_starts_when_one_has_left(
    bare: Bare, window: int, buffered_packets: int
) -> None:
    n = 5
    params = bare(output_buffer_bytes=buffered_packets * PACKET)
    result = engine.run(HyperX2D(3, 1), ShiftSchedule(3, n * PACKET, window=window), params)
    assert ends(result) == [n * FAST + ENTER + (n - 1) * SLOW + HOP + LEAVE] * 3


# ---- collectives ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_ring_allreduce_of_single_packets_takes_its_steps(bare: Bare, ranks: int) -> None:
    allreduce = motifs.ring(np.arange(ranks), ranks * PACKET, reduce_fs_per_byte=2_500)
    result = engine.run(switch(ranks), allreduce, bare())
    reduction = 2_560
    assert ends(result) == [(ranks - 1) * (2 * ACROSS_SWITCH + reduction)] * ranks


def test_ring_allreduce_without_latency_takes_its_injection(bare: Bare) -> None:
    ranks, packets = 6, 3
    allreduce = motifs.ring(np.arange(ranks), ranks * packets * PACKET, reduce_fs_per_byte=0)
    params = bare(host_latency_ps=0, router_input_latency_ps=0, router_output_latency_ps=0)
    result = engine.run(switch(ranks), allreduce, params)
    assert ends(result) == [2 * (ranks - 1) * packets * FAST] * ranks


def test_ring_allreduce_pays_the_overheads_of_every_step(bare: Bare) -> None:
    ranks = 5
    allreduce = motifs.ring(np.arange(ranks), ranks * 64, reduce_fs_per_byte=0)
    params = bare(send_overhead_ps=300, recv_overhead_ps=20, match_overhead_ps=4)
    result = engine.run(switch(ranks), allreduce, params)
    assert ends(result) == [2 * (ranks - 1) * (ACROSS_SWITCH + 324)] * ranks


@pytest.mark.parametrize(("columns", "rows"), [(4, 4), (6, 4)])
@pytest.mark.parametrize("packets", [1, 5])
def test_two_rings_on_a_torus_have_every_link_to_themselves(
    bare: Bare, columns: int, rows: int, packets: int
) -> None:
    # Four streams of a rank, each on a link of its own: they start one after the other, and stay so.
    torus = Torus2D(columns, rows)
    ranks = torus.num_endpoints
    allreduce = motifs.build(
        "two-rings", torus, total_bytes=4 * ranks * packets * PACKET, reduce_fs_per_byte=0
    )
    result = engine.run(torus, allreduce, bare())
    step = ENTER + HOP + LEAVE + (packets - 1) * SLOW
    assert ends(result) == [2 * (ranks - 1) * step + 3 * packets * FAST] * ranks


@pytest.mark.parametrize("lockstep", [False, True])
def test_lockstep_makes_every_step_as_long_as_its_longest_stream(bare: Bare, lockstep: bool) -> None:
    # Stream 0 takes four steps of no bytes, stream 1 two steps of four packets, behind a flit of stream 0.
    def column(first: int, second: int) -> list[list[list[int]]]:
        return [[[first], [second]]] * 2

    peers = [[[1], [1]], [[0], [0]]]
    schedule = StreamSchedule(
        num_ranks=2,
        send_peer=np.array(peers, dtype=np.int32),
        recv_peer=np.array(peers, dtype=np.int32),
        steps=np.array(column(4, 2), dtype=np.int32),
        segment_bytes=np.array(column(0, 4 * PACKET), dtype=np.int64),
        parts=np.array(column(1, 1), dtype=np.int32),
        first_block=np.array(column(0, 0), dtype=np.int32),
        reduce_fs_per_byte=np.array(column(0, 0), dtype=np.int32),
        lockstep=lockstep,
    )
    result = engine.run(switch(2), schedule, bare())
    long_step = ACROSS_SWITCH + FAST_FLIT + 3 * FAST
    together = 2 * long_step + 2 * ACROSS_SWITCH
    assert ends(result) == [together if lockstep else 4 * ACROSS_SWITCH] * 2


def test_the_study_s_defaults_apply_when_no_parameters_are_given() -> None:
    # A send and a match of 1 ns, but the NIC takes no command before five times 2 ns are over; 2 ns to and
    # from it. The header does not fit the packet: its own follows 40.96 ns behind. 40 ns host links, 20 ns
    # into and out of the switch.
    result = engine.run(switch(2), flows(2, (0, 1, 8192)))
    across = 40_000 + 20_000 + 20_000 + 40_000
    assert ends(result) == [1_000, 10_000 + 2_000 + 40_960 + across + 2_000 + 1_000]


def test_a_topology_with_other_bandwidths_is_simulated_with_them(bare: Bare) -> None:
    network: Topology = switch(2).single_plane()
    result = engine.run(network, flows(2, (0, 1, 3 * PACKET)), bare())
    assert ends(result)[1] == ACROSS_SWITCH + 2 * SLOW
