"""Writes the directory of a run: a readable `config.py` for plain `sst`, its data files and a manifest.

The directory holds everything but the element libraries: `config.py` has the parameters at the top, with
units; `routers.csv`, `links.csv` and `endpoints.csv` the network, `schedule.bin` the traffic,
`manifest.json` what it was made from. Nothing in it imports this program.
"""

from __future__ import annotations

import csv
import hashlib
import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2
import numpy as np
import numpy.typing as npt

from engine.params import NetworkParams
from motifs import ArraySchedule, Schedule
from sst_models import ember, parameters
from sst_models.networks import (
    PORT_GROUPS,
    MerlinTopology,
    max_partitions,
    merlin_topology,
    places,
    present_kinds,
)
from topologies.base import UNCONNECTED, LinkKind, Topology
from topologies.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable

CONFIG_FILE = "config.py"
MANIFEST_FILE = "manifest.json"
SCHEDULE_FILE = "schedule.bin"
RECORDS_DIR = "records"
STATISTICS_FILE = "statistics.csv"
STATISTICS_STEM = Path(STATISTICS_FILE).stem

MANIFEST_VERSION = 2

INFINITE_CROSSBAR_SPEEDUP = 8
"""Clock of a crossbar that does not limit, as a multiple of the flit rate of the fastest port."""


@dataclass(frozen=True)
class ReplayWorkload:
    """A schedule on `hxmesh.replay` endpoints; with `ember` through Firefly's MPI (element hxmesh.Replay)."""

    schedule: Schedule
    ember: bool = False

    @property
    def num_ranks(self) -> int:
        """Ranks that take part."""
        return self.schedule.num_ranks


@dataclass(frozen=True)
class EmberWorkload:
    """Stock Ember motifs, as texts ("Alltoall bytes=4096"), on `num_ranks` ranks."""

    motifs: tuple[str, ...]
    num_ranks: int


Workload = ReplayWorkload | EmberWorkload


@dataclass(frozen=True)
class SstOptions:
    """What SST is to do beside the experiment.

    version: SST version that the directory is for. reorder: ReorderLinkControl in place of LinkControl (None:
    where it is needed). link_statistics: packets and stalls of every port, not only what endpoints received.
    further: parameters on top, {"merlin.hr_router": {"oql_track_port": "true"}}.
    """

    version: str = parameters.VERSIONS[-1]
    reorder: bool | None = None
    link_statistics: bool = True
    further: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def render(
    directory: Path,
    topology: Topology,
    workload: Workload,
    params: NetworkParams | None = None,
    *,
    options: SstOptions | None = None,
    placement: npt.ArrayLike | None = None,
    seed: int = 0,
    title: str | None = None,
    experiment: Mapping[str, Any] | None = None,
) -> Path:
    """Write the directory of one run and return the path of its `config.py`.

    placement: endpoint of each rank (default: rank r at endpoint r). experiment: what it was made from, for
    the manifest. An older directory of a run is replaced.

    Raises ConfigError, and writes nothing, for what SST cannot run or would run without a word and wrongly: a
    network that Merlin cannot build, parameters that this version does not know, packets that fit in no
    buffer, a crossbar slower than a port.
    """
    params = params or NetworkParams()
    options = options or SstOptions()
    parameters.series(options.version)
    params.check_against(topology)
    merlin = merlin_topology(topology)
    where = _placement(topology, workload.num_ranks, placement)
    values = _values(topology, merlin, workload, params, options)
    check_values(values, options.version, params)

    title = title or f"{topology.name}, {_workload_name(workload)}"
    template = (
        "replay.py.j2" if isinstance(workload, ReplayWorkload) and not workload.ember else "ember.py.j2"
    )
    text = (
        _templates()
        .get_template(template)
        .render(
            **values,
            title=title,
            version=options.version,
            program_version=_program_version(),
            command=f"SST_LIB_PATH=<folder of libhxmesh.so> sst {CONFIG_FILE}"
            if needs_own_library(values)
            else f"sst {CONFIG_FILE}",
            topology=merlin,
            together=_together(topology),
            schedule=isinstance(workload, ReplayWorkload),
            ranks=workload.num_ranks,
        )
    )
    try:
        _write_all(
            directory, _Run(topology, workload, params, options, values, seed, title, experiment), where, text
        )
    except OSError as error:
        raise ConfigError(f"the run cannot be written into {directory}: {error.strerror}.") from error
    return directory / CONFIG_FILE


