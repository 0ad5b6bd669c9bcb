"""The rendered config.py, executed against a recording `sst`."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import motifs
from engine import NetworkParams
from sst_models.networks import max_partitions, merlin_topology, places
from sst_models.render import (
    EmberWorkload,
    ReplayWorkload,
    SstOptions,
    literal,
    quantity,
    rate_text,
    render,
    time_text,
)
from topologies import ConfigError, Dragonfly, FatTree, HxMesh, HyperX2D, LinkKind, Topology, Torus2D
from topologies.catalog import table2

Execute = Callable[..., Any]

NETWORKS: dict[str, Callable[[], Topology]] = {
    "fat tree": lambda: FatTree.from_shape("4,4:4"),
    "tapered fat tree": lambda: FatTree.from_shape("4,2:4", adaptive=True),
    "three levels": lambda: FatTree.from_shape("2,2:2,2:4"),
    "dragonfly": lambda: Dragonfly(2, 4, 3, 4),
    "dragonfly with a spare port": lambda: Dragonfly(1, 4, 2, 4),
    "dragonfly, ugal": lambda: Dragonfly(2, 4, 3, 4, algorithm="ugal"),
    "torus": lambda: Torus2D(4, 4),
    "torus of two": lambda: Torus2D(2, 4),
    "hyperx": lambda: HyperX2D(4, 3),
    "hx1mesh": lambda: HxMesh(1, 1, 4, 4),
    "hx2mesh": lambda: HxMesh(2, 2, 2, 3),
    "hx2mesh with trees": lambda: HxMesh(2, 2, 4, 4, radix=4),
    "one board": lambda: HxMesh(4, 4, 1, 1),
    "a row of boards": lambda: HxMesh(2, 3, 4, 1),
}


def replay(topology: Topology) -> ReplayWorkload:
    return ReplayWorkload(motifs.build("alltoall", topology, message_bytes=4096))


@pytest.fixture(params=NETWORKS)
def topology(request: pytest.FixtureRequest) -> Topology:
    return NETWORKS[request.param]()


@pytest.mark.parametrize("version", ["15.1", "16.0"])
def test_graph_of_every_family(execute: Execute, topology: Topology, version: str, tmp_path: Path) -> None:
    graph = execute(render(tmp_path, topology, replay(topology), options=SstOptions(version=version)))
    graph.check(version)
    cables = {
        (int(r), int(p - topology.port_offset[r]), int(o), int(q - topology.port_offset[o]))
        for p, q in enumerate(topology.port_peer.tolist())
        if q >= 0
        for r, o in ((topology.port_router[p], topology.port_router[q]),)
    }
    assert graph.cables() == cables
    hosts = [link for link in graph.links if link.name.startswith("host")]
    assert len(hosts) == topology.num_endpoints
    for number, link in enumerate(hosts):
        (interface, port, latency), (router, router_port, _) = link.ends
        assert (interface.element, port, latency) == ("merlin.linkcontrol", "rtr_port", "40ns")
        assert interface.component.name == f"endpoint{number}"
        assert interface.component.parameters["rank"] == number
        assert router.parameters["id"] == topology.endpoint_router[number]
        assert router_port == f"port{topology.endpoint_port[number]}"


def test_bandwidths_reach_every_port(execute: Execute, topology: Topology, tmp_path: Path) -> None:
    """What hr_router reads for each port (link_bw:<group>, else link_bw) is the port's bandwidth."""
    params = NetworkParams(bandwidth_bps={"row": 200_000_000_000})
    graph = execute(render(tmp_path, topology, replay(topology), params))
    bandwidths = params.link_bandwidths_bps(topology)
    merlin = merlin_topology(topology)
    for number, router in graph.routers().items():
        inner = router.slots["topology"]
        for port in range(router.parameters["num_ports"]):
            kind = int(topology.port_kind[topology.port_offset[number] + port])
            if kind not in set(LinkKind):
                continue
            if inner.element == "hxmesh.port_groups":
                group = inner.parameters["groups"][port]
            else:
                group = merlin.group_of.get(LinkKind(kind), "")
            text = router.parameters.get(f"link_bw:{group}", router.parameters["link_bw"])
            assert quantity(text, "") == bandwidths[LinkKind(kind)]