@dataclass(frozen=True)
class _Run:
    """What a directory is made from; `values` as the template has them."""

    topology: Topology
    workload: Workload
    params: NetworkParams
    options: SstOptions
    values: Mapping[str, Any]
    seed: int
    title: str
    experiment: Mapping[str, Any] | None


def _write_all(directory: Path, run: _Run, where: npt.NDArray[np.int64], text: str) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    # Not a run until it is whole.
    (directory / MANIFEST_FILE).unlink(missing_ok=True)
    clean(directory)
    _write_tables(directory, run.topology, where, ports_named=run.values["port_groups"] is not None)
    if isinstance(run.workload, ReplayWorkload):
        from sst_models import schedule_file

        schedule_file.write(directory / SCHEDULE_FILE, run.workload.schedule, placement=where)
    (directory / CONFIG_FILE).write_text(text, encoding="utf-8")
    (directory / RECORDS_DIR).mkdir(exist_ok=True)
    _write_manifest(directory, run)


def check_run(topology: Topology, params: NetworkParams, options: SstOptions) -> None:
    """Raise ConfigError as `render` of a schedule would for network and parameters; writes nothing."""
    params.check_against(topology)
    empty = ArraySchedule(
        num_ranks=1,
        op_offset=np.zeros(2, dtype=np.int64),
        kind=np.zeros(0, dtype=np.uint8),
        peer=np.zeros(0, dtype=np.int32),
        value=np.zeros(0, dtype=np.int64),
        tag=np.zeros(0, dtype=np.int32),
        dep_offset=np.zeros(1, dtype=np.int64),
        dep=np.zeros(0, dtype=np.int64),
    )
    values = _values(topology, merlin_topology(topology), ReplayWorkload(empty), params, options)
    check_values(values, options.version, params)


def clean(directory: Path) -> None:
    """Remove what an earlier run left, so that it cannot be taken for the outcome of the next one."""
    shutil.rmtree(directory / RECORDS_DIR, ignore_errors=True)
    for old in (*directory.glob(f"{STATISTICS_STEM}*.csv"), *directory.glob("sst*.log")):
        old.unlink()


def needs_own_library(values: Mapping[str, Any]) -> bool:
    """Whether any element of the run is one of this program's."""
    return any(element.startswith("hxmesh.") for element in values["checked"])


# -- values ------------------------------------------------------------------------------------------------


def _values(
    topology: Topology, merlin: MerlinTopology, workload: Workload, params: NetworkParams, options: SstOptions
) -> dict[str, Any]:
    """Every parameter of every element, as the template writes them; `checked`: the same by element."""
    bandwidth = {kind: params.link_bandwidths_bps(topology)[kind] for kind in present_kinds(topology)}
    fastest, slowest = max(bandwidth.values()), min(bandwidth.values())
    buffers = {
        "input_buf_size": f"{params.input_buffer_bytes}B",
        "output_buf_size": f"{params.output_buffer_bytes}B",
    }
    crossbar = params.crossbar_bps or INFINITE_CROSSBAR_SPEEDUP * fastest
    router: dict[str, Any] = {
        "link_bw": rate_text(slowest),
        "flit_size": f"{params.flit_bytes}B",
        "xbar_bw": rate_text(crossbar),
        "xbar_arb": "merlin.xbar_arb_lru" if params.crossbar_bps else "merlin.xbar_arb_lru_infx",
        "input_latency": time_text(params.router_input_latency_ps),
        "output_latency": time_text(params.router_output_latency_ps),
        **buffers,
        "num_vns": 1,
    }
    named: str | None = None
    if fastest != slowest:
        names = merlin.group_of
        if not names:
            named = PORT_GROUPS
            names = {kind: kind.name.lower() for kind in bandwidth}
        # Ports of unlike kinds, each with its own rate; the name of a port comes from the topology.
        router |= {f"link_bw:{names[kind]}": rate_text(bps) for kind, bps in bandwidth.items()}
    latency = {kind.name.lower(): time_text(params.latency_of_ps(kind)) for kind in bandwidth}
    interface: dict[str, Any] = {"link_bw": rate_text(bandwidth[LinkKind.HOST]), **buffers}
    checked: dict[str, dict[str, Any]] = {
        "merlin.hr_router": router | {"id": 0, "num_ports": 0},
        merlin.element: dict(merlin.parameters) | merlin.first_router,
        router["xbar_arb"]: {},
    }
    if named:
        checked[named] = {"groups": []}
    statistics: dict[str, list[str]] = {}
    if options.link_statistics:
        statistics["merlin.hr_router"] = [
            "send_bit_count",
            "send_packet_count",
            "output_port_stalls",
            "xbar_stalls",
        ]
        statistics["merlin.linkcontrol"] = ["send_bit_count", "output_port_stalls"]
    values: dict[str, Any] = {
        "router": router,
        "latency": latency,
        "network_interface": interface,
        "port_groups": named,
        "statistics": statistics,
        "job": not _is_replay(workload),
    }
    if isinstance(workload, ReplayWorkload) and not workload.ember:
        endpoint = {
            "packet_size": f"{params.packet_bytes}B",
            "flit_size": f"{params.flit_bytes}B",
            "message_header": f"{params.message_header_bytes}B",
            "send_buffer": f"{params.output_buffer_bytes}B",
            "send_machines": params.send_machines,
            "send_overhead": time_text(params.send_overhead_ps),
            "recv_overhead": time_text(params.recv_overhead_ps),
            "match_overhead": time_text(params.match_overhead_ps),
            "nic_command": time_text(params.nic_command_ps),
            "nic_send_latency": time_text(params.nic_send_latency_ps),
            "nic_recv_latency": time_text(params.nic_recv_latency_ps),
            "eager_limit": f"{params.eager_limit_bytes}B",
        }
        statistics["hxmesh.replay"] = ["messages_received", "bytes_received"]
        values["endpoint"] = endpoint
        checked["hxmesh.replay"] = endpoint | {"schedule": "", "records": "", "rank": 0}
        values["reorder"] = bool(options.reorder)
    else:
        motifs = _motifs(workload)
        ember.check(motifs, workload.num_ranks, options.version)
        # Firefly asserts that the packets of a message arrive in order (sst-elements issue 1415).
        if merlin.adaptive and options.reorder is False:
            raise ConfigError(
                f"reorder is false but must be true: packets overtake each other on {topology.name} and "
                f"Firefly "
                "needs them in order."
            )
        values["reorder"] = merlin.adaptive if options.reorder is None else options.reorder
        values |= _firefly(params)
        values["motifs"] = [(motif.element, motif.arguments) for motif in motifs]
        for motif in motifs:
            arguments = {f"arg.{name}": value for name, value in motif.arguments.items()}
            checked[motif.element] = checked.get(motif.element, {}) | arguments
        statistics["firefly.nic"] = ["sentByteCount", "rcvdByteCount"]
        checked |= {
            "firefly.nic": values["nic"] | {"nid": 0, "num_vNics": 1},
            "firefly.loopBack": {"numCores": 1, "nicsPerNode": 1},
            "ember.EmberEngine": {"jobId": 0, "motif_count": 1, "motifLog": "", "api.0.module": ""},
            "firefly.hades": values["functions"]
            | dict.fromkeys(("numNodes", "netMapName", "netMapSize", "netId", "netMapId", "coreId")),
            "firefly.VirtNic": values["adapter"],
            "firefly.CtrlMsgProto": values["messages"],
            "firefly.ctrlMsg": values["messages"],
        }
    checked["merlin.linkcontrol"] = interface | (
        dict.fromkeys(("job_id", "job_size", "logical_nid", "use_nid_remap")) if values["job"] else {}
    )
    if values["reorder"]:
        checked["merlin.reorderlinkcontrol"] = {}
    values["checked"] = checked
    _add_further(options.further, values, merlin, checked)
    return values