@pytest.mark.parametrize(("ranks", "threads"), [(1, 2), (2, 1), (2, 2)])
def test_partitions_cut_only_cables(
    execute: Execute, topology: Topology, ranks: int, threads: int, tmp_path: Path
) -> None:
    if max_partitions(topology) < ranks * threads:
        pytest.skip("cannot be cut so often")
    graph = execute(render(tmp_path, topology, replay(topology)), ranks=ranks, threads=threads)
    assert graph.options == {"partitioner": "sst.self"}
    partitions = {part.partition for part in graph.parts if part.parent is None}
    assert partitions == {(rank, thread) for rank in range(ranks) for thread in range(threads)}
    rows = list(csv.DictReader((tmp_path / "links.csv").read_text().splitlines()))
    by_name = {f"link{number}": row["kind"] for number, row in enumerate(rows)}
    whole = {"board", "local", "host"} | ({"uplink"} if topology.routing.family == "hxmesh" else set())
    for link in graph.links:
        (one, *_), (other, *_) = link.ends
        if one.component.partition != other.component.partition:
            assert by_name[link.name] not in whole


def test_places_are_balanced() -> None:
    topology = HxMesh(2, 2, 8, 8)
    place = places(topology)
    assert place.min() >= 0
    assert place.max() < 1
    for parts in (2, 4, 8):
        endpoints = np.bincount((place[topology.endpoint_router] * parts).astype(int), minlength=parts)
        routers = np.bincount((place * parts).astype(int), minlength=parts)
        assert endpoints.max() == endpoints.min()
        assert routers.max() <= 1.2 * routers.min()


def test_table2_networks_can_be_described() -> None:
    """As simulated all rows are Merlin's own; of the priced ones the even ones are."""
    elements = {
        name: merlin_topology(table2(name)).element
        for name in (
            "fattree",
            "fattree50",
            "fattree75",
            "dragonfly",
            "hyperx",
            "hx1mesh",
            "hx2mesh",
            "hx4mesh",
            "torus",
        )
    }
    assert elements["fattree75"] == "merlin.fattree"
    assert elements["dragonfly"] == "merlin.dragonfly"
    assert elements["hyperx"] == "merlin.hyperx"
    assert elements["hx1mesh"] == "hxmesh.topology"