def _is_replay(workload: Workload) -> bool:
    return isinstance(workload, ReplayWorkload) and not workload.ember


def _motifs(workload: Workload) -> list[ember.Motif]:
    if isinstance(workload, EmberWorkload):
        return [ember.Motif.parse(text) for text in workload.motifs]
    arguments = {"schedule": f"HERE/{SCHEDULE_FILE}", "records": f"HERE/{RECORDS_DIR}"}
    return [ember.Motif("Init"), ember.Motif("hxmesh.Replay", arguments), ember.Motif("Fini")]


FIREFLY_HEADER_BYTES = 45
"""In front of a message: MsgHdr 1, MatchMsgHdr 12 (nic.h), MatchHdr 32 (ctrlMsgCommReq.h)."""

FIREFLY_LINK_NS = 1
"""Between Firefly's processor and its adapter: the latency of the link in the template."""

FIREFLY_EAGER_BYTES = 12_000
"""Largest message that Firefly sends without asking, as in firefly/pyfirefly.py. The study's limit of 2 GiB
cannot be given to a stock Firefly: it allocates as much for every receive (ctrlMsgProcessQueuesState.h,
ShortRecvBuffer).
"""


def _firefly(params: NetworkParams) -> dict[str, Any]:
    """Firefly's parameters that are the packet engine's endpoint; what else costs time there costs none.

    Raises ConfigError for what Firefly cannot be told.
    """
    if params.message_header_bytes != FIREFLY_HEADER_BYTES:
        raise ConfigError(
            f"message_header_bytes is {params.message_header_bytes} but must be {FIREFLY_HEADER_BYTES} for "
            "endpoints of Ember: Firefly's headers cannot be changed."
        )
    nic = {
        "packetSize": f"{params.packet_bytes}B",
        "packetOverhead": 0,
        "numSendMachines": params.send_machines,
        "numRecvNicUnits": 1,
        "maxSendMachineQsize": 100,
        "maxRecvMachineQsize": 100,
        # An endpoint that receives from many at a time would otherwise stall its link.
        "maxActiveRecvStreams": 1024,
        "maxPendingRecvPkts": 4096,
        "nic2host_lat": f"{FIREFLY_LINK_NS}ns",
        "rxMatchDelay_ns": _whole_ns(params, "nic_recv_latency_ps", FIREFLY_LINK_NS) - FIREFLY_LINK_NS,
        "txDelay_ns": _whole_ns(params, "nic_send_latency_ps", FIREFLY_LINK_NS) - FIREFLY_LINK_NS,
        "hostReadDelay_ns": 0,
        "dmaBW_GBs": 0,
        "useSimpleMemoryModel": 0,
    }
    functions = {
        "functionSM.defaultModule": "firefly",
        "functionSM.defaultEnterLatency": 0,
        "functionSM.defaultReturnLatency": 0,
        "functionSM.smallCollectiveVN": 0,
        "functionSM.smallCollectiveSize": 8,
    }
    messages = {
        "nicsPerNode": 1,
        "shortMsgLength": FIREFLY_EAGER_BYTES,
        "matchDelay_ns": _whole_ns(params, "match_overhead_ps"),
        "regRegionBaseDelay_ns": 0,
        "regRegionPerPageDelay_ns": 0,
        "regRegionXoverLength": 4096,
        "sendAckDelay_ns": 0,
        "txMemcpyMod": "firefly.LatencyMod",
        "rxMemcpyMod": "firefly.LatencyMod",
        "txMemcpyModParams.op": "Mult",
        "txMemcpyModParams.base": "0ps",
        "rxMemcpyModParams.base": "0ps",
        "txSetupMod": "firefly.LatencyMod",
        "rxSetupMod": "firefly.LatencyMod",
        "rxPostMod": "firefly.LatencyMod",
        "txSetupModParams.base": f"{_whole_ns(params, 'send_overhead_ps')}ns",
        "rxSetupModParams.base": "0ns",
        "rxPostModParams.base": f"{_whole_ns(params, 'recv_overhead_ps')}ns",
        "rendezvousVN": 0,
        "ackVN": 0,
    }
    adapter = {"latPerSend_ns": _whole_ns(params, "nic_command_ps")}
    return {"nic": nic, "adapter": adapter, "functions": functions, "messages": messages}


def _whole_ns(params: NetworkParams, name: str, least_ns: int = 0) -> int:
    """A time of `params` in nanoseconds, in which Firefly counts; ConfigError for one that it cannot have."""
    value_ps: int = getattr(params, name)
    if value_ps % 1000 or value_ps < 1000 * least_ns:
        floor = f", at least {1000 * least_ns}" if least_ns else ""
        raise ConfigError(
            f"{name} is {value_ps} but must be whole nanoseconds{floor} for endpoints of Ember."
        )
    return value_ps // 1000


_SECTIONS = {
    "merlin.hr_router": "router",
    "merlin.linkcontrol": "network_interface",
    "hxmesh.replay": "endpoint",
    "firefly.nic": "nic",
    "firefly.VirtNic": "adapter",
    "firefly.hades": "functions",
    "firefly.ctrlMsg": "messages",
}


def _add_further(
    further: Mapping[str, Mapping[str, Any]],
    values: dict[str, Any],
    merlin: MerlinTopology,
    checked: dict[str, dict[str, Any]],
) -> None:
    """Put the user's own parameters of elements over the others."""
    for element, own in further.items():
        if element not in checked:
            raise ConfigError(
                f"parameters are given for {element!r} but this run has only {', '.join(sorted(checked))}."
            )
        if element == merlin.element:
            merlin.parameters.update(own)
        elif element in _SECTIONS:
            values[_SECTIONS[element]].update(own)
        else:
            raise ConfigError(
                f"parameters are given for {element!r} but can be set for "
                f"{', '.join(sorted([merlin.element, *(set(_SECTIONS) & set(checked))]))}."
            )
        checked[element] = checked[element] | dict(own)


# -- checks ------------------------------------------------------------------------------------------------


def check_values(values: Mapping[str, Any], version: str, params: NetworkParams) -> None:
    """Refuse what SST takes without a word: unknown names, packets that fit in no buffer, too slow a
    crossbar.

    Raises ConfigError, one sentence.
    """
    for element, given in values["checked"].items():
        parameters.check(version, element, given)
    for element, names in values["statistics"].items():
        parameters.check_statistics(version, element, names)
    # What the user gave on top may differ from `params`.
    router = values["router"]
    flit = quantity(router["flit_size"], "flit_size of merlin.hr_router")
    packet_text = values["endpoint"]["packet_size"] if "endpoint" in values else values["nic"]["packetSize"]
    packet = quantity(packet_text, "the size of a packet")
    whole = -(-packet // flit) * flit
    for element, section in (
        ("merlin.hr_router", router),
        ("merlin.linkcontrol", values["network_interface"]),
    ):
        for name, value in section.items():
            if name.partition(":")[0] not in ("input_buf_size", "output_buf_size"):
                continue
            size = quantity(value, f"{name} of {element}")
            if size < whole:
                raise ConfigError(
                    f"{name} of {element} is {value} but must hold a packet of {whole / 8:.0f} bytes (in "
                    f"whole "
                    "flits); SST would keep the packet for ever."
                )
    crossbar = quantity(router["xbar_bw"], "xbar_bw of merlin.hr_router")
    for name, value in router.items():
        if name.partition(":")[0] == "link_bw":
            rate = quantity(value, f"{name} of merlin.hr_router")
            if rate > crossbar:
                raise ConfigError(
                    f"xbar_bw of merlin.hr_router is {router['xbar_bw']} but must be at least {value}, "
                    f"the {name}."
                )
    host = values["network_interface"]["link_bw"]
    port = next((value for name, value in router.items() if name == "link_bw:host"), router["link_bw"])
    if quantity(host, "link_bw of merlin.linkcontrol") < quantity(port, "link_bw of merlin.hr_router"):
        raise ConfigError(
            f"link_bw of merlin.linkcontrol is {host} but must be at least {port}, that of the host port: "
            f"Merlin "
            "takes the slower one of both."
        )


_PREFIX = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}