@pytest.mark.parametrize(
    ("topology", "words"),
    [
        (table2("fattree50", variant="as-costed"), "merlin.fattree"),
        (FatTree.clos(16, radix=8, leaf_down=4, leaf_up=4), "wired otherwise"),
        (Dragonfly.with_global_ports(2, 4, 2, 4), "cannot run on SST"),
        (HxMesh(2, 2, 4, 4, failed_boards=[(1, 1)]), "the element hxmesh.topology has no failed boards"),
        (Dragonfly(2, 4, 3, 4, balanced=True), "balanced"),
        (Dragonfly(2, 4, 3, 2, algorithm="ugal"), "three groups of two routers"),
        (Dragonfly(2, 1, 3, 4, algorithm="ugal"), "three groups of two routers"),
        (Torus2D(4, 4, balanced=True), "positive way"),
    ],
)
def test_what_merlin_cannot_build_is_refused(topology: Topology, words: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        render(tmp_path / "run", topology, replay(topology))
    assert str(caught.value).count("\n") == 0
    assert str(caught.value).endswith(".")
    assert not (tmp_path / "run").exists()


def test_dragonfly_map_is_merlins_default() -> None:
    """The map that Merlin's Python makes when none is given (pymerlin-topo-dragonfly.py)."""
    for p, a, n, g in ((2, 4, 3, 4), (1, 4, 2, 4), (8, 16, 18, 8), (2, 3, 1, 5)):
        total = (g - 1) * n
        h = -(-total // a)
        skipping = a - (h * a - total)
        expected, count = [-1] * (a * h), 0
        for i in range(a):
            for j in range(h if i < skipping else h - 1):
                expected[i * h + j] = count
                count += 1
        assert merlin_topology(Dragonfly(p, a, n, g)).first_router["global_link_map"] == expected


def test_a_dragonfly_has_merlins_algorithm_and_its_channels() -> None:
    minimal = merlin_topology(Dragonfly(2, 4, 3, 4))
    ugal = merlin_topology(Dragonfly(2, 4, 3, 4, algorithm="ugal"))
    assert (minimal.parameters["algorithm"], minimal.virtual_channels, minimal.adaptive) == (
        "minimal",
        2,
        False,
    )
    assert (ugal.parameters["algorithm"], ugal.virtual_channels, ugal.adaptive) == ("ugal", 3, True)
    assert minimal.parameters | {"algorithm": "ugal"} == ugal.parameters
    assert minimal.first_router == ugal.first_router


# -- parameters that cannot work ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("further", "words"),
    [
        ({"merlin.hr_router": {"xbar_bandwidth": "1Tb/s"}}, "does not know it"),
        ({"merlin.hr_router": {"oql_track_prot": "true"}}, "did you mean 'oql_track_port'"),
        ({"merlin.hr_router": {"input_buf_size": "1kB"}}, "must hold a packet of 8192 bytes"),
        ({"merlin.hr_router": {"output_buf_size:row": "4096B"}}, "must hold a packet of 8192 bytes"),
        ({"merlin.linkcontrol": {"output_buf_size": "1kB"}}, "must hold a packet of 8192 bytes"),
        ({"merlin.linkcontrol": {"input_buf_size": "2 packets"}}, "must be bits or bytes"),
        ({"merlin.hr_router": {"xbar_bw": "400Gb/s"}}, "must be at least 1600Gb/s"),
        ({"merlin.linkcontrol": {"link_bw": "100Gb/s"}}, "must be at least 1600Gb/s, that of the host port"),
        ({"hxmesh.replay": {"packet_size": "64MB"}}, "must hold a packet of 64000000 bytes"),
        ({"merlin.mesh": {"shape": "4x4"}}, "this run has only"),
        ({"merlin.xbar_arb_lru": {"x": "1"}}, "can be set for"),
        ({"hxmesh.topology": {"radicks": 64}}, "did you mean 'radix'"),
    ],
)
def test_parameters_that_sst_would_take_in_silence(
    further: dict[str, dict[str, str]], words: str, tmp_path: Path
) -> None:
    topology = HxMesh(2, 2, 2, 2)
    with pytest.raises(ConfigError, match=words) as caught:
        render(tmp_path / "run", topology, replay(topology), options=SstOptions(further=further))
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_unknown_version(tmp_path: Path) -> None:
    topology = HxMesh(2, 2, 2, 2)
    with pytest.raises(ConfigError, match=r"14\.1\.0 but must be 15\.1 or 16\.0"):
        render(tmp_path, topology, replay(topology), options=SstOptions(version="14.1.0"))


def test_further_parameters_arrive(execute: Execute, tmp_path: Path) -> None:
    topology = Torus2D(4, 4)
    further = {"merlin.hr_router": {"oql_track_port": "true", "input_latency:host": "5ns"}}
    graph = execute(render(tmp_path, topology, replay(topology), options=SstOptions(further=further)))
    graph.check("16.0")
    assert graph.routers()[3].parameters["oql_track_port"] == "true"


def test_placement(execute: Execute, tmp_path: Path) -> None:
    topology = HxMesh(2, 2, 2, 2)
    schedule = motifs.build("ring", HxMesh(2, 2, 1, 1), total_bytes=4096)
    workload = ReplayWorkload(schedule)
    graph = execute(render(tmp_path, topology, workload, placement=[9, 3, 1, 0]))
    ranks = {part.name: part.parameters["rank"] for part in graph.parts if part.element == "hxmesh.replay"}
    assert {name: rank for name, rank in ranks.items() if rank >= 0} == {
        "endpoint9": 0,
        "endpoint3": 1,
        "endpoint1": 2,
        "endpoint0": 3,
    }
    for wrong in ([0, 1, 2], [0, 0, 1, 2], [0, 1, 2, 16]):
        with pytest.raises(ConfigError, match="placement"):
            render(tmp_path, topology, workload, placement=wrong)
    with pytest.raises(ConfigError, match="ranks are 16"):
        render(tmp_path, HxMesh(2, 2, 1, 1), replay(topology))


def test_same_input_same_bytes(tmp_path: Path) -> None:
    topology = HxMesh(2, 2, 2, 2)
    for name in ("one", "two"):
        render(tmp_path / name, topology, replay(topology))
    for path in (tmp_path / "one").iterdir():
        if path.is_file():
            assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()


def test_rendering_again_removes_the_old_outcome(tmp_path: Path) -> None:
    topology = HxMesh(2, 2, 1, 1)
    render(tmp_path, topology, replay(topology))
    (tmp_path / "records" / "ranks-0-of-1.csv").write_text("old")
    (tmp_path / "statistics_0.csv").write_text("old")
    render(tmp_path, topology, replay(topology))
    assert list((tmp_path / "records").iterdir()) == []
    assert not (tmp_path / "statistics_0.csv").exists()


def test_manifest_and_self_containment(tmp_path: Path) -> None:
    topology = HxMesh(2, 2, 2, 2)
    config = render(tmp_path, topology, replay(topology), seed=3)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert manifest["seed"] == 3
    assert manifest["ranks"] == 16
    imported = [line for line in config.read_text().splitlines() if line.startswith(("import ", "from "))]
    assert imported == ["import csv", "import os", "import sst"]
    assert max(map(len, config.read_text().splitlines())) <= 110


def test_costs_of_messages_reach_the_endpoint(execute: Execute, tmp_path: Path) -> None:
    topology = Torus2D(4, 4)
    params = NetworkParams(
        send_overhead_ps=1_100,
        recv_overhead_ps=200,
        match_overhead_ps=3_000,
        nic_command_ps=400,
        nic_send_latency_ps=5_500,
        nic_recv_latency_ps=0,
        message_header_bytes=64,
        eager_limit_bytes=12_000,
        output_buffer_bytes=2**20,
        send_machines=3,
    )
    graph = execute(render(tmp_path, topology, replay(topology), params))
    endpoint = next(part for part in graph.parts if part.element == "hxmesh.replay").parameters
    assert {
        "send_overhead": "1100ps",
        "recv_overhead": "200ps",
        "match_overhead": "3ns",
        "nic_command": "400ps",
        "nic_send_latency": "5500ps",
        "nic_recv_latency": "0ns",
        "message_header": "64B",
        "eager_limit": "12000B",
        "send_buffer": "1048576B",
        "send_machines": 3,
    }.items() <= endpoint.items()


# -- Ember -------------------------------------------------------------------------------------------------


def test_ember_job(execute: Execute, topology: Topology, tmp_path: Path) -> None:
    motifs_ = ("Init", "Alltoall bytes=4096 iterations=2", "Allreduce count=8", "Fini")
    workload = EmberWorkload(motifs_, topology.num_endpoints - 1)
    graph = execute(render(tmp_path, topology, workload), threads=1)
    graph.check("16.0")
    engines = [part for part in graph.parts if part.element == "ember.EmberEngine"]
    assert len(engines) == topology.num_endpoints - 1
    assert engines[0].parameters["motif1.name"] == "ember.AlltoallMotif"
    assert engines[0].parameters["motif1.arg.bytes"] == "4096"
    reordered = any(part.element == "merlin.reorderlinkcontrol" for part in graph.parts)
    assert reordered == merlin_topology(topology).adaptive


def test_firefly_needs_order(tmp_path: Path) -> None:
    workload = EmberWorkload(("Init", "Barrier", "Fini"), 16)
    with pytest.raises(ConfigError, match="reorder is false"):
        render(tmp_path, HxMesh(2, 2, 2, 2), workload, options=SstOptions(reorder=False))


def test_schedule_through_ember(execute: Execute, tmp_path: Path) -> None:
    topology = Torus2D(4, 4)
    schedule = motifs.build("alltoall", topology, message_bytes=4096)
    graph = execute(render(tmp_path, topology, ReplayWorkload(schedule, ember=True)))
    graph.check("16.0")
    engine = next(part for part in graph.parts if part.element == "ember.EmberEngine")
    assert engine.parameters["motif1.name"] == "hxmesh.ReplayMotif"
    assert engine.parameters["motif1.arg.schedule"] == str(tmp_path / "schedule.bin")


def test_costs_of_messages_reach_firefly(execute: Execute, tmp_path: Path) -> None:
    """Latencies to and from the adapter are its delays and 1 ns of link."""
    params = NetworkParams(
        send_overhead_ps=2_000,
        recv_overhead_ps=3_000,
        match_overhead_ps=4_000,
        nic_command_ps=5_000,
        nic_send_latency_ps=6_000,
        nic_recv_latency_ps=1_000,
    )
    workload = EmberWorkload(("Init", "Barrier", "Fini"), 16)
    graph = execute(render(tmp_path, Torus2D(4, 4), workload, params))
    of = {part.element: part.parameters for part in graph.parts}
    assert of["firefly.nic"]["txDelay_ns"] == 5
    assert of["firefly.nic"]["rxMatchDelay_ns"] == 0
    assert of["firefly.VirtNic"] == {"latPerSend_ns": 5}
    messages = of["firefly.ctrlMsg"]
    assert messages["matchDelay_ns"] == 4
    assert messages["txSetupModParams.base"] == "2ns"
    assert messages["rxPostModParams.base"] == "3ns"
    ends = [end for link in graph.links if link.name.startswith("adapter") for end in link.ends]
    assert {latency for _, _, latency in ends} == {"1ns"}


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"message_header_bytes": 40}, "message_header_bytes is 40 but must be 45 for endpoints of Ember"),
        (
            {"nic_send_latency_ps": 999},
            "nic_send_latency_ps is 999 but must be whole nanoseconds, at least 1000",
        ),
        ({"nic_recv_latency_ps": 0}, "nic_recv_latency_ps is 0 but must be whole nanoseconds, at least 1000"),
        ({"nic_command_ps": 1_500}, "nic_command_ps is 1500 but must be whole nanoseconds for endpoints"),
        ({"send_overhead_ps": 10}, "send_overhead_ps is 10 but must be whole nanoseconds"),
        ({"recv_overhead_ps": 10}, "recv_overhead_ps is 10 but must be whole nanoseconds"),
        ({"match_overhead_ps": 10}, "match_overhead_ps is 10 but must be whole nanoseconds"),
    ],
)
def test_what_firefly_cannot_be_told(values: dict[str, int], words: str, tmp_path: Path) -> None:
    workload = EmberWorkload(("Init", "Barrier", "Fini"), 16)
    with pytest.raises(ConfigError, match=words) as caught:
        render(tmp_path / "run", Torus2D(4, 4), workload, NetworkParams(**values))
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")
    assert not (tmp_path / "run").exists()


# -- notation ----------------------------------------------------------------------------------------------


def test_notation() -> None:
    assert rate_text(1_600_000_000_000) == "1600Gb/s"
    assert rate_text(12_800_000_000_000) == "12800Gb/s"
    assert rate_text(10) == "10b/s"
    assert time_text(40_000) == "40ns"
    assert time_text(1_500) == "1500ps"
    assert quantity("32MiB", "") == 32 * 2**20 * 8
    assert quantity("1.5Gb/s", "") == 1.5e9
    assert literal({"a": "x", "b": [1, 2]}) == '{\n    "a": "x",\n    "b": [1, 2],\n}'