def quantity(text: Any, field: str) -> float:
    """Bits, or bits per second, of a quantity as SST writes it ("8192B", "400Gb/s"); raises ConfigError."""
    match = re.fullmatch(r"\s*([0-9.]+(?:e\d+)?)\s*(Ki|Mi|Gi|k|M|G|T|)(b|B)(/s)?\s*", str(text))
    if not match:
        raise ConfigError(
            f"{field} is {text!r} but must be bits or bytes (per second), e.g. 8192B or 400Gb/s."
        )
    return float(match[1]) * _PREFIX[match[2]] * (8 if match[3] == "B" else 1)


def rate_text(bps: int) -> str:
    """A rate in SST's notation, exactly: 1600Gb/s."""
    for prefix in ("T", "G", "M", "k"):
        if bps % _PREFIX[prefix] == 0 and (prefix != "T" or bps >= 10**13):
            return f"{bps // _PREFIX[prefix]}{prefix}b/s"
    return f"{bps}b/s"


def time_text(ps: int) -> str:
    """A time in SST's notation, exactly: 40ns, 1500ps."""
    return f"{ps // 1000}ns" if ps % 1000 == 0 else f"{ps}ps"


# -- files -------------------------------------------------------------------------------------------------


def _placement(topology: Topology, ranks: int, placement: npt.ArrayLike | None) -> npt.NDArray[np.int64]:
    if ranks > topology.num_endpoints:
        raise ConfigError(
            f"ranks are {ranks} but must be at most the {topology.num_endpoints} endpoints of "
            f"{topology.name}."
        )
    where = np.arange(ranks) if placement is None else np.asarray(placement)
    if where.shape != (ranks,) or where.dtype.kind not in "iu":
        raise ConfigError(f"placement has shape {where.shape} but must be {ranks} integers.")
    inside = bool(((where >= 0) & (where < topology.num_endpoints)).all())
    if not inside or np.unique(where).size != ranks:
        raise ConfigError(f"placement must hold {ranks} different endpoints below {topology.num_endpoints}.")
    return where.astype(np.int64)


def _write_tables(
    directory: Path, topology: Topology, where: npt.NDArray[np.int64], *, ports_named: bool
) -> None:
    place = places(topology)
    offset = topology.port_offset
    names = np.array(
        [LinkKind(kind).name.lower() if kind in set(LinkKind) else "none" for kind in range(256)]
    )
    kinds = names[topology.port_kind]

    def router_rows() -> Iterable[list[Any]]:
        for router in range(topology.num_routers):
            first, last = int(offset[router]), int(offset[router + 1])
            row: list[Any] = [last - first, f"{place[router]:.6f}"]
            yield [*row, " ".join(kinds[first:last])] if ports_named else row

    _write_csv(
        directory / "routers.csv", ["ports", "place", *(["groups"] if ports_named else [])], router_rows()
    )
    first, second = topology.links()
    owner = topology.port_router
    columns = (
        owner[first],
        first - offset[owner[first]],
        owner[second],
        second - offset[owner[second]],
        kinds[first],
    )
    header = ["router", "port", "peer", "peer_port", "kind"]
    _write_csv(directory / "links.csv", header, zip(*(column.tolist() for column in columns), strict=True))
    rank = np.full(topology.num_endpoints, -1, dtype=np.int64)
    rank[where] = np.arange(where.size)
    endpoints = (topology.endpoint_router, topology.endpoint_port, rank)
    _write_csv(
        directory / "endpoints.csv",
        ["router", "port", "rank"],
        zip(*(column.tolist() for column in endpoints), strict=True),
    )


def _write_csv(path: Path, header: list[str], lines: Iterable[Any]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(lines)


def _write_manifest(directory: Path, run: _Run) -> None:
    topology, workload, options, values = run.topology, run.workload, run.options, run.values
    files = [CONFIG_FILE, "routers.csv", "links.csv", "endpoints.csv"]
    replayed = isinstance(workload, ReplayWorkload)
    if replayed:
        files.append(SCHEDULE_FILE)
    kinds = {kind: run.params.link_bandwidths_bps(topology)[kind] for kind in present_kinds(topology)}
    content = {
        "format": MANIFEST_VERSION,
        "title": run.title,
        "sst_version": options.version,
        "versions": {"hxmesh": _program_version()},
        "elements": sorted(values["checked"]),
        "topology": topology.name,
        "ranks": workload.num_ranks,
        "endpoints": topology.num_endpoints,
        "max_partitions": max_partitions(topology),
        "unlinked_ports": int(np.count_nonzero(topology.port_kind == UNCONNECTED)),
        "workload": _workload_name(workload),
        "records": "replay" if replayed else "motif log",
        "motifs": len(values["motifs"]) if "motifs" in values else 0,
        "messages": workload.schedule.num_messages if isinstance(workload, ReplayWorkload) else None,
        "bytes": workload.schedule.total_bytes if isinstance(workload, ReplayWorkload) else None,
        "link_statistics": options.link_statistics,
        "bandwidth_bps": {kind.name.lower(): bps for kind, bps in kinds.items()},
        "seed": run.seed,
        "params": run.params.model_dump(mode="json"),
        "experiment": run.experiment,
        "sha256": {name: hashlib.sha256((directory / name).read_bytes()).hexdigest() for name in files},
    }
    text = json.dumps(content, indent=2, sort_keys=True) + "\n"
    (directory / MANIFEST_FILE).write_text(text, encoding="utf-8")


def _workload_name(workload: Workload) -> str:
    if isinstance(workload, EmberWorkload):
        return "Ember: " + ", ".join(workload.motifs)
    return f"schedule of {workload.num_ranks} ranks" + (" through Ember" if workload.ember else "")


def _together(topology: Topology) -> str:
    what = {
        "hxmesh": "a board, or the switches of one line",
        "dragonfly": "a group",
        "torus": "a board",
    }
    return what.get(topology.routing.family, "a router and its endpoints")


def _program_version() -> str:
    try:
        return version("hxmesh")
    except PackageNotFoundError:
        return "unknown"


@cache
def _templates() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).with_name("templates")),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
    )
    environment.filters["literal"] = literal
    return environment


def literal(value: Any) -> str:
    """A Python literal as a person would write it: one entry a line for mappings, double quotes."""
    if isinstance(value, Mapping):
        if not value:
            return "{}"
        return "{\n" + "".join(f"    {_inline(key)}: {_inline(item)},\n" for key, item in value.items()) + "}"
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return "[\n" + "".join(f"    {_inline(item)},\n" for item in value) + "]"
    return _inline(value)


def _inline(value: Any) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_inline(key)}: {_inline(item)}" for key, item in value.items()) + "}"
    if isinstance(value, tuple):
        return "(" + ", ".join(map(_inline, value)) + ("," if len(value) == 1 else "") + ")"
    if isinstance(value, list):
        return "[" + ", ".join(map(_inline, value)) + "]"
    return repr(value)


__all__ = [
    "CONFIG_FILE",
    "MANIFEST_FILE",
    "RECORDS_DIR",
    "STATISTICS_FILE",
    "UNCONNECTED",
    "EmberWorkload",
    "ReplayWorkload",
    "SstOptions",
    "Workload",
    "check_values",
    "clean",
    "literal",
    "quantity",
    "rate_text",
    "render",
    "time_text",
]
